"""Calibration: known processes are recovered, and what is shipped can be computed again."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from carbon_gym.errors import InputError
from carbon_gym.grid.calibrate import calibrate_grid, write_grid_statistics
from carbon_gym.grid.generator import generate_grid
from carbon_gym.grid.series import GridSeries, iso_utc
from carbon_gym.grid.statistics import load_statistics, parse_statistics
from carbon_gym.grid.subhourly import subhourly_statistics
from carbon_gym.resources import packaged

SHIPPED = "electricitymaps_2021_2022"


def write_series(series: GridSeries, path: Path, every: int = 12, decimals: int = 3) -> Path:
    rows = [f"datetime_utc,{','.join(series.zones)}"]
    for index in range(0, len(series.values), every):
        time = iso_utc(series.start_unix_s + 300 * index)
        rows.append(f"{time},{','.join(f'{v:.{decimals}f}' for v in series.values[index])}")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hourly file of a generated year of three zones, one of them constant."""
    series = generate_grid(
        load_statistics(SHIPPED), ["DE", "GB"], date(2024, 1, 1), date(2025, 1, 1), seed=3
    )
    hourly = series.values.reshape(-1, 12, 2).mean(axis=1).repeat(12, axis=0)
    flat = np.full((len(hourly), 1), 435.1)
    with_flat = GridSeries(("DE", "GB", "HK"), series.start_unix_s, np.hstack([hourly, flat]))
    return write_series(with_flat, tmp_path_factory.mktemp("grid") / "year.csv")


def test_known_numbers_of_a_made_up_year(tmp_path: Path) -> None:
    """Value = month number * 10 + hour + a cycle of +1, -1 per hour: all known by hand."""
    lines = ["datetime_utc,X"]
    moment = datetime(2023, 1, 1, tzinfo=UTC)
    for _ in range(8760):
        value = moment.month * 10 + moment.hour + (1 if (moment.timetuple().tm_yday) % 2 else -1)
        lines.append(f"{moment:%Y-%m-%dT%H:%MZ},{value}")
        moment += timedelta(hours=1)
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines))
    zone = calibrate_grid(path, None, [2023])["zones"]["X"]
    profile = np.array(zone["profile"])
    base = np.arange(10, 130, 10)[:, None] + np.arange(24)
    # The signs of a month's days cancel but for one day.
    assert np.abs(profile - base).max() <= 0.1
    assert (zone["min"], zone["max"]) == (9.0, 144.0)
    assert zone["residual_sd"] == pytest.approx(1.0, abs=0.01)
    # The sign changes at midnight only: one of 24 pairs is opposite.
    assert zone["residual_lag1"] == pytest.approx(1 - 2 / 24, abs=0.002)


def test_a_generated_year_gives_its_statistics_back(year: Path) -> None:
    content = calibrate_grid([year], None, [2024])
    known = load_statistics(SHIPPED)
    for zone in ("DE", "GB"):
        found, wanted = content["zones"][zone], known.zones[zone]
        assert found["mean"] == pytest.approx(wanted.mean, rel=0.12)
        # The profile of one year takes part of the weather with it.
        assert found["residual_lag1"] == pytest.approx(wanted.residual_lag1, abs=0.01)
        assert 0.7 * wanted.residual_sd < found["residual_sd"] < 1.2 * wanted.residual_sd
    assert content["residual_correlation"]["matrix"][0][1] == pytest.approx(0.6, abs=0.15)


def test_a_constant_zone_has_no_variation_and_no_correlation(year: Path) -> None:
    content = calibrate_grid(year, None, [2024])
    zone = content["zones"]["HK"]
    assert (zone["mean"], zone["sd"], zone["residual_sd"]) == (435.1, 0.0, 0.0)
    assert zone["residual_lag1"] == 0.0
    assert content["residual_correlation"]["matrix"][2] == [0.0, 0.0, 1.0]
    series = generate_grid(content, ["HK", "DE"], date(2024, 1, 1), date(2024, 1, 2), 0)
    assert np.all(series.values[:, 0] == 435.1)


