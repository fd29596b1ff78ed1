"""Random: any feasible deployment (SPEC §6)."""

from __future__ import annotations

import numpy as np

from baselines.narrowing import per_query
from baselines.stateless import Stateless
from carbon_gym import draws
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes

_STREAM = "random-policy"


class RandomChoice(Stateless):
    """A feasible deployment drawn evenly, best effort where there is none.

    The draw is keyed by (seed, session, turn) (SPEC §10), so that a run repeats itself, alone or
    beside other fleets.

    Args:
        seed: Of the draws.
    """

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Line the deployments up by name: how the fleet is listed changes no draw."""
        self._by_name = np.argsort(fleet.name_rank)

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """One of the feasible deployments."""
        feasible = quotes.feasible[:, self._by_name]
        count = feasible.sum(axis=1)
        drawn = draws.uniform(self.seed, _STREAM, quotes.session_key, quotes.turn) * count
        number = np.minimum(drawn.astype(np.int64), count - 1)  # rounding may reach count
        place = (feasible.cumsum(axis=1) > number[:, None]).argmax(axis=1)
        return np.where(count > 0, self._by_name[place], quotes.cheapest())
