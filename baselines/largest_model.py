"""The largest model, always (SPEC §6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baselines.stateless import Stateless
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes


class LargestModel(Stateless):
    """The cheapest cache-blind pool of the model with the most parameters.

    Room is its only constraint; quality and TTFT bounds do not bind it (SPEC §10). Without room
    anywhere it takes the shortest TTFT.
    """

    name = "largest-model"

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Find the deployments of the largest model; of equals the first by name."""
        size = fleet.params_billion
        largest = min((fleet.models[m], m) for m in range(len(size)) if size[m] == size.max())[1]
        self._is_largest = fleet.model == largest

    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest pool with room."""
        mine = np.broadcast_to(self._is_largest, quotes.available.shape)
        free = replace(
            quotes.cache_blind(),
            admissible=np.ascontiguousarray(mine),
            feasible=quotes.available & mine,
        )
        return free.cheapest()
