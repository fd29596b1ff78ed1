"""The one door to a scenario's grid."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from carbon_gym.errors import InputError
from carbon_gym.grid.load import load_grid
from carbon_gym.grid.series import GridSeries, day_start_unix_s
from carbon_gym.scenario.schema import Grid, Period

DAY_S = 86_400
PERIOD = Period(start=date(2024, 2, 28), stop=date(2024, 3, 2))
START, STOP = day_start_unix_s(PERIOD.start), day_start_unix_s(PERIOD.stop)


def daily_file(path: Path, days: int) -> Path:
    rows = [
        f"{date.fromordinal(date(2024, 2, 28).toordinal() + day)}T{hour:02}:00Z,{day},{hour}"
        for day in range(days)
        for hour in range(24)
    ]
    path.write_text("\n".join(["datetime_utc,GB,DE", *rows]))
    return path


def in_days(series: GridSeries, days: int) -> bool:
    return series.start_unix_s == START and series.stop_unix_s == START + days * DAY_S


def test_generated_grid_covers_the_period_and_the_spill() -> None:
    series = load_grid(Grid(), ["DE", "GB"], PERIOD, seed=1)
    assert in_days(series, PERIOD.days + 2)
    assert series.zones == ("DE", "GB")
    assert series.held_steps == 0
    assert series.source == "generated from electricitymaps_2021_2022, seed 1"
    later = Period(start=date(2024, 3, 1), stop=date(2024, 3, 5))
    other = load_grid(Grid(), ["GB", "DE"], later, seed=1).select(["DE", "GB"])
    np.testing.assert_array_equal(series.values[2 * 288 :], other.values[: 3 * 288])


def test_file_with_room_for_the_spill(tmp_path: Path) -> None:
    config = Grid(source="file", paths=(str(daily_file(tmp_path / "g.csv", 9)),))
    series = load_grid(config, ["DE", "GB"], PERIOD, seed=1)
    assert in_days(series, PERIOD.days + 2)
    assert series.held_steps == 0
    assert series.at("GB", STOP + DAY_S) == PERIOD.days + 1


def test_file_that_ends_with_the_period_is_held_and_counted(tmp_path: Path) -> None:
    config = Grid(source="file", paths=(str(daily_file(tmp_path / "g.csv", PERIOD.days)),))
    series = load_grid(config, ["DE", "GB"], PERIOD, seed=1)
    assert in_days(series, PERIOD.days + 2)
    assert series.held_steps == 2 * 288
    assert series.at("DE", series.stop_unix_s - 1) == 23


def test_file_that_does_not_cover_the_period(tmp_path: Path) -> None:
    config = Grid(source="file", paths=(str(daily_file(tmp_path / "g.csv", 2)),))
    with pytest.raises(InputError) as caught:
        load_grid(config, ["DE"], PERIOD, seed=1)
    assert "g.csv" in str(caught.value)
    assert "2024-02-28T00:00Z to 2024-03-02T00:00Z is asked for" in str(caught.value)
    assert "goes from 2024-02-28T00:00Z to 2024-03-01T00:00Z" in str(caught.value)


def test_unknown_zone_and_statistics() -> None:
    with pytest.raises(InputError, match="zone 'XX' is not there"):
        load_grid(Grid(), ["XX"], PERIOD, seed=1)
    with pytest.raises(InputError, match="grid statistics 'em' are not known"):
        load_grid(Grid(statistics="em"), ["DE"], PERIOD, seed=1)


def test_real_file_of_the_issue(shared_data: Path) -> None:
    path = shared_data / "grid" / "em_hourly_2021_2023_lca.csv.gz"
    config = Grid(source="file", paths=(str(path),))
    zones = ["US-CAL-CISO", "US-TEX-ERCO", "GB", "DE"]
    days = Period(start=date(2023, 5, 8), stop=date(2023, 5, 16))
    series = load_grid(config, zones, days, seed=0)
    assert series.values.shape == (10 * 288, 4)
    assert series.held_steps == 0
    last = Period(start=date(2023, 12, 31), stop=date(2024, 1, 1))
    assert load_grid(config, zones, last, seed=0).held_steps == 2 * 288
    with pytest.raises(InputError, match="is asked for, but the series goes from 2021-01-01"):
        load_grid(config, zones, Period(start=date(2023, 12, 31), stop=date(2024, 1, 2)), seed=0)
