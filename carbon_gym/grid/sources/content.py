"""What a grid file holds before it is known whose it is: a table or JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.csv_table import Table, read_text, table_in
from carbon_gym.grid.layouts import Published, fault_of, not_an_intensity
from carbon_gym.grid.times import unix_s_on_clock

NAMELESS = ""
"""Zone of a file that does not say which it is of; the user names it."""
_THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(,\d{3})+(\.\d*)?\s*")


@dataclass(frozen=True, slots=True)
class Content:
    """One file.

    Attributes:
        path: As the user named it.
        table: Its rows; None: it is JSON.
        data: The JSON; None: it is a table.
    """

    path: str
    table: Table | None
    data: Any = None

    @property
    def name(self) -> str:
        """Name of the file, without its folder."""
        return Path(self.path).name

    @property
    def counted(self) -> str:
        """What the places in errors count."""
        return "entry" if self.table is None else "row"

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns, in lower case; none of JSON."""
        return () if self.table is None else tuple(name.lower() for name in self.table.header)

    def column(self, *names: str) -> int | None:
        """Number of the first of these columns (in lower case) that is there."""
        for name in names:
            if name in self.header:
                return self.header.index(name)
        return None

    @property
    def sheet(self) -> Table:
        """The table of a file that is one."""
        if self.table is None:
            raise InputError(f"{self.path}: is JSON; give the CSV file")
        return self.table

    def place(self, row: int) -> str:
        """File and row of a table, for errors."""
        return f"{self.path}, row {self.sheet.lines[row]}"


def read_content(path: str | Path) -> Content:
    """Read a file, plain or gzip: CSV, tabs between columns, or JSON, told by its first character.

    Raises:
        InputError: It cannot be read as any of them.
    """
    shown = str(path)
    text = read_text(path)
    if text.lstrip()[0] in "{[":
        try:
            return Content(shown, None, json.loads(text))
        except (ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None)
            where = shown if line is None else f"{shown}, row {line}"
            raise InputError(f"{where}: is not valid JSON; fetch the file again") from None
    first = text.partition("\n")[0]
    tabs = "\t" in first and "," not in first
    return Content(shown, table_in(shown, text, "\t" if tabs else ","))


def instant(
    cell: str, found: str, formats: Sequence[str], zone: tzinfo | None, example: str
) -> datetime:
    """A time with its offset.

    Args:
        cell: Its text: ISO 8601, or one of `formats`.
        found: Place and name of it, as an error begins.
        formats: As of `datetime.strptime`.
        zone: Of a time without offset; None: it must have one.
        example: A time as it should be.

    Raises:
        InputError: It is none, or lacks its offset.
    """
    text = cell.strip()
    moment = None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        for form in formats:
            try:
                moment = datetime.strptime(text, form)
                break
            except ValueError:
                continue
    if moment is None:
        raise InputError(f"{found} is {cell!r}, which is not a time; write it like {example}")
    if moment.tzinfo is None:
        if zone is None:
            raise InputError(f"{found} is {cell!r}, a time without offset; add it, like {example}")
        moment = moment.replace(tzinfo=zone)
    return moment


def instants(
    cells: Sequence[str],
    place: Callable[[int], str],
    name: str,
    zone: tzinfo | None,
    formats: Sequence[str] = (),
    example: str = "2021-01-31T13:00Z",
) -> NDArray[np.int64]:
    """Times as seconds since 1970-01-01 UTC, multiples of 300; `InputError` names the first fault.

    Args:
        cells: Their texts; one that comes again is read once.
        place: File and row of each, by its number.
        name: Of the column.
        zone: Of a time without offset; None: it must have one.
        formats: Beside ISO 8601, as of `datetime.strptime`.
        example: A time as it should be.
    """
    known: dict[str, int] = {}
    for number, cell in enumerate(cells):
        if cell not in known:
            found = f"{place(number)}: {name}"
            moment = instant(cell, found, formats, zone, example)
            known[cell] = unix_s_on_clock(moment, f"{found} is {cell!r}")
    return np.array([known[cell] for cell in cells], np.int64)


