"""Times of public data sets and logs, which write them in many ways."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.workload.readers.times import MAX_TRACE_S, MAX_UNIX_S
from carbon_gym.workload.trace import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

FIRST_UNIX_S: Final = 946_684_800.0
"""2000-01-01 in epoch seconds; an earlier number is not calendar time (ASSUMED)."""

_DAY_S: Final = 86_400.0
_FORMS: Final = "write epoch seconds or ISO 8601, e.g. 2023-05-08T09:30:00Z"
_OFFSET: Final = r"(?:[zZ]|[+-]\d{2}(?::?\d{2})?)$"
_FACTORS: Final = (1.0, 1e3, 1e6, 1e9)
"""Epoch time is read in the first of s, ms, us, ns that puts it before 2100."""


def moment(value: object, where: str) -> float | None:
    """A time of a data set that is documented to be in UTC, as seconds since 1970-01-01 UTC.

    Args:
        value: Epoch time (s, ms, us or ns), also as ``ts:<seconds>``; ISO 8601, in UTC where it
            has no offset; or nothing.
        where: File and line, for the message.

    Returns:
        float, or None where there is no time or one outside 2000 to 2100, which data sets of
        shared links have for a few messages.

    Raises:
        InputError: For what is no time.
    """
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, str):
        text = value.strip().removeprefix("ts:")
        try:
            value = float(text)
        except ValueError:
            try:
                return moment(datetime.fromisoformat(text), where)
            except (ValueError, OverflowError):
                raise InputError(f"{where}: time {value!r} is no time; {_FORMS}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: time {value!r} is neither a number nor text; {_FORMS}")
    for factor in _FACTORS:
        if FIRST_UNIX_S * factor <= value < MAX_UNIX_S * factor:
            return value / factor
    return None


def time_column(path: Path, column: pd.Series[Any], lines: Ints) -> tuple[Floats, bool, str]:
    """Times of the rows of a log.

    Args:
        path: The file, for messages.
        column: Numbers, or text in ISO 8601.
        lines: int64 (N,), line of every row in the file.

    Returns:
        float64 (N,) in seconds; whether they are since 1970-01-01 UTC, else since 0:00 of
        the trace's first day with requests; a note for the reader, or "".

    Raises:
        InputError: Naming the first line without a time.
    """
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.notna().all():
        seconds = numbers.to_numpy(dtype=np.float64)
        for factor in _FACTORS:
            epoch = seconds / factor
            if ((epoch >= FIRST_UNIX_S) & (epoch < MAX_UNIX_S)).all():
                return epoch, True, ""
        bad = ~((seconds >= 0) & (seconds <= MAX_TRACE_S))
        if bad.any():
            raise _no_time(path, column, lines, int(np.argmax(bad)))
        days = float(np.floor(seconds.min() / _DAY_S))
        note = f"the first {days:,.0f} days, without requests, are left out" if days else ""
        return seconds - days * _DAY_S, False, note
    if 2 * int(numbers.notna().sum()) > len(numbers):  # a word among numbers, or a missing one
        raise _no_time(path, column, lines, int(np.argmax(numbers.isna())))
    text = column.astype(str).str.strip()
    stamps = pd.to_datetime(text, utc=True, errors="coerce", format="ISO8601")
    bad = stamps.isna().to_numpy()
    if bad.any():
        raise _no_time(path, column, lines, int(np.argmax(bad)))
    utc = stamps.dt.tz_localize(None).to_numpy(dtype="datetime64[us]").astype(np.int64) / 1e6
    bad = ~((utc >= FIRST_UNIX_S) & (utc < MAX_UNIX_S))
    if bad.any():
        raise _no_time(path, column, lines, int(np.argmax(bad)))
    with_offset = text.str.contains(_OFFSET, regex=True).to_numpy(dtype=np.bool_)
    if with_offset.all():
        return utc, True, ""
    if with_offset.any():
        row = int(np.argmin(with_offset))
        raise InputError(
            f"{path}: line {lines[row]}: time {text.iloc[row]!r} has no offset to UTC but other "
            "rows have one; use one form throughout"
        )
    note = "times have no offset to UTC: the hour of the day is kept, the date is not"
    return utc - np.floor(utc.min() / _DAY_S) * _DAY_S, False, note


def _no_time(path: Path, column: pd.Series[Any], lines: Ints, row: int) -> InputError:
    cell = column.iloc[row]
    empty = cell is None or cell == "" or cell != cell
    found = "is missing" if empty else f"{cell!s:.60} is no time"
    return InputError(
        f"{path}: line {lines[row]}: time {found}; {_FORMS}, or seconds since the start of the "
        "trace, in every row"
    )
