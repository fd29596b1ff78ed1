"""From rows or dialogues to `Conversations`: order of sessions, keys, history, checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from carbon_gym import draws
from carbon_gym.errors import InputError
from carbon_gym.workload.trace import Floats, Ints

_INTEGER: Final = re.compile(r"[+-]?\d{1,18}")


def order_of_ids(ids: Sequence[str]) -> Ints:
    """Order of sessions, int64 (S,): by value if all ids are integers, else by text."""
    if all(_INTEGER.fullmatch(name) for name in ids):
        order = sorted(range(len(ids)), key=lambda s: (int(ids[s]), ids[s]))
    else:
        order = sorted(range(len(ids)), key=lambda s: ids[s])
    return np.asarray(order, dtype=np.int64)


def keys_of_ids(ids: Iterable[str]) -> NDArray[np.uint64]:
    """Key of every session from the text of its id, uint64 (S,)."""
    return np.fromiter((draws.key_of_text(name) for name in ids), dtype=np.uint64)


def checked_id(where: str, value: object) -> str:
    """The id of a session as text.

    Args:
        where: File and line, for the message.
        value: What the file has: text that is not empty, or an integer.

    Raises:
        InputError: For anything else, and for text that is not Unicode (half a surrogate pair).
    """
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise InputError(f"{where}: id {value!r} must be text or an integer")
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise InputError(f"{where}: id {value!r} is not valid Unicode; give it another id")
    return str(value)


def check_arrivals(
    path: Path, arrival_s: Floats, session: Ints, line: Ints, ids: Sequence[str]
) -> None:
    """Refuse a session whose arrivals go backwards.

    Args:
        path: The file, for the message.
        arrival_s: float64 (N,), rows grouped by session in turn order.
        session: int64 (N,), session of every row.
        line: int64 (N,), line of every row in the file, 1-based.
        ids: Session names.

    Raises:
        InputError: Naming the line, the session and both times.
    """
    back = (np.diff(arrival_s) < 0) & (session[1:] == session[:-1])
    if back.any():
        row = int(np.argmax(back)) + 1
        raise InputError(
            f"{path}: line {line[row]}: session {ids[session[row]]!r} goes back in time by "
            f"{arrival_s[row - 1] - arrival_s[row]:g} s against its turn before; "
            "arrivals must not decrease within a session, mend the arrival or the turn number"
        )
