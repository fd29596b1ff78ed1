"""Statistics of measured carbon intensity, for the generator and for anyone who checks it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.files import replacing
from carbon_gym.grid.readers import read_grid
from carbon_gym.grid.series import STEP_S, GridSeries, day_start_unix_s, iso_utc
from carbon_gym.grid.statistics import MAX_LAG1, parse_statistics
from carbon_gym.grid.subhourly import subhourly_statistics

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Notice = Literal["own", "electricity-maps", "shipped"]

SCHEMA = 1
_ELECTRICITY_MAPS = (
    "statistics derived from Electricity Maps hourly life-cycle carbon intensity "
    "(https://www.electricitymaps.com), consumption based (flow-traced)"
)
ODBL = (
    "Open Database License (ODbL) v1.0, https://opendatacommons.org/licenses/odbl/1-0/: contains "
    "information from Electricity Maps; these statistics are a derived database and stay under "
    "the ODbL"
)
NOTICES: dict[Notice, tuple[str, str]] = {
    "own": (
        "statistics derived from the files under inputs",
        "that of the files under inputs; state it before passing these statistics on",
    ),
    "electricity-maps": (_ELECTRICITY_MAPS, ODBL),
    "shipped": (
        f"{_ELECTRICITY_MAPS}; movement inside the hour from the 5-minute supply and CO2 of 2021 "
        "that the California ISO publishes (Today's Outlook)",
        ODBL,
    ),
}
"""Source and license line of the result, by where the data comes from."""

_METHOD = (
    "hourly: means of every UTC hour of the years, all zones over the same hours",
    "profile: mean per month and UTC hour of day, pooled over the years",
    "residual: value - profile - (mean of its year - mean of all years); a drift of the level "
    "from year to year is thus not taken for weather",
    "residual_sd, residual_lag1: sd and autocorrelation at 1 h of the residual; "
    "hourly_change_sd: sd of the change from hour to hour of the values themselves",
    "residual_correlation: Pearson correlation of the residuals at the same hour",
    "subhourly: deviation of 5-minute values from the straight lines that join the hourly means "
    "at the middle of the hours, over complete hours between complete hours",
)
_HOUR_S = 3600
_ROWS_PER_HOUR = _HOUR_S // STEP_S
_CELLS = 12 * 24


@dataclass(frozen=True, slots=True)
class _Hours:
    """Hourly means of the years: index of hour since 1970 (n,), year (n,), month x hour (n,)."""

    zones: tuple[str, ...]
    index: Ints
    year: Ints
    cell: Ints
    values: Floats


def calibrate_grid(
    hourly: str | Path | Sequence[str | Path],
    subhourly: str | Path | None,
    years: Sequence[int],
    notice: Notice = "own",
    zones: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Compute the statistics that `generate_grid` reads.

    Args:
        hourly: File or files that `read_grid` reads, at any step; hourly means are used.
        subhourly: A 5-minute file of one zone (`subhourly_statistics`); None: no movement inside
            the hour.
        years: Calendar years (UTC) to use, each complete in the files. Nothing outside them
            enters the result.
        notice: Whose source and license lines the result carries (`NOTICES`).
        zones: Zones to use; None: all.

    Returns:
        JSON-plain, valid for `parse_statistics`. Intensities in gCO2eq/kWh.

    Raises:
        InputError: A fault in a file, or a year that the files do not cover.
    """
    if notice not in NOTICES:
        raise InputError(f"notice {notice!r} is not known; use one of {', '.join(NOTICES)}")
    paths = [hourly] if isinstance(hourly, str | Path) else list(hourly)
    hours = _hours_of_years(read_grid(paths, zones), sorted(set(years)))
    profile = np.stack(
        [_cell_means(hours.values[:, zone], hours.cell) for zone in range(len(hours.zones))], axis=1
    )
    residual = hours.values - profile[hours.cell] - _year_levels(hours)
    source, license_line = NOTICES[notice]
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "label": "DERIVED",
        "source": source,
        "license": license_line,
        "inputs": [input_file(path) for path in (*paths, *([subhourly] if subhourly else []))],
        "years": sorted(set(years)),
        "units": "gCO2eq/kWh, UTC",
        "method": list(_METHOD),
        "subhourly": None if subhourly is None else subhourly_statistics(subhourly),
        "residual_correlation": {
            "zones": list(hours.zones),
            "matrix": _rounded(_correlation(residual), 3),
        },
        "zones": {
            name: _zone(hours, zone, profile[:, zone], residual[:, zone])
            for zone, name in enumerate(hours.zones)
        },
    }
    parse_statistics(content)
    return content


