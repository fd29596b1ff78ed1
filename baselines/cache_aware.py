"""Cache-aware: follow a large hit, else the shortest wait; no carbon (SPEC §6)."""

from __future__ import annotations

import numpy as np

from baselines.narrowing import least, per_query, pick
from baselines.stateless import Stateless
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes

_LEAST_HIT = 0.5
"""Share of the H + q tokens that a hit must save to be followed (PUBLISHED: Preble's rule)."""


class CacheAware(Stateless):
    """Most cached tokens if the hit is at least half of H + q, else the shortest TTFT.

    The rule of Preble and of SGLang's router, over the feasible deployments (SPEC §5), best
    effort included. Ties go to the pool with the fewest other active sessions, then as
    everywhere (SPEC §3).
    """

    name = "cache-aware"

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """The deployment with the large hit, or the fastest one."""
        feasible = quotes.feasible
        cached = np.where(feasible, quotes.cached_tokens, 0)
        most = cached.max(axis=1)
        half = _LEAST_HIT * (quotes.history_tokens + quotes.prompt_tokens)
        follow = (most > 0) & (most >= half)
        hits = feasible & (cached == most[:, None])
        among = np.where(follow[:, None], hits, least(feasible, quotes.ttft_s))
        load = quotes.unit_load[:, quotes.fleet.unit]
        return pick(quotes, least(among, load))
