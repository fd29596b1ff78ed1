"""ENTSO-E's transparency platform: actual generation per production type, 15 to 60 minutes.

Three tables: the export of the former site (a column for each type), that of the present one (a row
for each type), and the monthly files of the file library (tabs or commas).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Sequence
from datetime import UTC

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.sources.content import Content, instants, number
from carbon_gym.grid.sources.fuels import STORAGE, Generation, intensity_of
from carbon_gym.grid.sources.local_time import local_instants

FUEL_OF_TYPE = {
    "biomass": "biomass",
    "energy storage": STORAGE,
    "fossil brown coal/lignite": "coal",
    "fossil coal-derived gas": "gas",
    "fossil gas": "gas",
    "fossil hard coal": "coal",
    "fossil oil": "oil",
    "fossil oil shale": "oil",
    "fossil peat": "coal",
    "geothermal": "geothermal",
    "hydro pumped storage": STORAGE,
    "hydro run-of-river and poundage": "hydro",
    "hydro run-of-river and pondage": "hydro",
    "hydro water reservoir": "hydro",
    "marine": "marine",
    "nuclear": "nuclear",
    "other": "other",
    "other renewable": "biomass",
    "solar": "solar",
    "waste": "other",
    "wind offshore": "wind",
    "wind onshore": "wind",
}
"""Fuel of each production type (which fuel stands for peat, oil shale, waste and other renewable is
ASSUMED)."""
_NOTHING = frozenset({"", "-", "n/e", "n/a"})
_OLD = re.compile(r"(.+?)\s+- actual aggregated \[mw\]$")
_TIMES = tuple(
    form + offset
    for form in ("%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M")
    for offset in ("", "%z")
)
_EXAMPLE = "31/01/2025 13:00:00 - 31/01/2025 14:00:00"
_POWER = (
    "generation (mw)",
    "generation [mw]",
    "actual generation (mw)",
    "actualgenerationoutput[mw]",
    "actualgenerationoutput(mw)",
    "actualgenerationoutput",
)
_AREA_TYPES = ("CTY", "BZN", "CTA")
"""Of an area that a file has as several: the first of these is read."""
_OFFSETS = {"(CEST)": "+02:00", "(CET)": "+01:00", "(UTC)": "+00:00"}
"""What the present site writes after a local time of a day on which the clock is set."""


def matches(content: Content) -> bool:
    """Whether this is one of the three tables."""
    names = content.header
    if any(_OLD.match(name) for name in names):
        return True
    return "productiontype" in names or (
        "production type" in names and any(name.startswith("mtu") for name in names)
    )


def published(
    contents: Sequence[Content], wanted: Collection[str] | None = None
) -> list[Published]:
    """Intensity of the areas of all files, by their short codes."""
    return intensity_of(
        [
            (
                content,
                _old(content) if any(map(_OLD.match, content.header)) else _by_row(content, wanted),
            )
            for content in contents
        ],
        wanted,
    )


def _old(content: Content) -> Iterator[Generation]:
    table = content.sheet
    columns: dict[int, tuple[str, str]] = {}
    for index, name in enumerate(content.header):
        found = _OLD.match(name)
        if found:
            columns[index] = (found[1], _fuel(found[1], f"{content.path}, row 1"))
    area = content.column("area")
    # The day on which the clock is set forward has the hour that it skips, without values.
    rows = [
        row
        for row, cells in enumerate(table.rows)
        if any(cells[column].strip().lower() not in _NOTHING for column in columns)
    ]
    zones = [
        _area(table.rows[row][area] if area is not None else "", content.place(row)) for row in rows
    ]
    times = _times(content, rows, zones)
    for row, zone, at in zip(rows, zones, times.tolist(), strict=True):
        for column, (kind, fuel) in columns.items():
            place = f"{content.place(row)}: {table.header[column]}"
            mw = _power(table.rows[row][column], place)
            yield Generation(zone, at, fuel, kind, mw, table.lines[row])


def _by_row(content: Content, wanted: Collection[str] | None) -> Iterator[Generation]:
    table = content.sheet
    kind = content.column("production type", "productiontype")
    power = content.column(*_POWER)
    area = content.column("areamapcode", "mapcode", "area", "areadisplayname", "areaname")
    if kind is None or power is None or area is None:
        raise InputError(
            f"{content.path}, row 1: columns of the area, the production type and the generation "
            "in MW are needed; give the table as the platform exports it"
        )
    all_zones = [_area(cell, content.place(row)) for row, cell in enumerate(table.cells(area))]
    rows = [
        row
        for row in _rows_once(content, all_zones)
        if (wanted is None or all_zones[row] in wanted)
        and table.rows[row][power].strip().lower() not in _NOTHING
    ]
    kinds = [table.rows[row][kind].strip().lower() for row in rows]
    zones = [all_zones[row] for row in rows]
    times = _times(content, rows, list(zip(zones, kinds, strict=True)))
    for row, zone, name, at in zip(rows, zones, kinds, times.tolist(), strict=True):
        place = content.place(row)
        mw = _power(table.rows[row][power], f"{place}: {table.header[power]}")
        yield Generation(zone, at, _fuel(name, place), name, mw, table.lines[row])


def _rows_once(content: Content, zones: Sequence[str]) -> list[int]:
    """Rows of each area as one type: country, bidding zone, control area, or several in one.

    The file library has an area as ``CTY`` and ``BZN`` in rows of their own, or in one row as
    ``BZN/CTA/CTY``.
    """
    column = content.column("areatypecode")
    if column is None:
        return list(range(len(zones)))
    types = [cell.strip().upper() for cell in content.sheet.cells(column)]
    best: dict[str, str] = {}
    for zone, of_type in zip(zones, types, strict=True):
        if zone not in best or _rank(of_type) < _rank(best[zone]):
            best[zone] = of_type
    return [row for row, zone in enumerate(zones) if types[row] == best[zone]]


def _rank(area_type: str) -> int:
    names = area_type.split("/")
    return next((rank for rank, name in enumerate(_AREA_TYPES) if name in names), len(_AREA_TYPES))


def _times(content: Content, rows: Sequence[int], series: Sequence[Hashable]) -> NDArray[np.int64]:
    """Start of each interval, from a column that says its time zone, or whose cells do.

    Args:
        content: The file.
        rows: Numbers of the rows to read.
        series: What each of them belongs to, in which a local time comes twice only in autumn.
    """
    table = content.sheet
    names = content.header
    column = next((i for i, name in enumerate(names) if name.startswith(("mtu", "datetime"))), None)
    if column is None:
        raise InputError(f"{content.path}, row 1: there is no column 'MTU (UTC)'; export it too")
    cells = table.cells(column, rows)
    starts = [_start(cell) for cell in cells]
    said = names[column] + " " + (cells[0] if cells else "")

    def place(index: int) -> str:
        return content.place(rows[index])

    if re.search(r"\butc\b", said, re.IGNORECASE) or "updatetime" in "".join(names):
        return instants(starts, place, table.header[column], UTC, _TIMES, _EXAMPLE)
    if re.search(r"\bcest?\b", said, re.IGNORECASE):
        return local_instants(
            starts,
            place,
            table.header[column],
            "Europe/Brussels",
            _TIMES,
            _EXAMPLE,
            series,
        )
    raise InputError(
        f"{content.path}, row 1: the column {table.header[column]!r} does not say its time zone; "
        "export the table in UTC"
    )


def _start(cell: str) -> str:
    """First time of an interval, with its offset where it says one."""
    start = cell.split(" - ")[0].strip()
    for name, offset in _OFFSETS.items():
        if start.endswith(name):
            return start.removesuffix(name).rstrip() + offset
    return start


def _area(text: str, place: str) -> str:
    """`DE` of ``Germany (DE)``, ``BZN|DE`` and ``DE``."""
    inside = re.search(r"\(([^()]+)\)\s*$", text)
    zone = (inside[1] if inside else text).rpartition("|")[2].strip()
    if not zone:
        raise InputError(f"{place}: the area is empty; fill it in")
    return zone


def _fuel(kind: str, place: str) -> str:
    if kind not in FUEL_OF_TYPE:
        raise InputError(
            f"{place}: the production type {kind!r} is not known; it must be one of "
            f"{', '.join(FUEL_OF_TYPE)}"
        )
    return FUEL_OF_TYPE[kind]


def _power(cell: str, found: str) -> float | None:
    text = cell.strip()
    return None if text.lower() in _NOTHING else number(text, found)
