"""The pictures of the grid analysis: countries, a week, the mean day."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.grid.annual import AnnualMeans
from carbon_gym.grid.series import STEP_S, GridSeries, iso_utc
from carbon_gym.report.document import Picture
from carbon_gym.report.style import new_figure, plain
from carbon_gym.reproduce.published import ANNUAL_SPAN

_STEPS_A_DAY = 86_400 // STEP_S
_BAR = "#0072B2"  # Okabe and Ito's palette


def draw_annual(means: AnnualMeans) -> Picture:
    """Annual means of the countries with a data centre, as bars."""
    zones = sorted(means.with_data_centre, key=means.g_per_kwh.__getitem__)
    heights = [means.g_per_kwh[zone] for zone in zones]
    figure = new_figure(7.5, 3.8)
    axes = figure.subplots()
    axes.bar(range(len(zones)), heights, color=_BAR, width=0.75)
    for place, height in enumerate(heights):
        axes.text(place, height + 6, f"{height:.0f}", ha="center", va="bottom", fontsize=7)
    axes.set_xticks(
        range(len(zones)), [means.name[zone] for zone in zones], rotation=45, ha="right", fontsize=8
    )
    axes.set(ylabel=f"mean of {means.year}, gCO2eq/kWh", xlim=(-0.6, len(zones) - 0.4))
    plain(axes)
    span = means.span(means.with_data_centre)
    axes.set_title(f"{span:.1f}x from end to end (paper: {ANNUAL_SPAN.text})", fontsize=10)
    return Picture(
        "grid-annual",
        "Annual means of countries with a data centre of the cloud operator",
        figure,
        f"Bars from {means.name[zones[0]]}, {heights[0]:.0f} g/kWh, to "
        f"{means.name[zones[-1]]}, {heights[-1]:.0f}.",
        "Contains information from Electricity Maps (ODbL).",
    )


def draw_week(series: GridSeries, start_unix_s: int) -> Picture:
    """Seven days of all regions.

    Args:
        series: The regions.
        start_unix_s: Start of the week, s since 1970-01-01 UTC; moved back where the series ends
            earlier than a week later.
    """
    steps = min(7 * _STEPS_A_DAY, len(series.values))
    first = min(max((start_unix_s - series.start_unix_s) // STEP_S, 0), len(series.values) - steps)
    values = series.values[first : first + steps]
    figure = new_figure(7.5, 3.6)
    axes = figure.subplots()
    hours = np.arange(steps) * STEP_S / 3600
    _lines(axes, series.zones, hours / 24, values)
    begins = iso_utc(series.start_unix_s + first * STEP_S)[:10]
    axes.set(xlabel=f"days since {begins}, UTC", ylabel="gCO2eq/kWh", xlim=(0, hours[-1] / 24))
    return Picture(
        "grid-week",
        "A week of all regions",
        figure,
        f"Carbon intensity of {', '.join(series.zones)} over a week.",
        "From the first day of the fleets on.",
    )


def draw_mean_day(series: GridSeries) -> Picture:
    """Mean of each region by time of the day, UTC."""
    second_of_day = (series.start_unix_s + np.arange(len(series.values)) * STEP_S) % 86_400
    step = second_of_day // STEP_S
    counts = np.bincount(step, minlength=_STEPS_A_DAY)
    sums = np.stack(
        [
            np.bincount(step, weights=series.values[:, region], minlength=_STEPS_A_DAY)
            for region in range(len(series.zones))
        ],
        axis=1,
    )
    there = counts > 0
    figure = new_figure(7.5, 3.6)
    axes = figure.subplots()
    hours = np.arange(_STEPS_A_DAY) * STEP_S / 3600
    _lines(axes, series.zones, hours[there], sums[there] / counts[there, None])
    axes.set_xticks(range(0, 25, 3))
    axes.set(xlabel="hour of the day, UTC", ylabel="mean, gCO2eq/kWh", xlim=(0, 24))
    return Picture(
        "grid-day",
        "The mean day of all regions",
        figure,
        f"Mean carbon intensity of {', '.join(series.zones)} by hour of the day, UTC.",
        "Mean over all days of the tables above.",
    )


def _lines(
    axes: Any, zones: tuple[str, ...], x: NDArray[np.float64], values: NDArray[np.float64]
) -> None:
    """One line a region, in the colours that the environments' pictures give regions."""
    from carbon_gym.envs.ink import legible, region_colour

    for region, zone in enumerate(zones):
        axes.plot(
            x, values[:, region], color=region_colour(region), linewidth=1.3, label=legible(zone)
        )
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    plain(axes)
