"""The generated grid against the statistics that it is made from, and against what was measured.

Tolerances are for eight generated years: the residual's memory of 40 to 140 hours leaves the mean
of such a sample with a standard error of up to 1.6 % (DE), its sd with about as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.generator import generate_grid, innovation_correlation
from carbon_gym.grid.readers import read_grid
from carbon_gym.grid.series import GridSeries, day_start_unix_s
from carbon_gym.grid.statistics import GridStatistics, load_statistics

DEFAULT = ("US-CAL-CISO", "US-TEX-ERCO", "GB", "DE")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """What hourly means of the default zones show; arrays are per zone in the order of DEFAULT."""

    mean: Floats
    sd: Floats
    residual_sd: Floats
    lag1: Floats
    correlation: Floats
    cleanest_share: Floats
    cleanest_changes: float
    day_max_over_min: Floats


def measure(series: GridSeries) -> Measured:
    hourly = series.values.reshape(-1, 12, len(series.zones)).mean(axis=1)
    hour = series.start_unix_s // 3600 + np.arange(len(hourly))
    month = hour.astype("datetime64[h]").astype("datetime64[M]").astype(int)
    cell, year = (month % 12) * 24 + hour % 24, month // 12
    residual = hourly.copy()
    for index in np.unique(cell):
        residual[cell == index] -= hourly[cell == index].mean(axis=0)
    for index in np.unique(year):
        residual[year == index] -= residual[year == index].mean(axis=0)
    days = hourly.reshape(-1, 24, len(series.zones))
    cleanest = hourly.argmin(axis=1)
    return Measured(
        hourly.mean(axis=0),
        hourly.std(axis=0),
        residual.std(axis=0),
        np.array([np.corrcoef(r[:-1], r[1:])[0, 1] for r in residual.T]),
        np.corrcoef(residual.T),
        np.bincount(cleanest, minlength=len(series.zones)) / len(cleanest),
        float((np.diff(cleanest) != 0).mean()),
        (days.max(axis=1) / days.min(axis=1)).mean(axis=0),
    )


@pytest.fixture(scope="module")
def statistics() -> GridStatistics:
    return load_statistics("electricitymaps_2021_2022")


@pytest.fixture(scope="module")
def eight_years(statistics: GridStatistics) -> GridSeries:
    return generate_grid(statistics, DEFAULT, date(2021, 1, 1), date(2029, 1, 1), seed=20264)


@pytest.fixture(scope="module")
def generated(eight_years: GridSeries) -> Measured:
    return measure(eight_years)


def test_against_the_shipped_statistics(statistics: GridStatistics, generated: Measured) -> None:
    zones = [statistics.zones[zone] for zone in DEFAULT]
    np.testing.assert_allclose(generated.mean, [zone.mean for zone in zones], rtol=0.04)
    np.testing.assert_allclose(generated.sd, [zone.sd for zone in zones], rtol=0.08)
    np.testing.assert_allclose(
        generated.residual_sd, [zone.residual_sd for zone in zones], rtol=0.12
    )
    np.testing.assert_allclose(generated.lag1, [zone.residual_lag1 for zone in zones], atol=0.005)
    known = statistics.residual_correlation
    rows = [known.zones.index(zone) for zone in DEFAULT]
    np.testing.assert_allclose(
        generated.correlation, np.array(known.matrix)[np.ix_(rows, rows)], atol=0.1
    )


def test_against_the_measured_years(generated: Measured, shared_data: Path) -> None:
    series = read_grid(shared_data / "grid" / "em_hourly_2021_2023_lca.csv.gz", DEFAULT)
    start, stop = day_start_unix_s(date(2021, 1, 1)), day_start_unix_s(date(2023, 1, 1))
    real = measure(series.window(start, stop, 0))
    np.testing.assert_allclose(generated.mean, real.mean, rtol=0.04)
    np.testing.assert_allclose(generated.sd, real.sd, rtol=0.08)
    np.testing.assert_allclose(generated.lag1, real.lag1, atol=0.005)
    np.testing.assert_allclose(generated.correlation, real.correlation, atol=0.1)
    np.testing.assert_allclose(generated.cleanest_share, real.cleanest_share, atol=0.04)
    assert generated.cleanest_changes == pytest.approx(real.cleanest_changes, abs=0.012)
    np.testing.assert_allclose(generated.day_max_over_min, real.day_max_over_min, rtol=0.1)


def test_against_recorded_facts_of_the_measured_years(generated: Measured) -> None:
    """The figures of 2021-2022 themselves, so that this holds without the data files too."""
    np.testing.assert_allclose(generated.cleanest_share, [0.335, 0.024, 0.632, 0.008], atol=0.04)
    np.testing.assert_allclose(generated.day_max_over_min, [1.87, 1.45, 1.90, 1.60], rtol=0.1)


def test_profile_is_reproduced(statistics: GridStatistics, eight_years: GridSeries) -> None:
    hourly = eight_years.values.reshape(-1, 12, 4).mean(axis=1)[:, 0]
    hour = eight_years.start_unix_s // 3600 + np.arange(len(hourly))
    month = hour.astype("datetime64[h]").astype("datetime64[M]").astype(int) % 12
    for index, profile in enumerate(statistics.zones[DEFAULT[0]].profile):
        by_hour = hourly[month == index].reshape(-1, 24).mean(axis=0)
        # Standard error of such a mean: 34 g/kWh over about 50 independent spells.
        np.testing.assert_allclose(by_hour, profile, atol=20)


def test_movement_inside_the_hour(statistics: GridStatistics, eight_years: GridSeries) -> None:
    """The generated California moves inside the hour as the measured one does."""
    assert statistics.subhourly is not None
    rows = eight_years.values[:, 0].reshape(-1, 12)
    means = rows.mean(axis=1)
    middle = np.arange(6) / 12 + 1 / 24
    late = means[:-1, None] + middle * np.diff(means)[:, None]
    deviation = rows[:-1, 6:] - late
    ratio = deviation.std() / np.diff(means).std()
    assert ratio == pytest.approx(statistics.subhourly.sd_over_hourly_change_sd, rel=0.1)
    lag1 = np.corrcoef(deviation[:, :-1].ravel(), deviation[:, 1:].ravel())[0, 1]
    assert lag1 == pytest.approx(statistics.subhourly.lag1_5min, abs=0.07)
    assert np.all((eight_years.values[1:] != eight_years.values[:-1]).mean(axis=0) > 0.9)


def test_hourly_means_are_kept_by_line_and_movement(statistics: GridStatistics) -> None:
    """With and without movement inside the hour the hourly means agree (away from the bounds)."""
    still = statistics.model_copy(update={"subhourly": None})
    period = (date(2024, 2, 28), date(2024, 3, 3))
    zone = statistics.zones["DE"]
    both = [
        generate_grid(each, ["DE"], *period, seed=4).values.reshape(-1, 12)
        for each in (statistics, still)
    ]
    inside = np.all([(zone.min < v.min(axis=1)) & (v.max(axis=1) < zone.max) for v in both], axis=0)
    assert inside.mean() > 0.8
    np.testing.assert_allclose(
        both[0].mean(axis=1)[inside], both[1].mean(axis=1)[inside], atol=0.01
    )
    assert not np.allclose(both[0], both[1])


def test_values_stay_in_the_measured_range(statistics: GridStatistics) -> None:
    zones = list(statistics.zones)
    values = generate_grid(statistics, zones, date(2023, 1, 1), date(2024, 1, 1), seed=1).values
    assert np.isfinite(values).all()
    for index, zone in enumerate(statistics.zones.values()):
        assert zone.min <= values[:, index].min()
        assert values[:, index].max() <= zone.max
    on_bound = [
        np.isin(values[:, zones.index(z)], [statistics.zones[z].min, statistics.zones[z].max])
        for z in DEFAULT
    ]
    assert np.mean(on_bound) < 0.03


ZONES = st.lists(
    st.sampled_from([*DEFAULT, "SG", "ZA", "CA-ON"]), min_size=1, max_size=4, unique=True
)


@settings(max_examples=15, deadline=None)
@given(
    zones=ZONES,
    first=st.integers(0, 1500),
    days=st.integers(1, 5),
    before=st.integers(0, 3),
    after=st.integers(0, 3),
    seed=st.integers(-(2**40), 2**40),
)
def test_a_value_depends_on_seed_zone_and_instant_alone(
    statistics: GridStatistics,
    zones: list[str],
    first: int,
    days: int,
    before: int,
    after: int,
    seed: int,
) -> None:
    start = date(2021, 1, 1) + timedelta(days=first)
    stop = start + timedelta(days=days)
    short = generate_grid(statistics, zones, start, stop, seed)
    long = generate_grid(
        statistics,
        ["KR", *sorted(zones)],
        start - timedelta(days=before),
        stop + timedelta(days=after),
        seed,
    ).select(zones)
    assert short.covers(day_start_unix_s(start), day_start_unix_s(stop))
    rows = slice(before * 288, before * 288 + len(short.values))
    np.testing.assert_array_equal(long.values[rows], short.values)


def test_seeds_differ_and_repeat(statistics: GridStatistics) -> None:
    period = (date(2023, 12, 30), date(2024, 1, 2))
    zero, one, again = (
        generate_grid(statistics, DEFAULT, *period, seed=seed).values for seed in (0, 1, 0)
    )
    np.testing.assert_array_equal(zero, again)
    assert np.all((zero != one).mean(axis=0) > 0.9)


def test_global_random_state_is_left_alone(statistics: GridStatistics) -> None:
    before = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    generate_grid(statistics, ["DE"], date(2024, 1, 1), date(2024, 1, 2), seed=0)
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]  # noqa: NPY002


def test_leap_day_and_year_end(statistics: GridStatistics) -> None:
    leap = generate_grid(statistics, ["GB"], date(2024, 2, 29), date(2024, 3, 1), seed=0)
    assert leap.values.shape == (288, 1)
    assert leap.start_unix_s == day_start_unix_s(date(2024, 2, 29))
    whole = generate_grid(statistics, ["GB"], date(2023, 12, 31), date(2025, 1, 1), seed=0)
    assert whole.values.shape == (367 * 288, 1)


def test_no_step_at_midnight(eight_years: GridSeries) -> None:
    """Blocks of generation leave no seam: changes over midnight are like the hour before's."""
    change = np.abs(np.diff(eight_years.values[:, 2]))
    midnight = change[287::288]
    assert midnight.mean() < 1.5 * change[275::288].mean()


@given(
    lag1=st.lists(st.floats(0, 0.9995), min_size=2, max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_innovation_correlation_is_a_correlation(lag1: list[float], seed: int) -> None:
    factors = np.random.default_rng(seed).standard_normal((len(lag1), 3))
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    wanted = factors @ factors.T
    matrix = innovation_correlation(wanted, np.array(lag1))
    np.testing.assert_allclose(np.diag(matrix), 1)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9
    same = innovation_correlation(wanted, np.full(len(lag1), lag1[0]))
    np.testing.assert_allclose(same, wanted, atol=1e-7)


def test_unknown_zone_and_empty_period(statistics: GridStatistics) -> None:
    with pytest.raises(InputError, match="zone 'US-TX-ERCO' is not there; nearest: US-TEX-ERCO"):
        generate_grid(statistics, ["US-TX-ERCO"], date(2024, 1, 1), date(2024, 1, 2), 0)
    with pytest.raises(InputError, match="leave nothing to generate"):
        generate_grid(statistics, ["DE"], date(2024, 1, 1), date(2024, 1, 1), 0)
    with pytest.raises(InputError, match="0 zones"):
        generate_grid(statistics, [], date(2024, 1, 1), date(2024, 1, 2), 0)
