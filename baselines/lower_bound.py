"""A bound from below on the CO2 of every policy that keeps the quality filter (SPEC §6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baselines.narrowing import per_query
from baselines.stateless import Stateless
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes


class LowerBound(Stateless):
    """Every turn on the cheapest admissible deployment as if its history were cached there.

    Room and TTFT do not bind it. Not a policy that could be run: its account takes C = H.
    """

    name = "lower-bound"
    full_cache = True
    """The simulator accounts with the whole history cached everywhere."""

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest admissible deployment."""
        everywhere = np.ones_like(quotes.available)
        return replace(quotes, available=everywhere, feasible=quotes.admissible).cheapest()