def test_result_is_json_plain_and_loads(year: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    content = write_grid_statistics(year, None, [2024], path, zones=["GB"])
    assert json.loads(path.read_text()) == content
    statistics = load_statistics(path)
    assert list(statistics.zones) == ["GB"]
    assert "Electricity Maps" not in statistics.source
    assert statistics.inputs[0].file == "year.csv"
    assert [each.name for each in tmp_path.iterdir()] == ["mine.json"]
    noticed = calibrate_grid(year, None, [2024], "electricity-maps")
    assert "ODbL" in noticed["license"]


def test_years_must_be_complete(year: Path) -> None:
    with pytest.raises(InputError, match=r"year 2025 is asked for, .* from 2024-01-01T00:00Z to"):
        calibrate_grid(year, None, [2024, 2025])
    with pytest.raises(InputError, match="no year is named"):
        calibrate_grid(year, None, [])
    with pytest.raises(InputError, match="year 0 is not allowed"):
        calibrate_grid(year, None, [0])
    with pytest.raises(InputError, match="notice 'mine' is not known"):
        calibrate_grid(year, None, [2024], "mine")  # type: ignore[arg-type]


def test_a_place_that_cannot_be_written(year: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_grid_statistics(year, None, [2024], tmp_path / "no" / "x.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match=r"folder\.json: cannot be written"):
        write_grid_statistics(year, None, [2024], tmp_path / "folder.json")
    assert [each.name for each in tmp_path.iterdir()] == ["folder.json"]


def fine_file(path: Path, minutes: list[int], column: str = "local_time") -> Path:
    """One value per given minute since midnight: 100 + a quarter-hourly swing of 1 g/kWh."""
    start = datetime(2021, 3, 1)
    lines = [f"{column},ci"]
    for minute in minutes:
        hourly = 100 + 10 * ((minute // 60) % 2)
        swing = 1 if (minute // 15) % 2 else -1
        lines.append(f"{start + timedelta(minutes=minute):%Y-%m-%dT%H:%M},{hourly + swing}")
    path.write_text("\n".join(lines))
    return path


def test_movement_inside_the_hour_of_a_made_up_day(tmp_path: Path) -> None:
    found = subhourly_statistics(fine_file(tmp_path / "f.csv", list(range(0, 5 * 1440, 5))))
    assert found["hours"] == 5 * 24 - 2
    # The line runs between 100 and 110; the values stay on the steps, plus or minus 1.
    distance = np.abs(np.arange(12) - 5.5) / 12 * 10
    swing = np.repeat([-1, 1, -1, 1], 3)
    sd = np.sqrt(np.mean(np.concatenate([swing + distance, swing - distance]) ** 2))
    assert found["sd_over_hourly_change_sd"] == pytest.approx(sd / 10, abs=2e-3)
    assert found["relative_sd"] == pytest.approx(sd / 105, abs=1e-4)


def test_incomplete_hours_are_left_out(tmp_path: Path) -> None:
    minutes = [m for m in range(0, 5 * 1440, 5) if not 600 <= m < 660 and m != 1000]
    found = subhourly_statistics(fine_file(tmp_path / "f.csv", minutes))
    assert found["hours"] == 5 * 24 - 2 - 6


@pytest.mark.parametrize(
    ("minutes", "pattern"),
    [
        (list(range(0, 5 * 1440, 15)), "0 complete hours at 5-minute steps"),
        (list(range(0, 600, 5)), "8 complete hours"),
        ([*range(0, 1440, 5), 60], "row 290: the time is there twice"),
    ],
)
def test_files_that_are_not_fine_enough(tmp_path: Path, minutes: list[int], pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        subhourly_statistics(fine_file(tmp_path / "f.csv", minutes))


def test_a_flat_fine_file_and_one_of_many_zones(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    rows = [f"2021-01-01T{m // 60:02}:{m % 60:02}Z,5,6" for m in range(0, 1440, 5)]
    rows += [row.replace("01-01T", "01-02T") for row in rows]
    path.write_text("\n".join(["datetime_utc,A,B", *rows]))
    with pytest.raises(InputError, match="has 2 zones"):
        subhourly_statistics(path)
    path.write_text("\n".join(["datetime_utc,A", *(row[:-2] for row in rows)]))
    with pytest.raises(InputError, match="never change"):
        subhourly_statistics(path)


def test_what_is_shipped_is_computed_again_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    grid = shared_data / "grid"
    path = tmp_path / "again.json"
    write_grid_statistics(
        grid / "em_hourly_2021_2023_lca.csv.gz",
        grid / "caiso_5min_2021_average.csv.gz",
        [2021, 2022],
        path,
        notice="shipped",
    )
    assert path.read_bytes() == packaged(f"grid/{SHIPPED}.json").read_bytes()


def test_shipped_profiles_agree_with_the_published_tables(shared_data: Path) -> None:
    """Another computation of the same means, beside the data, per year and rounded to 0.1."""
    with gzip.open(shared_data / "grid" / "profile_month_hour.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["zone"] == "DE"]
    by_year = {
        year: np.array([float(r["mean"]) for r in rows if r["year"] == year]).reshape(12, 24)
        for year in ("2021", "2022")
    }
    shipped = np.array(load_statistics(SHIPPED).zones["DE"].profile)
    np.testing.assert_allclose(shipped, (by_year["2021"] + by_year["2022"]) / 2, atol=0.11)


def test_years_that_are_not_named_do_not_enter(shared_data: Path, tmp_path: Path) -> None:
    """2023 is for tests: with every value of it replaced, the statistics are the same."""
    path = shared_data / "grid" / "em_hourly_2021_2023_lca.csv.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    lines = [
        f"{line.split(',')[0]}{',4321' * 16}" if line.startswith("2023") else line for line in lines
    ]
    changed = tmp_path / "changed.csv"
    changed.write_text("\n".join(lines))
    found = calibrate_grid(changed, None, [2021, 2022])
    shipped = json.loads(packaged(f"grid/{SHIPPED}.json").read_text())
    for key in ("zones", "residual_correlation", "years"):
        assert found[key] == shipped[key]
    parse_statistics(found)
