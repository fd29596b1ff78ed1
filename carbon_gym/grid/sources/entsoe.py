"""ENTSO-E's transparency platform: actual generation per production type, 15 to 60 minutes.

Three tables: the export of the former site (a column for each type), that of the present one (a row
for each type), and the monthly files of the file library (tabs or commas).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
_TIMES = ("%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M")
_EXAMPLE = "31/01/2025 13:00:00 - 31/01/2025 14:00:00"


def matches(content: Content) -> bool:
    """Whether this is one of the three tables."""
    names = content.header
    if any(_OLD.match(name) for name in names):
        return True
    return "productiontype" in names or (
        "production type" in names and any(name.startswith("mtu") for name in names)
    )


def published(contents: Sequence[Content]) -> list[Published]:
    """Intensity of the areas of all files, by their short codes."""
    parts: list[Published] = []
    for content in contents:
        rows = _old(content) if any(map(_OLD.match, content.header)) else _by_row(content)
        parts += intensity_of(rows, content.path)
    return parts


def _old(content: Content) -> Iterator[Generation]:
    table = content.sheet
    columns: dict[int, tuple[str, str]] = {}
    for index, name in enumerate(content.header):
        found = _OLD.match(name)
        if found:
            columns[index] = (found[1], _fuel(found[1], f"{content.path}, row 1"))
    area = content.column("area")
    times = _times(content, None)
    for row, at in enumerate(times.tolist()):
        zone = _area(table.rows[row][area] if area is not None else "", content.place(row))
        for column, (kind, fuel) in columns.items():
            place = f"{content.place(row)}: {table.header[column]}"
            mw = _power(table.rows[row][column], place)
            yield Generation(zone, at, fuel, kind, mw, table.lines[row])


def _by_row(content: Content) -> Iterator[Generation]:
    table = content.sheet
    kind = content.column("production type", "productiontype")
    power = content.column(
        "generation (mw)",
        "actual generation (mw)",
        "actualgenerationoutput[mw]",
        "actualgenerationoutput",
    )
    area = content.column("areamapcode", "mapcode", "area", "areadisplayname", "areaname")
    if kind is None or power is None or area is None:
        raise InputError(
            f"{content.path}, row 1: columns of the area, the production type and the generation "
            "in MW are needed; give the table as the platform exports it"
        )
    rows = _rows_of_countries(content)
    times = _times(content, rows)
    for row, at in zip(rows, times.tolist(), strict=True):
        cells, place = table.rows[row], content.place(row)
        name = cells[kind].strip().lower()
        zone = _area(cells[area], place)
        mw = _power(cells[power], f"{place}: {table.header[power]}")
        yield Generation(zone, at, _fuel(name, place), name, mw, table.lines[row])


def _rows_of_countries(content: Content) -> list[int]:
    """Rows of whole countries where the file also has bidding zones and control areas."""
    rows = list(range(len(content.sheet.rows)))
    column = content.column("areatypecode")
    if column is None:
        return rows
    types = [cell.strip().upper() for cell in content.sheet.cells(column)]
    countries = [row for row in rows if types[row] in ("CTY", "COUNTRY")]
    return countries or rows


def _times(content: Content, rows: Sequence[int] | None) -> NDArray[np.int64]:
    """Start of each interval, from a column that says its time zone, or whose cells do."""
    table = content.sheet
    names = content.header
    column = next((i for i, name in enumerate(names) if name.startswith(("mtu", "datetime"))), None)
    if column is None:
        raise InputError(f"{content.path}, row 1: there is no column 'MTU (UTC)'; export it too")
    cells = table.cells(column, rows)
    chosen = range(len(table.rows)) if rows is None else rows
    starts = [re.sub(r"\(.*\)", "", cell.split(" - ")[0]).strip() for cell in cells]
    said = names[column] + " " + (cells[0] if cells else "")

    def place(index: int) -> str:
        return content.place(chosen[index])

    if re.search(r"\butc\b", said, re.IGNORECASE) or "updatetime" in "".join(names):
        return instants(starts, place, table.header[column], UTC, _TIMES, _EXAMPLE)
    if re.search(r"\bcet\b", said, re.IGNORECASE):
        # The repeated hour is told by the order of the rows, which a table by type does not have.
        if rows is not None:
            raise InputError(
                f"{content.path}, row 1: the times are local ({table.header[column]}); export the "
                "table in UTC"
            )
        return local_instants(
            starts, place, table.header[column], "Europe/Brussels", _TIMES, _EXAMPLE
        )
    raise InputError(
        f"{content.path}, row 1: the column {table.header[column]!r} does not say its time zone; "
        "export the table in UTC"
    )


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
