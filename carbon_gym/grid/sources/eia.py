"""US Energy Information Administration, form EIA-930: hourly generation by fuel.

The six-month files of balancing authorities (EIA930_BALANCE_*.csv) and answers of the API's
`electricity/rto/fuel-type-data`, as JSON or CSV. Both name the end of the hour, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.sources.content import (
    Content,
    entries_at,
    instants,
    number,
    number_at,
    text_at,
)
from carbon_gym.grid.sources.fuels import STORAGE, Generation, intensity_of

_HOUR_S = 3600
_TIME = "utc time at end of hour"
_GENERATION = re.compile(r"net generation \(mw\) from ([^(]+?)\s*(\(adjusted\)|\(imputed\))?$")
_TIMES = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%Y-%m-%dT%H")
FUEL_OF_NAME = {
    "coal": "coal",
    "natural gas": "gas",
    "nuclear": "nuclear",
    "all petroleum products": "oil",
    "hydropower and pumped storage": "hydro",
    "hydropower excluding pumped storage": "hydro",
    "pumped storage": STORAGE,
    "solar": "solar",
    "solar without integrated battery storage": "solar",
    "solar with integrated battery storage": "solar",
    "wind": "wind",
    "wind without integrated battery storage": "wind",
    "wind with integrated battery storage": "wind",
    "battery storage": STORAGE,
    "other energy storage": STORAGE,
    "unknown energy storage": STORAGE,
    "geothermal": "geothermal",
    "other fuel sources": "other",
    "unknown fuel sources": "other",
}
"""Fuel of what the six-month files call it."""
FUEL_OF_CODE = {
    "COL": "coal",
    "NG": "gas",
    "NUC": "nuclear",
    "OIL": "oil",
    "WAT": "hydro",
    "SUN": "solar",
    "SNB": "solar",
    "WND": "wind",
    "WNB": "wind",
    "GEO": "geothermal",
    "OTH": "other",
    "UNK": "other",
    "PS": STORAGE,
    "BAT": STORAGE,
    "OES": STORAGE,
    "UES": STORAGE,
}
"""Fuel of the API's codes."""


def matches(content: Content) -> bool:
    """Whether this is a six-month file, or an answer of the API."""
    if content.table is None:
        response = content.data.get("response") if isinstance(content.data, dict) else None
        return isinstance(response, dict) and "data" in response
    names = set(content.header)
    return _TIME in names or {"period", "respondent", "fueltype"} <= names


def published(
    contents: Sequence[Content], wanted: Collection[str] | None = None
) -> list[Published]:
    """Intensity of the balancing authorities of all files, by the codes of the EIA.

    The API hands out 5,000 rows at a time, so one hour may stand in two files.
    """
    return intensity_of([(content, _rows(content, wanted)) for content in contents], wanted)


def _rows(content: Content, wanted: Collection[str] | None) -> Iterator[Generation]:
    if content.table is None:
        return _json(content)
    return _balance(content, wanted) if _TIME in content.header else _api_csv(content)


def _balance(content: Content, wanted: Collection[str] | None) -> Iterator[Generation]:
    table = content.sheet
    zone, time = content.column("balancing authority"), content.column(_TIME)
    if zone is None or time is None:
        raise InputError(f"{content.path}, row 1: there is no column 'Balancing Authority'")
    columns = _fuel_columns(content)
    times = instants(
        table.cells(time), content.place, table.header[time], UTC, _TIMES, "01/31/2022 1:00:00 PM"
    )
    for row, at in enumerate(times.tolist()):
        cells = table.rows[row]
        name = cells[zone].strip()
        if not name:
            raise InputError(f"{content.place(row)}: the balancing authority is empty; fill it in")
        if wanted is not None and name not in wanted:
            continue
        for column, (source, fuel) in columns.items():
            text = cells[column].strip()
            mw = number(text, f"{content.place(row)}: {table.header[column]}") if text else None
            yield Generation(name, at - _HOUR_S, fuel, source, mw, table.lines[row])


def _fuel_columns(content: Content) -> dict[int, tuple[str, str]]:
    """Columns of generation, with source and fuel: as adjusted by the EIA where it did."""
    by_source: dict[str, tuple[int, bool]] = {}
    for index, name in enumerate(content.header):
        found = _GENERATION.match(" ".join(name.split()))
        if found is None or found[2] == "(imputed)":
            continue
        # The EIA spells one heading so, since 2024.
        source = found[1].replace("solar witho ", "solar with ")
        adjusted = found[2] == "(adjusted)"
        if source not in FUEL_OF_NAME:
            raise InputError(
                f"{content.path}, row 1: the fuel {source!r} is not known; it must be one of "
                f"{', '.join(FUEL_OF_NAME)}"
            )
        if source not in by_source or adjusted:
            by_source[source] = (index, adjusted)
    if not by_source:
        raise InputError(
            f"{content.path}, row 1: there is no column 'Net Generation (MW) from Coal' or of "
            "another fuel; give the file EIA930_BALANCE of the year"
        )
    return {index: (source, FUEL_OF_NAME[source]) for source, (index, _) in by_source.items()}


def _json(content: Content) -> Iterator[Generation]:
    entries = entries_at(content, "response", "data")
    places = [f"{content.path}, entry {index}" for index in range(1, len(entries) + 1)]
    times = instants(
        [text_at(entry, "period", at) for entry, at in zip(entries, places, strict=True)],
        places.__getitem__,
        "period",
        UTC,
        _TIMES,
        "2022-01-31T13",
    )
    for index, (entry, at) in enumerate(zip(entries, places, strict=True)):
        code = text_at(entry, "fueltype", at)
        zone = text_at(entry, "respondent", at)
        mw = number_at(entry, "value", at)
        yield Generation(zone, int(times[index]) - _HOUR_S, _fuel(code, at), code, mw, index + 1)


def _api_csv(content: Content) -> Iterator[Generation]:
    table = content.sheet
    named = [content.column(name) for name in ("period", "respondent", "fueltype", "value")]
    if None in named:
        raise InputError(f"{content.path}, row 1: there is no column 'value'; fetch data[]=value")
    time, zone, fuel, value = (column for column in named if column is not None)
    times = instants(
        table.cells(time), content.place, table.header[time], UTC, _TIMES, "2022-01-31T13"
    )
    for row, at in enumerate(times.tolist()):
        cells, place = table.rows[row], content.place(row)
        text, code, name = cells[value].strip(), cells[fuel].strip(), cells[zone].strip()
        if not name:
            raise InputError(f"{place}: the respondent is empty; fill it in")
        mw = number(text, f"{place}: value") if text else None
        yield Generation(name, at - _HOUR_S, _fuel(code, place), code, mw, table.lines[row])


def _fuel(code: str, place: str) -> str:
    if code not in FUEL_OF_CODE:
        raise InputError(
            f"{place}: the fuel {code!r} is not known; it must be one of {', '.join(FUEL_OF_CODE)}"
        )
    return FUEL_OF_CODE[code]
