"""The one door to a scenario's grid: generated or from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from carbon_gym.grid.generator import generate_grid
from carbon_gym.grid.readers import read_grid
from carbon_gym.grid.series import MAX_SPILL_S, GridSeries, day_start_unix_s
from carbon_gym.grid.statistics import load_statistics
from carbon_gym.scenario.schema import Grid, Period


def load_grid(config: Grid, zones: Sequence[str], period: Period, seed: int) -> GridSeries:
    """Carbon intensity of the zones for the days of a period and 48 h of spill.

    A generated grid covers the spill as well. A file must cover the period; where it ends before
    the spill does, its last value is held and counted in `GridSeries.held_steps`.

    Args:
        config: The scenario's grid section.
        zones: Zone of each region, in this order.
        period: Days [start, stop), UTC.
        seed: Seed of the generated grid; not used for files.

    Raises:
        InputError: Unknown statistics or zone, a fault in a file, or a period outside it.
    """
    if config.source == "generated":
        spill = timedelta(seconds=MAX_SPILL_S)
        series = generate_grid(
            load_statistics(config.statistics), zones, period.start, period.stop + spill, seed
        )
        return replace(series, source=f"generated from {config.statistics}, seed {seed}")
    start, stop = day_start_unix_s(period.start), day_start_unix_s(period.stop)
    return read_grid(config.paths, zones).window(start, stop)
