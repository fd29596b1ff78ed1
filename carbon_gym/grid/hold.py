"""From published values to the 5-minute clock: the last value is held, nothing is interpolated.

Interpolation would read the future (SPEC §2): with holding, the value at an instant never depends
on a row that is published later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.layouts import Published
from carbon_gym.grid.series import STEP_S, iso_utc

MAX_HOLD_S = 3600
"""Longest time from one published value to the next, s (ASSUMED: the step of hourly data)."""
MEND_THE_HOLE = "add the missing rows, or cut the file at the hole"
"""Advice about a longer one."""


@dataclass(frozen=True, slots=True)
class Held:
    """One zone on the clock.

    Attributes:
        start_unix_s: Time of the first row, seconds since 1970-01-01 UTC.
        values: float64 (steps,), gCO2eq/kWh.
        held: bool (steps,), rows held beyond the step of the file that they come from.
    """

    start_unix_s: int
    values: NDArray[np.float64]
    held: NDArray[np.bool_]

    @property
    def stop_unix_s(self) -> int:
        """End of the last row, seconds since 1970-01-01 UTC."""
        return self.start_unix_s + STEP_S * len(self.values)


def hold_on_clock(
    parts: Sequence[Published], max_hold_s: int = MAX_HOLD_S, fix: str = MEND_THE_HOLE
) -> Held:
    """Put what files publish for one zone on the 5-minute clock.

    Rows are sorted; repeated rows with the same value count once. Each value holds until the
    next one, the last one for the step of its file (its most frequent distance between rows, 5
    minutes if it has one row).

    Args:
        parts: The zone's values of each file, at least one row in all.
        max_hold_s: Longest time from one row to the next, s.
        fix: What the error about a longer one advises.

    Raises:
        InputError: The same time with two values, or a longer time between two rows.
    """
    files = np.concatenate([np.full(len(part.unix_s), i) for i, part in enumerate(parts)])
    unix_s = np.concatenate([part.unix_s for part in parts])
    values = np.concatenate([part.values for part in parts])
    lines = np.concatenate([part.lines for part in parts])
    order = np.argsort(unix_s, kind="stable")
    files, unix_s, values, lines = files[order], unix_s[order], values[order], lines[order]

    def place(row: int) -> str:
        part = parts[files[row]]
        return f"{part.path}, {part.counted} {lines[row]}"

    zone = parts[0].zone
    repeated = np.diff(unix_s) == 0
    differs = repeated & (np.diff(values) != 0)
    if differs.any():
        row = int(np.argmax(differs))
        raise InputError(
            f"{place(row + 1)}: {zone} is {values[row + 1]:g} at {iso_utc(unix_s[row])}, but "
            f"{values[row]:g} in {place(row)}; keep one of the two"
        )
    keep = np.concatenate([[True], ~repeated])
    files, unix_s, values, lines = files[keep], unix_s[keep], values[keep], lines[keep]

    gap_s = np.diff(unix_s)
    if len(gap_s) and gap_s.max() > max_hold_s:
        row = int(np.argmax(gap_s > max_hold_s))
        raise InputError(
            f"{place(row + 1)}: nothing is published for {zone} between {iso_utc(unix_s[row])} "
            f"and {iso_utc(unix_s[row + 1])} ({gap_s[row] // 60} minutes; a value is held for at "
            f"most {max_hold_s // 60}); {fix}"
        )
    step_s = np.array([usual_step_s(part.unix_s) for part in parts])[files]
    runs = np.append(gap_s, step_s[-1]) // STEP_S
    first = np.repeat(np.cumsum(runs) - runs, runs)
    age = np.arange(runs.sum()) - first
    held = age >= np.repeat(step_s // STEP_S, runs)
    return Held(int(unix_s[0]), np.repeat(values, runs), held)


def usual_step_s(unix_s: NDArray[np.int64]) -> int:
    """The most frequent distance between rows, s, at most an hour; 5 minutes of a single row.

    Args:
        unix_s: int64 (rows,), seconds since 1970-01-01 UTC, in any order.
    """
    steps = np.diff(np.unique(unix_s))
    if len(steps) == 0:
        return STEP_S
    distinct, counts = np.unique(steps, return_counts=True)
    return int(min(distinct[np.argmax(counts)], MAX_HOLD_S))
