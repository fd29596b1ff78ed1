"""Conversations and the trace that the simulator replays: plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carbon_gym.workload.log import Log

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Conversations:
    """Sessions as they come from a file or the generator, before they are laid over a day.

    Session ``s`` owns the rows ``offsets[s]:offsets[s + 1]``, in turn order.

    Attributes:
        session_id: Names, in a fixed order (numeric ids by value, others by text), length S.
        session_key: uint64 (S,), key of every draw and of the split hash.
        offsets: int64 (S + 1,).
        prompt_tokens: int64 (N,), new prompt tokens q of the turn.
        history_tokens: int64 (N,), tokens H of everything before the turn.
        output_tokens: int64 (N,), reply tokens o.
        category: int8 (N,), index into `CATEGORIES` guessed for the turn; -1 where unknown.
        arrival_s: float64 (N,), or None where the source has no times. Seconds since
            1970-01-01 UTC if `absolute_time`, else seconds since the start of the trace.
        absolute_time: Whether `arrival_s` is calendar time.
        source: One line for the report: file and format, or the generator and its statistics.
        notes: What was done on loading that a reader of the results should know
            (how tokens were counted, repeats removed, ...).
        log: Where the source says that each turn was served; None where it does not.
    """

    session_id: tuple[str, ...]
    session_key: NDArray[np.uint64]
    offsets: Ints
    prompt_tokens: Ints
    history_tokens: Ints
    output_tokens: Ints
    category: NDArray[np.int8]
    arrival_s: Floats | None = None
    absolute_time: bool = False
    source: str = ""
    notes: tuple[str, ...] = ()
    log: Log | None = None

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return len(self.session_id)

    @property
    def turns(self) -> int:
        """Number of turns."""
        return int(self.offsets[-1])


@dataclass(frozen=True, slots=True)
class Trace:
    """The turns of one fleet (one day of arrivals), in the order of events.

    Rows are sorted by arrival time, ties by session, then turn (SPEC §3).

    Attributes:
        origin_unix_s: Start of the day, seconds since 1970-01-01 UTC.
        session: int64 (T,), index of the session within this trace, 0..S-1.
        turn: int64 (T,), index of the turn within its session, from 0.
        arrival_s: float64 (T,), seconds since `origin_unix_s`.
        prompt_tokens: int64 (T,), q.
        history_tokens: int64 (T,), H.
        output_tokens: int64 (T,), o: only the account may read it.
        predicted_output_tokens: float64 (T,), ô (SPEC §5), from earlier replies only.
        category: int8 (T,), index into `CATEGORIES`, one per session.
        difficulty: float64 (T,), b of SPEC §4, logits.
        session_id: Names of the sessions, length S.
        session_key: uint64 (S,), key of every draw.
        session_turns: int64 (S,), turns that the session keeps.
        dropped_turns: Turns cut by the context limit.
        dropped_sessions: Sessions left out (no turn kept, or fewer than `min_turns`).
        log: Where a log says that each turn was served; None where there is none.
    """

    origin_unix_s: int
    session: Ints
    turn: Ints
    arrival_s: Floats
    prompt_tokens: Ints
    history_tokens: Ints
    output_tokens: Ints
    predicted_output_tokens: Floats
    category: NDArray[np.int8]
    difficulty: Floats
    session_id: tuple[str, ...]
    session_key: NDArray[np.uint64]
    session_turns: Ints
    dropped_turns: int = 0
    dropped_sessions: int = 0
    log: Log | None = None

    @property
    def turns(self) -> int:
        """Number of turns."""
        return len(self.session)

    @property
    def sessions(self) -> int:
        """Number of sessions."""
        return len(self.session_turns)
