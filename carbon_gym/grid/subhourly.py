"""How carbon intensity moves inside the hour, from a 5-minute file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.csv_table import read_table
from carbon_gym.grid.layouts import layout_of
from carbon_gym.grid.series import STEP_S
from carbon_gym.grid.times import TimeColumn, find_time_column

_ROWS_PER_HOUR = 3600 // STEP_S
_MAX_LAG1 = 0.99


def subhourly_statistics(path: str | Path) -> dict[str, Any]:
    """Statistics of the deviation from the line through the hourly means.

    The file has one zone at 5-minute steps in one of the layouts of `read_grid`. Local time
    without an offset is allowed here, and only here: times serve to tell which rows share an
    hour and which hours follow each other; no instant is derived from them. (Where a clock is
    set back, the repeated hour must not be in the file twice.)

    Returns:
        JSON-plain: `relative_sd` (sd over the mean intensity), `sd_over_hourly_change_sd`,
        `lag1_5min`, `hours` used, `source`, `label`.

    Raises:
        InputError: A fault in the file, more than one zone, or too few complete hours.
    """
    table = read_table(path)
    found = find_time_column(table)
    layout = layout_of(table, TimeColumn(found.index, found.name, says_utc=True))
    if len(layout.zones) != 1:
        raise InputError(
            f"{path}: has {len(layout.zones)} zones ({', '.join(layout.zones[:4])}, ...); "
            "give a file of one zone"
        )
    published = layout.published(layout.zones)[0]
    order = np.argsort(published.unix_s, kind="stable")
    step, values = published.unix_s[order] // STEP_S, published.values[order]
    repeated = np.diff(step) == 0
    if repeated.any():
        line = published.lines[order][int(np.argmax(repeated)) + 1]
        raise InputError(
            f"{path}, row {line}: the time is there twice (an hour repeated as the clock was set "
            "back?); delete the repeated rows"
        )

    hour = step // _ROWS_PER_HOUR
    complete, counts = np.unique(hour, return_counts=True)
    complete = complete[counts == _ROWS_PER_HOUR]
    inside = values[np.isin(hour, complete)].reshape(-1, _ROWS_PER_HOUR)
    means = inside.mean(axis=1)
    follows = np.diff(complete) == 1
    middle = np.flatnonzero(follows[:-1] & follows[1:]) + 1
    if len(middle) < 24:
        raise InputError(
            f"{path}: has {len(middle)} complete hours at 5-minute steps between complete hours; "
            "give 5-minute data of at least a few days"
        )
    deviation = inside[middle] - _line(means, middle)
    change_sd = float(np.diff(means)[follows].std())
    if change_sd == 0:
        raise InputError(f"{path}: the hourly means never change; give a measured series")
    sd = float(np.sqrt((deviation**2).mean()))
    return {
        "label": "DERIVED",
        "source": Path(path).name,
        "relative_sd": round(sd / float(means.mean()), 4),
        "sd_over_hourly_change_sd": round(sd / change_sd, 4),
        "lag1_5min": round(min(max(_lag1(deviation, middle), 0.0), _MAX_LAG1), 4),
        "hours": len(middle),
    }


def _line(means: NDArray[np.float64], middle: NDArray[np.int64]) -> NDArray[np.float64]:
    """Straight lines between hourly means at the middle of the hours, (hours, 12)."""
    distance = (np.arange(_ROWS_PER_HOUR) - (_ROWS_PER_HOUR - 1) / 2) / _ROWS_PER_HOUR
    here = means[middle, None]
    before, after = means[middle - 1, None], means[middle + 1, None]
    line = np.where(
        distance < 0, here - distance * (before - here), here + distance * (after - here)
    )
    return np.asarray(line, dtype=np.float64)


def _lag1(deviation: NDArray[np.float64], middle: NDArray[np.int64]) -> float:
    """Autocorrelation at one step, over hours that follow each other as well as inside them."""
    flat = deviation.ravel()
    step = (middle[:, None] * _ROWS_PER_HOUR + np.arange(_ROWS_PER_HOUR)).ravel()
    follows = np.diff(step) == 1
    return float(np.corrcoef(flat[:-1][follows], flat[1:][follows])[0, 1])
