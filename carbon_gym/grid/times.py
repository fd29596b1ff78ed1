"""The time column of a grid file: found by name, read as UTC, never guessed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.csv_table import Table
from carbon_gym.grid.series import STEP_S

_TIME_WORDS = frozenset({"datetime", "timestamp", "time", "date", "utc"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_S = (datetime(2101, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """Where the times of a table are.

    Attributes:
        index: Column number.
        name: Column name.
        says_utc: Whether the name itself says UTC, so that times without an offset are UTC.
    """

    index: int
    name: str
    says_utc: bool


def time_columns(header: Sequence[str]) -> list[TimeColumn]:
    """Columns whose name holds a word for time, those that say UTC first."""
    found = []
    for index, name in enumerate(header):
        words = set(re.split(r"[^a-z0-9]+", name.lower()))
        if words & _TIME_WORDS:
            found.append(TimeColumn(index, name, "utc" in words))
    return sorted(found, key=lambda column: not column.says_utc)


def find_time_column(table: Table) -> TimeColumn:
    """The time column of a table; `InputError` with the nearest name where there is none."""
    found = time_columns(table.header)
    if found:
        return found[0]
    near = difflib.get_close_matches(
        "datetime_utc", [name.lower() for name in table.header], n=1, cutoff=0.6
    )
    nearest = f" (nearest: {near[0]!r})" if near else ""
    raise InputError(
        f"{table.path}, row 1: there is no time column among {', '.join(table.header)}{nearest}; "
        "name it datetime_utc"
    )


def read_times(
    table: Table, column: TimeColumn, rows: Sequence[int] | None = None
) -> NDArray[np.int64]:
    """Times of a column as seconds since 1970-01-01 UTC.

    ISO 8601 with ``Z`` or an offset is read in any column. A time without either is read as UTC
    only where the column's name says UTC.

    Args:
        table: The file.
        column: Its time column.
        rows: Indices of the rows wanted; None: all.

    Returns:
        int64 (rows,), multiples of 300.

    Raises:
        InputError: Names the row of a time that is not ISO 8601, has no offset though the
            column does not say UTC, or is off the 5-minute UTC clock.
    """
    cells = table.cells(column.index, rows)
    seconds = np.empty(len(cells), np.int64)
    for index, cell in enumerate(cells):
        moment = _moment(cell)
        if moment is None:
            raise InputError(
                f"{_place(table, rows, index)}: {column.name} is {cell!r}, which is not an "
                "ISO 8601 time; write it like 2021-01-31T13:00Z"
            )
        if moment.tzinfo is None:
            if not column.says_utc:
                raise InputError(
                    f"{_place(table, rows, index)}: {column.name} is {cell!r}, a time without "
                    "offset in a column that does not say UTC; give UTC in a column named "
                    "datetime_utc, or add the offset, like 2021-01-31T13:00-08:00"
                )
            moment = moment.replace(tzinfo=UTC)
        seconds[index] = unix_s_on_clock(
            moment, f"{_place(table, rows, index)}: {column.name} is {cell!r}"
        )
    return seconds


def unix_s_on_clock(moment: datetime, found: str) -> int:
    """Seconds from 1970-01-01 UTC to a time with offset, a multiple of 300.

    Args:
        moment: The time.
        found: Place and text of it, as an error begins.

    Raises:
        InputError: It is off the 5-minute UTC clock, or of no year from 1970 to 2100.
    """
    second = (moment - _EPOCH).total_seconds()
    if not 0 <= second < _LATEST_S:
        raise InputError(f"{found}, which is not in 1970 to 2100; mend the year")
    if second % STEP_S:
        raise InputError(
            f"{found}, which is not on the 5-minute UTC clock; resample the file to a step of "
            "5, 10, 15, 20, 30 or 60 minutes"
        )
    return int(second)


def _moment(cell: str) -> datetime | None:
    text = cell.strip()
    if text.endswith("UTC"):
        text = text.removesuffix("UTC").rstrip() + "+00:00"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _place(table: Table, rows: Sequence[int] | None, index: int) -> str:
    return f"{table.path}, row {table.lines[index if rows is None else rows[index]]}"
