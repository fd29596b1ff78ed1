"""Carbon intensity on a 5-minute UTC clock, looked up by array index."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError

STEP_S = 300
"""The clock's step, s (the paper uses 5-minute data, PUBLISHED)."""

MAX_SPILL_S = 48 * 3600
"""How long the last published value may be held past the end of a series, s, for the turns of
sessions that run on after the last day asked for (ASSUMED)."""

_DAY_S = 86_400


def day_start_unix_s(day: date) -> int:
    """Seconds from 1970-01-01 to 00:00 UTC of a day."""
    return (day - date(1970, 1, 1)).days * _DAY_S


def iso_utc(unix_s: float) -> str:
    """A time as in ``2021-03-01T04:05Z``, for messages."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%MZ")


def check_zones(asked: Iterable[str], known: Sequence[str], where: str) -> None:
    """Refuse a zone that is unknown or asked for twice.

    Raises:
        InputError: Names the zone, the nearest known zones and those that `where` has.
    """
    seen: set[str] = set()
    for zone in asked:
        if zone in seen:
            raise InputError(f"zone {zone!r} is asked for twice; name each zone once")
        seen.add(zone)
        if zone in known:
            continue
        by_upper = {name.upper(): name for name in known}
        near = difflib.get_close_matches(zone.upper(), list(by_upper), n=3, cutoff=0.5)
        nearest = f"nearest: {', '.join(by_upper[name] for name in near)}; " if near else ""
        raise InputError(
            f"{where}: zone {zone!r} is not there; {nearest}use one of {', '.join(known)} (on the "
            "command line --zones names those of the regions)"
        )


@dataclass(frozen=True, slots=True)
class GridSeries:
    """Carbon intensity of some zones.

    Attributes:
        zones: Zone codes, the columns of `values`.
        start_unix_s: Time of the first row, seconds since 1970-01-01 UTC, a multiple of 300.
        values: float64 (steps, zones), gCO2eq/kWh, finite and >= 0. Row i holds from
            ``start_unix_s + 300 * i``: the last value published at or before each instant.
        source: One line for the report.
        held: bool (steps,), rows where at least one zone's value is held for longer than the
            source's own step, because it skipped a row or because the series has ended. None:
            there is no such row.
    """

    zones: tuple[str, ...]
    start_unix_s: int
    values: NDArray[np.float64]
    source: str = ""
    held: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        steps = self.values.shape[0] if self.values.ndim else 0
        if self.values.shape != (steps, len(self.zones)) or steps == 0:
            raise ValueError(
                f"values must be (steps, zones) with at least one step, for {len(self.zones)} "
                f"zones; found shape {self.values.shape}"
            )
        if self.start_unix_s % STEP_S:
            raise ValueError(f"start_unix_s must be a multiple of {STEP_S}: {self.start_unix_s}")
        if self.held is not None and self.held.shape != (steps,):
            raise ValueError(f"held must have shape ({steps},); found {self.held.shape}")

    @property
    def stop_unix_s(self) -> int:
        """End of the last row, seconds since 1970-01-01 UTC (not part of the series)."""
        return self.start_unix_s + STEP_S * len(self.values)

    @property
    def held_steps(self) -> int:
        """Number of 5-minute rows filled by holding an earlier value beyond the source's step."""
        return 0 if self.held is None else int(np.count_nonzero(self.held))

    def covers(self, start_unix_s: float, stop_unix_s: float) -> bool:
        """Whether every instant of [start, stop), s since 1970-01-01 UTC, lies in the series."""
        return self.start_unix_s <= start_unix_s and stop_unix_s <= self.stop_unix_s

    def select(self, zones: Sequence[str]) -> GridSeries:
        """The series of some zones, in the order asked for; values are copied.

        Raises:
            InputError: A zone that is not in the series, with the nearest ones.
        """
        check_zones(zones, self.zones, self.source or "grid")
        columns = [self.zones.index(zone) for zone in zones]
        # Fancy indexing of columns may give Fortran order; the kernels want rows together.
        values = np.ascontiguousarray(self.values[:, columns])
        return GridSeries(tuple(zones), self.start_unix_s, values, self.source, self.held)

    def window(
        self, start_unix_s: float, stop_unix_s: float, allow_hold_s: float = MAX_SPILL_S
    ) -> GridSeries:
        """The days [start, stop) and the time after them in which their sessions still run.

        The days themselves must lie inside the series. The spill [stop, stop + allow_hold_s) is
        taken from the series as far as it goes; past its end the last published value is held
        and the rows are counted in `held_steps`.

        Args:
            start_unix_s: Start of the days, seconds since 1970-01-01 UTC.
            stop_unix_s: End of the days, later than the start, likewise.
            allow_hold_s: Length of the spill, s, from 0 to `MAX_SPILL_S` (48 h).

        Returns:
            A copy that begins on the clock at or just before `start_unix_s`.

        Raises:
            InputError: Days outside the series (names what is asked and what there is), an
                empty period, or a spill that is too long.
        """
        if not 0 <= allow_hold_s <= MAX_SPILL_S:
            raise InputError(
                f"allow_hold_s = {allow_hold_s} is not allowed: the last value is held for "
                f"0 to {MAX_SPILL_S} s past the end of a series"
            )
        if stop_unix_s <= start_unix_s or not self.covers(start_unix_s, stop_unix_s):
            raise InputError(
                f"{self.source or 'grid'}: the period {iso_utc(start_unix_s)} to "
                f"{iso_utc(stop_unix_s)} is asked for, but the series goes from "
                f"{iso_utc(self.start_unix_s)} to {iso_utc(self.stop_unix_s)}; choose whole days "
                "inside it"
            )
        first = math.floor((start_unix_s - self.start_unix_s) / STEP_S)
        last = math.ceil((stop_unix_s + allow_hold_s - self.start_unix_s) / STEP_S)
        steps = self.values.shape[0]
        rows = np.arange(first, last)
        held = rows >= steps
        rows = np.minimum(rows, steps - 1)
        if self.held is not None:
            held |= self.held[rows]
        return GridSeries(
            self.zones,
            self.start_unix_s + STEP_S * first,
            self.values[rows],
            self.source,
            held if held.any() else None,
        )

    def at(self, zone: str, t_unix_s: float) -> float:
        """Carbon intensity of a zone at an instant, gCO2eq/kWh (SPEC §2).

        The last value published at or before the instant; nothing later is read.

        Raises:
            InputError: A zone or an instant that is not in the series (`window` adds the spill).
        """
        check_zones((zone,), self.zones, self.source or "grid")
        if not self.start_unix_s <= t_unix_s < self.stop_unix_s:
            raise InputError(
                f"{self.source or 'grid'}: {iso_utc(t_unix_s)} is asked for, but the series goes "
                f"from {iso_utc(self.start_unix_s)} to {iso_utc(self.stop_unix_s)}"
            )
        row = math.floor((t_unix_s - self.start_unix_s) / STEP_S)
        return float(self.values[row, self.zones.index(zone)])
