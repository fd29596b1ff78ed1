"""From generation by fuel to carbon intensity: the mean of life-cycle factors, weighted by power.

The intensity is that of production inside the zone: imports are not traced. Storage is left out
altogether, since what it gives back was counted when it was generated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.series import iso_utc
from carbon_gym.grid.sources.content import part_of

FACTOR_G_PER_KWH: dict[str, float] = {
    "coal": 820.0,
    "gas": 490.0,
    "oil": 650.0,
    "biomass": 230.0,
    "geothermal": 38.0,
    "hydro": 24.0,
    "solar": 48.0,
    "wind": 11.0,
    "nuclear": 12.0,
    "marine": 17.0,
    "other": 700.0,
}
"""Life-cycle gCO2eq/kWh by fuel. PUBLISHED: medians of IPCC AR5 WG III (2014), Annex III, table
A.III.2 (coal: pulverised; gas: combined cycle; solar: utility PV; wind: onshore; marine: ocean);
oil: UK Parliamentary Office of Science and Technology (2006), as used by Electricity Maps. ASSUMED:
other, unknown and waste count as 700, the mix of what is burnt without being named."""
STORAGE = "storage"
"""A fuel that is left out."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What one fuel gave in one zone at one time.

    Attributes:
        zone: Its code.
        unix_s: Start of the interval, seconds since 1970-01-01 UTC.
        fuel: A key of `FACTOR_G_PER_KWH`, or `STORAGE`.
        source: What the file calls it; two of the same fuel add up, two of the same name do not.
        mw: Mean power, MW; negative (consumption of the plants themselves) counts as 0; None:
            nothing is reported.
        line: Number of the row or entry.
    """

    zone: str
    unix_s: int
    fuel: str
    source: str
    mw: float | None
    line: int


def intensity_of(
    generation: Iterable[Generation], path: str, counted: str = "row"
) -> list[Published]:
    """Carbon intensity of the zones of a file.

    A source that a zone reports before and after a time but not at it makes a hole there, as does a
    time at which nothing is generated: what is missing is never taken for 0.

    Args:
        generation: In any order.
        path: Of the file.
        counted: What the lines count: "row" or "entry".

    Raises:
        InputError: A source twice at the same time with two values, or no time with a value.
    """
    by_zone: dict[str, dict[int, dict[str, Generation]]] = {}
    for entry in generation:
        if entry.fuel == STORAGE:
            continue
        at_time = by_zone.setdefault(entry.zone, {}).setdefault(entry.unix_s, {})
        earlier = at_time.get(entry.source)
        if earlier is not None and earlier.mw != entry.mw:
            raise InputError(
                f"{path}, {counted} {entry.line}: {entry.zone} has {entry.source!r} twice at "
                f"{iso_utc(entry.unix_s)}, first in {counted} {earlier.line}; keep one"
            )
        at_time[entry.source] = entry
    return [
        part_of(zone, path, _intensities(by_time), counted) for zone, by_time in by_zone.items()
    ]


def _intensities(by_time: dict[int, dict[str, Generation]]) -> list[tuple[int, float, int]]:
    """Time, gCO2eq/kWh and line, of the times at which every source is there."""
    spans: dict[str, tuple[int, int]] = {}
    for time in sorted(by_time):
        for source, entry in by_time[time].items():
            if entry.mw is not None:
                spans[source] = (spans.get(source, (time, time))[0], time)
    rows = []
    for time, sources in by_time.items():
        given = {name: entry for name, entry in sources.items() if entry.mw is not None}
        if any(
            first <= time <= last and name not in given for name, (first, last) in spans.items()
        ):
            continue
        power = {name: max(entry.mw or 0.0, 0.0) for name, entry in given.items()}
        total = sum(power.values())
        if total <= 0:
            continue
        grams = sum(FACTOR_G_PER_KWH[given[name].fuel] * mw for name, mw in power.items())
        rows.append((time, grams / total, next(iter(sources.values())).line))
    return rows
