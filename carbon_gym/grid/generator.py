"""The generated grid: month x hour profile, correlated weather, and movement inside the hour.

Every value is a function of (statistics, seed, zone, instant) alone. It does not depend on the
other zones asked for nor on the period: two periods that overlap agree where they do. This holds
because each autoregressive part is a moving average of keyed draws over a fixed number of steps,
a power of two that leaves less than 1e-4 of a draw's weight out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.draws import key_of_text, normal
from carbon_gym.errors import InputError
from carbon_gym.grid.series import STEP_S, GridSeries, check_zones, day_start_unix_s
from carbon_gym.grid.statistics import GridStatistics, parse_statistics

Floats = NDArray[np.float64]

_HOUR_S = 3600
_ROWS_PER_HOUR = _HOUR_S // STEP_S
_TAIL_WEIGHT = 1e-4
_EDGE_H = 8
"""Hours read on each side by the filter of `_knots`; what lies beyond weighs 1e-6."""
_DECIMALS = 2


def generate_grid(
    statistics: GridStatistics | Mapping[str, Any],
    zones: Sequence[str],
    start: date,
    stop: date,
    seed: int,
) -> GridSeries:
    """Generate the carbon intensity of some zones.

    Hourly means are the profile of the month and hour plus an AR(1) residual per zone with the
    measured sd, lag-1 autocorrelation and correlation between zones. The profile steps from month
    to month: the residual was measured against that same step profile, so that drifting inside a
    month is already part of its sd. Between the hours runs the line that keeps those means, plus
    an AR(1) at 5 minutes with mean zero in every hour and the measured sd relative to the zone's
    change from hour to hour. Last, values are clipped to the zone's measured [min, max] of hourly
    means and rounded to 0.01. A normal residual would leave that range: in the default regions on
    0.4 to 2 % of the steps, which then sit on the bound and move the mean by less than 1 %; in
    zones that live near a bound of their power mix more often (JP-TK is on its maximum for a
    quarter of the time, and its residual sd is 20 % too small for it).

    Args:
        statistics: From `load_statistics`, or the content of such a file.
        zones: Zones wanted, in this order.
        start: First day, UTC.
        stop: Day after the last one.
        seed: Any integer; different seeds give unrelated grids.

    Returns:
        A series of whole days at 5-minute steps.

    Raises:
        InputError: A zone without statistics, or a period without days.

    Example:
        >>> from carbon_gym.grid.statistics import load_statistics
        >>> statistics = load_statistics("electricitymaps_2021_2022")
        >>> day = generate_grid(statistics, ["DE"], date(2024, 2, 29), date(2024, 3, 1), seed=0)
        >>> day.values.shape
        (288, 1)
    """
    if not isinstance(statistics, GridStatistics):
        statistics = parse_statistics(statistics)
    check_zones(zones, tuple(statistics.zones), "grid statistics")
    if stop <= start or not zones:
        raise InputError(
            f"grid: {len(zones)} zones from {start} to {stop} leave nothing to generate; "
            "name at least one zone and a stop after the start"
        )
    first_hour = day_start_unix_s(start) // _HOUR_S
    hours = np.arange(first_hour - _EDGE_H, day_start_unix_s(stop) // _HOUR_S + _EDGE_H)
    means = _profile(statistics, zones, hours) + _residual(statistics, zones, hours, seed)
    line = _line(_knots(means))
    values = line + _inside_the_hour(statistics, zones, hours[_EDGE_H:-_EDGE_H], seed)
    low = [statistics.zones[zone].min for zone in zones]
    high = [statistics.zones[zone].max for zone in zones]
    clipped: Floats = np.clip(values, low, high).round(_DECIMALS)
    source = f"generated from statistics of {', '.join(map(str, statistics.years))}, seed {seed}"
    return GridSeries(tuple(zones), int(first_hour) * _HOUR_S, clipped, source)


def innovation_correlation(residual: Floats, lag1: Floats) -> Floats:
    """Correlation of the innovations that gives AR(1) processes a wanted correlation.

    Two AR(1) processes with coefficients a and b whose innovations correlate by q correlate by
    ``q sqrt((1 - a²)(1 - b²)) / (1 - a b)`` (DERIVED: the covariance is a geometric series). The
    result is projected to the nearest-by-spectrum correlation matrix: negative eigenvalues are
    set to zero and the diagonal is brought back to one.

    Args:
        residual: (zones, zones), correlation wanted.
        lag1: (zones,), AR(1) coefficients in [0, 1).

    Returns:
        (zones, zones), symmetric, positive semidefinite, ones on the diagonal.
    """
    scale = np.sqrt(1 - lag1**2)
    wanted = residual * (1 - np.outer(lag1, lag1)) / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(wanted)
    positive = (vectors * values.clip(min=0)) @ vectors.T
    size = np.sqrt(np.diag(positive))
    return np.asarray(positive / np.outer(size, size), dtype=np.float64)


def _profile(statistics: GridStatistics, zones: Sequence[str], hours: NDArray[np.int64]) -> Floats:
    """Profile of every hour, (hours, zones), gCO2eq/kWh."""
    month = hours.astype("datetime64[h]").astype("datetime64[M]").astype(np.int64) % 12
    tables = [np.array(statistics.zones[zone].profile) for zone in zones]
    return np.stack([table[month, hours % 24] for table in tables], axis=1)


def _residual(
    statistics: GridStatistics, zones: Sequence[str], hours: NDArray[np.int64], seed: int
) -> Floats:
    """AR(1) residual of the hourly means, (hours, zones), gCO2eq/kWh."""
    known = statistics.residual_correlation.zones
    lag1 = np.array([statistics.zones[zone].residual_lag1 for zone in known])
    matrix = np.array(statistics.residual_correlation.matrix)
    values, vectors = np.linalg.eigh(innovation_correlation(matrix, lag1))
    # The symmetric root is unique, whatever signs a linear-algebra library gives the vectors.
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T

    memory = _memory(float(lag1.max()))
    steps = np.arange(int(hours[0]) - memory, int(hours[-1]) + 1)
    columns = [known.index(zone) for zone in zones]
    innovations = np.zeros((len(steps), len(zones)))
    for factor, name in enumerate(known):
        draws = normal(seed, "grid/hour", key_of_text(name), steps)
        innovations += draws[:, None] * root[columns, factor]
    sd = np.array([statistics.zones[zone].residual_sd for zone in zones])
    return sd * _autoregressive(innovations, lag1[columns], memory)


def _inside_the_hour(
    statistics: GridStatistics, zones: Sequence[str], hours: NDArray[np.int64], seed: int
) -> Floats:
    """Movement around the line, mean zero in every hour, (12 hours, zones), gCO2eq/kWh."""
    shape = (len(hours) * _ROWS_PER_HOUR, len(zones))
    if statistics.subhourly is None:
        return np.zeros(shape)
    memory = _memory(statistics.subhourly.lag1_5min)
    first = int(hours[0]) * _ROWS_PER_HOUR
    steps = np.arange(first - memory, first + shape[0])
    innovations = np.stack(
        [normal(seed, "grid/5min", key_of_text(zone), steps) for zone in zones], axis=1
    )
    lag1 = np.full(len(zones), statistics.subhourly.lag1_5min)
    movement = _autoregressive(innovations, lag1, memory)
    movement = movement.reshape(len(hours), _ROWS_PER_HOUR, len(zones))
    movement -= movement.mean(axis=1, keepdims=True)
    change_sd = np.array([statistics.zones[zone].hourly_change_sd for zone in zones])
    return movement.reshape(shape) * (statistics.subhourly.sd_over_hourly_change_sd * change_sd)


def _memory(lag1: float) -> int:
    """Steps after which a draw weighs less than `_TAIL_WEIGHT`, rounded up to a power of two."""
    if lag1 <= _TAIL_WEIGHT:
        return 1
    return int(2 ** math.ceil(math.log2(max(1.0, math.log(_TAIL_WEIGHT) / math.log(lag1)))))


def _autoregressive(innovations: Floats, lag1: Floats, memory: int) -> Floats:
    """Unit-variance AR(1) of each column, cut off after `memory` steps; drops that many rows.

    The sum of ``lag1**k * e[t - k]`` over k < memory is the product of ``1 + lag1**n B**n`` for
    n = 1, 2, 4, ... (B shifts by one step): log2(memory) additions of whole arrays.
    """
    total = innovations
    weight, shift = lag1.copy(), 1
    while shift < memory:
        later = total.copy()
        later[shift:] += weight * total[:-shift]
        total, weight, shift = later, weight * weight, 2 * shift
    # `weight` is now lag1**memory; the variance of the cut sum is (1 - weight²) / (1 - lag1²).
    return total[memory:] * np.sqrt((1 - lag1**2) / (1 - weight**2))


def _knots(means: Floats) -> Floats:
    """Points at the middle of the hours whose connecting line has the given hourly means.

    On 12 rows the line's mean is ``(before + 6 here + after) / 8``; the inverse of that filter
    weighs the hour k away with ``sqrt(2) (sqrt(8) - 3)**|k|`` (DERIVED).

    Args:
        means: (hours + 2 * _EDGE_H, zones).

    Returns:
        (hours + 2, zones): with one hour before and one after.
    """
    reach = _EDGE_H - 1
    inner = len(means) - 2 * reach
    knots = means[reach : reach + inner].copy()
    for distance in range(1, reach + 1):
        weight = (math.sqrt(8) - 3) ** distance
        before = means[reach - distance : reach - distance + inner]
        after = means[reach + distance : reach + distance + inner]
        knots += weight * (before + after)
    return math.sqrt(2) * knots


def _line(knots: Floats) -> Floats:
    """5-minute rows of the line through points at the middle of the hours, (12 hours, zones)."""
    before, here, after = knots[:-2, None], knots[1:-1, None], knots[2:, None]
    distance = (np.arange(_ROWS_PER_HOUR) - (_ROWS_PER_HOUR - 1) / 2) / _ROWS_PER_HOUR
    to_before = np.maximum(-distance, 0)[:, None]
    to_after = np.maximum(distance, 0)[:, None]
    rows = here + to_before * (before - here) + to_after * (after - here)
    return np.asarray(rows.reshape(-1, knots.shape[1]), dtype=np.float64)
