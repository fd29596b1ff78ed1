"""Arrival times: seconds since the start of a trace, epoch seconds, or ISO 8601 with offset."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.workload.trace import Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

MAX_TRACE_S: Final = 20 * 366 * 86_400.0
"""Longest believable trace, s; a larger number is calendar time in disguise (ASSUMED)."""

MAX_UNIX_S: Final = 4_102_444_800.0
"""2100-01-01 in epoch seconds; a larger number is milliseconds in disguise (ASSUMED)."""

_OFFSET: Final = r"[T ]\d{2}.*(?:[zZ]|[+-]\d{2}(?::?\d{2})?)$"
_FIX: Final = "write ISO 8601 with offset, e.g. 2023-05-08T09:30:00Z or 2023-05-08T11:30:00+02:00"


def arrival_column(path: Path, column: pd.Series[Any], lines: Ints) -> tuple[Floats | None, bool]:
    """Arrivals of a CSV column.

    Args:
        path: The file, for messages.
        column: Numbers (seconds since the start of the trace) or ISO 8601 text with offset;
            NaN where the cell is empty.
        lines: int64 (N,), line of every row in the file.

    Returns:
        float64 (N,) in seconds and whether they are seconds since 1970-01-01 UTC; None and False
        if the whole column is empty.

    Raises:
        InputError: For a naive time, a mixture of forms or of given and missing, or nonsense.
    """
    import pandas as pd

    missing = column.isna().to_numpy()
    if missing.all():
        return None, False
    if missing.any():
        row = int(np.argmax(missing))
        raise InputError(
            f"{path}: line {lines[row]}: arrival is missing but {int((~missing).sum())} other "
            "rows have one; give an arrival in every row or leave the column out"
        )
    if column.dtype.kind in "iuf":
        return _relative(path, column.to_numpy(dtype=np.float64), column, lines), False
    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.notna().all():
        return _relative(path, numbers.to_numpy(dtype=np.float64), column, lines), False
    text = column.astype(str).str.strip()
    naive = ~text.str.contains(_OFFSET, regex=True).to_numpy(dtype=np.bool_)
    mixed = numbers.notna().to_numpy()
    stamps = pd.to_datetime(text, utc=True, errors="coerce", format="ISO8601")
    wrong = stamps.isna().to_numpy() & ~mixed
    if mixed.any() and not wrong.any():
        row = int(np.argmax(mixed))
        raise InputError(
            f"{path}: line {lines[row]}: arrival {text.iloc[row]!r} is a number but other rows "
            "have calendar times; use one form throughout"
        )
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{path}: line {lines[row]}: arrival {text.iloc[row]!r} is no time; {_FIX}, "
            "or seconds since the start of the trace"
        )
    if naive.any():
        row = int(np.argmax(naive))
        raise InputError(
            f"{path}: line {lines[row]}: arrival {text.iloc[row]!r} has no offset to UTC; {_FIX}"
        )
    microseconds = stamps.dt.tz_localize(None).to_numpy(dtype="datetime64[us]").astype(np.int64)
    since_epoch = microseconds / 1e6
    outside = ~((since_epoch >= 0) & (since_epoch <= MAX_UNIX_S))
    if outside.any():
        row = int(np.argmax(outside))
        raise InputError(
            f"{path}: line {lines[row]}: arrival {text.iloc[row]!r} does not lie between 1970 and "
            "2100; mend the year"
        )
    return since_epoch, True


def _relative(path: Path, seconds: Floats, column: pd.Series[Any], lines: Ints) -> Floats:
    bad = ~((seconds >= 0) & (seconds <= MAX_TRACE_S))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{path}: line {lines[row]}: arrival {column.iloc[row]!s} is not a number of seconds "
            f"from 0 to {MAX_TRACE_S:.0f} since the start of the trace; for calendar time {_FIX}"
        )
    return seconds


def unix_seconds(value: object, where: str) -> float:
    """A JSON timestamp as seconds since 1970-01-01 UTC.

    Args:
        value: A number (epoch seconds) or ISO 8601 text with offset.
        where: File and line, for the message.

    Raises:
        InputError: For a naive time, milliseconds, or anything else.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not 0 <= value <= MAX_UNIX_S:
            raise InputError(
                f"{where}: timestamp {value!r} is not in epoch seconds (0 to "
                f"{MAX_UNIX_S:.0f}); divide milliseconds by 1000"
            )
        return float(value)
    if isinstance(value, str):
        text = value.strip()
        try:
            stamp = datetime.fromisoformat(text)
        except ValueError:
            raise InputError(f"{where}: timestamp {value!r} is no time; {_FIX}") from None
        if stamp.tzinfo is None or not re.search(_OFFSET, text):
            raise InputError(f"{where}: timestamp {value!r} has no offset to UTC; {_FIX}")
        return stamp.timestamp()
    raise InputError(f"{where}: timestamp {value!r} is neither a number nor text; {_FIX}")
