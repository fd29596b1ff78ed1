"""Whatever the format of a grid file: marks, offsets, holes, names, and what is written."""

from __future__ import annotations

import gzip
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from carbon_gym.errors import InputError
from carbon_gym.files import replacing
from carbon_gym.grid.importing import import_grid
from carbon_gym.grid.readers import read_grid
from tests import grid_fixtures as made
from tests.commandline import carbon_gym
from tests.grid_fixtures import file, unix_s
from tests.test_import_grid import mutated

START_S = int(made.START.timestamp())
TABLES = [name for name, (_, files) in made.FIXTURES.items() if "json" not in str(list(files))]


@pytest.mark.parametrize("name", made.FIXTURES)
def test_a_byte_order_mark_and_windows_lines_change_nothing(tmp_path: Path, name: str) -> None:
    files = made.FIXTURES[name][1]
    zones = ["XX"] if name in made.NAMELESS else None
    plain = [file(tmp_path, of, text) for of, text in files.items()]
    (tmp_path / "w").mkdir()
    windows = [
        file(tmp_path / "w", of, "\ufeff" + text.replace("\n", "\r\n"))
        for of, text in files.items()
    ]
    one, two = import_grid(plain, zones=zones).series, import_grid(windows, zones=zones).series
    assert one.zones == two.zones
    assert one.start_unix_s == two.start_unix_s
    np.testing.assert_array_equal(one.values, two.values)


@pytest.mark.parametrize("name", TABLES)
def test_semicolons_are_refused(tmp_path: Path, name: str) -> None:
    of, text = next(iter(made.FIXTURES[name][1].items()))
    swapped = text.replace("\t", ";").replace('"1,000"', '"1.000"').replace(",", ";")
    with pytest.raises(InputError, match=r"row 1: .*separated by semicolons; save the file with"):
        import_grid([file(tmp_path, of, swapped)], zones=["XX"])


def test_leap_day_and_year_end_are_ordinary_hours(tmp_path: Path) -> None:
    first, hours = datetime(2023, 12, 31, tzinfo=UTC), 24 * 61
    rows = [f"{first + timedelta(hours=i):%Y-%m-%dT%H:%MZ},{i % 500}" for i in range(hours)]
    series = import_grid([file(tmp_path, "g.csv", made.csv("datetime_utc,DE", *rows))]).series
    assert len(series.values) == 12 * hours
    assert series.held_steps == 0
    assert series.at("DE", unix_s("2024-01-01T00:00")) == 24
    assert series.at("DE", unix_s("2024-02-29T05:00")) == (24 * 60 + 5) % 500


def test_offsets_are_turned_into_utc(tmp_path: Path) -> None:
    rows = ("2023-05-08T05:30+05:30,1", "2023-05-08T01:00:00Z,2", "2023-05-07T20:00:00-06:00,3")
    series = import_grid([file(tmp_path, "g.csv", made.csv("time,IN", *rows))]).series
    assert series.start_unix_s == START_S
    np.testing.assert_array_equal(series.values[::12, 0], [1, 2, 3])


@pytest.mark.parametrize(
    ("fixture", "old", "new"),
    [
        ("entsoe-old", '"1000"', '"1000,5"'),
        ("entsoe-new", '"900"', '"900,25"'),
        ("eia-balance", '"1,000"', '"1,0"'),
        ("watttime-json", '"value": 1000.0', '"value": "1000,0"'),
    ],
)
def test_a_decimal_comma_is_never_taken_for_thousands(
    tmp_path: Path, fixture: str, old: str, new: str
) -> None:
    of, text = next(iter(made.FIXTURES[fixture][1].items()))
    assert old in text
    with pytest.raises(InputError, match=r"(row|entry) \d+: .*a point before decimals"):
        import_grid([file(tmp_path, of, text.replace(old, new))])


