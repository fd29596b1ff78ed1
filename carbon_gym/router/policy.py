"""A trained router as a policy over whole fleets."""

from __future__ import annotations

import numpy as np

from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.router.router import Router
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.simulator import Simulator


class RouterPolicy:
    """Serves every turn on the allowed deployment of the router's highest logit.

    Allowed are the feasible deployments, else that of best effort: what
    ``CarbonRoutingFleet-v0`` allows with its mask "feasible".

    Args:
        router: Of `carbon_gym.router.load_router`.
        name: In tables.
    """

    def __init__(self, router: Router, name: str = "learned") -> None:
        self.router, self.name = router, name
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

    def choose(self, quotes: Quotes) -> Ints:
        """The router's choice for every lane."""
        view = self._view
        if view is None:
            raise InputError(
                f"{self.name}: a learned router needs a run over whole fleets; use run_policy, or "
                "Router.act with the observations of an environment"
            )
        view.observe()
        choice = np.full(quotes.lanes, NOWHERE, dtype=np.int64)
        live = np.flatnonzero(quotes.row != NOWHERE)
        if len(live) == quotes.lanes:
            return self.router.act(view.observation, view.mask, view.layout)
        if len(live):
            choice[live] = self.router.act(view.observation[live], view.mask[live], view.layout)
        return choice
