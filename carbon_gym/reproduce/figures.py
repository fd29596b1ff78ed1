"""From the rows of worlds to the cells of tables: paired over fleets, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from carbon_gym.metrics import figures
from carbon_gym.metrics.guard import over_fleets
from carbon_gym.report.document import Measured
from carbon_gym.reproduce.plan import Row

Rows = Sequence[Row]
"""Of one policy in one world, as `Found.rows` gives them."""
Floats = NDArray[np.float64]

PERCENT = 100.0


def of_all(rows: Rows, figure: str, longer_than: int | None = None) -> float | None:
    """A figure over the turns of all fleets; None where there is none.

    Args:
        rows: Of a policy.
        figure: Key of a row, or of its `by_session_turns`.
        longer_than: Only of sessions with more turns than this; None: of all.
    """
    (row,) = [row for row in rows if row["fleet"] == "all"]
    return _figure(row, figure, longer_than)


def of_fleets(rows: Rows, figure: str, longer_than: int | None = None) -> Floats:
    """The same of each fleet, float64 (F,); NaN where there is none."""
    fleets = [row for row in rows if row["fleet"] != "all"]
    return np.array([_figure(row, figure, longer_than) for row in fleets], dtype=np.float64)


def mean_of_all(
    data_sets: Sequence[Rows], figure: str, longer_than: int | None = None
) -> float | None:
    """The mean over data sets of a figure of all fleets; None where one has none."""
    values = [of_all(rows, figure, longer_than) for rows in data_sets]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def relative(
    mine: Rows, reference: Rows, figure: str = "co2_g", longer_than: int | None = None
) -> Floats:
    """A figure as a multiple of the reference's, float64 (F,); NaN where that is 0 or missing."""
    base = of_fleets(reference, figure, longer_than)
    return of_fleets(mine, figure, longer_than) / np.where(base > 0, base, np.nan)


def measured(by_fleet: Floats, scale: float = 1.0) -> Measured | None:
    """Mean over fleets, with its paired t interval from five fleets on.

    Args:
        by_fleet: float64 (F,); fleets with NaN have no such figure and are left out.
        scale: Of the cell.
    """
    estimate = over_fleets(by_fleet[np.isfinite(by_fleet)])
    if estimate["mean"] is None:
        return None
    if estimate["low"] is None or estimate["high"] is None:
        return Measured(scale * estimate["mean"])
    return Measured(*(scale * end for end in (estimate["mean"], estimate["low"], estimate["high"])))


def saved(mine: Rows, reference: Rows, longer_than: int | None = None) -> Measured | None:
    """CO2 saved over a reference on the same fleets, %."""
    return measured(1.0 - relative(mine, reference, longer_than=longer_than), PERCENT)


def added(
    mine: Rows, reference: Rows, figure: str = "co2_g", longer_than: int | None = None
) -> Measured | None:
    """By how much a figure lies above the reference's, % of that."""
    return measured(relative(mine, reference, figure, longer_than) - 1.0, PERCENT)


def saved_on_average(
    pairs: Sequence[tuple[Rows, Rows]], longer_than: int | None = None
) -> Measured | None:
    """The mean of what is saved on several data sets, %; paired by day.

    Args:
        pairs: Rows and those of the reference, by data set; all of the same days.
        longer_than: As in `of_all`.
    """
    shares = [1.0 - relative(*pair, longer_than=longer_than) for pair in pairs]
    return measured(np.mean(shares, axis=0), PERCENT)


def added_on_average(
    pairs: Sequence[tuple[Rows, Rows]], figure: str = "co2_g", longer_than: int | None = None
) -> Measured | None:
    """The mean of what is added on several data sets, %; see `saved_on_average`."""
    shares = [relative(*pair, figure, longer_than) - 1.0 for pair in pairs]
    return measured(np.mean(shares, axis=0), PERCENT)


def no_worse(mine: Rows, reference: Rows, figure: str) -> str:
    """Whether a figure over all turns is no worse than the reference's: yes or no.

    Args:
        mine: Rows of a policy.
        reference: Rows of another on the same fleets.
        figure: One of `carbon_gym.metrics.figures.CONSTRAINTS`, which knows what is worse.
    """
    ours, theirs = of_all(mine, figure), of_all(reference, figure)
    if ours is None or theirs is None:
        return "–"
    return "yes" if figures.no_worse(figure, ours, theirs) else "no"


def whiskers(cells: Sequence[Measured]) -> list[list[float]]:
    """How far intervals reach below and above, as matplotlib's errorbar takes it; 0 without one."""
    return [
        [0.0 if cell.low is None else cell.value - cell.low for cell in cells],
        [0.0 if cell.high is None else cell.high - cell.value for cell in cells],
    ]


def _figure(row: Row, figure: str, longer_than: int | None) -> float | None:
    source = row if longer_than is None else row["by_session_turns"][f">{longer_than}"]
    value: float | None = source[figure]
    return value
