"""Annual means of whole countries, and their span (paper §2.1): what regions offer a router.

The span depends on which countries are compared. Two lists are kept, both by a rule that knows no
intensity: every country or area that has one mean for the whole of it (a zone code without a
hyphen), and those among them in which a large cloud operator has a data centre (the list of Google
Cloud's regions), since a router can only move work to where data centres are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carbon_gym.errors import InputError
from carbon_gym.files import replacing
from carbon_gym.grid.calibrate import ODBL, SCHEMA, input_file, json_text
from carbon_gym.grid.csv_table import Table, read_table
from carbon_gym.resources import packaged

PACKAGED = "annual/electricitymaps_2024.json"
_SOURCE = (
    "annual means of Electricity Maps (https://www.electricitymaps.com), life cycle, consumption "
    "based, as published by thegreenwebfoundation/co2.js; data-centre countries from the regions "
    "of Google Cloud listed by umassos/decarbonization-potential (Apache-2.0)"
)
_METHOD = (
    "zones: all of the year whose code has no hyphen, i.e. that are a whole country or area",
    "with_data_centre: those of them that are the first part of the zone of a cloud region "
    "(AUS stands for AU)",
)
_OTHER_NAMES = {"AUS": "AU"}
"""Country codes of the list of cloud regions that are not those of the means."""


@dataclass(frozen=True, slots=True)
class AnnualMeans:
    """Mean intensity of whole countries and areas in one year.

    Attributes:
        year: Calendar year.
        name: Zone code to name of the country or area.
        g_per_kwh: Zone code to mean, gCO2eq/kWh.
        with_data_centre: Zone codes of those in which the cloud operator has a region.
        source: One line.
    """

    year: int
    name: dict[str, str]
    g_per_kwh: dict[str, float]
    with_data_centre: tuple[str, ...]
    source: str

    def span(self, zones: tuple[str, ...] | None = None) -> float:
        """Largest over smallest mean of some zones; None: of all."""
        means = [self.g_per_kwh[zone] for zone in zones or tuple(self.g_per_kwh)]
        return max(means) / min(means)


def load_annual_means(path: str | Path | None = None) -> AnnualMeans:
    """The packaged annual means, or those of a file of `write_annual_means`."""
    content = json.loads(Path(path or packaged(PACKAGED)).read_text(encoding="utf-8"))
    return AnnualMeans(
        year=content["year"],
        name={zone: name for zone, name, _ in content["zones"]},
        g_per_kwh={zone: float(mean) for zone, _, mean in content["zones"]},
        with_data_centre=tuple(content["with_data_centre"]),
        source=content["source"],
    )


def annual_means(means: str | Path, cloud_regions: str | Path, year: int) -> dict[str, Any]:
    """Choose the whole countries and areas of a table of annual means.

    Args:
        means: CSV with the columns ``zone``, ``zone_name``, ``year`` and ``ci_g_per_kwh``.
        cloud_regions: CSV with the column ``em_zone``: the zone of each region of a cloud.
        year: Calendar year.

    Returns:
        JSON-plain, as `load_annual_means` reads it; gCO2eq/kWh.

    Raises:
        InputError: A fault in a file, or a year that it does not have.
    """
    table = read_table(means)
    columns = ("zone", "zone_name", "year", "ci_g_per_kwh")
    cells = zip(*(_column(table, name) for name in columns), table.lines, strict=True)
    zones = [
        [zone, name, _intensity(table, line, mean)]
        for zone, name, of_year, mean, line in cells
        if of_year == str(year) and "-" not in zone
    ]
    if not zones:
        raise InputError(
            f"{table.path}: has no whole country of the year {year}; name one that is there: "
            f"{', '.join(sorted(set(_column(table, 'year'))))}"
        )
    parts = {zone.partition("-")[0] for zone in _column(read_table(cloud_regions), "em_zone")}
    there = {_OTHER_NAMES.get(part, part) for part in parts}
    return {
        "schema": SCHEMA,
        "label": "PUBLISHED; the choice of zones is ASSUMED",
        "source": _SOURCE,
        "license": ODBL,
        "inputs": [input_file(means), input_file(cloud_regions)],
        "year": year,
        "units": "gCO2eq/kWh",
        "method": list(_METHOD),
        "with_data_centre": [zone for zone, _, _ in zones if zone in there],
        "zones": zones,
    }


def write_annual_means(
    means: str | Path, cloud_regions: str | Path, year: int, path: str | Path
) -> dict[str, Any]:
    """Write what `annual_means` chooses to a JSON file; the same input gives the same bytes.

    Returns:
        The content.

    Raises:
        InputError: As `annual_means`, or a place that cannot be written.
    """
    content = annual_means(means, cloud_regions, year)
    with replacing(Path(path)) as partial:
        partial.write_text(json_text(content) + "\n", encoding="utf-8", newline="\n")
    return content


def _column(table: Table, name: str) -> list[str]:
    if name not in table.header:
        raise InputError(
            f"{table.path}, row 1: has no column {name}; found {', '.join(table.header)}"
        )
    return table.cells(table.header.index(name))


def _intensity(table: Table, line: int, text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise InputError(
            f"{table.path}, row {line}: ci_g_per_kwh {text!r} is not a positive number; mend it"
        )
    return int(value) if value.is_integer() else value
