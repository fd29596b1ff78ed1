"""A trained router as a policy over whole fleets."""

from __future__ import annotations

import numpy as np

from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.quality.queue import QualityQueue
from carbon_gym.router.amplify import amplify_all, qualities_of
from carbon_gym.router.plan import plan_of
from carbon_gym.router.router import Router
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.simulator import Simulator


class RouterPolicy:
    """Serves every turn on the allowed deployment of the router's highest logit.

    Allowed are the feasible deployments, else that of best effort: what
    ``CarbonRoutingFleet-v0`` allows with its mask "feasible".

    With `eta` a queue per fleet moves what quality counts for until its mean is `quality_target`
    (`carbon_gym.quality.queue`, `carbon_gym.router.amplify`).

    Args:
        router: Of `carbon_gym.router.load_router`.
        name: In tables.
        quality_target: Mean predicted quality to reach.
        eta: η of the queue; 0: there is none.
    """

    def __init__(
        self,
        router: Router,
        name: str = "learned",
        quality_target: float = 0.0,
        eta: float = 0.0,
    ) -> None:
        self.router, self.name = router, name
        self.quality_target, self.eta = quality_target, eta
        self._queue: QualityQueue | None = None
        self._view: FleetView | None = None
        self._next: FleetView | None = None
        self._layout: ObservationLayout | None = None

    def accompany(self, simulator: Simulator) -> None:
        """See what the observations show beyond the quotes: age and margin of the caches."""
        if self._layout is None or self._layout.fleet is not simulator.fleet:
            self._layout = ObservationLayout(simulator.fleet)
        self._next = FleetView(simulator, self._layout)

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Nothing is kept of the sessions."""
        self._view, self._next = self._next, None  # never that of another run
        self._queue = None

    def choose(self, quotes: Quotes) -> Ints:
        """The router's choice for every lane."""
        view = self._view
        if view is None:
            raise InputError(
                f"{self.name}: a learned router needs a run over whole fleets; use run_policy, or "
                "Router.act with the observations of an environment"
            )
        view.observe()
        if self.eta <= 0.0:
            return self._act(view, quotes)
        if self._queue is None:
            self._queue = QualityQueue(quotes.lanes, self.eta)
        begin, models = qualities_of(plan_of(view.layout))
        amplify_all(view.observation, begin, models, self._queue.factor)
        choice = self._act(view, quotes)
        model = quotes.fleet.model[np.maximum(choice, 0)]
        got = quotes.quality[np.arange(quotes.lanes), model]
        self._queue.account(quotes.row != NOWHERE, self.quality_target, got)
        return choice

    def _act(self, view: FleetView, quotes: Quotes) -> Ints:
        choice = np.full(quotes.lanes, NOWHERE, dtype=np.int64)
        live = np.flatnonzero(quotes.row != NOWHERE)
        if len(live) == quotes.lanes:
            return self.router.act(view.observation, view.mask, view.layout)
        if len(live):
            choice[live] = self.router.act(view.observation[live], view.mask[live], view.layout)
        return choice
