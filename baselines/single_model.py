"""One model, always: the largest or the smallest (SPEC §6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes


class SingleModel:
    """The cheapest cache-blind pool of one model.

    Room is its only constraint; quality and TTFT bounds do not bind it (SPEC §10). Without room
    anywhere it takes the shortest TTFT.
    """

    name = "single-model"
    _largest = True

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Find the deployments of the model; of equals the first by name."""
        size = fleet.params_billion
        wanted = size.max() if self._largest else size.min()
        model = min((fleet.models[m], m) for m in range(len(size)) if size[m] == wanted)[1]
        self._is_mine = fleet.model == model

    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest pool with room."""
        mine = np.broadcast_to(self._is_mine, quotes.available.shape)
        free = replace(
            quotes.cache_blind(),
            admissible=np.ascontiguousarray(mine),
            feasible=quotes.available & mine,
        )
        return free.cheapest()


class LargestModel(SingleModel):
    """The cheapest cache-blind pool of the model with the most parameters."""

    name = "largest-model"
    _largest = True


class SmallestModel(SingleModel):
    """The cheapest cache-blind pool of the model with the fewest parameters."""

    name = "smallest-model"
    _largest = False
