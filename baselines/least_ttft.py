"""Least TTFT: the shortest wait (SPEC §6)."""

from __future__ import annotations

import numpy as np

from baselines.narrowing import per_query
from baselines.stateless import Stateless
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes


class LeastTtft(Stateless):
    """The shortest TTFT among the admissible deployments with room, caches counted.

    That is what best effort takes where the TTFT bound leaves nothing (SPEC §5, §10), taken
    always.
    """

    name = "least-ttft"

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """The fastest."""
        return quotes.cheapest(feasible=np.zeros_like(quotes.feasible))
