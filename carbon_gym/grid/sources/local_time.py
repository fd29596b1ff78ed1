"""Wall-clock times of a known place, whose clock is set forward and back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.sources.content import instant
from carbon_gym.grid.times import unix_s_on_clock


def local_instants(
    cells: Sequence[str],
    place: Callable[[int], str],
    name: str,
    key: str,
    formats: Sequence[str] = (),
    example: str = "2021-01-31T13:00",
    series: Sequence[Hashable] | None = None,
) -> NDArray[np.int64]:
    """Local times as seconds since 1970-01-01 UTC.

    A time of the hour that comes twice in autumn is read as the first of the two where it stands
    for the first time in its series, as the second where it comes again.

    Args:
        cells: Their texts.
        place: File and row of each, by its number.
        name: Of the column.
        key: Of the time zone, like ``America/Los_Angeles``.
        formats: Beside ISO 8601, as of `datetime.strptime`.
        example: A time as it should be.
        series: What each time belongs to; None: all to one.

    Returns:
        int64 (times,), multiples of 300.

    Raises:
        InputError: A time that is none, or that the clock skipped in spring.
    """
    zone = _zone(key)
    seen: set[tuple[Hashable, datetime]] = set()
    seconds = np.empty(len(cells), np.int64)
    for index, cell in enumerate(cells):
        found = f"{place(index)}: {name}"
        moment = instant(cell, found, formats, zone, example)
        key_of = (None if series is None else series[index], moment.replace(tzinfo=None))
        if key_of in seen and moment.tzinfo is zone:
            moment = moment.replace(fold=1)
        seen.add(key_of)
        seconds[index] = unix_s_on_clock(moment, f"{found} is {cell!r}")
        if moment.tzinfo is zone and moment.astimezone(UTC).astimezone(zone).replace(
            tzinfo=None, fold=0
        ) != moment.replace(tzinfo=None, fold=0):
            raise InputError(
                f"{found} is {cell!r}, which the clock of {key} skipped; delete that row"
            )
    return seconds


def _zone(key: str) -> ZoneInfo:
    try:
        return ZoneInfo(key)
    except ZoneInfoNotFoundError:
        raise InputError(
            f"the time zone {key} is not known on this machine; run `pip install tzdata`"
        ) from None
