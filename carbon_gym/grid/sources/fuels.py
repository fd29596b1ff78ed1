"""From generation by fuel to carbon intensity: the mean of life-cycle factors, weighted by power.

The intensity is that of production inside the zone: imports are not traced. Storage is left out
altogether, since what it gives back was counted when it was generated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.series import iso_utc
from carbon_gym.grid.sources.content import Content, part_of

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
LATE_S = 86_400
"""A source that falls silent for less than this before the end of a zone is late, s (ASSUMED:
publishers fill in the last hours afterwards)."""


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


@dataclass(frozen=True, slots=True)
class _Given:
    """What a source gave, MW, with its fuel, and the file and line that say so."""

    fuel: str
    mw: float
    file: int
    line: int


_ByTime = dict[int, dict[str, _Given]]
"""Seconds since 1970-01-01 UTC, then the name of the source."""


def intensity_of(
    files: Sequence[tuple[Content, Iterable[Generation]]],
    wanted: Collection[str] | None = None,
) -> list[Published]:
    """Carbon intensity of the zones of some files, which may share zones and times.

    A source that a zone reports before and after a time but not at it makes a hole there, as do one
    that falls silent less than `LATE_S` before the end, and a time at which nothing is generated:
    what is missing is never taken for 0.

    Args:
        files: Each with what it reports, in any order.
        wanted: Zones to take; None: all.

    Raises:
        InputError: A source twice at the same time with two values.
    """
    by_zone: dict[str, _ByTime] = {}
    for file, (content, generation) in enumerate(files):
        for entry in generation:
            if entry.mw is None or entry.fuel == STORAGE:
                continue
            if wanted is not None and entry.zone not in wanted:
                continue
            at_time = by_zone.setdefault(entry.zone, {}).setdefault(entry.unix_s, {})
            earlier = at_time.get(entry.source)
            if earlier is not None and earlier.mw != entry.mw:
                before = files[earlier.file][0]
                raise InputError(
                    f"{content.path}, {content.counted} {entry.line}: {entry.zone} has "
                    f"{entry.source!r} twice at {iso_utc(entry.unix_s)}, as {entry.mw:g} and, in "
                    f"{before.path}, {before.counted} {earlier.line}, as {earlier.mw:g}; keep one"
                )
            at_time[entry.source] = _Given(entry.fuel, entry.mw, file, entry.line)
    parts: list[Published] = []
    for zone, by_time in by_zone.items():
        rows = list(_intensities(by_time))
        for file, (content, _) in enumerate(files):
            own = [row for of, row in rows if of == file]
            if own:
                parts.append(part_of(zone, content.path, own, content.counted))
    return parts


def _intensities(by_time: _ByTime) -> Iterator[tuple[int, tuple[int, float, int]]]:
    """File, and time, gCO2eq/kWh and line, of the times at which every source is there."""
    spans: dict[str, tuple[int, int]] = {}
    for time in sorted(by_time):
        for source in by_time[time]:
            spans[source] = (spans.get(source, (time, time))[0], time)
    end = max(by_time)
    spans = {
        source: (first, end if end - last < LATE_S else last)
        for source, (first, last) in spans.items()
    }
    for time, given in by_time.items():
        if any(
            first <= time <= last and source not in given for source, (first, last) in spans.items()
        ):
            continue
        power = {source: max(entry.mw, 0.0) for source, entry in given.items()}
        total = sum(power.values())
        if total <= 0:
            continue
        grams = sum(FACTOR_G_PER_KWH[given[source].fuel] * mw for source, mw in power.items())
        first_given = next(iter(given.values()))
        yield first_given.file, (time, grams / total, first_given.line)
