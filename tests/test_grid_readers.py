"""Grid files that are as they should be, in every layout and step."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carbon_gym.errors import InputError
from carbon_gym.grid.csv_table import Table
from carbon_gym.grid.hold import hold_on_clock
from carbon_gym.grid.layouts import Published, layout_of
from carbon_gym.grid.readers import read_grid
from carbon_gym.grid.series import GridSeries, day_start_unix_s

OLD_EXPORT = (
    "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (direct),"
    "Carbon Intensity gCO₂eq/kWh (LCA),Low Carbon Percentage,Renewable Percentage,Data Source,"
    "Data Estimated,Data Estimation Method"
)
NEW_EXPORT = (
    "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),"
    "Carbon intensity gCO₂eq/kWh (Life cycle),Carbon-free energy percentage (CFE%),"
    "Renewable energy percentage (RE%),Data source,Data estimated,Data estimation method"
)
PORTAL_EXPORT = OLD_EXPORT.replace("(LCA)", "(life cycle assessment)")


def write(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def export_rows(zone: str, start: datetime, step_min: int, values: Sequence[float]) -> list[str]:
    return [
        f"{start + timedelta(minutes=step_min * i):%Y-%m-%d %H:%M:%S},Land,Land,{zone},"
        f"{value / 2},{value},50.0,40.0,source.example,false,"
        for i, value in enumerate(values)
    ]


def wide_rows(start: datetime, step_min: int, columns: Sequence[Sequence[float]]) -> list[str]:
    return [
        f"{start + timedelta(minutes=step_min * i):%Y-%m-%dT%H:%MZ},{','.join(map(str, row))}"
        for i, row in enumerate(zip(*columns, strict=True))
    ]


NEW_YEAR = datetime(2023, 12, 31, 22)


@pytest.mark.parametrize("step_min", [5, 10, 15, 20, 30, 60])
def test_each_value_holds_for_its_step(tmp_path: Path, step_min: int) -> None:
    path = write(
        tmp_path / "wide.csv",
        ["datetime_utc,GB,DE", *wide_rows(NEW_YEAR, step_min, [range(8), range(10, 18)])],
    )
    series = read_grid(path)
    assert series.zones == ("GB", "DE")
    np.testing.assert_array_equal(series.values[:, 0], np.repeat(np.arange(8.0), step_min // 5))
    assert series.stop_unix_s - series.start_unix_s == 8 * step_min * 60
    assert series.held_steps == 0
    assert series.source == "wide.csv (wide CSV)"


@pytest.mark.parametrize("header", [OLD_EXPORT, NEW_EXPORT, PORTAL_EXPORT])
@pytest.mark.parametrize("step_min", [5, 60])
def test_exports_of_every_spelling(tmp_path: Path, header: str, step_min: int) -> None:
    path = write(
        tmp_path / "DE_2023_hourly.csv",
        [header, *export_rows("DE", NEW_YEAR, step_min, [400.0, 410.5, 390.25])],
    )
    series = read_grid([path], ["DE"])
    assert series.at("DE", series.start_unix_s) == 400.0
    assert series.at("DE", series.stop_unix_s - 1) == 390.25
    assert "life cycle" in series.source


def test_export_files_of_years_and_zones_are_joined(tmp_path: Path) -> None:
    paths = [
        write(
            tmp_path / f"{zone}_{start.year}.csv",
            [NEW_EXPORT, *export_rows(zone, start, 60, values)],
        )
        for zone, start, values in (
            ("GB", datetime(2024, 1, 1, 0), [3.0, 4.0]),
            ("GB", NEW_YEAR, [1.0, 2.0]),
            ("NA", NEW_YEAR, [10.0, 20.0]),
            ("NA", datetime(2024, 1, 1, 0), [30.0, 40.0]),
            ("FR", datetime(2000, 1, 1), [7.0]),
        )
    ]
    series = read_grid(paths, ["NA", "GB"])  # "NA" is Namibia, not a missing value
    np.testing.assert_array_equal(series.values[::12], [[10, 1], [20, 2], [30, 3], [40, 4]])
    assert series.held_steps == 0


def test_several_zones_in_one_export_file(tmp_path: Path) -> None:
    rows = export_rows("GB", NEW_YEAR, 60, [1.0, 2.0]) + export_rows("DE", NEW_YEAR, 60, [5.0, 6.0])
    series = read_grid(write(tmp_path / "both.csv", [NEW_EXPORT, *rows]))
    assert series.zones == ("GB", "DE")
    np.testing.assert_array_equal(series.values[::12], [[1, 5], [2, 6]])


def test_the_series_covers_the_time_that_all_zones_have(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.csv", ["datetime_utc,GB", *wide_rows(NEW_YEAR, 60, [range(4)])]),
        write(
            tmp_path / "b.csv",
            [
                "datetime_utc,DE",
                *wide_rows(NEW_YEAR + timedelta(hours=2), 60, [range(4)]),
            ],
        ),
    ]
    series = read_grid(paths)
    np.testing.assert_array_equal(series.values[::12], [[2, 0], [3, 1]])


def test_gzip_byte_order_mark_quotes_and_line_ends(tmp_path: Path) -> None:
    text = (
        "\ufeffdatetime_utc,GB\r\n" + '"2024-02-29T23:00Z","1.5"\r\n2024-03-01T00:00Z, 2 \r\n\r\n'
    )
    plain = tmp_path / "plain.csv"
    plain.write_bytes(text.encode())
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, packed):
        series = read_grid(str(path))
        assert series.start_unix_s == day_start_unix_s(date(2024, 3, 1)) - 3600
        np.testing.assert_array_equal(series.values[::12, 0], [1.5, 2.0])


@pytest.mark.parametrize(
    ("column", "time"),
    [
        ("datetime_utc", "2024-01-01 00:00:00"),
        ("Datetime (UTC)", "2024-01-01T00:00"),
        ("utc_timestamp", "2024-01-01"),
        ("datetime", "2024-01-01T00:00:00Z"),
        ("timestamp", "2024-01-01 01:00:00+01:00"),
        ("time", "2023-12-31T16:00-08:00"),
        ("local_time_pacific", "2023-12-31T16:00:00-0800"),
        ("Date", "2024-01-01 00:00:00 UTC"),
        ("datetime_utc", "2024-01-01T05:30+05:30"),
    ],
)
def test_times_with_offset_or_in_a_column_that_says_utc(
    tmp_path: Path, column: str, time: str
) -> None:
    series = read_grid(write(tmp_path / "f.csv", [f"{column},GB", f"{time},1"]))
    assert series.start_unix_s == day_start_unix_s(date(2024, 1, 1))
    assert series.zones == ("GB",)


def test_the_utc_column_is_taken_beside_a_local_one(tmp_path: Path) -> None:
    path = write(
        tmp_path / "f.csv",
        [",local_time,datetime_utc,GB", "0,2024-01-01T01:00,2024-01-01T00:00,1"],
    )
    series = read_grid(path)
    assert series.start_unix_s == day_start_unix_s(date(2024, 1, 1))
    assert series.zones == ("GB",)


def test_rows_out_of_order_and_repeated_rows(tmp_path: Path) -> None:
    rows = wide_rows(NEW_YEAR, 60, [range(5)])
    straight = read_grid(write(tmp_path / "a.csv", ["datetime_utc,GB", *rows]))
    shuffled = [rows[3], rows[0], rows[4], rows[0], rows[2], rows[1], rows[3]]
    again = read_grid(write(tmp_path / "b.csv", ["datetime_utc,GB", *shuffled]))
    np.testing.assert_array_equal(straight.values, again.values)
    assert again.held_steps == 0


def test_a_missing_row_of_a_finer_step_is_held_and_counted(tmp_path: Path) -> None:
    rows = wide_rows(NEW_YEAR, 15, [range(12)])
    del rows[5:8]  # 60 minutes from row 4 to row 8
    series = read_grid(write(tmp_path / "f.csv", ["datetime_utc,GB", *rows]))
    assert series.held_steps == 9
    assert np.all(series.values[12:24, 0] == 4.0)
    assert len(series.values) == 36


def test_the_step_is_that_of_each_file(tmp_path: Path) -> None:
    hourly = write(tmp_path / "h.csv", ["datetime_utc,GB", *wide_rows(NEW_YEAR, 60, [range(2)])])
    fine = write(
        tmp_path / "f.csv",
        ["datetime_utc,GB", *wide_rows(NEW_YEAR + timedelta(hours=2), 5, [range(100)])],
    )
    series = read_grid([hourly, fine])
    assert series.held_steps == 0
    assert len(series.values) == 24 + 100


def test_faults_in_zones_that_nobody_asked_for_are_no_error(tmp_path: Path) -> None:
    path = write(
        tmp_path / "f.csv",
        ["datetime_utc,GB,DE,note", "2024-01-01T00:00Z,1,,x", "2024-01-01T01:00Z,2,-5,"],
    )
    np.testing.assert_array_equal(read_grid(path, ["GB"]).values[::12, 0], [1, 2])
    with pytest.raises(InputError, match="row 2: DE is empty"):
        read_grid(path, ["DE"])
    export = write(
        tmp_path / "e.csv",
        [NEW_EXPORT, *export_rows("GB", NEW_YEAR, 60, [1.0]), "31/12/2023,,,DE,,,,,,,"],
    )
    assert read_grid(export, ["GB"]).zones == ("GB",)


@given(
    gaps=st.lists(st.integers(1, 12), min_size=1, max_size=40),
    first=st.integers(0, 10**6),
    order=st.randoms(use_true_random=False),
)
def test_holding_never_looks_ahead(gaps: list[int], first: int, order: object) -> None:
    """Whatever the rows, each step has the value of the last row at or before it."""
    steps = np.cumsum([first, *gaps])
    shuffled = list(range(len(steps)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    part = Published(
        "GB",
        "f.csv",
        steps[shuffled] * 300,
        np.arange(len(steps), dtype=float)[shuffled],
        np.arange(len(steps)) + 2,
    )
    held = hold_on_clock([part])
    assert held.start_unix_s == first * 300
    clock = first + np.arange(len(held.values))
    expected = np.searchsorted(steps, clock, side="right") - 1
    np.testing.assert_array_equal(held.values, expected)
    usual = np.bincount(gaps).argmax()
    assert held.held.sum() == np.maximum(np.array(gaps) - usual, 0).sum()
    assert len(held.values) == steps[-1] - first + usual


def rewritten_after(path: Path, t_unix_s: int, target: Path) -> Path:
    """The file with every value published after an instant replaced."""
    reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    rows = list(reader)
    for row in rows[1:]:
        moment = datetime.fromisoformat(row[0]).replace(tzinfo=UTC)
        if moment.timestamp() > t_unix_s:
            row[1:] = ["4999" if cell.replace(".", "").isdigit() else cell for cell in row[1:]]
    with target.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return target


@pytest.mark.parametrize("layout", ["wide", "export"])
@pytest.mark.parametrize("cut_row", [0, 7, 23])
def test_values_do_not_depend_on_later_rows(tmp_path: Path, layout: str, cut_row: int) -> None:
    values = [100.0 + 7 * (i % 5) for i in range(24)]
    lines = (
        ["datetime_utc,GB,DE", *wide_rows(NEW_YEAR, 60, [values, values[::-1]])]
        if layout == "wide"
        else [NEW_EXPORT, *export_rows("GB", NEW_YEAR, 60, values)]
    )
    path = write(tmp_path / "f.csv", lines)
    before = read_grid(path)
    t = before.start_unix_s + cut_row * 3600 + 1800
    after = read_grid(rewritten_after(path, t, tmp_path / "g.csv"))
    rows = (t - before.start_unix_s) // 300 + 1
    np.testing.assert_array_equal(before.values[:rows], after.values[:rows])
    if cut_row < 23:
        assert np.all(after.values[(cut_row + 1) * 12 :] == 4999)


def test_dropping_later_rows_changes_nothing_before(tmp_path: Path) -> None:
    rows = wide_rows(NEW_YEAR, 15, [range(40)])
    whole = read_grid(write(tmp_path / "a.csv", ["datetime_utc,GB", *rows]))
    part = read_grid(write(tmp_path / "b.csv", ["datetime_utc,GB", *rows[:17]]))
    np.testing.assert_array_equal(part.values, whole.values[: len(part.values)])


def test_a_wide_file_is_not_taken_for_an_export() -> None:
    table = Table("f.csv", ("datetime_utc", "GB", "Zone"), [["x", "1", "2"]], [2])
    assert layout_of(table).zones == ("GB", "Zone")


@pytest.fixture(scope="module")
def real(shared_data: Path) -> GridSeries:
    return read_grid(shared_data / "grid" / "em_hourly_2021_2023_lca.csv.gz")


def test_real_hourly_file(real: GridSeries) -> None:
    assert len(real.zones) == 16
    assert real.values.shape == (26_280 * 12, 16)
    assert real.held_steps == 0
    assert real.covers(day_start_unix_s(date(2021, 1, 1)), day_start_unix_s(date(2024, 1, 1)))
    # Rows 2 and 3 of the file.
    assert real.at("DE", day_start_unix_s(date(2021, 1, 1)) + 3599) == 526.8
    assert real.at("DE", day_start_unix_s(date(2021, 1, 1)) + 3600) == 533.4
    means = real.values.reshape(3, -1, 16)[:, :, real.zones.index("DE")].mean(axis=1)
    np.testing.assert_allclose(means, [436, 478, 367], atol=0.5)  # published beside the data


def test_real_subhourly_files(shared_data: Path) -> None:
    for zone, rows in (("DE", 37_147 * 3), ("FR", 18_574 * 6)):
        series = read_grid(shared_data / "grid" / f"subhourly_2020_{zone}.csv.gz")
        assert abs(len(series.values) - rows) <= 12
        assert series.covers(day_start_unix_s(date(2020, 1, 1)), day_start_unix_s(date(2021, 1, 1)))


def test_real_files_with_holes_are_refused_only_where_asked(shared_data: Path) -> None:
    path = shared_data / "grid" / "eia_hourly_2022_us_ba.csv.gz"
    with pytest.raises(InputError, match=r"eia_hourly_2022_us_ba.csv.gz, row \d+: CISO is empty"):
        read_grid(path)
    assert len(read_grid(path, ["ERCO"]).values) == 8_760 * 12


def test_real_file_in_local_time_is_refused(shared_data: Path) -> None:
    with pytest.raises(InputError, match=r"row 2: local_time_pacific .* without offset"):
        read_grid(shared_data / "grid" / "caiso_5min_2021_average.csv.gz")


def test_leak_on_the_real_file(shared_data: Path, real: GridSeries, tmp_path: Path) -> None:
    content = gzip.decompress(
        (shared_data / "grid" / "em_hourly_2021_2023_lca.csv.gz").read_bytes()
    ).decode()
    lines = content.splitlines()
    cut = next(i for i, line in enumerate(lines) if line.startswith("2023-05-08T12:00Z"))
    changed = [f"{line.split(',')[0]}{',1' * 16}" for line in lines[cut + 1 :]]
    path = tmp_path / "changed.csv.gz"
    path.write_bytes(gzip.compress("\n".join(lines[: cut + 1] + changed).encode(), 1))
    again = read_grid(path)
    rows = cut * 12
    np.testing.assert_array_equal(again.values[:rows], real.values[:rows])
    assert np.all(again.values[rows:] == 1)
