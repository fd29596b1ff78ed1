"""Grid files as their publishers hand them out, one module per publisher."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.sources import caiso, eia, entsoe, neso, plain, watttime
from carbon_gym.grid.sources.content import Content

_Published = Callable[[Sequence[Content], Collection[str] | None], list[Published]]


@dataclass(frozen=True, slots=True)
class Source:
    """One format.

    Attributes:
        title: For people.
        matches: Whether a file is in it, by its columns or keys.
        published: What files in it publish, of the zones wanted where they have many (None: of
            all), and of `NAMELESS` where they do not name the zone.
        note: What a user should know about the numbers; "" for nothing.
    """

    title: str
    matches: Callable[[Content], bool]
    published: _Published
    note: str = ""


def _whole(published: Callable[[Sequence[Content]], list[Published]]) -> _Published:
    """Of a format whose files have few zones: all of them, whatever is wanted."""
    return lambda contents, wanted: published(contents)


_BY_FUEL = (
    "intensity of production, from generation by fuel with life-cycle factors "
    "(docs/import-grid.md); imports are not traced, storage is left out"
)
FORMATS: dict[str, Source] = {
    "watttime": Source(
        "WattTime",
        watttime.matches,
        _whole(watttime.published),
        "WattTime's co2_moer is a marginal rate; do not mix it with averages",
    ),
    "neso": Source(
        "NESO carbon intensity",
        neso.matches,
        _whole(neso.published),
        "direct emissions, not life cycle",
    ),
    "eia": Source("EIA-930 generation by fuel", eia.matches, eia.published, _BY_FUEL),
    "entsoe": Source("ENTSO-E generation per type", entsoe.matches, entsoe.published, _BY_FUEL),
    "caiso": Source(
        "CAISO 5-minute",
        caiso.matches,
        _whole(caiso.published),
        "direct emissions, not life cycle",
    ),
    "electricity-maps": Source("Electricity Maps export", plain.is_export, plain.published),
    "long": Source("long CSV", plain.is_long, plain.published),
    "wide": Source("wide CSV", plain.is_wide, plain.published),
}
"""Formats by name, in the order in which they are tried."""
AUTO = "auto"


def format_of(content: Content, named: str = AUTO) -> str:
    """Name of the format of a file.

    Args:
        content: The file.
        named: What the user says it is, or `AUTO`.

    Raises:
        InputError: An unknown name, or a file that is not in the format, or in none.
    """
    if named != AUTO and named not in FORMATS:
        hint = did_you_mean(named, FORMATS)
        raise InputError(
            f"--format {named!r} is not known; {hint}use {AUTO} or one of {', '.join(FORMATS)}"
        )
    for name in FORMATS if named == AUTO else [named]:
        if FORMATS[name].matches(content):
            return name
    found = (
        "is JSON of another kind"
        if content.table is None
        else f"has the columns {', '.join(content.table.header[:6])}"
    )
    if named != AUTO:
        raise InputError(
            f"{content.path}: {found}, which is not {FORMATS[named].title}; "
            f"leave --format out, or give the file as docs/import-grid.md describes it"
        )
    raise InputError(
        f"{content.path}: {found}, which is none of {', '.join(FORMATS)}; give a CSV with "
        "datetime_utc and one column per zone in gCO2eq/kWh"
    )
