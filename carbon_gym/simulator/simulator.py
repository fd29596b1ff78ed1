"""The simulator: quote → choose → commit over many independent lanes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from carbon_gym.fleet.deployments import Deployments
from carbon_gym.grid.series import GridSeries
from carbon_gym.quality.predictor import QualityPredictor, predictor_of
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.simulator import kernels
from carbon_gym.simulator.allocate import (
    empty_ledger,
    empty_state,
    quotes_of,
    rows_by_session,
    static_of,
    turns_of,
)
from carbon_gym.simulator.arrays import (
    Ints,
)
from carbon_gym.simulator.logged import logged_deployments
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.workload.trace import Trace


class Simulator:
    """Owns all mutable state of a run: caches, loads, clock, ledger.

    A lane is one independent fleet (`lanes="fleets"`: one trace each, capacity and memory shared
    by its sessions) or one conversation (`lanes="sessions"`: every session of the traces is
    served alone, without capacity or memory pressure).

    Each step prices the current turn of every lane (`quote`), a policy chooses, and `commit`
    makes the choice true. Lanes advance turn by turn, each at its own times.

    Args:
        scenario: Fleet and rules.
        traces: One per fleet.
        grid: Carbon intensity; must have every region's zone and cover the traces.
        predictor: Quality predictor; None: the scenario's (SPEC §4).
        unbounded: No capacity and no memory pressure, whatever the scenario says.
        full_cache: Account as if the whole history were cached everywhere (the lower bound).
        lanes: "fleets" or "sessions".

    Attributes:
        fleet: The deployments.
        ledger: Structured array (N,) of `carbon_gym.simulator.arrays.OUTCOME`, what happened,
            one entry a turn; rows stand lane after lane.
        bounds: int64 (B + 1,), lane b owns the ledger's rows ``bounds[b]:bounds[b + 1]``.
        quality_predicted: float64 (N, M), what the predictor said, by ledger row.
        quality_realised: float64 (N, M).
        origin_unix_s: int64 (F,), to which the arrivals of each trace are relative.

    Example:
        >>> simulator = Simulator(scenario, traces, grid)
        >>> while not simulator.done:
        ...     simulator.commit(simulator.quote().cheapest())
        >>> simulator.ledger["co2_g"].sum()
    """

    def __init__(
        self,
        scenario: Scenario,
        traces: Sequence[Trace],
        grid: GridSeries,
        *,
        predictor: QualityPredictor | None = None,
        unbounded: bool = False,
        full_cache: bool = False,
        lanes: Literal["fleets", "sessions"] = "fleets",
    ) -> None:
        self.scenario = scenario
        self.fleet = Deployments.of(scenario)
        self.origin_unix_s = np.array([trace.origin_unix_s for trace in traces], dtype=np.int64)
        one_session = lanes == "sessions"
        self._static = static_of(
            scenario, self.fleet, full_cache, one_session, unbounded or one_session
        )
        rows = [rows_by_session(trace) if one_session else None for trace in traces]
        predictor = predictor or predictor_of(scenario.quality, scenario.seeds.quality)
        # The bound must not miss a cleaner region that a stale intensity hides.
        staleness_s = 0.0 if full_cache else scenario.grid.staleness_s
        self._turns, lengths = turns_of(
            scenario, self._static, traces, rows, grid, predictor, staleness_s
        )
        self.quality_predicted = self._turns.quality_predicted
        self.quality_realised = self._turns.quality_realised
        self.bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        slots = len(lengths) if one_session else sum(trace.sessions for trace in traces)
        self._state = empty_state(self._static, self.fleet, self.bounds, slots)
        self.ledger = empty_ledger(int(self.bounds[-1]))
        self._quotes = quotes_of(self._static, self.fleet, len(lengths))
        self._logs = [(trace.log, order) for trace, order in zip(traces, rows, strict=True)]
        self._quoted = False
        self._steps_left = self._longest_lane()

    @property
    def lanes(self) -> int:
        """Number of lanes B."""
        return len(self.bounds) - 1

    @property
    def slots(self) -> int:
        """Number of session slots over all lanes."""
        return len(self._state.sessions)

    @property
    def done(self) -> bool:
        """Whether every lane has served its last turn."""
        return self._steps_left <= 0

    @property
    def turns_served(self) -> int:
        """Turns committed so far, over all lanes."""
        return int((self._state.row - self._state.begin).sum())

    def reset(self) -> None:
        """Start again: empty caches, no load, empty ledger."""
        self._state = empty_state(self._static, self.fleet, self.bounds, self.slots)
        self.ledger = empty_ledger(int(self.bounds[-1]))
        self._quoted = False
        self._steps_left = self._longest_lane()

    def logged(self) -> Ints:
        """Where the traces' log says that each turn was served, int64 (N,), by ledger row.

        Raises:
            InputError: A trace has no log, or it names what is no deployment of the fleet.
        """
        return np.concatenate([logged_deployments(log, self.fleet, o) for log, o in self._logs])

    def quote(self) -> Quotes:
        """Price the current turn of every lane on every deployment.

        Calling it again before `commit` gives the same quotes.
        """
        kernels.quote(self._static, self._turns, self._state, self.ledger, self._quotes._buffers)
        self._quoted = True
        return self._quotes

    def commit(self, actions: Ints) -> None:
        """Serve the quoted turns and move every lane on; the outcome is in `ledger`.

        Args:
            actions: int64 (B,), a deployment per lane; ignored for lanes that are done.

        Raises:
            RuntimeError: `quote` has not been called since the last commit.
            ValueError: Wrong shape or type, or a deployment outside 0..D-1; nothing is changed.
        """
        chosen = self._checked(actions)
        kernels.commit(self._static, self._turns, self._state, self.ledger, chosen)
        self._quoted = False
        self._steps_left -= 1

    def step(self, actions: Ints) -> Quotes:
        """`commit` and the next `quote` in one pass over the lanes; arguments as `commit`."""
        chosen = self._checked(actions)
        kernels.commit_and_quote(
            self._static, self._turns, self._state, self.ledger, self._quotes._buffers, chosen
        )
        self._steps_left -= 1
        return self._quotes

    def _longest_lane(self) -> int:
        return int(np.diff(self.bounds).max(initial=0))

    def _checked(self, actions: Ints) -> Ints:
        if not self._quoted:
            raise RuntimeError("commit() needs a quote() of the same turns before it")
        given = np.asarray(actions)
        if given.dtype.kind not in "iu":  # a fraction would be cut off in silence
            raise ValueError(f"actions are {given.dtype}; integers are needed")
        chosen = np.ascontiguousarray(given, dtype=np.int64)
        if chosen.shape != (self.lanes,):
            raise ValueError(f"actions have shape {chosen.shape}; ({self.lanes},) is needed")
        row, stop = self._state.row, self._state.stop
        if not kernels.valid(row, stop, chosen, len(self.fleet)):
            live = row < stop
            wrong = chosen[live & ((chosen < 0) | (chosen >= len(self.fleet)))][0]
            raise ValueError(
                f"deployment {wrong} does not exist; choose from 0 to {len(self.fleet) - 1}"
            )
        return chosen
