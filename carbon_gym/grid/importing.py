"""Importing grids: whatever the publishers hand out, told apart, joined and written as wide CSV."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.files import replacing
from carbon_gym.grid.hold import usual_step_s
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.readers import join_zones
from carbon_gym.grid.series import STEP_S, GridSeries, check_zones, iso_utc
from carbon_gym.grid.sources import AUTO, FORMATS, format_of
from carbon_gym.grid.sources.content import NAMELESS, Content, read_content
from carbon_gym.grid.times import time_columns

DEFAULT_HOLD_H = 2.0
"""Longest time that a value is held until the next one, h (ASSUMED: an hour is missing where a
local clock was set back)."""
MAX_HOLD_H = 48.0
"""Largest that may be asked for, h (ASSUMED)."""
_STEPS_S = (3600, 1800, 1200, 900, 600, STEP_S)
_DECIMALS = 3


@dataclass(frozen=True, slots=True)
class ZoneFound:
    """What the files say about one zone.

    Attributes:
        zone: Its code, as written.
        values: Number of different times with a value.
        start_unix_s: Time of the first, seconds since 1970-01-01 UTC.
        last_unix_s: Time of the last, likewise.
        step_s: Most frequent time between two, s.
        holes: Number of times that two are further apart than the step.
        longest_hole_s: Longest time without a value beyond the step, s; 0 without a hole.
        longest_hole_unix_s: When it begins; 0 without a hole.
    """

    zone: str
    values: int
    start_unix_s: int
    last_unix_s: int
    step_s: int
    holes: int
    longest_hole_s: int
    longest_hole_unix_s: int


@dataclass(frozen=True, slots=True)
class ImportedGrid:
    """Grid files that were read.

    Attributes:
        series: All zones on the 5-minute clock, for the time that all of them have.
        zones: What was found of each.
        formats: File name to the name of its format.
        notes: What a user should know about the numbers.
    """

    series: GridSeries
    zones: tuple[ZoneFound, ...]
    formats: Mapping[str, str]
    notes: tuple[str, ...]


def import_grid(
    paths: Sequence[str | Path],
    format: str = AUTO,
    zones: Sequence[str] | None = None,
    hold_h: float = DEFAULT_HOLD_H,
) -> ImportedGrid:
    """Read grid files in any of `FORMATS`.

    Args:
        paths: The files.
        format: Of all of them; `AUTO`: of each by its content.
        zones: Zones wanted, in this order; ``OLD=NEW`` renames one; of a file that does not say
            its zone, its name. None: all.
        hold_h: Longest time that a value is held until the next one, h.

    Raises:
        InputError: For every fault of a file, in one sentence with the place and the fix.
    """
    if not 0 < hold_h <= MAX_HOLD_H:
        raise InputError(f"--hold {hold_h:g} is not allowed; give hours above 0, to {MAX_HOLD_H:g}")
    if not paths:
        raise InputError("no file is named; name at least one")
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise InputError("a file is named twice; name each once")
    contents: dict[str, list[Content]] = {}
    formats: dict[str, str] = {}
    for path in paths:
        content = read_content(path)
        name = format_of(content, format)
        contents.setdefault(name, []).append(content)
        formats[str(path)] = name
    wanted = None if zones is None else [name.split("=", 1)[0].strip() for name in zones]
    found = _published(contents, wanted)
    if wanted is not None and NAMELESS not in found and not set(wanted) <= set(found):
        # For the error, which names all zones that are there.
        found = _published(contents, None)
    titles = " and ".join(FORMATS[name].title for name in contents)
    source = f"{', '.join(Path(path).name for path in list(paths)[:3])} ({titles})"
    if not found:
        raise InputError(f"{source}: there is no value; give files with at least one")
    order = list(formats)
    found.get(NAMELESS, []).sort(key=lambda part: order.index(part.path))
    parts = _named(found, zones, source)
    series = join_zones(parts, source, round(3600 * hold_h), _mend(parts))
    notes = dict.fromkeys(FORMATS[name].note for name in contents if FORMATS[name].note)
    summaries = tuple(_summary(zone, parts[zone]) for zone in parts)
    return ImportedGrid(series, summaries, formats, tuple(notes))


def _published(
    contents: Mapping[str, Sequence[Content]], wanted: Sequence[str] | None
) -> dict[str, list[Published]]:
    """What the files of each format publish, by zone."""
    found: dict[str, list[Published]] = {}
    for name, group in contents.items():
        for part in FORMATS[name].published(group, wanted):
            if len(part.values):
                found.setdefault(part.zone, []).append(part)
    return found


def _mend(parts: Mapping[str, Sequence[Published]]) -> str:
    """What to do about holes that are longer than values are held, with the option to give."""
    longest_s = {
        zone: int(
            np.diff(np.unique(np.concatenate([part.unix_s for part in of_zone]))).max(initial=0)
        )
        for zone, of_zone in parts.items()
    }
    worst = max(longest_s, key=lambda zone: longest_s[zone])
    hours = math.ceil(longest_s[worst] / 3600)
    if hours <= MAX_HOLD_H:
        return (
            f"hold values over all holes with --hold {hours} (the longest is of {worst}), or add "
            "the missing rows"
        )
    others = "" if len(parts) == 1 else f", or leave {worst} out with --zone"
    return (
        f"the longest hole, {hours} hours of {worst}, is more than --hold may bridge "
        f"({MAX_HOLD_H:g}): add the missing rows, or cut the file at the hole{others}"
    )


def write_canonical(series: GridSeries, path: Path) -> int:
    """Write a series as the wide CSV that `read_grid` reads, gzip, whole or not at all.

    The step is the longest that loses nothing; values are rounded to three decimals.

    Args:
        series: What to write.
        path: The file, `.csv.gz`.

    Returns:
        The step, s.

    Raises:
        InputError: The place cannot be written to.
    """
    values = np.round(series.values, _DECIMALS)
    step_s = _longest_step_s(values)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["datetime_utc", *series.zones])
    for row in range(0, len(values), step_s // STEP_S):
        cells = [repr(value).removesuffix(".0") for value in values[row].tolist()]
        writer.writerow([iso_utc(series.start_unix_s + STEP_S * row), *cells])
    with replacing(path) as partial:
        partial.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    return step_s


def _named(
    found: Mapping[str, list[Published]], zones: Sequence[str] | None, source: str
) -> dict[str, list[Published]]:
    """What is wanted, by its new name."""
    found = dict(found)
    renamed = [
        [part.strip() for part in (name.split("=", 1) if "=" in name else [name, name])]
        for name in zones or ()
    ]
    if NAMELESS in found:
        new = [old for old, name in renamed if old == name and old not in found]
        nameless = found.pop(NAMELESS)
        files = list(dict.fromkeys(part.path for part in nameless))
        if len(new) not in (1, len(files)) or not new:
            raise InputError(
                f"{source}: {', '.join(Path(path).name for path in files[:3])} "
                + (
                    "does not say its zone; name it with --zone, like --zone DE"
                    if len(files) == 1
                    else "do not say their zones; name one for all of them with --zone, or one "
                    "for each in the order of the files, like --zone DE,GB"
                )
            )
        for index, path in enumerate(files):
            name = new[index if len(new) > 1 else 0]
            found.setdefault(name, []).extend(
                replace(part, zone=name) for part in nameless if part.path == path
            )
    if not renamed:
        renamed = [[zone, zone] for zone in found]
    check_zones([old for old, _ in renamed], tuple(found), source)
    named: dict[str, list[Published]] = {}
    for old, name in renamed:
        if name in named:
            raise InputError(f"zone {name!r} is there twice; rename one with --zone OLD=NEW")
        if not name or not name.isprintable() or time_columns([name]):
            raise InputError(
                f"{source}: {name!r} cannot be the name of a zone; rename it with --zone, like "
                f"--zone {old}=DE"
            )
        named[name] = [replace(part, zone=name) for part in found[old]]
    return named


def _summary(zone: str, parts: Sequence[Published]) -> ZoneFound:
    unix_s = np.unique(np.concatenate([part.unix_s for part in parts]))
    step_s = usual_step_s(unix_s)
    gaps = np.diff(unix_s) - step_s
    longest = int(np.argmax(gaps)) if len(gaps) else 0
    hole = len(gaps) > 0 and gaps[longest] > 0
    return ZoneFound(
        zone=zone,
        values=len(unix_s),
        start_unix_s=int(unix_s[0]),
        last_unix_s=int(unix_s[-1]),
        step_s=step_s,
        holes=int(np.count_nonzero(gaps > 0)),
        longest_hole_s=int(gaps[longest]) if hole else 0,
        longest_hole_unix_s=int(unix_s[longest]) + step_s if hole else 0,
    )


def _longest_step_s(values: NDArray[np.float64]) -> int:
    """The longest step at which each value holds until the next one."""
    for step_s in _STEPS_S:
        rows = step_s // STEP_S
        if len(values) % rows == 0 and (values == np.repeat(values[::rows], rows, axis=0)).all():
            return step_s
    return STEP_S
