"""Session affinity: a conversation stays where it began (SPEC §6)."""

from __future__ import annotations

import numpy as np

from baselines.narrowing import per_query
from baselines.stateless import Stateless
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.quotes import Quotes


class SessionAffinity(Stateless):
    """First turn to the cheapest feasible deployment, later turns to the same one while feasible.

    When it is not, the cheapest feasible in the same region, else anywhere (rule PUBLISHED in
    kind, details ASSUMED).
    """

    name = "session-affinity"

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """Stay if feasible; else the nearest cheap way out."""
        choice = quotes.cheapest()
        lanes = np.arange(quotes.lanes)
        previous = np.maximum(quotes.previous, 0)
        later = (quotes.previous != NOWHERE) & (quotes.row != NOWHERE)
        stays = later & quotes.feasible[lanes, previous]
        choice[stays] = previous[stays]
        leaves = later & ~stays
        if leaves.any():
            region = quotes.fleet.region
            same_region = region[None, :] == region[previous][:, None]
            open_there = leaves & (quotes.feasible & same_region).any(axis=1)
            if open_there.any():
                nearby = quotes.cheapest(among=same_region)
                choice[open_there] = nearby[open_there]
        return choice
