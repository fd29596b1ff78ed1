"""Great Britain's system operator NESO: the carbon intensity API (JSON) and the data portal (CSV).

Half-hourly, direct emissions of generation and imports, times in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.sources.content import (
    Content,
    entries_at,
    in_utc,
    instants,
    mappings_in,
    number_at,
    part_of,
    series_in,
    text_at,
)

ZONE = "GB"
"""The zone of files of the whole country."""


@dataclass(frozen=True, slots=True)
class _HalfHour:
    """One intensity of the API: its zone, where it stands, its time and what it is."""

    zone: str
    place: str
    number: int
    start: str
    intensity: dict[str, Any]


def matches(content: Content) -> bool:
    """Whether this is an answer of the API, or a CSV of the data portal.

    Those are the history with its `CARBON_INTENSITY`, and `datetime,forecast,actual`.
    """
    if content.table is None:
        data = content.data.get("data") if isinstance(content.data, dict) else None
        first = data[0] if isinstance(data, list) and data else data
        inner = first.get("data") if isinstance(first, dict) else None
        if isinstance(inner, list) and inner:
            first = inner[0]
        return isinstance(first, dict) and "from" in first
    names = set(content.header)
    return {"datetime", "carbon_intensity", "wind_emb"} <= names or {"forecast", "actual"} <= names


def published(contents: Sequence[Content]) -> list[Published]:
    """Values of all files."""
    parts: list[Published] = []
    for content in contents:
        parts += _json(content) if content.table is None else [_csv(content)]
    return parts


def _json(content: Content) -> list[Published]:
    data = content.data.get("data") if isinstance(content.data, dict) else None
    found = list(
        _of_region(content.path, data, f"{content.path}, data")
        if isinstance(data, dict)
        else _half_hours(content.path, entries_at(content, "data"))
    )
    # Regions are forecast only; for the country a forecast would be another series.
    key = "actual" if any("actual" in one.intensity for one in found) else "forecast"
    times = instants(
        [one.start for one in found], lambda index: found[index].place, "from", None
    ).tolist()
    rows: dict[str, list[tuple[int, float, int]]] = {}
    for one, at in zip(found, times, strict=True):
        value = number_at(one.intensity, key, one.place)
        if value is not None:
            rows.setdefault(one.zone, []).append((at, value, one.number))
    return [part_of(zone, content.path, of_zone, "entry") for zone, of_zone in rows.items()]


def _half_hours(path: str, entries: list[dict[str, Any]]) -> Iterator[_HalfHour]:
    """Of the country, of regions by half-hour, or of half-hours by region."""
    for number, entry in enumerate(entries, 1):
        place = f"{path}, entry {number}"
        if "data" in entry:
            yield from _of_region(path, entry, place)
        elif "regions" in entry:
            start = text_at(entry, "from", place)
            for region in mappings_in(entry["regions"], f"{place}, regions"):
                zone = text_at(region, "shortname", place)
                yield _HalfHour(zone, place, number, start, _intensity(region, place))
        else:
            start = text_at(entry, "from", place)
            yield _HalfHour(ZONE, place, number, start, _intensity(entry, place))


def _of_region(path: str, region: dict[str, Any], where: str) -> Iterator[_HalfHour]:
    zone = text_at(region, "shortname", where)
    for number, entry in enumerate(mappings_in(region.get("data"), f"{where}, data"), 1):
        place = f"{path}, entry {number}"
        start = text_at(entry, "from", place)
        yield _HalfHour(zone, place, number, start, _intensity(entry, place))


def _intensity(entry: dict[str, Any], place: str) -> dict[str, Any]:
    intensity = entry.get("intensity")
    if not isinstance(intensity, dict):
        raise InputError(f"{place}: 'intensity' is missing; fetch the file again")
    return intensity


def _csv(content: Content) -> Published:
    time = content.column("datetime", "from")
    values = content.column("carbon_intensity", "actual")
    if time is None or values is None:
        raise InputError(
            f"{content.path}, row 1: columns datetime and actual, or DATETIME and "
            "CARBON_INTENSITY, are needed; give the file as NESO's data portal has it"
        )
    # NESO documents the column as UTC; the file itself leaves the offset out.
    return part_of(ZONE, content.path, series_in(content, time, values, in_utc))
