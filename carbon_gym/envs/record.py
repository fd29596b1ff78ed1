"""What `render` remembers of an episode, and what it reads from the lane when it draws.

Everything here only reads the environment's arrays: rendering never changes an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carbon_gym.envs.desk import Desk
from carbon_gym.envs.world import World
from carbon_gym.grid.series import STEP_S
from carbon_gym.simulator import kernels as physics
from carbon_gym.simulator.allocate import empty_ledger, empty_state, quotes_of
from carbon_gym.simulator.arrays import Floats, Ints

_DAY_S = 86_400
_FLAGS = {
    "switched": "switched",
    "ttft_violation": "late",
    "quality_violation": "inadmissible model",
    "capacity_violation": "no room",
    "refused": "refused",
    "masked": "masked",
}
"""Keys of `info` and what a line says of them: served elsewhere than the turn before; TTFT above
τ; the model was not admissible; served in a pool without room; the action's pool had no room and
the turn went to the forced deployment; the action was outside the mask."""


class Served(NamedTuple):
    """One turn that was served."""

    arrival_s: float  # since the start of the day
    session: int
    turn: int  # within the session, from 0
    turns: int  # of the session
    prompt_tokens: int  # q
    history_tokens: int  # H
    cached_tokens: int  # C
    deployment: int
    co2_g: float
    ttft_s: float
    quality: float  # predicted
    flags: tuple[str, ...]

    @property
    def broken(self) -> bool:
        """Whether a bound was broken, or the action not taken as it was."""
        return any(flag != "switched" for flag in self.flags)


class Record:
    """An episode as it is shown.

    Args:
        world: Fleets and their background.
        desk: One lane, at the beginning of the episode.
        origin_unix_s: Start of the episode's day, Unix seconds.

    Attributes:
        served: The turns of the episode so far.
        begin: Row of the first turn.
        stop: Row after the last one.
    """

    def __init__(self, world: World, desk: Desk, origin_unix_s: int) -> None:
        self.world = world
        self.fleet = world.fleet
        self.desk = desk
        self.origin_unix_s = origin_unix_s
        self.begin = int(desk.state.row[0])
        self.stop = int(desk.state.stop[0])
        self.served: list[Served] = []
        self._said = -1  # turns given out as text; -1: not even the headline

    @property
    def name(self) -> str:
        """What the episode is called."""
        raise NotImplementedError

    @property
    def headline(self) -> str:
        """Name, number of turns, first and last arrival."""
        turn = self.desk.kit.turns.turn
        first, last = (
            f"{self.time_of(float(turn[row]['arrival_s'])):%Y-%m-%d %H:%M:%S}Z"
            for row in (self.begin, self.stop - 1)
        )
        count = self.stop - self.begin
        return f"{self.name}: {count} turn{'s' if count > 1 else ''} from {first} to {last}"

    @property
    def row(self) -> int:
        """Row of the turn that waits; after the last turn, that turn's."""
        return min(int(self.desk.state.row[0]), self.stop - 1)

    @property
    def waiting(self) -> np.void:
        """The turn of that row, a record of TURN."""
        turn: np.void = self.desk.kit.turns.turn[self.row]
        return turn

    @property
    def now_s(self) -> float:
        """Arrival of that turn, seconds since the start of the day."""
        return float(self.waiting["arrival_s"])

    @property
    def begin_s(self) -> float:
        """Arrival of the first turn, likewise."""
        return float(self.desk.kit.turns.turn[self.begin]["arrival_s"])

    def time_of(self, arrival_s: float) -> datetime:
        """A time of the episode's day as a UTC time."""
        return datetime.fromtimestamp(self.origin_unix_s + arrival_s, UTC)

    def add(self, info: Mapping[str, Any]) -> None:
        """Remember the turn just served, of which `info` tells."""
        turn = self.desk.kit.turns.turn[int(self.desk.state.row[0]) - 1]
        session, turns = self._session(int(turn["slot"]))
        self.served.append(
            Served(
                arrival_s=float(turn["arrival_s"]),
                session=session,
                turn=int(turn["turn"]),
                turns=turns,
                prompt_tokens=int(turn["prompt_tokens"]),
                history_tokens=int(turn["history_tokens"]),
                cached_tokens=info["cached_tokens"],
                deployment=info["deployment_index"],
                co2_g=info["co2_g"],
                ttft_s=info["ttft_s"],
                quality=info["quality_predicted"],
                flags=tuple(said for key, said in _FLAGS.items() if info[key]),
            )
        )

    def _session(self, slot: int) -> tuple[int, int]:
        """Index of the session in a slot, and its number of turns."""
        raise NotImplementedError

    def new_text(self) -> str:
        """What `new_text` has not said yet of the episode: its headline, then a line a turn."""
        lines = [] if self._said >= 0 else [self.headline]
        lines += [self.line(turn) for turn in self.served[max(self._said, 0) :]]
        self._said = len(self.served)
        return "\n".join(lines)

    def line(self, served: Served) -> str:
        """One turn in one line: times in UTC, tokens, gCO2eq, seconds, predicted quality."""
        flags = f"  [{', '.join(served.flags)}]" if served.flags else ""
        width = max(len(self.fleet.name(d)) for d in range(len(self.fleet)))
        return (
            f"{self.time_of(served.arrival_s):%Y-%m-%d %H:%M:%S}Z"
            f"  session {served.session} turn {served.turn + 1:>2}/{served.turns}"
            f"  q {served.prompt_tokens:>5}  H {served.history_tokens:>6}"
            f"  C {served.cached_tokens:>6}  {self.fleet.name(served.deployment):<{width}}"
            f"  {served.co2_g:.5f} gCO2eq  TTFT {served.ttft_s:.4f} s"
            f"  quality {served.quality:.3f}{flags}"
        )

    def co2_g(self) -> Floats:
        """Cumulative CO2 of the turns served, float64 (n,), g."""
        return np.cumsum([turn.co2_g for turn in self.served])

    def compared(self) -> tuple[str, str, Floats, str] | None:
        """Another way to serve the same turns: name, short name, cumulative CO2 in g, remark."""
        raise NotImplementedError

    def day(self) -> tuple[Floats, NDArray[np.float64]]:
        """Carbon intensity from 00:00 UTC of the day until the day or the episode ends.

        Returns:
            Hours since the start of the day, float64 (n,), from each of which a row holds; and
            gCO2eq/kWh, float64 (n, R).
        """
        last = self.desk.kit.turns.turn[self.stop - 1]
        span_s = max(float(_DAY_S), float(last["arrival_s"]) + STEP_S)
        grid = self.world.evaluation.grid
        values = self.desk.kit.turns.intensity
        first = max(int((self.origin_unix_s - grid.start_unix_s) // STEP_S), 0)
        beyond = int((self.origin_unix_s + span_s - grid.start_unix_s) // STEP_S) + 1
        rows = np.arange(first, min(beyond, len(values)))
        hours = (grid.start_unix_s + STEP_S * rows - self.origin_unix_s) / 3600.0
        return hours, values[rows]


class ConversationRecord(Record):
    """One conversation, alone in its lane."""

    def __init__(self, world: World, desk: Desk) -> None:
        row = int(desk.state.row[0])
        super().__init__(world, desk, int(world.origin_unix_s[world.by_session[row]]))
        self.session = int(desk.out.session[0])

    @property
    def name(self) -> str:
        """Session and its index."""
        return f"session {self.session}"

    def _session(self, slot: int) -> tuple[int, int]:
        return self.session, self.stop - self.begin

    def held_tokens(self) -> Ints:
        """Tokens of the session held now and alive, by deployment, int64 (D,) (SPEC §3)."""
        kit = self.desk.kit
        evicted = kit.turns.evicted_until_s
        last_use_s = kit.state.last_use_s[0]
        alive = self.now_s - last_use_s <= kit.static.cache_ttl_s
        alive &= last_use_s > evicted[min(self.row, len(evicted) - 1)]
        return np.where(alive, kit.state.held_tokens[0], 0).astype(np.int64)

    def compared(self) -> tuple[str, str, Floats, str] | None:
        """Every turn on the deployment of the first one, whether or not it is allowed there."""
        if not self.served:
            return None
        ledger = self.staying[: len(self.served)]
        broken = ledger["quality_violation"] | ledger["ttft_violation"]
        broken = broken | ledger["capacity_violation"]
        count = int(broken.sum())
        remark = f"{count} turn{'s' if count > 1 else ''} out of bounds there" if count else ""
        return "staying on the first deployment", "staying", np.cumsum(ledger["co2_g"]), remark

    @cached_property
    def staying(self) -> NDArray[np.void]:
        """The ledger of the conversation served by the first deployment alone, (turns,) OUTCOME.

        The simulator replays the session in a lane of its own: same arrivals, intensity and
        memory pressure, with the cache as it would be there.
        """
        desk = self.desk
        static, turns = desk.kit.static, desk.kit.turns
        rows = slice(self.begin, self.stop)
        own = turns.at(rows)
        count = self.stop - self.begin
        state = empty_state(static, self.fleet, np.array([0, count], dtype=np.int64), slots=1)
        ledger = empty_ledger(count)
        buffers = quotes_of(static, self.fleet, lanes=1)._buffers
        action = np.array([self.served[0].deployment], dtype=np.int64)
        physics.quote(static, own, state, ledger, buffers)
        for _ in range(count):
            physics.commit_and_quote(static, own, state, ledger, buffers, action)
        return ledger


class WindowRecord(Record):
    """A window of all that arrives at a fleet."""

    def __init__(self, world: World, desk: Desk, fleet: int) -> None:
        self._trace = world.evaluation.traces[fleet]
        super().__init__(world, desk, self._trace.origin_unix_s)
        self.index = fleet

    @property
    def name(self) -> str:
        """Fleet and its index."""
        return f"fleet {self.index}"

    def _session(self, slot: int) -> tuple[int, int]:
        return slot, int(self._trace.session_turns[slot])

    def loads(self) -> tuple[Ints, Ints]:
        """Load and places of every capacity unit, int64 (U,), as the waiting turn finds them.

        Places are -1 where there is no limit.
        """
        scratch = self.desk.kit.scratch  # of the observation that was returned
        return scratch.unit_load[0].copy(), scratch.unit_places[0].copy()

    def compared(self) -> tuple[str, str, Floats, str] | None:
        """The background's own run of the same turns, from the same warm start.

        There is no first deployment to stay on: the window's turns belong to many sessions.
        """
        if not self.served:
            return None
        first = int(self.world.bounds[self.index]) + self.begin
        co2_g = self.world.background.co2_g[first : first + len(self.served)]
        return "the background's run of the same turns", "the background", np.cumsum(co2_g), ""
