"""`carbon-gym import grid`: every publisher's format, whole, broken and mutated."""

from __future__ import annotations

import gzip
import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from carbon_gym.errors import InputError
from carbon_gym.grid.importing import ImportedGrid, import_grid, write_canonical
from carbon_gym.grid.readers import read_grid
from carbon_gym.grid.series import GridSeries
from carbon_gym.grid.sources import FORMATS
from carbon_gym.grid.sources.fuels import FACTOR_G_PER_KWH
from tests import grid_fixtures as made
from tests.commandline import carbon_gym
from tests.grid_fixtures import FIXTURES, NAMELESS, START

START_S = int(START.timestamp())


def write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def imported(folder: Path, name: str, **options: object) -> ImportedGrid:
    zones = ["XX"] if name in NAMELESS else None
    return import_grid(write(folder, FIXTURES[name][1]), zones=zones, **options)  # type: ignore[arg-type]


def rising(first: float, step_min: int, count: int) -> list[float]:
    return np.repeat(first + np.arange(count), step_min // 5).tolist()


EXPECTED: dict[str, dict[str, list[float]]] = {
    "electricity-maps-hourly": {"DE": rising(400, 60, 24)},
    "electricity-maps-5-minute": {"DE": rising(400, 5, 24)},
    "watttime-json": {"CAISO_NORTH": [453.59237] * 24},
    "watttime-csv": {"XX": [453.59237] * 24},
    "watttime-client": {"XX": [453.59237] * 24},
    "neso-json": {"GB": rising(150, 30, 23)},
    "neso-regional": {"South England": [90.0] * 72},
    "neso-history": {"GB": rising(150, 30, 24)},
    "neso-forecast": {"GB": rising(150, 30, 24)},
    "eia-balance": {"CISO": [251.0] * 288, "ERCO": [490.0] * 288},
    "eia-json": {"CISO": [415.5] * 288},
    "eia-api-csv": {"CISO": [415.5] * 288},
    "entsoe-old": {"DE": [415.5] * 72},
    "entsoe-new": {"FR": [59.8] * 144},
    "entsoe-library": {"FR": [59.8] * 144},
    "caiso": {"US-CAL-CISO": [250.0] * 36},
    "wide": {
        "GB": rising(100, 60, 24),
        "DE": [v if v != 305 else 304.0 for v in rising(300, 60, 24)],
    },
    "single": {"XX": [218.3] * 72},
    "long": {"GB": [100.0] * 288, "DE": [300.0] * 288},
}


@pytest.mark.parametrize("name", FIXTURES)
def test_every_fixture_gives_its_numbers(tmp_path: Path, name: str) -> None:
    read = imported(tmp_path, name)
    assert set(read.formats.values()) == {FIXTURES[name][0]}
    assert list(read.series.zones) == list(EXPECTED[name])
    for column, values in enumerate(EXPECTED[name].values()):
        np.testing.assert_allclose(read.series.values[:, column], values, rtol=1e-12)
    # A Pacific day begins at 07:00 UTC in May.
    start = START_S + 7 * 3600 if name == "caiso" else START_S
    assert read.series.start_unix_s == start


@pytest.mark.parametrize("name", FIXTURES)
def test_the_canonical_file_reads_as_the_same_series(tmp_path: Path, name: str) -> None:
    read = imported(tmp_path, name)
    step_s = write_canonical(read.series, tmp_path / "out.csv.gz")
    again = read_grid(tmp_path / "out.csv.gz")
    assert again.zones == read.series.zones
    assert again.start_unix_s == read.series.start_unix_s
    np.testing.assert_allclose(again.values, read.series.values, atol=0.0005)
    assert 3600 % step_s == 0


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    paths = write(tmp_path, FIXTURES["wide"][1])
    done = carbon_gym("import", "grid", *paths, "--zone", "DE=Berlin,GB", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["grid.csv.gz", "grid.png"]
    header = gzip.decompress((tmp_path / "out" / "grid.csv.gz").read_bytes()).splitlines()[0]
    assert header == b"datetime_utc,Berlin,GB"
    for said in ("wide CSV", "Berlin", "2023-05-08T00:00Z", "60 min", "2023-05-08T05:00Z", "12 of"):
        assert said in done.out


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    series = imported(tmp_path, "eia-balance").series
    write_canonical(series, tmp_path / "one.csv.gz")
    write_canonical(series, tmp_path / "two.csv.gz")
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


def test_files_of_several_publishers_are_joined(tmp_path: Path) -> None:
    paths = write(tmp_path, FIXTURES["neso-history"][1] | FIXTURES["entsoe-new"][1])
    read = import_grid(paths)
    assert read.series.zones == ("GB", "FR")
    assert read.series.values.shape == (144, 2), "the time that both have"
    assert len(read.notes) == 2


def test_the_documents_have_the_formats_and_the_factors() -> None:
    text = (Path(__file__).resolve().parents[1] / "docs" / "import-grid.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    cells = [row for row in rows if len(row) >= 2]
    assert [row[0].strip("`") for row in cells if row[0].strip("`") in FORMATS] == list(FORMATS)
    shown = {row[0]: float(row[1]) for row in cells if row[0] in FACTOR_G_PER_KWH}
    assert shown == FACTOR_G_PER_KWH


def test_holes_are_counted_and_held_only_as_far_as_allowed(tmp_path: Path) -> None:
    rows = made.neso_history_csv().splitlines()
    path = tmp_path / "holes.csv"
    path.write_text("\n".join(rows[:5] + rows[8:15] + rows[16:]) + "\n")
    read = import_grid([path])
    (found,) = read.zones
    assert (found.holes, found.longest_hole_s) == (2, 5400)
    assert found.longest_hole_unix_s == START_S + 4 * 1800
    assert read.series.held_steps == 24
    with pytest.raises(InputError, match=r"row 6: nothing is published for GB .*--hold"):
        import_grid([path], hold_h=1.5)
    assert import_grid([path], hold_h=6).series.held_steps == 24
    with pytest.raises(InputError, match="--hold 0 is not allowed"):
        import_grid([path], hold_h=0)


def test_a_fuel_that_is_not_reported_makes_a_hole_and_not_a_cleaner_hour(tmp_path: Path) -> None:
    lines = made.entsoe_old().splitlines()
    lines[4] = lines[4].replace('"1000","0","5000"', '"N/A","0","5000"')
    path = tmp_path / "entsoe.csv"
    path.write_text("\n".join(lines) + "\n")
    read = import_grid([path])
    assert read.zones[0].holes == 1
    np.testing.assert_allclose(read.series.values, 415.5)
    assert read.series.held_steps == 3


def test_a_fuel_may_be_reported_from_some_day_on(tmp_path: Path) -> None:
    lines = made.entsoe_old().splitlines()
    for row in range(1, 9):
        lines[row] = lines[row].replace('"n/e","1000"', '"n/e","n/e"')
    path = tmp_path / "entsoe.csv"
    path.write_text("\n".join(lines) + "\n")
    values = import_grid([path]).series.values[:, 0]
    np.testing.assert_allclose(values, [820.0] * 24 + [415.5] * 48)


def test_local_times_of_a_known_place_become_utc(tmp_path: Path) -> None:
    path = tmp_path / "entsoe.csv"
    path.write_text(made.entsoe_old("CET/CEST", datetime(2023, 5, 8, 2)))
    assert import_grid([path]).series.start_unix_s == START_S


def test_the_hour_that_comes_twice_is_told_by_its_order(tmp_path: Path) -> None:
    start, rows = datetime(2021, 11, 7, 0, 30), []
    for i in range(36):  # 00:30 PDT to 02:30 PST
        local = start + timedelta(minutes=5 * i)
        rows.append((local if i < 18 else local - timedelta(hours=1), i))
    for once in (False, True):
        kept = [f"{at:%Y-%m-%dT%H:%M},{i}" for at, i in rows if not once or not 18 <= i < 30]
        path = tmp_path / "pacific.csv"
        path.write_text("\n".join(["local_time_pacific,ci_g_per_kwh", *kept]) + "\n")
        series = import_grid([path]).series
        assert series.start_unix_s == 1636270200  # 07:30Z
        assert series.held_steps == (12 if once else 0)
        assert len(series.values) == 36
        assert series.values[-1, 0] == 35


def broken(name: str, old: str, new: str, said: str, count: int = 1) -> object:
    return pytest.param(name, old, new, count, said, id=f"{name}-{said[:24]}")


BROKEN = [
    broken("electricity-maps-hourly", ",402,", ",4x2,", "row 4: DE is '4x2', .*not a number"),
    broken("electricity-maps-hourly", ",403,", ",-3,", "row 5: DE is -3, which is negative"),
    broken("electricity-maps-hourly", "(Life cycle)", "(lifecicle)", "row 1: .*life-cycle column"),
    broken("electricity-maps-5-minute", "00:05:00", "00:04:00", "row 3: .*5-minute UTC clock"),
    broken(
        "electricity-maps-5-minute", "00:05:00", "00:00:00", "row 3: DE is 401 .* 400 in .*row 2"
    ),
    broken("electricity-maps-5-minute", ",DE,", ",,", "row 2: the zone id is empty"),
    broken("watttime-json", "lbs_co2_per_mwh", "lbs_per_mwh", "the units are 'lbs_per_mwh'"),
    broken("watttime-json", "co2_moer", "health_damage", "signal is 'health_damage'"),
    broken("watttime-json", "1000.0", '"much"', "entry 1: 'value' is 'much'"),
    broken("watttime-json", "T00:05:00+00:00", "T00:05:00", "entry 2: .*without offset"),
    broken("watttime-csv", "00:10:00+00:00,1000.0", "00:10:00+00:00,1e", "row 4: MOER is '1e'"),
    broken("watttime-csv", "2023-05-08 00:10:00+00:00", "8 May", "row 4: timestamp is '8 May'"),
    broken("watttime-csv", "00:10:00+00:00,1000.0", "00:10:00+00:00,99999", "row 4: .*above 5000"),
    broken("watttime-client", ",1000.0\n2023-05-08 00:05", ",-1\n2023-05-08 00:05", "negative"),
    broken("watttime-client", "00:10:00+00:00", "00:09:00+00:00", "row 4: .*5-minute UTC clock"),
    broken("watttime-client", "point_time", "when", "none of watttime, neso"),
    broken("neso-json", '"intensity": {"forecast"', '"x": {"forecast"', "entry 1: 'intensity' is"),
    broken("neso-json", '"actual": 152', '"actual": []', r"entry 3: 'actual' is \[\]"),
    broken("neso-json", "T01:00Z", "T25:00Z", "entry 3: from is '2023-05-08T25:00Z'", 99),
    broken("neso-regional", '"shortname"', '"name"', "data: 'shortname' is None"),
    broken("neso-regional", '"forecast": 90', '"forecast": -90', "entry 1: .*negative"),
    broken("neso-regional", '"from": "2023-05-08T00:30Z"', '"from": 7', "entry 2: 'from' is 7"),
    broken("neso-history", ",153,", ",x,", "row 5: CARBON_INTENSITY is 'x'"),
    broken("neso-history", "T01:30:00", "T01:31:00", "row 5: .*5-minute UTC clock"),
    broken(
        "neso-history", "2023-05-08T00:30:00,9000", "2023-05-08T00:30:00", "row 3: has 17 cells"
    ),
    broken("neso-forecast", ",151,", ",1 51,", "row 3: actual is '1 51'"),
    broken("neso-forecast", "T00:30:00", "T00:00:00", "row 3: GB is 151 .* 150 in .*row 2"),
    broken("neso-forecast", "datetime,", "time,", "row 1: columns datetime and actual"),
    broken("eia-balance", '"1,000"', '"1,0o0"', "row 2: .*Natural Gas .*'1,0o0'", 99),
    broken("eia-balance", "from Coal", "from Cole", "row 1: the fuel 'cole' is not known", 99),
    broken("eia-balance", "05/08/2023 01:00:00 AM", "13/08/2023 1:00 AM", "UTC Time at End", 99),
    broken("eia-balance", "\nCISO,", "\n,", "row 2: the balancing authority is empty"),
    broken("eia-json", '"COL"', '"COAL"', "entry 1: the fuel 'COAL' is not known"),
    broken("eia-json", '"value": "500"', '"value": "a lot"', "entry 1: 'value' is 'a lot'"),
    broken("eia-json", '"data": [', '"data": [], "more": [', "a list of entries is needed"),
    broken("eia-api-csv", "COL", "XYZ", "row 2: the fuel 'XYZ' is not known"),
    broken("eia-api-csv", "WND,Wind,500", "COL,Coal,400", "row 3: CISO has 'COL' twice"),
    broken("eia-api-csv", "2023-05-08T01", "May", "row 2: period is 'May'"),
    broken("entsoe-old", "Fossil Gas", "Fossil Glas", "row 1: .*'fossil glas' is not known"),
    broken("entsoe-old", '"1000"', '"1ooo"', "row 2: .*Lignite.* is '1ooo'"),
    broken("entsoe-old", "MTU (UTC)", "MTU", "row 1: .*does not say its time zone"),
    broken("entsoe-old", "Germany (DE)", "", "row 2: the area is empty"),
    broken("entsoe-new", "MTU (UTC)", "MTU", "does not say its time zone; export .* in UTC"),
    broken("entsoe-new", '"900"', '"nine"', "row 2: Generation .* is 'nine'"),
    broken("entsoe-new", '"Nuclear"', '"Nuklear"', "row 2: .*'nuklear' is not known"),
    broken("entsoe-library", "\tNuclear\t", "\tUran\t", "row 2: .*'uran' is not known"),
    broken("entsoe-library", "ActualGenerationOutput[MW]", "Output", "row 1: columns of the area"),
    broken("entsoe-library", "2023-05-08 00:00:00\t", "2023-05-08 00:01:00\t", "row 2: .*5-minute"),
    broken("caiso", ",3000,", ",three,", "row 2: Natural Gas CO2 is 'three'"),
    broken("caiso", "00:05,80", "00:03,80", "row 3: .*5-minute UTC clock"),
    broken("caiso", "00:10,80,200", "00:10,80", "row 4: has 6 cells where the header has 7"),
    broken("wide", ",103,", ",NaN,", "row 5: GB is 'NaN'"),
    broken("wide", "2023-05-08T03:00Z", "8 May 3pm", "row 5: datetime_utc is '8 May 3pm'"),
    broken("wide", "datetime_utc,GB,DE", "datetime_utc,GB,GB", "row 1: column 'GB' is there twice"),
    broken("single", "218.3", "218,3", "row 2: has 3 cells"),
    broken("single", "2023-05-08T00:15Z", "08.05.2023", "row 3: .*not an ISO 8601 time"),
    broken("single", "datetime_utc", "moment", "none of watttime"),
    broken("long", ",GB,100", ",,100", "row 2: the zone is empty"),
    broken("long", ",DE,300", ",DE,30000", "row 3: DE is 30000, which is above 5000"),
    broken("long", "ci_g_per_kwh", "ci_kg", "row 2: zone is 'GB', which is not a number"),
]


@pytest.mark.parametrize(("name", "old", "new", "count", "said"), BROKEN)
def test_what_is_broken_is_named(
    tmp_path: Path, name: str, old: str, new: str, count: int, said: str
) -> None:
    files = {
        file: text.replace(old, new, count) if number == 0 else text
        for number, (file, text) in enumerate(FIXTURES[name][1].items())
    }
    assert files != FIXTURES[name][1]
    zones = ["XX"] if name in NAMELESS else None
    with pytest.raises(InputError, match=said) as caught:
        import_grid(write(tmp_path, files), zones=zones)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value), "the fix"


def test_every_fixture_has_three_broken_variants() -> None:
    names = [param.values[0] for param in BROKEN]  # type: ignore[attr-defined]
    assert min(names.count(name) for name in FIXTURES) >= 3


def test_files_that_do_not_go_together(tmp_path: Path) -> None:
    co2, supply = write(tmp_path, FIXTURES["caiso"][1])
    with pytest.raises(InputError, match="the supply of 2023-05-08 is missing"):
        import_grid([co2])
    (tmp_path / "co2.csv").write_text(co2.read_text())
    with pytest.raises(InputError, match=r"co2.csv: the name does not say the day"):
        import_grid([tmp_path / "co2.csv", supply])
    with pytest.raises(InputError, match="named twice"):
        import_grid([co2, co2])
    with pytest.raises(InputError, match="no file is named"):
        import_grid([])


def test_zones_are_named_chosen_and_renamed(tmp_path: Path) -> None:
    paths = write(tmp_path, FIXTURES["single"][1] | FIXTURES["wide"][1])
    with pytest.raises(InputError, match="does not say its zone; name it with --zone"):
        import_grid(paths)
    assert import_grid(paths, zones=["FR", "DE"]).series.zones == ("FR", "DE")
    assert import_grid(paths[1:], zones=["DE=Berlin"]).series.zones == ("Berlin",)
    with pytest.raises(InputError, match="zone 'DK' is not there; nearest: DE"):
        import_grid(paths[1:], zones=["DK"])
    with pytest.raises(InputError, match="zone 'GB' is there twice"):
        import_grid(paths[1:], zones=["DE=GB", "GB"])
    for name in ("DE=utc", "DE= ", "DE=a\x07"):
        with pytest.raises(InputError, match="cannot be the name of a zone"):
            import_grid(paths[1:], zones=[name])


def test_a_format_that_is_named_is_checked(tmp_path: Path) -> None:
    paths = write(tmp_path, FIXTURES["wide"][1])
    with pytest.raises(InputError, match=r"--format 'eja' is not known; did you mean 'eia'"):
        import_grid(paths, "eja")
    with pytest.raises(InputError, match="is not EIA-930"):
        import_grid(paths, "eia")
    assert import_grid(paths, "wide").series.zones == ("GB", "DE")


def test_a_zone_named_like_a_path_writes_only_into_the_folder(tmp_path: Path) -> None:
    text = made.wide().replace("GB", "../../GB")
    paths = write(tmp_path, {"grid.csv": text})
    done = carbon_gym("import", "grid", *paths, "--out", tmp_path / "a" / "b")
    assert done.code == 0, done.err
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "grid.csv",
        "grid.csv.gz",
        "grid.png",
    ]


def test_nothing_is_left_behind_after_a_fault(tmp_path: Path) -> None:
    paths = write(tmp_path, {"grid.csv": made.wide().replace(",103,", ",much,")})
    done = carbon_gym("import", "grid", *paths, "--out", tmp_path / "out")
    assert done.code == 2
    assert "row 5" in done.err
    assert not (tmp_path / "out").exists()


def survives(path: Path, name: str | None = None) -> bool:
    """Whether the file is read; a fault must be an `InputError` of one line."""
    try:
        series: GridSeries = import_grid([path], zones=["XX"] if name in NAMELESS else None).series
    except InputError as error:
        if "\n" in str(error):
            raise
        return False
    assert np.isfinite(series.values).all()
    return True


@pytest.mark.parametrize(
    "size", [0, 1, 17, 100_000, pytest.param(10_000_000, marks=pytest.mark.slow)]
)
def test_random_bytes_are_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "noise.csv"
    for head in (b"", b"\x1f\x8b", b"[", b'{"data":', b"datetime_utc,GB\n"):
        path.write_bytes(head + random.Random(size).randbytes(size))
        assert not survives(path)
    path.write_bytes(b"[" * size)
    assert not survives(path)


def mutated(text: str, draw: random.Random) -> str:
    """A file in which some characters, cells or lines are replaced, doubled or gone."""
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(text))
        kind = draw.randrange(6)
        if kind == 0:
            text = (
                text[:at] + chr(draw.choice([0, 9, 10, 34, 44, 45, 57, 91, 123, 233])) + text[at:]
            )
        elif kind == 1:
            text = text[:at] + text[at + draw.randint(1, 40) :]
        elif kind == 2:
            lines = text.splitlines(keepends=True)
            row = draw.randrange(len(lines))
            lines[row:row] = [lines[draw.randrange(len(lines))]]
            text = "".join(lines)
        elif kind == 3:
            text = text[:at]
        elif kind == 4:
            odd = draw.choice(["1e999", "-0", "nan", "null", "true", "{}", "9" * 400, "０", "1_0"])
            text = text[:at] + odd + text[at + draw.randint(0, 6) :]
        else:
            end = min(len(text), at + draw.randint(1, 200))
            text = text[:at] + text[at:end] * 2 + text[end:]
        text = text or " "
    return text


def check_mutants(folder: Path, each: int) -> None:
    for name, (_, files) in FIXTURES.items():
        draw = random.Random(name)
        for file, content in files.items():
            for _ in range(each):
                path = folder / file
                path.write_text(mutated(content, draw), encoding="utf-8")
                survives(path, name)


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    check_mutants(tmp_path, 12)


@pytest.mark.slow
def test_a_thousand_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    check_mutants(tmp_path, 100)
