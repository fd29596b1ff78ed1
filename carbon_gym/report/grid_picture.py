"""A picture of an imported grid: each zone over time, and over the hours of the day."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carbon_gym.grid.series import STEP_S, GridSeries
from carbon_gym.report.style import new_figure, plain, save

MOST_IN_COLOUR = 10
"""Zones with a colour and a name; the others are drawn in grey."""
_DAILY_FROM_DAYS = 21
_DAY_ROWS = 86_400 // STEP_S


def draw_grid(path: Path, series: GridSeries) -> None:
    """Draw a series: daily means (all values, where they are few), and means by hour, UTC.

    Args:
        path: The PNG to write.
        series: What to draw.
    """
    values, times = series.values, series.start_unix_s + STEP_S * np.arange(len(series.values))
    shown, at = values, times
    title = "every value"
    if len(values) >= _DAILY_FROM_DAYS * _DAY_ROWS:
        days = len(values) // _DAY_ROWS
        shown = values[: days * _DAY_ROWS].reshape(days, _DAY_ROWS, -1).mean(axis=1)
        at, title = times[: days * _DAY_ROWS : _DAY_ROWS], "daily means"
    moments = [datetime.fromtimestamp(int(second), UTC) for second in at]
    hours = times // 3600 % 24
    figure = new_figure(11.0, 4.2)
    panels = figure.subplots(1, 2, width_ratios=(2, 1))
    for number, zone in enumerate(series.zones):
        named = number < MOST_IN_COLOUR
        look = {"color": f"C{number}" if named else "0.8", "label": zone if named else None}
        panels[0].plot(moments, shown[:, number], linewidth=1.0, zorder=3 - (not named), **look)
        by_hour = _means(values[:, number], hours)
        panels[1].plot(range(24), by_hour, linewidth=1.4, zorder=3 - (not named), **look)
    panels[0].set(title=title, ylabel="gCO2eq/kWh")
    panels[0].tick_params(axis="x", rotation=30)
    panels[1].set(title="means by hour, UTC", xlabel="hour")
    for axes in panels:
        axes.set_ylim(bottom=0)
        plain(axes)
    panels[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    save(figure, path)


def _means(values: NDArray[np.float64], hours: NDArray[np.int64]) -> list[float]:
    """Mean by hour; NaN where the series has none of an hour, which draws nothing."""
    return [float(values[hours == h].mean()) if (hours == h).any() else np.nan for h in range(24)]