def write_grid_statistics(
    hourly: str | Path | Sequence[str | Path],
    subhourly: str | Path | None,
    years: Sequence[int],
    path: str | Path,
    notice: Notice = "own",
    zones: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write what `calibrate_grid` computes to a JSON file; the same input gives the same bytes.

    The file is written beside its place and then moved, so that a failure leaves nothing half
    done.

    Returns:
        The content.

    Raises:
        InputError: As `calibrate_grid`, or a place that cannot be written.
    """
    content = calibrate_grid(hourly, subhourly, years, notice, zones)
    with replacing(Path(path)) as partial:
        partial.write_text(json_text(content) + "\n", encoding="utf-8", newline="\n")
    return content


def _hours_of_years(series: GridSeries, years: Sequence[int]) -> _Hours:
    if not years:
        raise InputError(f"{series.source}: no year is named; name at least one, like 2021")
    blocks = []
    for year in years:
        if not 1970 <= year <= 9998:
            raise InputError(f"year {year} is not allowed; name a calendar year, like 2021")
        start, stop = (day_start_unix_s(date(y, 1, 1)) for y in (year, year + 1))
        if not series.covers(start, stop):
            raise InputError(
                f"{series.source}: the year {year} is asked for, but the series goes from "
                f"{iso_utc(series.start_unix_s)} to {iso_utc(series.stop_unix_s)}; name years "
                "that lie inside it"
            )
        blocks.append(np.arange(start // _HOUR_S, stop // _HOUR_S))
    index = np.concatenate(blocks)
    rows = (index * _HOUR_S - series.start_unix_s) // STEP_S
    inside = series.values[rows[:, None] + np.arange(_ROWS_PER_HOUR)]
    # Relative to the first row, so that an hourly file's own values come back exactly.
    values = inside[:, 0] + (inside - inside[:, :1]).mean(axis=1)
    month = index.astype("datetime64[h]").astype("datetime64[M]").astype(np.int64)
    return _Hours(series.zones, index, 1970 + month // 12, (month % 12) * 24 + index % 24, values)


def _mean(values: Floats) -> float:
    # fsum is exact, so that the last printed digit does not depend on a machine's summation order.
    return math.fsum(values.tolist()) / len(values)


def _cell_means(values: Floats, cell: Ints) -> Floats:
    order = np.argsort(cell, kind="stable")
    parts = np.split(values[order], np.flatnonzero(np.diff(cell[order])) + 1)
    return np.array([_mean(part) for part in parts])


def _year_levels(hours: _Hours) -> Floats:
    """Mean of each hour's year less the mean of all years, (hours, zones)."""
    levels = np.zeros_like(hours.values)
    for zone in range(len(hours.zones)):
        total = _mean(hours.values[:, zone])
        for year in np.unique(hours.year):
            of_year = hours.year == year
            levels[of_year, zone] = _mean(hours.values[of_year, zone]) - total
    return levels


def _zone(hours: _Hours, zone: int, profile: Floats, residual: Floats) -> dict[str, Any]:
    values = hours.values[:, zone]
    follows = np.diff(hours.index) == 1
    change = np.diff(values)[follows]
    lag1 = _correlation(np.stack([residual[:-1][follows], residual[1:][follows]], axis=1))[0, 1]
    return {
        "annual_mean": {
            str(year): round(_mean(values[hours.year == year]), 1)
            for year in np.unique(hours.year).tolist()
        },
        "mean": round(_mean(values), 1),
        "sd": round(float(values.std()), 2),
        "min": round(float(values.min()), 1),
        "max": round(float(values.max()), 1),
        "hourly_change_sd": round(float(change.std()), 2),
        "residual_sd": round(float(residual.std()), 2),
        "residual_lag1": round(min(max(float(lag1), 0.0), MAX_LAG1), 4),
        "profile": _rounded(profile.reshape(12, 24), 1),
    }


def _correlation(columns: Floats) -> Floats:
    """Correlation of columns; 0 with a column that is constant."""
    centred = columns - columns.mean(axis=0)
    size = np.sqrt((centred**2).sum(axis=0))
    # A constant zone leaves rounding noise, not variation.
    flat = size <= 1e-9 * np.sqrt(len(columns)) * np.maximum(1.0, np.abs(columns).max(axis=0))
    scaled = np.where(flat, 0.0, centred / np.where(flat, 1.0, size))
    matrix = scaled.T @ scaled
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return np.asarray(np.clip(matrix, -1.0, 1.0), dtype=np.float64)


def _rounded(table: Floats, decimals: int) -> list[list[float]]:
    # Adding 0.0 turns -0.0 into 0.0.
    return [[round(value, decimals) + 0.0 for value in row] for row in table.tolist()]


def input_file(path: str | Path) -> dict[str, str]:
    """Name and SHA-256 of a file that statistics are computed from."""
    return {
        "file": Path(path).name,
        "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
    }


def json_text(content: Any, indent: int = 0) -> str:
    """JSON with a list of numbers or names on one line, so that a profile reads as a table."""
    flat = json.dumps(content, ensure_ascii=False)
    if not isinstance(content, dict | list) or not content:
        return flat
    inner, end = "  " * (indent + 1), "  " * indent
    if isinstance(content, dict):
        items = [
            f"{inner}{json.dumps(key)}: {json_text(content[key], indent + 1)}" for key in content
        ]
        return "{\n" + ",\n".join(items) + f"\n{end}}}"
    if len(flat) < 300 and not any(isinstance(item, list | dict) for item in content):
        return flat
    return "[\n" + ",\n".join(inner + json_text(item, indent + 1) for item in content) + f"\n{end}]"
