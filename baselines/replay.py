"""Replay: every turn goes where a log says that it went."""

from __future__ import annotations

import numpy as np

from baselines.stateless import Stateless
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.simulator import Simulator


class Replay(Stateless):
    """The router that a conversation file was logged under, whatever its rule was.

    The file has a column with the deployment of every turn, and the scenario names it
    (``workload.log_column``). Nothing binds this policy: where the log breaks a bound on capacity,
    quality or TTFT, the turn counts as a violation.
    """

    name = "replay"

    def __init__(self) -> None:
        self._next: Ints | None = None

    def foresee(self, simulator: Simulator) -> None:
        """Read the log of the turns to come."""
        self._next = simulator.logged()

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Begin at the log's first turn."""
        if self._next is None:
            raise InputError(
                f"policy {self.name!r} follows the log of a whole run; use it with "
                "carbon_gym.simulator.run.run_policy"
            )
        self._logged, self._next = self._next, None  # never that of another run

    def choose(self, quotes: Quotes) -> Ints:
        """What the log says; anything in lanes that are done."""
        return np.where(quotes.row == NOWHERE, 0, self._logged[quotes.row])
