"""WattTime: marginal (or average) emissions in lbs CO2 per MWh, 5-minute, as JSON or CSV."""

from __future__ import annotations

from collections.abc import Sequence

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.sources.content import (
    NAMELESS,
    Content,
    entries_at,
    in_utc,
    instants,
    number_at,
    part_of,
    series_in,
    text_at,
)

G_PER_KWH = 0.45359237
"""gCO2/kWh of one pound per MWh (PUBLISHED: the international pound, 453.59237 g)."""
SIGNALS = ("co2_moer", "co2_aoer")
"""Signals that are emissions: the marginal rate, and the average one."""
_UNITS = "lbs_co2_per_mwh"


def matches(content: Content) -> bool:
    """Whether this is an answer of /v3/historical, its CSV, or the older monthly CSV.

    The CSV have the columns `point_time,value` and `timestamp,MOER`.
    """
    if content.table is None:
        entries = content.data.get("data") if isinstance(content.data, dict) else None
        first = entries[0] if isinstance(entries, list) and entries else None
        return isinstance(first, dict) and "point_time" in first
    return {"point_time", "value"} <= set(content.header) or {"timestamp", "moer"} <= set(
        content.header
    )


def published(contents: Sequence[Content]) -> list[Published]:
    """Values of all files, turned into gCO2/kWh."""
    return [_json(content) if content.table is None else _csv(content) for content in contents]


def _json(content: Content) -> Published:
    entries = entries_at(content, "data")
    meta = content.data.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    _check(content.path, meta.get("signal_type", SIGNALS[0]), meta.get("units", _UNITS))
    if "generated_at" in meta:
        raise InputError(
            f"{content.path}: is a forecast (its meta has 'generated_at'); fetch /v3/historical"
        )
    places = [f"{content.path}, entry {index}" for index in range(1, len(entries) + 1)]
    times = instants(
        [text_at(entry, "point_time", at) for entry, at in zip(entries, places, strict=True)],
        places.__getitem__,
        "point_time",
        None,
    )
    rows = []
    for index, (entry, at) in enumerate(zip(entries, places, strict=True)):
        value = number_at(entry, "value", at)
        if value is not None:
            rows.append((int(times[index]), G_PER_KWH * value, index + 1))
    region = meta.get("region")
    return part_of(region if isinstance(region, str) else NAMELESS, content.path, rows, "entry")


def _csv(content: Content) -> Published:
    table = content.sheet
    time, values = content.column("point_time", "timestamp"), content.column("moer", "value")
    if time is None or values is None:
        raise InputError(f"{content.path}, row 1: columns point_time and value are needed")
    signal = content.column("signal_type")
    if signal is not None:
        for text in dict.fromkeys(table.cells(signal)):
            _check(content.path, text.strip(), _UNITS)
    region = content.column("region")
    zones = [] if region is None else list(dict.fromkeys(table.cells(region)))
    if len(zones) > 1:
        raise InputError(
            f"{content.path}: has the regions {', '.join(zones[:4])}; give a file of one region"
        )
    # The files are documented as UTC; the older ones leave the offset out.
    pounds = series_in(content, time, values, in_utc)
    zone = zones[0].strip() if zones else NAMELESS
    return part_of(zone, content.path, [(at, G_PER_KWH * lbs, line) for at, lbs, line in pounds])


def _check(path: str, signal: object, units: object) -> None:
    if signal not in SIGNALS:
        raise InputError(
            f"{path}: the signal is {signal!r}; fetch {' or '.join(SIGNALS)}, which are emissions"
        )
    if units != _UNITS:
        raise InputError(f"{path}: the units are {units!r}; fetch the data in {_UNITS}")
