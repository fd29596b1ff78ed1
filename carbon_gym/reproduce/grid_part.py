"""How clean the grids are, where and when (paper §2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from carbon_gym.evaluation import Evaluation
from carbon_gym.grid.annual import AnnualMeans, load_annual_means
from carbon_gym.grid.load import load_grid
from carbon_gym.grid.readers import read_grid
from carbon_gym.grid.series import STEP_S, GridSeries, day_start_unix_s
from carbon_gym.report.document import Cell, Column, Section, Table
from carbon_gym.reproduce.grid_pictures import draw_annual, draw_mean_day, draw_week
from carbon_gym.reproduce.inputs import evaluation_of
from carbon_gym.reproduce.plan import Found, Plan, World
from carbon_gym.reproduce.published import ANNUAL_SPAN, ANNUAL_ZONES, VARIATION
from carbon_gym.scenario.schema import Period

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Spread:
    """How one region's intensity varies over some time.

    Attributes:
        mean: Mean intensity, gCO2eq/kWh.
        p99_over_p1: 99th over 1st percentile of the 5-minute values; None: over 0.
        max_over_min: Largest over smallest; None: over 0.
    """

    mean: float
    p99_over_p1: float | None
    max_over_min: float | None

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Spread:
        """The spread of 5-minute values, gCO2eq/kWh."""
        low, p1, p99, high = np.quantile(values, [0.0, 0.01, 0.99, 1.0]).tolist()
        return cls(float(values.mean()), _ratio(p99, p1), _ratio(high, low))


@dataclass(frozen=True, slots=True)
class Cleanest:
    """When one region is the cleanest of all.

    Attributes:
        share: Share of the time, 0 to 1.
        spells: Number of uninterrupted spells.
        mean_h: Their mean length, hours; 0 without one.
        longest_h: Length of the longest, hours.
    """

    share: float
    spells: int
    mean_h: float
    longest_h: float


def year_of_grid(evaluation: Evaluation) -> GridSeries:
    """The grid around an evaluation's days: all that the user's file has, or a generated year.

    The generated year is that of the test split, or where the days lie elsewhere, 365 days from
    the first of them on.

    Raises:
        InputError: As `load_grid` and `read_grid`.
    """
    scenario, period = evaluation.scenario, evaluation.scenario.splits.test
    zones = [region.zone for region in scenario.fleet.regions]
    if scenario.grid.source == "file":
        return read_grid(scenario.grid.paths, zones)
    first, last = min(evaluation.days), max(evaluation.days)
    if not period.start <= first <= last < period.stop:
        period = Period(start=first, stop=first + timedelta(days=365))
    series = load_grid(scenario.grid, zones, period, scenario.seeds.grid)
    days = series.values[: period.days * DAY_S // STEP_S]  # without the spill
    return GridSeries(series.zones, series.start_unix_s, days, series.source)


def values_of_days(series: GridSeries, days: Sequence[date]) -> NDArray[np.float64]:
    """Values of some whole days of the series, each once, float64 (steps, zones)."""
    per_day = DAY_S // STEP_S
    firsts = [(day_start_unix_s(day) - series.start_unix_s) // STEP_S for day in sorted(set(days))]
    return np.concatenate([series.values[first : first + per_day] for first in firsts])


def cleanest_spells(values: NDArray[np.float64]) -> list[Cleanest]:
    """Of each region, how often and how long it is the cleanest; ties go to the first.

    Args:
        values: float64 (steps, regions), 5 minutes apart, gCO2eq/kWh.
    """
    best = values.argmin(axis=1)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(best)) + 1])
    lengths_h = np.diff(np.append(starts, len(best))) * STEP_S / 3600
    found = []
    for region in range(values.shape[1]):
        own = lengths_h[best[starts] == region]
        share = float(np.mean(best == region))
        mean_h, longest_h = (float(own.mean()), float(own.max())) if len(own) else (0.0, 0.0)
        found.append(Cleanest(share, len(own), mean_h, longest_h))
    return found


class GridPart:
    """Annual means over countries, variation within the regions, and which is cleanest when."""

    name = "grid"
    title = "Carbon intensity across regions and time (§2.1)"

    def worlds(self, plan: Plan) -> Sequence[World]:
        """None: no policy is run."""
        return ()

    def section(self, plan: Plan, found: Found) -> Section:
        """Three tables and three pictures.

        Raises:
            InputError: The user's grid cannot be read, or does not have the days of the fleets.
        """
        evaluation = evaluation_of(plan, plan.datasets[0])
        series = year_of_grid(evaluation)
        means = load_annual_means()
        start, stop = (
            datetime.fromtimestamp(second, UTC).date()
            for second in (series.start_unix_s, series.stop_unix_s - 1)
        )
        text = (
            f"The regions below: values in steps of 5 minutes (coarser ones are held until the "
            "next) "
            f"from {start} to {stop}, UTC; the fleets are laid on {len(set(evaluation.days))} of "
            "these days. "
            f"Source: {_as_code(series.source)}. The paper has five-minute data of four regions "
            "in 2025, which cannot be had; it does not say how it measures the variation, nor "
            "which regions it evaluates."
        )
        return Section(
            self.name,
            self.title,
            [
                _annual(means),
                draw_annual(means),
                text,
                _variation(series, evaluation),
                _cleanest(series),
                draw_week(series, day_start_unix_s(evaluation.days[0])),
                draw_mean_day(series),
            ],
        )


def _annual(means: AnnualMeans) -> Table:
    """The span of both lists of countries, beside the published one."""
    rows: list[list[Cell]] = []
    everywhere = tuple(means.g_per_kwh)
    for title, zones in (
        ("with a data centre of the cloud operator", means.with_data_centre),
        ("all", everywhere),
    ):
        low, high = (end(zones, key=means.g_per_kwh.__getitem__) for end in (min, max))
        span = means.span(zones)
        rows.append(
            [
                *(title, len(zones), means.name[low], means.g_per_kwh[low]),
                *(means.name[high], means.g_per_kwh[high]),
                *(span, ANNUAL_SPAN.value, ANNUAL_SPAN.difference(span)),
            ]
        )
    return Table(
        "grid-annual",
        f"Annual means of whole countries and areas, {means.year}",
        [
            Column("countries and areas", kind="text"),
            Column("number"),
            Column("cleanest", kind="text"),
            Column("lowest mean", "g/kWh", digits=0),
            Column("dirtiest", kind="text"),
            Column("highest mean", "g/kWh", digits=0),
            Column("span", "x", digits=1),
            Column("paper", "x", digits=1),
            Column("difference", "x", digits=1, signed=True),
        ],
        rows,
        f"The paper compares {ANNUAL_ZONES.value:g} countries and areas and the summary does not "
        "name them; how far they span depends on that. The first list is chosen by a rule, not by "
        "what comes out: whole countries in which Google Cloud has a region. That they are as many "
        "as the paper's is chance, or the same idea. Contains information from Electricity Maps "
        "(ODbL); made by `carbon-gym calibrate annual`.",
        frozenset({0}),
    )


def _variation(series: GridSeries, evaluation: Evaluation) -> Table:
    """Spread of every region over the whole time and over the days that are evaluated."""
    evaluated = values_of_days(evaluation.grid, evaluation.days)
    rows: list[list[Cell]] = []
    for region, zone in enumerate(series.zones):
        whole = Spread.of(series.values[:, region])
        outside = None if whole.p99_over_p1 is None else VARIATION.difference(whole.p99_over_p1)
        of_days = Spread.of(evaluated[:, region])
        rows.append(
            [
                *(zone, whole.mean, whole.max_over_min, whole.p99_over_p1, outside),
                *(of_days.max_over_min, of_days.p99_over_p1),
            ]
        )
    return Table(
        "grid-variation",
        "Variation within each region",
        [
            Column("region", kind="text"),
            Column("mean", "g/kWh", digits=0),
            Column("max / min", "x", digits=1),
            Column("p99 / p1", "x", digits=1),
            Column("outside the paper's", "x", digits=1, signed=True),
            Column("max / min, days of the fleets", "x", digits=1),
            Column("p99 / p1, days of the fleets", "x", digits=1),
        ],
        rows,
        f"Paper: {VARIATION.text} over its four regions. The fifth column says how far our "
        "99th over 1st percentile lies outside that range; 0: inside. The paper "
        "does not say whether it means that or max / min.",
    )


def _cleanest(series: GridSeries) -> Table:
    spells = cleanest_spells(series.values)
    most = max(range(len(spells)), key=lambda region: spells[region].share)
    return Table(
        "grid-cleanest",
        "When each region is the cleanest",
        [
            Column("region", kind="text"),
            Column("share of the time", "%", digits=1),
            Column("spells"),
            Column("mean spell", "h", digits=1),
            Column("longest spell", "h", digits=1),
        ],
        [
            [zone, 100 * spell.share, spell.spells, spell.mean_h, spell.longest_h]
            for zone, spell in zip(series.zones, spells, strict=True)
        ],
        "A spell ends when another region is cleaner for a step of five minutes. The "
        f"most frequent is cleanest for {100 * spells[most].share:.0f} % of the time; the paper "
        "says, without numbers, that none always is.",
        frozenset({most}),
    )


def _as_code(text: str) -> str:
    """Text of the user's files as Markdown that is shown as it stands."""
    return f"`{text.replace('`', chr(39))}`"


def _ratio(high: float, low: float) -> float | None:
    return high / low if low > 0 else None
