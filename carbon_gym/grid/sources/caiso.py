"""California's system operator CAISO: the daily 5-minute files of Today's Outlook.

Two files a day, `CAISO-co2-20210101.csv` (t/h by resource) and `CAISO-supply-20210101.csv` (MW by
source, imports included), whose times are Pacific wall-clock time and whose day stands in their
names; or one file that somebody made of them, with a column of Pacific times and one of gCO2/kWh.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.sources.content import Content, number, part_of, series_in
from carbon_gym.grid.sources.local_time import local_instants

ZONE = "US-CAL-CISO"
"""Electricity Maps' code of CAISO, that of the default fleet."""
_CLOCK = "America/Los_Angeles"
_LOCAL = "pacific"
_DAY = re.compile(r"(20\d\d)-?([01]\d)-?([0-3]\d)")


def matches(content: Content) -> bool:
    """Whether this is one of the two daily files, or a series by Pacific time."""
    return _is_co2(content) or _is_supply(content) or _is_series(content)


def published(contents: Sequence[Content]) -> list[Published]:
    """Intensity: CO2 over supply, of the days for which both files are given."""
    series = [content for content in contents if _is_series(content)]
    parts = [_series(content) for content in series]
    co2 = _by_day([content for content in contents if _is_co2(content)])
    supply = _by_day([content for content in contents if _is_supply(content)])
    for day in sorted({*co2, *supply}):
        if day not in co2 or day not in supply:
            there, missing = (co2, "supply") if day in co2 else (supply, "CO2")
            raise InputError(
                f"{there[day].path}: the {missing} of {day} is missing; give both files of a day"
            )
        parts.append(_ratio(co2[day], supply[day], day))
    return parts


def _is_co2(content: Content) -> bool:
    return "time" in content.header and "imports co2" in content.header


def _is_supply(content: Content) -> bool:
    return {"time", "solar", "natural gas", "imports"} <= set(content.header)


def _is_series(content: Content) -> bool:
    return any(_LOCAL in name for name in content.header)


def _by_day(contents: Sequence[Content]) -> dict[str, Content]:
    days: dict[str, Content] = {}
    for content in contents:
        found = _DAY.search(content.name)
        if found is None:
            raise InputError(
                f"{content.path}: the name does not say the day; call it like "
                "CAISO-co2-20210131.csv, as CAISO does"
            )
        day = "-".join(found.groups())
        if day in days:
            raise InputError(f"{content.path}: {days[day].path} is of the same day; keep one")
        days[day] = content
    return days


def _ratio(co2: Content, supply: Content, day: str) -> Published:
    tonnes_per_h, power_mw = _sums(co2, day), _sums(supply, day)
    rows = []
    for at, (tonnes, row) in tonnes_per_h.items():
        # t/h over MW is t/MWh; 1,000 g/kWh each. What is exported may be credited with more than
        # all the rest emits.
        if at in power_mw and power_mw[at][0] > 0:
            rows.append((at, max(1000 * tonnes / power_mw[at][0], 0.0), co2.sheet.lines[row]))
    if not rows:
        raise InputError(
            f"{co2.path}: has no time in common with {supply.path}; give both files of {day}"
        )
    return part_of(ZONE, co2.path, rows)


def _sums(content: Content, day: str) -> dict[int, tuple[float, int]]:
    """Sum over the columns of each row that has all of them, by time.

    A column that is empty all day is left out; a cell that is empty in another makes a hole.
    """
    table = content.sheet
    time = content.column("time")
    assert time is not None
    columns = [
        index
        for index, name in enumerate(table.header)
        if index != time and name and any(cell.strip() for cell in table.cells(index))
    ]
    filled = [
        row
        for row, cells in enumerate(table.rows)
        if columns and all(cells[column].strip() for column in columns)
    ]
    # The last row of a day is the midnight of the next one.
    filled = [row for row in filled if row == 0 or table.rows[row][time].strip() != "00:00"]
    times = local_instants(
        [f"{day}T{table.rows[row][time].strip()}" for row in filled],
        lambda index: content.place(filled[index]),
        table.header[time],
        _CLOCK,
        example=f"{day}T13:05",
    )
    sums: dict[int, tuple[float, int]] = {}
    for at, row in zip(times.tolist(), filled, strict=True):
        total = sum(
            number(table.rows[row][column], f"{content.place(row)}: {table.header[column]}")
            for column in columns
        )
        if at in sums and sums[at][0] != total:
            raise InputError(
                f"{content.place(row)}: the time {table.rows[row][time].strip()!r} is there twice, "
                f"with {total:g} in all and, in row {table.lines[sums[at][1]]}, {sums[at][0]:g}; "
                "keep one of the two"
            )
        sums.setdefault(at, (total, row))
    return sums


def _series(content: Content) -> Published:
    table = content.sheet
    time = next(index for index, name in enumerate(content.header) if _LOCAL in name)
    others = [index for index, name in enumerate(table.header) if index != time and name]
    if len(others) != 1:
        raise InputError(
            f"{content.path}, row 1: beside {table.header[time]!r} there are {len(others)} "
            "columns; give one, of gCO2/kWh"
        )

    def times_of(cells: list[str], place: Callable[[int], str], name: str) -> NDArray[np.int64]:
        return local_instants(cells, place, name, _CLOCK)

    return part_of(ZONE, content.path, series_in(content, time, others[0], times_of))