def number(text: str, found: str) -> float:
    """A finite number, with commas between thousands or without; never a decimal comma.

    Args:
        text: As it stands in the file.
        found: Place and name of it, as an error begins.

    Raises:
        InputError: It is none.
    """
    if "," in text:
        if not _THOUSANDS.fullmatch(text):
            raise InputError(
                f"{found} is {text!r}, which is not a number; write a point before decimals, and "
                "commas only between thousands"
            )
        text = text.replace(",", "")
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{found} is {text!r}, which is not a number; mend that cell")
    return value


def series_in(
    content: Content,
    time: int,
    value: int,
    times_of: Callable[[list[str], Callable[[int], str], str], NDArray[np.int64]],
) -> list[tuple[int, float, int]]:
    """Time, number and line of every row of a table whose number is not missing.

    Args:
        content: The table.
        time: Column of the times.
        value: Column of the numbers.
        times_of: Seconds since 1970-01-01 UTC of texts, with the place of each and their name.

    Raises:
        InputError: A time or a number that is none.
    """
    table = content.sheet
    rows = [row for row, cell in enumerate(table.cells(value)) if cell.strip()]
    times = times_of(
        table.cells(time, rows), lambda index: content.place(rows[index]), table.header[time]
    )
    name = table.header[value]
    numbers = [number(table.rows[row][value], f"{content.place(row)}: {name}") for row in rows]
    return list(zip(times.tolist(), numbers, [table.lines[row] for row in rows], strict=True))


def in_utc(cells: list[str], place: Callable[[int], str], name: str) -> NDArray[np.int64]:
    """`instants` of a column that is documented as UTC, with offset or without."""
    return instants(cells, place, name, UTC)


def part_of(
    zone: str,
    path: str,
    rows: Sequence[tuple[int, float, int]],
    counted: str = "row",
) -> Published:
    """What a file publishes for a zone, checked.

    Args:
        zone: Its code.
        path: Of the file.
        rows: Seconds since 1970-01-01 UTC, gCO2eq/kWh, and the number of the row or entry.
        counted: What the numbers count.

    Raises:
        InputError: A value that is no carbon intensity.
    """
    unix_s = np.array([row[0] for row in rows], np.int64)
    values = np.array([row[1] for row in rows], np.float64)
    lines = np.array([row[2] for row in rows], np.int64)
    wrong = not_an_intensity(values)
    if wrong.any():
        first = int(np.argmax(wrong))
        value = float(values[first])
        raise InputError(
            f"{path}, {counted} {lines[first]}: {zone or 'the carbon intensity'} "
            f"{fault_of(f'{value:g}', value)}"
        )
    return Published(zone, path, unix_s, values, lines, counted)


def entries_at(content: Content, *keys: str) -> list[dict[str, Any]]:
    """The list of mappings below some keys of a JSON file.

    Raises:
        InputError: There is none, it is empty, or it holds something else.
    """
    where, data = content.path, content.data
    for key in keys:
        if not isinstance(data, dict) or key not in data:
            raise InputError(f"{where}: the key {key!r} is missing; give the whole answer")
        data = data[key]
        where = f"{where}, {key}"
    return mappings_in(data, where)


def mappings_in(data: object, where: str) -> list[dict[str, Any]]:
    """A list of mappings; `InputError` where it is something else, or empty."""
    if not isinstance(data, list) or not data:
        raise InputError(f"{where}: a list of entries is needed; give the whole answer")
    for index, entry in enumerate(data, 1):
        if not isinstance(entry, dict):
            raise InputError(f"{where}, entry {index}: is no mapping; fetch the file again")
    return data


def text_at(entry: dict[str, Any], key: str, place: str) -> str:
    """A text of an entry; `InputError` where it is missing or something else."""
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{place}: {key!r} is {_shown(value)}; a text is needed, mend that entry")
    return value.strip()


def number_at(entry: dict[str, Any], key: str, place: str) -> float | None:
    """A finite number of an entry, also as a text; None where it is null or missing."""
    value = entry.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return number(value, f"{place}: {key!r}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{place}: {key!r} is {_shown(value)}, which is not a number; mend it")
    # A whole number may be too large for a float.
    if not abs(value) < 1e15:
        raise InputError(f"{place}: {key!r} is too large or not a number; mend it")
    return float(value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
