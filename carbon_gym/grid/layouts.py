"""The layouts of grid files: wide and long CSV, and the Electricity Maps export."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.csv_table import Table
from carbon_gym.grid.times import TimeColumn, find_time_column, read_times, time_columns

MAX_INTENSITY_G_PER_KWH = 5000.0
"""Largest value taken for a carbon intensity, gCO2eq/kWh (ASSUMED: four times the dirtiest coal
plants, so that g/MWh or a meter reading in the column is noticed)."""


LONG_VALUE_COLUMNS = frozenset(
    {"ci_g_per_kwh", "carbon_intensity", "carbon_intensity_g_per_kwh", "intensity", "value"}
)
"""Names of the column of intensities in a long file, whatever the case."""


@dataclass(frozen=True, slots=True)
class Published:
    """What one file publishes for one zone.

    Attributes:
        zone: Zone code.
        path: The file as the user named it.
        unix_s: int64 (n,), seconds since 1970-01-01 UTC, in the order of the file.
        values: float64 (n,), gCO2eq/kWh, checked.
        lines: int64 (n,), line number in the file, header = 1; or the number of the entry.
        counted: What `lines` counts: "row" or "entry".
    """

    zone: str
    path: str
    unix_s: NDArray[np.int64]
    values: NDArray[np.float64]
    lines: NDArray[np.int64]
    counted: str = "row"


@dataclass(frozen=True, slots=True)
class WideFile:
    """`datetime_utc` and one column per zone, gCO2eq/kWh."""

    table: Table
    time: TimeColumn
    columns: dict[str, int]
    layout: str = "wide CSV"

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones of the file."""
        return tuple(self.columns)

    def published(self, zones: Collection[str], *, skip_empty: bool = False) -> list[Published]:
        """Values of those of `zones` that the file has; other columns are not read.

        Args:
            zones: Their codes.
            skip_empty: Take an empty cell for a row that is missing, instead of refusing it.
        """
        wanted = [zone for zone in self.columns if zone in zones]
        if not wanted:
            return []
        unix_s = read_times(self.table, self.time)
        lines = np.array(self.table.lines, np.int64)
        parts = []
        for zone in wanted:
            column = self.columns[zone]
            rows = _filled(self.table, column) if skip_empty else list(range(len(lines)))
            values = _values(self.table, column, zone, rows)
            parts.append(Published(zone, self.table.path, unix_s[rows], values, lines[rows]))
        return parts


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A zone and its intensity in every row: the Electricity Maps export, or a long CSV."""

    table: Table
    time: TimeColumn
    value_column: int
    rows_of: dict[str, list[int]]
    layout: str = "Electricity Maps export, life cycle"

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones of the file (one, as Electricity Maps exports them; more are read as well)."""
        return tuple(self.rows_of)

    def published(self, zones: Collection[str], *, skip_empty: bool = False) -> list[Published]:
        """Values of those of `zones` that the file has; other rows are not read.

        Args:
            zones: Their codes.
            skip_empty: Take an empty cell for a row that is missing, instead of refusing it.
        """
        parts = []
        for zone, rows in self.rows_of.items():
            if zone not in zones:
                continue
            if skip_empty:
                rows = _filled(self.table, self.value_column, rows)
            parts.append(
                Published(
                    zone,
                    self.table.path,
                    read_times(self.table, self.time, rows),
                    _values(self.table, self.value_column, zone, rows),
                    np.array([self.table.lines[row] for row in rows], np.int64),
                )
            )
        return parts


def layout_of(table: Table, time: TimeColumn | None = None) -> WideFile | ExportFile:
    """Tell the layout of a file from its header.

    The export is known by its columns for the zone id and the carbon intensity. Electricity Maps
    has spelt them in several ways (``Zone Id``, ``Zone id``; ``Carbon Intensity gCO₂eq/kWh
    (LCA)``, ``Carbon intensity gCO₂eq/kWh (Life cycle)``, ``... (life cycle assessment)``); case
    and punctuation do not matter here. The life-cycle column is taken, never the direct one.
    A long file has a column called ``zone`` and one of intensities, `LONG_VALUE_COLUMNS`.

    Args:
        table: The file.
        time: Its time column; None: found by name.

    Raises:
        InputError: No time column, no zone column, a column twice, an export without its zone id
            or life-cycle column, or a long file with two columns of intensities.
    """
    time = time or find_time_column(table)
    plain = [" ".join(re.findall(r"[a-z0-9₂]+", name.lower())) for name in table.header]
    values = [i for i, name in enumerate(plain) if name.replace(" ", "_") in LONG_VALUE_COLUMNS]
    if "zone" in plain and values:
        return _long(table, time, plain.index("zone"), values)
    intensities = [i for i, name in enumerate(plain) if name.startswith("carbon intensity")]
    zone_ids = [i for i, name in enumerate(plain) if name == "zone id"]
    if not intensities and not zone_ids:
        return WideFile(table, time, _wide_columns(table))
    life_cycle = [i for i in intensities if re.search(r"\b(life ?cycle|lca)\b", plain[i])]
    if not life_cycle:
        _refuse(table, "life-cycle column", "Carbon intensity gCO₂eq/kWh (Life cycle)")
    if not zone_ids:
        _refuse(table, "zone column", "Zone id")
    return ExportFile(table, time, life_cycle[0], _rows_of(table, zone_ids[0], "zone id"))


