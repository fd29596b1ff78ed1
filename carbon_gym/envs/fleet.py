"""`CarbonRoutingFleet-v0`: an episode is a window of all that arrives at a fleet."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Unpack

import numpy as np

from carbon_gym.envs.desk import Desk
from carbon_gym.envs.lane import LaneEnv, Observed
from carbon_gym.envs.options import Arguments, is_number, resolve
from carbon_gym.envs.record import Record, WindowRecord
from carbon_gym.errors import InputError
from carbon_gym.workload.trace import Trace

DEFAULT_WINDOW_S = 6 * 3600.0  # ASSUMED
_DAY_S = 86_400.0


class CarbonRoutingFleetEnv(LaneEnv):
    """Serve all turns that arrive at a fleet in a window of time.

    ## Description
    As `CarbonRouting-v0`, but a step is the next turn of whichever session: capacity and memory are
    shared and made by the agent itself. Before the window the background's policy has served the
    day, so that pools and caches are warm.

    ## Action Space
    As in `carbon_gym.envs.routing.CarbonRoutingEnv`.

    ## Observation Space
    The same vector. ``margin`` is bounded by the latest last use that memory pressure has evicted.
    ``layout`` is the same.

    ## Rewards
    The same.

    ## Starting State
    A fleet drawn uniformly and a window that begins with one of its turns.
    ``reset(options={"start": time})`` names the start: Unix seconds, or ISO 8601 text with its
    offset, on a day of one of the fleets.

    ## Episode End
    Never ``terminated``: a fleet does not end. ``truncated`` with the window's last turn; the
    observation is that of the turn that follows, or, at the end of the day's traffic, the last
    turn's with its deployment block zero.

    ## Information
    The same keys; "session" counts within the fleet. After ``reset``: "action_mask", "session",
    "fleet" and "start".

    ## Arguments
    Those of `carbon_gym.envs.routing.CarbonRoutingEnv`, and

    Args:
        window_s: Length of the window, s; 21,600.
        **arguments: See there; ``background`` has served the time before the window.

    Raises:
        InputError: An argument that cannot be used, in one sentence.

    ## Version History
    * v0: first version.
    """

    def __init__(
        self, *, window_s: float = DEFAULT_WINDOW_S, **arguments: Unpack[Arguments]
    ) -> None:
        if not (is_number(window_s) and 0 < window_s < math.inf):
            raise InputError(f"window_s = {window_s!r} is not allowed; give seconds above 0")
        super().__init__(resolve(**arguments))
        self.window_s = window_s
        self._fleet = 0

    @property
    def slots(self) -> int:
        """Number of session slots, for `Policy.reset`."""
        return max(trace.sessions for trace in self.world.evaluation.traces)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin a window, after the background's policy has served the day before it.

        Args:
            seed: Seeds the draws of fleets and windows; None: they go on.
            options: ``{"start": time}``, Unix seconds or ISO 8601 with its offset, on a day of one
                of the fleets; else fleet and start are drawn.

        Returns:
            The first turn's observation, and info with "action_mask", "fleet" and "start" (ISO
            8601, UTC), which names the window again.
        """
        super().reset(seed=seed)
        fleet, start_s = self._window(options)
        trace = self.world.evaluation.traces[fleet]
        begin, end = self._rows(trace, start_s)
        if end <= begin:  # nothing arrives in it: it begins with the next turn
            start_s = float(trace.arrival_s[begin])
            if self.window_s >= 1.0:  # so that `info["start"]` names the same window again
                start_s = math.floor(start_s)
            begin, end = self._rows(trace, start_s)
        desk = self._fleet_desk(fleet)
        rows = slice(*self.world.bounds[fleet : fleet + 2])
        desk.warm(self.world.background.deployment[rows], begin)
        desk.state.stop[0] = end
        desk.out.known[0] = trace.turns
        self._desk, self._fleet = desk, fleet
        info = {
            "action_mask": desk.out.mask[0].copy(),
            "session": desk.out.session.item(0),
            "fleet": fleet,
            "start": datetime.fromtimestamp(trace.origin_unix_s + start_s, UTC).isoformat(),
        }
        if self.render_mode is not None:
            self._watch_reset()
        return self._observed(desk), info

    def _window(self, options: dict[str, Any] | None) -> tuple[int, float]:
        """Fleet, and start of the window in seconds of its day."""
        unknown = set(options or {}) - {"start"}
        if unknown:
            raise ValueError(f"options: {sorted(unknown)[0]!r} is not known; use 'start'")
        traces = self.world.evaluation.traces
        if options and options.get("start") is not None:
            unix_s = _unix_s(options["start"])
            for fleet, trace in enumerate(traces):
                start_s = unix_s - trace.origin_unix_s
                if trace.turns and 0.0 <= start_s <= trace.arrival_s[-1] and start_s < _DAY_S:
                    return fleet, start_s
            days = ", ".join(sorted(str(day) for day in self.world.evaluation.days))
            raise ValueError(
                f"options: no turn arrives from start = {options['start']!r} on; the fleets' days "
                f"are {days}, UTC"
            )
        served = [fleet for fleet, trace in enumerate(traces) if trace.turns]
        fleet = served[int(self.np_random.integers(len(served)))]
        # A window begins with a turn: more often where there is more traffic.
        arrival_s = traces[fleet].arrival_s
        latest_s = min(arrival_s[-1] - self.window_s, _DAY_S - 1)
        whole = int(np.searchsorted(arrival_s, latest_s))
        return fleet, math.floor(arrival_s[self.np_random.integers(max(whole, 1))])

    def _rows(self, trace: Trace, start_s: float) -> tuple[int, int]:
        """First row of a window and the row after its last."""
        ends_s = (start_s, start_s + self.window_s)
        begin, end = (int(row) for row in np.searchsorted(trace.arrival_s, ends_s))
        return min(begin, trace.turns - 1), end

    def _fleet_desk(self, fleet: int) -> Desk:
        world = self.world
        turns, context = world.fleet_turns(fleet)
        return Desk(
            world.static(one_session=False),
            turns,
            context,
            np.array([0, len(turns.turn)], dtype=np.int64),
            self.options.rules,
            world.fleet,
            lanes=1,
            slots=len(turns.session_key),
            size=self.layout.size,
        )

    def _record(self, desk: Desk) -> Record:
        return WindowRecord(self.world, desk, self._fleet)

    def _ledger_row(self, desk: Desk) -> int:
        return int(desk.state.row[0])


def _unix_s(start: Any) -> float:
    if isinstance(start, bool) or not isinstance(start, int | float | str | np.number):
        raise ValueError(
            f"options: start = {start!r} is not allowed; give Unix seconds or ISO 8601 text"
        )
    if not isinstance(start, str):
        return float(start)
    try:
        moment = datetime.fromisoformat(start)
    except ValueError:
        raise ValueError(
            f"options: start = {start!r} is no time; write it like 2021-06-01T12:00:00+00:00"
        ) from None
    if moment.tzinfo is None:
        raise ValueError(
            f"options: start = {start!r} has no offset from UTC; add +00:00 if it is UTC"
        )
    return moment.astimezone(UTC).timestamp()
