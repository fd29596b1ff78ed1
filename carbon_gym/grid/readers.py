"""Reading carbon-intensity files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.grid.csv_table import read_table
from carbon_gym.grid.hold import MAX_HOLD_S, MEND_THE_HOLE, hold_on_clock
from carbon_gym.grid.layouts import ExportFile, Published, WideFile, layout_of
from carbon_gym.grid.series import STEP_S, GridSeries, check_zones, iso_utc


def read_grid(
    paths: str | Path | Sequence[str | Path], zones: Sequence[str] | None = None
) -> GridSeries:
    """Read carbon intensity from one file or several, joined.

    Three layouts are told apart by the header, each as ``.csv`` or ``.csv.gz`` (UTF-8, commas):

    - wide: a time column, usually ``datetime_utc``, and one column per zone in gCO2eq/kWh;
    - long: a time column, ``zone`` and ``ci_g_per_kwh``;
    - the hourly or 5-minute export of Electricity Maps, whose life-cycle column is taken.

    Times are ISO 8601 with ``Z`` or an offset; without either only where the column's name says
    UTC. They lie on the 5-minute UTC clock, 5 to 60 minutes apart; a row that is missing is held
    over (at most 60 minutes in all) and counted in `GridSeries.held_steps`. Rows may come in any
    order; identical repeats count once. The series covers the time that all zones have.

    Args:
        paths: The files.
        zones: Zones wanted, in this order; None: all, in the order of the files. Holes and
            faults in zones that are not wanted are no error.

    Returns:
        The series on the 5-minute clock. Values at or before an instant do not depend on rows
        after it.

    Raises:
        InputError: One sentence that names file, row and zone, for every fault of a file, an
            unknown zone, and zones without common time.
    """
    names = [paths] if isinstance(paths, str | Path) else list(paths)
    if not names:
        raise InputError("grid: no file is named; name at least one CSV file")
    files = [layout_of(read_table(path)) for path in names]
    known = list(dict.fromkeys(zone for file in files for zone in file.zones))
    wanted = known if zones is None else list(zones)
    source = _source(files)
    if not wanted:
        raise InputError(f"{source}: no zone is asked for; name at least one of {', '.join(known)}")
    check_zones(wanted, known, source)

    parts: dict[str, list[Published]] = {zone: [] for zone in wanted}
    for file in files:
        for part in file.published(wanted):
            parts[part.zone].append(part)
    return join_zones(parts, source)


def join_zones(
    parts: Mapping[str, Sequence[Published]],
    source: str,
    max_hold_s: int = MAX_HOLD_S,
    fix: str = MEND_THE_HOLE,
) -> GridSeries:
    """Put what is published for some zones on the clock, for the time that all of them have.

    Args:
        parts: Of each zone, at least one row in all.
        source: What the series came from.
        max_hold_s: Longest time from one row to the next, s.
        fix: What the error about a longer one advises.

    Raises:
        InputError: The same time with two values, a hole that is too long, no common time.
    """
    wanted = list(parts)
    on_clock = [hold_on_clock(parts[zone], max_hold_s, fix) for zone in wanted]
    start = max(zone.start_unix_s for zone in on_clock)
    stop = min(zone.stop_unix_s for zone in on_clock)
    if stop <= start:
        late = wanted[int(np.argmax([zone.start_unix_s for zone in on_clock]))]
        early = wanted[int(np.argmin([zone.stop_unix_s for zone in on_clock]))]
        raise InputError(
            f"{source}: {early} ends at {iso_utc(stop)} before {late} starts at {iso_utc(start)}; "
            "give files of the same period for every zone"
        )
    spans = [
        slice((start - zone.start_unix_s) // STEP_S, (stop - zone.start_unix_s) // STEP_S)
        for zone in on_clock
    ]
    values = np.stack(
        [zone.values[span] for zone, span in zip(on_clock, spans, strict=True)], axis=1
    )
    held = np.any([zone.held[span] for zone, span in zip(on_clock, spans, strict=True)], axis=0)
    return GridSeries(tuple(wanted), start, values, source, held if held.any() else None)


def _source(files: Sequence[WideFile | ExportFile]) -> str:
    names = [Path(file.table.path).name for file in files]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    layouts = " and ".join(sorted({file.layout for file in files}))
    return f"{', '.join(names[:3])}{more} ({layouts})"