def test_faults_of_zones_that_are_not_wanted_do_not_matter(tmp_path: Path) -> None:
    text = made.wide().replace("datetime_utc,GB,DE", "datetime_utc,GB,remark")
    path = file(tmp_path, "g.csv", text.replace(",301\n", ",checked\n"))
    with pytest.raises(InputError, match="row 3: remark is 'checked'"):
        import_grid([path])
    assert import_grid([path], zones=["GB=UK"]).series.zones == ("UK",)
    with pytest.raises(InputError, match="row 3: remark"):
        import_grid([path], zones=["FR"])


def test_files_without_a_zone_are_named_in_their_order(tmp_path: Path) -> None:
    paths = [file(tmp_path, f"{i}.csv", made.single().replace("218.3", str(i))) for i in (1, 2, 3)]
    read = import_grid(paths, zones=["DE", "FR", "GB"])
    assert read.series.zones == ("DE", "FR", "GB")
    np.testing.assert_array_equal(read.series.values[0], [1, 2, 3])
    with pytest.raises(InputError, match=r"do not say their zones; .* one for each in the order"):
        import_grid(paths, zones=["DE", "FR"])
    with pytest.raises(InputError, match=r"XX is 2 at .*, but 1 in .*1.csv, row 2; keep one"):
        import_grid(paths, zones=["XX"])


def test_the_error_about_a_hole_says_the_option_that_mends_it(tmp_path: Path) -> None:
    lines = made.eia_balance().splitlines()
    path = file(tmp_path, "EIA930_BALANCE.csv", "\n".join(lines[:4] + lines[9:]) + "\n")
    with pytest.raises(
        InputError, match=r"CISO between .* with --hold 6 .*, or add the missing rows"
    ):
        import_grid([path])
    assert import_grid([path], hold_h=6).series.held_steps == 60
    assert import_grid([path], zones=["ERCO"]).series.held_steps == 0
    first, last = "2023-05-08T00:00Z,1,1", "2023-05-12T00:00Z,2,2"
    wide = file(tmp_path, "w.csv", made.csv("datetime_utc,A,B", first, last))
    with pytest.raises(InputError, match=r"96 hours of A, is more than --hold .*leave A out"):
        import_grid([wide], hold_h=48)


def test_a_workbook_and_a_bomb_are_refused(tmp_path: Path) -> None:
    book = tmp_path / "CISO.xlsx"
    book.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(InputError, match="is a workbook; save its sheet as CSV"):
        import_grid([book])
    bomb = tmp_path / "bomb.csv.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as stream:
        for _ in range(300):
            stream.write(bytes(1 << 20))
    with pytest.raises(InputError, match=r"unpacks to more than .* MiB"):
        import_grid([bomb])


def test_nothing_appears_where_one_of_the_two_files_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path, series: object) -> None:
        with replacing(path):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("carbon_gym.cli.import_grid.draw_grid", fails)
    path = file(tmp_path, "g.csv", made.wide())
    done = carbon_gym("import", "grid", path, "--out", tmp_path / "out")
    assert done.code == 2
    assert "No space left" in done.err
    assert not (tmp_path / "out").exists()


def test_the_command_writes_both_files_or_nothing(tmp_path: Path) -> None:
    draw, codes = random.Random(8), []
    for name, (_, files) in made.FIXTURES.items():
        paths = [file(tmp_path, of, mutated(text, draw)) for of, text in files.items()]
        out = tmp_path / name
        zone = ["--zone", "XX"] if name in made.NAMELESS else []
        done = carbon_gym("import", "grid", *paths, *zone, "--out", out)
        codes.append(done.code)
        if done.code == 0:
            assert sorted(path.name for path in out.iterdir()) == ["grid.csv.gz", "grid.png"]
            assert np.isfinite(read_grid(out / "grid.csv.gz").values).all()
        else:
            assert done.code == 2
            assert done.err.startswith("carbon-gym: ")
            assert "Traceback" not in done.err
            assert not out.exists()
    assert set(codes) == {0, 2}


def test_names_with_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    path = file(tmp_path, "g[b].csv", made.wide().replace("GB", "[/red]GB"))
    done = carbon_gym("import", "grid", path, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "[/red]GB" in done.out
    assert "g[b].csv" in done.out
    assert read_grid(tmp_path / "out" / "grid.csv.gz").zones == ("[/red]GB", "DE")
