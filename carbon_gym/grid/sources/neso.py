"""Great Britain's system operator NESO: the carbon intensity API (JSON) and the data portal (CSV).

Half-hourly, direct emissions of generation and imports, times in UTC.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.sources.content import (
    Content,
    entries_at,
    in_utc,
    instants,
    number_at,
    part_of,
    series_in,
    text_at,
)

ZONE = "GB"
"""The zone of files of the whole country."""


def matches(content: Content) -> bool:
    """Whether this is an answer of the API, or a CSV of the data portal.

    Those are the history with its `CARBON_INTENSITY`, and `datetime,forecast,actual`.
    """
    if content.table is None:
        data = content.data.get("data") if isinstance(content.data, dict) else None
        inner = data.get("data") if isinstance(data, dict) else data
        first = inner[0] if isinstance(inner, list) and inner else None
        return isinstance(first, dict) and "from" in first
    names = set(content.header)
    return {"datetime", "carbon_intensity", "wind_emb"} <= names or {"forecast", "actual"} <= names


def published(contents: Sequence[Content]) -> list[Published]:
    """Values of all files."""
    return [_json(content) if content.table is None else _csv(content) for content in contents]


def _json(content: Content) -> Published:
    data = content.data.get("data") if isinstance(content.data, dict) else None
    regional = isinstance(data, dict)
    entries = entries_at(content, "data", "data") if regional else entries_at(content, "data")
    zone = ZONE
    if regional:
        zone = text_at(data, "shortname", f"{content.path}, data")  # type: ignore[arg-type]
    found = list(_intensities(content.path, entries))
    # Regions are forecast only; for the country a forecast would be another series.
    key = "actual" if any("actual" in intensity for _, intensity in found) else "forecast"
    times = instants(
        [text_at(entry, "from", place) for (place, _), entry in zip(found, entries, strict=True)],
        lambda index: found[index][0],
        "from",
        None,
    )
    rows = []
    for index, (place, intensity) in enumerate(found):
        value = number_at(intensity, key, place)
        if value is not None:
            rows.append((int(times[index]), value, index + 1))
    return part_of(zone, content.path, rows, "entry")


def _intensities(path: str, entries: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for index, entry in enumerate(entries, 1):
        place = f"{path}, entry {index}"
        intensity = entry.get("intensity")
        if not isinstance(intensity, dict):
            raise InputError(f"{place}: 'intensity' is missing; fetch the file again")
        yield place, intensity


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