def _long(table: Table, time: TimeColumn, zone: int, values: Sequence[int]) -> ExportFile:
    if len(values) > 1:
        found = " and ".join(repr(table.header[i]) for i in values)
        raise InputError(
            f"{table.path}, row 1: beside {table.header[zone]!r} there are {found}; keep one "
            "column of intensities"
        )
    return ExportFile(table, time, values[0], _rows_of(table, zone, "zone"), "long CSV")


def _rows_of(table: Table, column: int, name: str) -> dict[str, list[int]]:
    rows_of: dict[str, list[int]] = {}
    for index, cell in enumerate(table.cells(column)):
        rows_of.setdefault(cell.strip(), []).append(index)
    if "" in rows_of:
        raise InputError(
            f"{table.path}, row {table.lines[rows_of[''][0]]}: the {name} is empty; "
            "fill it in, like DE or US-CAL-CISO"
        )
    return rows_of


def _wide_columns(table: Table) -> dict[str, int]:
    times = {column.index for column in time_columns(table.header)}
    columns: dict[str, int] = {}
    for index, name in enumerate(table.header):
        # A column without a name is the row number that some tools write.
        if index in times or not name:
            continue
        if name in columns:
            raise InputError(f"{table.path}, row 1: column {name!r} is there twice; keep one")
        columns[name] = index
    if not columns:
        raise InputError(
            f"{table.path}, row 1: there is no zone column beside {table.header[min(times)]!r}; "
            "add one per zone, named by its code such as DE, in gCO2eq/kWh"
        )
    return columns


def _refuse(table: Table, what: str, name: str) -> None:
    near = difflib.get_close_matches(name, table.header, n=1, cutoff=0.5)
    nearest = f" (nearest: {near[0]!r})" if near else ""
    raise InputError(
        f"{table.path}, row 1: this looks like an Electricity Maps export, but its {what} is "
        f"missing{nearest}; give the export with {name!r}"
    )


def _filled(table: Table, column: int, rows: Sequence[int] | None = None) -> list[int]:
    """Those of the rows whose cell is not empty."""
    numbers = range(len(table.rows)) if rows is None else rows
    return [row for row in numbers if table.rows[row][column].strip()]


def _values(
    table: Table, column: int, zone: str, rows: Sequence[int] | None = None
) -> NDArray[np.float64]:
    """Checked values of one zone, gCO2eq/kWh; `InputError` names the first row that is not one."""
    cells = table.cells(column, rows)
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        values = np.array([_number(cell) for cell in cells], np.float64)
    # Python and numpy read "1_000" as a number; in a data file it is a slip.
    suspect = "_" in "".join(cells)
    wrong = not_an_intensity(values)
    if suspect:
        wrong |= np.array(["_" in cell for cell in cells])
    if not wrong.any():
        return values
    index = int(np.argmax(wrong))
    cell, value = cells[index].strip(), float(values[index])
    line = table.lines[index if rows is None else rows[index]]
    raise InputError(f"{table.path}, row {line}: {zone} {fault_of(cell, value)}")


def not_an_intensity(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values are no carbon intensity: not finite, negative, or above the largest."""
    return ~((values >= 0) & (values <= MAX_INTENSITY_G_PER_KWH))


def fault_of(cell: str, value: float) -> str:
    """What is wrong with a cell that is no carbon intensity, and the fix."""
    if not cell:
        return "is empty; fill the cell in with gCO2eq/kWh, or cut the file before that row"
    if math.isnan(value) or "_" in cell:
        return f"is {cell!r}, which is not a number; give gCO2eq/kWh, like 231.5"
    if value < 0:
        return f"is {cell}, which is negative; a carbon intensity is 0 or more gCO2eq/kWh"
    return (
        f"is {cell}, which is above {MAX_INTENSITY_G_PER_KWH:.0f} gCO2eq/kWh; "
        "check the unit of the column"
    )


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
