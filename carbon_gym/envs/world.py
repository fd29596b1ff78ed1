"""What environments draw their episodes from: fleets of a split and the traffic they make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.envs.background import REFERENCE, Background, run_background
from carbon_gym.envs.context import context_of
from carbon_gym.evaluation import DEFAULT_FLEETS, Evaluation, evaluation_fleets
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.scenario.schema import Split
from carbon_gym.simulator.allocate import rows_by_session, static_of
from carbon_gym.simulator.arrays import Ints, Static, Turns
from carbon_gym.simulator.capacity import open_units
from carbon_gym.simulator.simulator import Simulator

_KEPT = 4
"""Worlds kept in memory, the latest used (ASSUMED: two splits of two scenarios)."""
_worlds: OrderedDict[tuple[Any, ...], World] = OrderedDict()


class World:
    """The fleets of a split, served once by the background's policy; shared and never changed.

    Args:
        scenario: Fleet and rules.
        split: Sessions and days to draw from; None: all of a conversation file.
        fleets: Number of fleets (days).
        background: "reference" (see `carbon_gym.envs.background`) or a policy's name.

    Attributes:
        evaluation: The fleets.
        simulator: Of whole fleets; only its turns are used.
        background: What the run left behind.
        sessions: Number of sessions S over all fleets.
    """

    def __init__(
        self, scenario: Scenario, split: Split | None, fleets: int, background: str
    ) -> None:
        self._recipe = (scenario, split, fleets, background)
        self.scenario = scenario
        self.evaluation: Evaluation = evaluation_fleets(scenario, split=split, fleets=fleets)
        self.simulator = Simulator(scenario, self.evaluation.traces, self.evaluation.grid)
        self.background: Background = run_background(self.simulator, background)
        self.simulator.reset()
        self.sessions = sum(trace.sessions for trace in self.evaluation.traces)
        self.fleet = self.simulator.fleet
        self._fleet_turns: dict[int, tuple[Turns, NDArray[np.float32]]] = {}

    def __reduce__(self) -> tuple[Callable[..., World], tuple[Any, ...]]:
        return world_of, self._recipe  # made again, or found, where it is unpickled

    @property
    def bounds(self) -> Ints:
        """Rows of the fleets, int64 (fleets + 1,)."""
        return self.simulator.bounds

    @property
    def co2_g_per_turn(self) -> float:
        """Mean CO2 per turn of the background's run, g."""
        return float(self.background.co2_g.mean()) if len(self.background.co2_g) else 0.0

    @cached_property
    def by_session(self) -> Ints:
        """Rows of the fleets in session order, int64 (N,)."""
        rows = [
            first + rows_by_session(trace)
            for first, trace in zip(self.bounds[:-1], self.evaluation.traces, strict=True)
        ]
        return np.concatenate(rows).astype(np.int64)

    @cached_property
    def first(self) -> Ints:
        """Rows of the sessions in session order, int64 (S + 1,)."""
        lengths = [trace.session_turns for trace in self.evaluation.traces]
        return np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)

    @cached_property
    def session_turns(self) -> Turns:
        """The turns in session order, with the traffic that each meets."""
        others = self.background.others
        unit_open = np.zeros(others.shape, dtype=np.bool_)
        open_units(self.static(one_session=True), others, unit_open)
        met = self.simulator._turns._replace(
            others=others,
            unit_open=unit_open,
            evicted_until_s=self.background.evicted_until_s,
        )
        return met.at(self.by_session)

    @cached_property
    def session_context(self) -> NDArray[np.float32]:
        """Context of the turns in session order, float32 (N, C)."""
        return context_of(
            self.static(one_session=True), self.session_turns, self.origin_unix_s[self.by_session]
        )

    def fleet_turns(self, fleet: int) -> tuple[Turns, NDArray[np.float32]]:
        """Turns of one fleet in the order of events, slots from 0; and their context, (N, C)."""
        if fleet not in self._fleet_turns:
            turns, rows = self.simulator._turns, slice(*self.bounds[fleet : fleet + 2])
            sessions = [trace.sessions for trace in self.evaluation.traces]
            first = sum(sessions[:fleet])
            keys = turns.session_key[first : first + sessions[fleet]].copy()
            own = turns.at(rows)._replace(session_key=keys)
            own.turn["slot"] -= first
            context = context_of(self.static(one_session=False), own, self.origin_unix_s[rows])
            self._fleet_turns[fleet] = own, context
        return self._fleet_turns[fleet]

    @cached_property
    def origin_unix_s(self) -> Ints:
        """Start of each row's day, Unix seconds, int64 (N,), rows of the fleets."""
        traces = self.evaluation.traces
        return np.repeat([trace.origin_unix_s for trace in traces], np.diff(self.bounds))

    def static(self, one_session: bool) -> Static:
        """Fleet and rules for lanes of one session or of one fleet."""
        return static_of(
            self.scenario,
            self.fleet,
            full_cache=False,
            one_session=one_session,
            unbounded=False,
        )


def world_of(
    scenario: Scenario,
    split: Split | None = "train",
    fleets: int = DEFAULT_FLEETS,
    background: str = REFERENCE,
) -> World:
    """The world of these arguments, made once per process; see `World`.

    Files that the scenario names are read once: change a file's name with its content.
    """
    key = (scenario.model_dump_json(), split, fleets, background)
    if key not in _worlds:
        _worlds[key] = World(scenario, split, fleets, background)
        while len(_worlds) > _KEPT:
            _worlds.popitem(last=False)
    _worlds.move_to_end(key)
    return _worlds[key]


def co2_scale_of(scenario: Scenario, whole: World | None = None) -> float:
    """Mean CO2 per turn of the reference run on the training split, g: a constant of the scenario.

    1 where nothing is emitted. Where conversations are not split, that of the `whole` world given.
    """
    return (whole or world_of(scenario)).co2_g_per_turn or 1.0
