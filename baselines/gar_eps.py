"""GAR-ε: the least CO2 among near-best models, inside one region (SPEC §6)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from baselines.narrowing import best_quality, or_all, per_query
from baselines.stateless import Knob, within
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.quotes import Quotes

Binding = Literal["home", "cleanest"]


class GarEps:
    """``argmin co2 s.t. q̂ ≥ max q̂ − ε`` in one region, blind to caches (C = 0).

    Reconstructed from the abstract of arXiv 2605.11603. The region is the session's first, which
    its first turn chose as the cheapest anywhere, or the cleanest of the moment (lowest
    PUE · CI). It binds while any of its pools has room, best effort included (SPEC §10); without
    room there the rule looks anywhere. The bounds on quality (β_Q) and TTFT hold as well.

    Args:
        epsilon: ε, how far below the best predicted quality a model may stay, 0 to 1; one value
            or one per lane.
        region: "home" or "cleanest".
    """

    name = "gar-eps"

    def __init__(self, epsilon: Knob, region: Binding = "home") -> None:
        self.epsilon = within(self.name, 0.0, 1.0, epsilon=epsilon)
        if region not in get_args(Binding):
            raise InputError(f"gar-eps: region = {region!r} is not known; use home or cleanest")
        self.region = region

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Forget the sessions' homes."""
        self._home = np.full(slots, NOWHERE, dtype=np.int64)
        self._in_region = fleet.region[:, None] == np.arange(len(fleet.regions))[None, :]

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest near-best deployment of the region that binds."""
        region = quotes.fleet.region
        least_quality = best_quality(quotes) - self.epsilon
        near_best = (quotes.quality >= least_quality[:, None])[:, quotes.fleet.model]
        room = quotes.available @ self._in_region  # (B, R)
        if self.region == "home":
            wanted = self._home[quotes.slot][:, None] == np.arange(room.shape[1])
        else:
            cleanest = quotes.facility_intensity.min(axis=1)
            wanted = quotes.facility_intensity == cleanest[:, None]
        binding = or_all(wanted & room)
        choice = quotes.cache_blind().cheapest(among=near_best & binding[:, region])
        begins = (quotes.previous == NOWHERE) & (quotes.row != NOWHERE)
        self._home[quotes.slot[begins]] = region[choice[begins]]
        return choice
