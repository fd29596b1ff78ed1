"""What the publishers' files hold beyond the plain case: odd headings, pages, clocks, holes."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from carbon_gym.errors import InputError
from carbon_gym.grid.importing import import_grid
from tests import grid_fixtures as made
from tests.grid_fixtures import file, unix_s

# --- generation by fuel ---------------------------------------------------------------------------


def test_the_headings_of_the_eia_since_2024(tmp_path: Path) -> None:
    """Two blanks before a bracket and "witho" are the EIA's own."""
    head = ["Balancing Authority", "UTC Time at End of Hour"]
    names = {
        "Natural Gas": 100,
        "Hydropower Excluding Pumped Storage": 100,
        "Pumped Storage ": 900,
        "Solar without Integrated Battery Storage": 100,
        "Solar with Integrated Battery Storage": 100,
        "Geothermal": 0,
        "Battery Storage": -700,
    }
    head += [f"Net Generation (MW) from {name}" for name in names]
    head += [f"Net Generation (MW) from {name} (Imputed)" for name in names]
    head += [
        f"Net Generation (MW) from {name} (Adjusted)".replace("Solar with I", "Solar witho I")
        for name in names
    ]
    assert any("witho " in name for name in head)
    power = [str(mw) for mw in names.values()]
    rows = [
        ",".join(["CISO", f"05/08/2023 {hour}:00:00 AM", *power, *[""] * len(names), *power])
        for hour in range(1, 12)
    ]
    path = file(tmp_path, "EIA930_BALANCE_2024_Jul_Dec.csv", made.csv(",".join(head), *rows))
    np.testing.assert_allclose(import_grid([path]).series.values, (490 + 24 + 2 * 48) / 4)


def test_an_hour_may_stand_in_two_pages_of_an_answer(tmp_path: Path) -> None:
    rows = made.eia_api_rows()
    # 72 rows, three an hour: the first page ends within an hour.
    pages = [
        file(tmp_path, f"{i}.json", json.dumps({"response": {"data": part}}))
        for i, part in enumerate((rows[:37], rows[37:]))
    ]
    series = import_grid(pages).series
    assert len(series.values) == 288
    np.testing.assert_allclose(series.values, 415.5)
    rows[36] = rows[36] | {"value": "501"}
    again = file(tmp_path, "2.json", json.dumps({"response": {"data": rows[36:39]}}))
    with pytest.raises(
        InputError, match=r"2.json, entry 1: CISO has 'COL' twice .* 501 .*0.json, entry 37, as 500"
    ):
        import_grid([*pages, again])


def test_sources_that_are_late_do_not_change_the_last_hours(tmp_path: Path) -> None:
    rows = [
        row
        for row in made.eia_api_rows()
        if not (row["fueltype"] == "COL" and row["period"] > "2023-05-08T20")
    ]
    path = file(tmp_path, "f.json", json.dumps({"response": {"data": rows}}))
    series = import_grid([path]).series
    np.testing.assert_allclose(series.values, 415.5)
    assert len(series.values) == 20 * 12


def test_power_below_zero_counts_as_nothing(tmp_path: Path) -> None:
    text = made.eia_api_csv().replace("WND,Wind,500", "WND,Wind,-500")
    np.testing.assert_allclose(import_grid([file(tmp_path, "f.csv", text)]).series.values, 820)


def test_areas_of_several_types_are_read_once_each(tmp_path: Path) -> None:
    header = made.entsoe_library().splitlines()[0]
    areas = (
        ("BZN/CTA/CTY", "AT", (500, 500)),
        ("CTY", "SE", (100, 900)),
        ("CTA", "SE", (999, 1)),
        ("BZN", "SE3", (0, 700)),
    )
    rows = [
        f"{made.at(60 * i):%Y-%m-%d %H:%M:%S}\tPT60M\t10Y\tSomewhere\t{of_type}\t{code}\t{kind}\t"
        f"{mw}\t0.0\t2023-05-09 01:00:00"
        for i in range(6)
        for of_type, code, power in areas
        for kind, mw in zip(("Fossil Gas", "Wind Onshore"), power, strict=True)
    ]
    path = file(tmp_path, "2023_05_AggregatedGenerationPerType.csv", made.csv(header, *rows))
    series = import_grid([path]).series
    assert series.zones == ("AT", "SE", "SE3")
    np.testing.assert_allclose(series.values[0], [250.5, (490 + 9 * 11) / 10, 11.0])
    assert import_grid([path], zones=["SE3=SE-SE3"]).series.zones == ("SE-SE3",)


def test_the_file_library_before_2025(tmp_path: Path) -> None:
    text = (
        made.entsoe_library()
        .replace("DateTime(UTC)", "DateTime (UTC)")
        .replace("AreaMapCode", "MapCode")
        .replace("[MW]", "(MW)")
        .replace(":00:00\tPT60M", ":00:00.000\tPT60M")
    )
    np.testing.assert_allclose(import_grid([file(tmp_path, "x.csv", text)]).series.values, 59.8)


# --- clocks ---------------------------------------------------------------------------------------


