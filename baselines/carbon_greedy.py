"""Carbon-greedy: the least CO2, whatever the quality (SPEC §6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baselines.stateless import Stateless
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes


class CarbonGreedy(Stateless):
    """The cheapest deployment with room by the cache-aware estimate.

    Room is its only constraint; quality and TTFT bounds do not bind it (SPEC §10). Without room
    anywhere it takes the shortest TTFT.
    """

    name = "carbon-greedy"

    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest with room."""
        everything = np.ones_like(quotes.admissible)
        return replace(quotes, admissible=everything, feasible=quotes.available).cheapest()