def entsoe_new_local(*, marked: bool) -> str:
    """FR over the night of 29 October 2023, 00:00 CEST to 05:00 CET; gas grows by the hour."""
    clock = [
        ("00:00:00", ""),
        ("01:00:00", ""),
        ("02:00:00", "CEST"),
        ("02:00:00", "CET"),
        ("03:00:00", ""),
        ("04:00:00", ""),
    ]
    rows = []
    for number, (time, name) in enumerate(clock):
        said = f" ({name})" if marked and name else ""
        for kind, mw in (("Nuclear", 100 - 10 * number), ("Fossil Gas", 10 * number)):
            rows.append(f'"29/10/2023 {time}{said} - 29/10/2023","BZN|FR","{kind}","{mw}"')
    return made.csv('"MTU (CET/CEST)","Area","Production Type","Generation (MW)"', *rows)


@pytest.mark.parametrize("marked", [False, True])
def test_the_present_entsoe_table_in_local_time(tmp_path: Path, marked: bool) -> None:
    series = import_grid([file(tmp_path, "x.csv", entsoe_new_local(marked=marked))]).series
    assert series.start_unix_s == unix_s("2023-10-28T22:00")
    expected = [(12 * (100 - 10 * n) + 490 * 10 * n) / 100 for n in range(6)]
    np.testing.assert_allclose(series.values[::12, 0], expected)
    assert series.held_steps == 0


def test_the_hour_that_the_clock_skips_may_stand_there_empty(tmp_path: Path) -> None:
    text = made.entsoe_old("CET/CEST", datetime(2023, 3, 26, 0))
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if "26.03.2023 02:" in line.split(" - ")[0 if number else -1] or (
            number and line.split(",")[1].startswith('"26.03.2023 02:')
        ):
            cells = line.split(",")
            lines[number] = ",".join([*cells[:2], *['"-"'] * (len(cells) - 2)])
    assert sum('"-","-"' in line for line in lines) == 4
    series = import_grid([file(tmp_path, "x.csv", "\n".join(lines) + "\n")]).series
    # 00:00 to 02:00 CET, then 03:00 CEST follows at once.
    assert series.start_unix_s == unix_s("2023-03-25T23:00")
    assert series.held_steps == 0
    with pytest.raises(InputError, match=r"02:00' ?, which the clock of Europe/Brussels skipped"):
        import_grid([file(tmp_path, "y.csv", text)])


# --- CAISO ----------------------------------------------------------------------------------------


def caiso(folder: Path, old: str, new: str, *, count: int = 1, which: int = 0) -> list[Path]:
    paths = []
    for number, (name, text) in enumerate(made.caiso_day().items()):
        if number == which:
            assert old in text
            text = text.replace(old, new, count)
        paths.append(file(folder, name, text))
    return paths


def test_a_cell_that_is_missing_makes_a_hole_and_not_a_cleaner_time(tmp_path: Path) -> None:
    paths = caiso(tmp_path, "00:10,80,200,3000,", "00:10,80,200,,")
    read = import_grid(paths)
    np.testing.assert_allclose(read.series.values, 250.0)
    assert read.series.held_steps == 1
    paths = caiso(tmp_path, "00:10,-30,4000,800,", "00:10,-30,,800,", which=1)
    read = import_grid(paths)
    np.testing.assert_allclose(read.series.values, 250.0)
    assert read.series.held_steps == 1


def test_a_time_twice_with_two_values_is_an_error(tmp_path: Path) -> None:
    paths = caiso(tmp_path, "00:10,80,200,3000", "00:05,80,200,9000")
    with pytest.raises(InputError, match=r"row 4: the time '00:05' is there twice, .*in row 3"):
        import_grid(paths)


def test_a_credit_for_exports_larger_than_the_rest_counts_as_zero(tmp_path: Path) -> None:
    paths = caiso(tmp_path, ",1600,", ",-8000,", count=99)
    np.testing.assert_array_equal(import_grid(paths).series.values, 0.0)


# --- NESO and WattTime ----------------------------------------------------------------------------


def test_all_regions_of_great_britain(tmp_path: Path) -> None:
    data = [
        {
            "from": f"{made.at(30 * i):%Y-%m-%dT%H:%MZ}",
            "to": f"{made.at(30 * i + 30):%Y-%m-%dT%H:%MZ}",
            "regions": [
                {"regionid": of, "shortname": name, "intensity": {"forecast": of + i}}
                for of, name in ((1, "North Scotland"), (13, "London"))
            ],
        }
        for i in range(4)
    ]
    series = import_grid([file(tmp_path, "r.json", json.dumps({"data": data}))]).series
    assert series.zones == ("North Scotland", "London")
    np.testing.assert_array_equal(series.values[::6, 1], [13, 14, 15, 16])
    del data[2]["regions"][1]["shortname"]  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="entry 3: 'shortname' is None"):
        import_grid([file(tmp_path, "r.json", json.dumps({"data": data}))])
    one = json.loads(made.neso_regional_json())
    path = file(tmp_path, "one.json", json.dumps({"data": [one["data"]]}))
    np.testing.assert_array_equal(import_grid([path]).series.values, 90.0)


def test_a_forecast_of_watttime_is_not_history(tmp_path: Path) -> None:
    answer = json.loads(made.watttime_json())
    answer["meta"]["generated_at"] = "2023-05-08T00:00:00+00:00"
    with pytest.raises(InputError, match=r"is a forecast .*; fetch /v3/historical"):
        import_grid([file(tmp_path, "f.json", json.dumps(answer))])
