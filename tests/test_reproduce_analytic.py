"""The parts of `carbon-gym reproduce` that run no policy: numbers against separate arithmetic."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym
from inputs import MONDAY, write_grid, write_tokens

from carbon_gym.errors import InputError
from carbon_gym.grid.annual import PACKAGED, annual_means, load_annual_means
from carbon_gym.report.document import Cell, Measured, Picture, Section, Table
from carbon_gym.reproduce import published
from carbon_gym.reproduce.break_even_part import BreakEvenPart, break_even_share
from carbon_gym.reproduce.grid_part import GridPart, Spread, cleanest_spells, year_of_grid
from carbon_gym.reproduce.inputs import evaluation_of, scenario_of
from carbon_gym.reproduce.miss_cost import Turns, implied_fixed, over_fleets
from carbon_gym.reproduce.miss_part import BINS, MissPart
from carbon_gym.reproduce.plan import Found, Part, Plan, Row, World
from carbon_gym.reproduce.profiles_part import ProfilesPart, profiles_of
from carbon_gym.reproduce.published import Published
from carbon_gym.resources import packaged
from carbon_gym.scenario import load_scenario
from carbon_gym.scenario.own_files import OwnFiles

TINY = Plan(datasets=("tiny",), fleets=6, sessions=60, quick=True)
PARTS: tuple[Part, ...] = (GridPart(), MissPart(), BreakEvenPart(), ProfilesPart())


class Nothing:
    """No policy was run."""

    def rows(self, world: World, policy: str) -> Sequence[Row]:
        raise KeyError(policy)


NOTHING: Found = Nothing()


def table(section: Section, name: str) -> Table:
    (found,) = [b for b in section.blocks if isinstance(b, Table) and b.name == name]
    return found


def by_first(found: Table) -> Mapping[Cell, Sequence[Cell]]:
    """Rows by their first cell."""
    return {row[0]: row for row in found.rows}


def value(cell: Cell) -> float:
    """The number of a cell."""
    number = cell.value if isinstance(cell, Measured) else cell
    assert isinstance(number, int | float)
    return float(number)


@pytest.fixture(scope="module")
def sections() -> dict[str, Section]:
    return {part.name: part.section(TINY, NOTHING) for part in PARTS}


# --- all parts --------------------------------------------------------------------------------


def test_they_need_no_worlds_and_draw_their_pictures(
    sections: dict[str, Section], tmp_path: Path
) -> None:
    assert list(sections) == ["grid", "miss-cost", "break-even", "profiles"]
    names: list[str] = []
    for part in PARTS:
        assert not part.worlds(TINY)
        section = sections[part.name]
        assert (section.name, section.title) == (part.name, part.title)
        for block in section.blocks:
            if isinstance(block, Picture):
                names.append(block.name)
                path = tmp_path / f"{block.name}.png"
                block.drawing.savefig(path)
                assert path.stat().st_size > 5000
                assert block.alternative
            elif isinstance(block, Table):
                assert block.rows
                assert re.fullmatch(r"[a-z0-9-]+", block.name)
    assert names == ["grid-annual", "grid-week", "grid-day", "miss-cost", "break-even"]


def test_a_difference_from_a_range_is_counted_from_its_nearer_end() -> None:
    span = Published(2.7, "x", "§2.1", high=5.9)
    assert [span.difference(ours) for ours in (2.0, 3.0, 6.0)] == pytest.approx([-0.7, 0, 0.1])
    assert span.text == "2.7–5.9 x"
    assert published.SAVING.difference(15.1) == pytest.approx(-1.0)
    assert published.SAVING.text == "16.1 %"


# --- profiles ---------------------------------------------------------------------------------


def test_the_published_profiles_of_the_largest_model() -> None:
    of_gpu = {p.gpu: p for p in profiles_of(load_scenario("sharegpt")) if "70B" in p.model}
    assert [round(p.kv_room_gb, 1) for p in of_gpu.values()] == [31.7, 146.9, 146.9]
    assert [p.gpus for p in of_gpu.values()] == [8, 8, 4]
    assert [round(p.decode) for p in of_gpu.values()] == [34, 88, 95]
    ratios = [p.relative_energy for p in of_gpu.values()]
    assert ratios == pytest.approx([1.433, 1.0, 0.8], rel=2e-4)
    # 2 FLOP a parameter on half of 312 TFLOPS at 400 W.
    assert of_gpu["A100-40GB"].energy_j == pytest.approx(2 * 70.55e9 * 400 / 156e12, rel=1e-12)
    assert of_gpu["A100-40GB"].prefill == pytest.approx(8 * 156e12 / (2 * 70.55e9), rel=1e-12)


def test_every_published_profile_is_met_to_its_last_digit() -> None:
    section = ProfilesPart().section(Plan(), NOTHING)
    assert len(table(section, "profiles").rows) == 15
    rows = table(section, "profiles-published").rows
    assert len(rows) == 12
    for gpu, item, ours, paper, difference, label in rows:
        assert value(ours) - value(paper) == pytest.approx(value(difference), abs=1e-12)
        digits = {"KV room, GB": 1, "relative energy": 3}.get(str(item), 0)
        assert round(value(ours), digits) == value(paper), (gpu, item)
        assert label == ("DERIVED" if item in ("KV room, GB", "decode, tokens/s") else "PUBLISHED")


def test_a_fleet_without_the_reference_gpu_has_the_same_reference(
    sections: dict[str, Section],
) -> None:
    row = table(sections["profiles"], "profiles").rows[-1]
    assert row[:2] == ["Llama-3.1-70B-Instruct", "H100-80GB"]
    assert value(row[2]) == pytest.approx(0.8, rel=2e-4)
    paper = profiles_of(load_scenario("tiny", energy="paper"))
    assert paper[-1].relative_energy == pytest.approx(0.8, rel=1e-12)
    assert paper[-1].energy_j == pytest.approx(0.8 * 4.24e-9 * 3.6e6, rel=1e-12)


# --- break-even -------------------------------------------------------------------------------


def test_the_published_break_even() -> None:
    ours = 100 * float(break_even_share(4000, 0.03, 4.0))
    assert ours == pytest.approx(100 * (1 - (0.03 * 4000 + 1700) / (4000 + 1700)), rel=1e-12)
    assert f"{ours:.1f}" == "68.1"
    assert round(ours) == published.BREAK_EVEN_AT_4K.value


def test_at_the_break_even_both_regions_emit_the_same() -> None:
    for history, cached, output in ((700.0, 0.0, 4.0), (9000.0, 0.1, 5.0)):
        fixed = 30 + output * 250
        here = 500.0 * (cached * history + fixed)
        share = float(break_even_share(history, cached, output, 30, 250))
        assert 500.0 * (1 - share) * (history + fixed) == pytest.approx(here, rel=1e-12)


def test_the_table_marks_the_published_point(sections: dict[str, Section]) -> None:
    found = table(sections["break-even"], "break-even")
    (marked,) = found.emphasis
    assert found.rows[marked][0] == 4000
    assert value(found.rows[marked][-1]) == pytest.approx(0.07, abs=0.01)
    for row in found.rows:
        no_cache_cost, default, api = (value(row[k]) for k in (1, 3, 6))
        assert no_cache_cost > default > api


# --- miss cost --------------------------------------------------------------------------------


def independent(plan: Plan) -> list[dict[str, Any]]:
    """H, hit and miss of every turn, a turn at a time, by fleet."""
    fleets = []
    for trace in evaluation_of(plan, "tiny").traces:
        history, hit, miss = [], [], []
        for h, q, o in zip(
            trace.history_tokens.tolist(),
            trace.prompt_tokens.tolist(),
            trace.output_tokens.tolist(),
            strict=True,
        ):
            history.append(h)
            hit.append(0.03 * h + q + 4 * o)
            miss.append(h + q + 4 * o)
        fleets.append({"h": np.array(history), "hit": np.array(hit), "miss": np.array(miss)})
    return fleets


def test_shares_and_rises_are_those_of_a_separate_computation(
    sections: dict[str, Section],
) -> None:
    fleets = independent(TINY)
    rows = by_first(table(sections["miss-cost"], "miss-published"))
    share = np.mean([100 * np.mean(fleet["h"] >= 4000) for fleet in fleets])
    assert value(rows["queries with H ≥ 4K"][2]) == pytest.approx(share, rel=1e-12)
    for name, low, high in (("2K–4K", 2000, 4000), ("4K–8K", 4000, 8000), ("> 8K", 8000, 1e9)):
        rises = []
        for fleet in fleets:
            inside = (fleet["h"] >= low) & (fleet["h"] < high)
            if inside.any():
                medians = (np.median(fleet[key][inside]) for key in ("miss", "hit"))
                rises.append(100 * (next(medians) / next(medians) - 1))
        row = rows[f"rise of the median, H {name}"]
        assert value(row[2]) == pytest.approx(np.mean(rises), rel=1e-9)
        paper = published.MISS_RISE[name].value
        assert value(row[-1]) == pytest.approx(value(row[3]) - paper, abs=1e-9)


def test_bins_hold_every_query_once(sections: dict[str, Section]) -> None:
    rows = table(sections["miss-cost"], "miss-history").rows
    assert [row[0] for row in rows] == list(BINS)
    assert sum(value(row[1]) for row in rows) == pytest.approx(100)
    firsts = np.mean([100 * np.mean(fleet["h"] == 0) for fleet in independent(TINY)])
    assert value(rows[0][1]) == pytest.approx(firsts, rel=1e-12)


def test_prefill_time_is_history_over_the_rate(sections: dict[str, Section]) -> None:
    rows = table(sections["miss-cost"], "miss-prefill").rows
    assert [row[0] for row in rows] == ["Llama-3.1-8B-Instruct", "Llama-3.1-70B-Instruct", "all"]
    rate = 4 * 989.4e12 * 0.3449 / (2 * 70.55e9)
    medians = [
        np.median(inside) / rate
        for fleet in independent(TINY)
        if len(inside := fleet["h"][(fleet["h"] >= 2000) & (fleet["h"] < 4000)])
    ]
    assert value(rows[1][2]) == pytest.approx(np.mean(medians), rel=1e-9)
    small, large, both = (value(row[2]) for row in rows)
    assert small < both < large


def test_dropping_short_sessions_raises_the_share(sections: dict[str, Section]) -> None:
    shares = [value(row[1]) for row in table(sections["miss-cost"], "miss-selection").rows]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


def test_the_implied_rest_of_a_turn_gives_the_rise_back() -> None:
    history = 5600.0
    fixed = implied_fixed(history, 2.31, 0.03)
    assert (history + fixed) / (0.03 * history + fixed) - 1 == pytest.approx(2.31)


def turns(*history: float) -> Turns:
    count = len(history)
    return Turns(np.array(history), np.full(count, 100.0), np.ones(count, dtype=np.int64), 0.0)


def test_fleets_without_such_a_turn_are_left_out() -> None:
    fleets = [turns(0, 3000), turns(0), turns()]

    def rise(of: Turns) -> float | None:
        return of.between(2000, 4000).rise_of_medians()

    assert over_fleets(fleets, rise) == Measured(pytest.approx(3000.0))
    assert over_fleets(fleets[1:], rise) is None
    assert turns().share(0) is None
    many = over_fleets([turns(h) for h in (100, 200, 300, 400, 500)], Turns.median_rise)
    assert many is not None
    assert many.value == pytest.approx(300)
    assert many.low is not None
    assert many.high is not None
    assert many.low + many.high == pytest.approx(600)


def test_long_conversations_of_the_user_s_own(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "own.csv", 40, turns=lambda session: [(100, 900)] * 12)
    files = OwnFiles(conversations=path, format="tokens")
    plan = Plan(files=files, datasets=("sharegpt",), fleets=1)
    rows = by_first(table(MissPart().section(plan, NOTHING), "miss-published"))
    # Twelve turns of 1,000 tokens: histories 0 to 11,000, eight of them from 4,000 on.
    assert value(rows["queries with H ≥ 4K"][2]) == pytest.approx(100 * 8 / 12)
    rise = 100 * ((2500 + 3700) / (0.03 * 2500 + 3700) - 1)
    assert value(rows["rise of the median, H 2K–4K"][2]) == pytest.approx(rise)


# --- grid -------------------------------------------------------------------------------------


def test_spells_of_a_series_made_by_hand() -> None:
    # Region 0 is cleanest for an hour, 1 for half an hour, 0 for half an hour, 2 never.
    best = [0] * 12 + [1] * 6 + [0] * 6
    values = np.full((24, 3), 300.0)
    values[np.arange(24), best] = 100.0
    values[:, 2] = 300.0
    first, second, third = cleanest_spells(values)
    assert (first.share, first.spells, first.mean_h, first.longest_h) == (0.75, 2, 0.75, 1.0)
    assert (second.share, second.spells, second.mean_h) == (0.25, 1, 0.5)
    assert (third.share, third.spells, third.mean_h, third.longest_h) == (0.0, 0, 0.0, 0.0)
    assert cleanest_spells(np.ones((3, 2)))[0].share == 1.0, "ties go to the first"


def test_the_spread_of_some_values() -> None:
    spread = Spread.of(np.arange(1.0, 102.0))
    assert (spread.mean, spread.max_over_min) == (51.0, 101.0)
    assert spread.p99_over_p1 == pytest.approx(100 / 2)
    assert Spread.of(np.array([0.0, 5.0])).max_over_min is None


def test_the_regions_are_measured_over_the_test_year(sections: dict[str, Section]) -> None:
    evaluation = evaluation_of(TINY, "tiny")
    series = year_of_grid(evaluation)
    assert len(series.values) == 365 * 288
    text = next(block for block in sections["grid"].blocks if isinstance(block, str))
    assert "from 2023-01-01 to 2023-12-31" in text
    rows = by_first(table(sections["grid"], "grid-variation"))
    for region, zone in enumerate(("US-CAL-CISO", "GB")):
        values = series.values[:, region]
        assert value(rows[zone][1]) == pytest.approx(values.mean())
        assert value(rows[zone][2]) == pytest.approx(values.max() / values.min())
        p1, p99 = np.percentile(values, [1, 99])
        assert value(rows[zone][3]) == pytest.approx(p99 / p1)
        assert value(rows[zone][4]) == pytest.approx(
            max(p99 / p1 - 5.9, 0) + min(p99 / p1 - 2.7, 0)
        )
        days = np.concatenate(
            [series.values[d * 288 : (d + 1) * 288, region] for d in day_numbers(evaluation.days)]
        )
        assert value(rows[zone][5]) == pytest.approx(days.max() / days.min())
    shares = [value(row[1]) for row in table(sections["grid"], "grid-cleanest").rows]
    assert sum(shares) == pytest.approx(100)


def day_numbers(days: Sequence[date]) -> list[int]:
    return [(day - date(2023, 1, 1)).days for day in days]


def test_days_elsewhere_are_shown_with_their_own_year() -> None:
    plan = Plan(start=date(2030, 3, 1), datasets=("tiny",), fleets=2, sessions=5)
    series = year_of_grid(evaluation_of(plan, "tiny"))
    first = np.datetime64("2030-03-01").astype("datetime64[s]").astype(int)
    assert (series.start_unix_s, len(series.values)) == (first, 365 * 288)
    assert GridPart().section(plan, NOTHING).blocks


def test_a_grid_of_the_user_s_own(tmp_path: Path) -> None:
    path = write_grid(tmp_path / "g.csv", hours=96)
    plan = Plan(files=OwnFiles(grid=(path,)), datasets=("tiny",), fleets=2, sessions=20)
    section = GridPart().section(plan, NOTHING)
    cleanest = table(section, "grid-cleanest").rows
    # The cleaner zone changes every six hours.
    assert [value(row[1]) for row in cleanest] == pytest.approx([50, 50])
    assert [value(row[3]) for row in cleanest] == [6, 6]
    text = next(block for block in section.blocks if isinstance(block, str))
    assert f"from {MONDAY.date()} to 2023-05-11" in text
    assert "`g.csv" in text
    assert table(section, "grid-annual") == table(GridPart().section(TINY, NOTHING), "grid-annual")


def test_the_scenario_of_a_plan_is_on_the_user_s_files(tmp_path: Path) -> None:
    files = OwnFiles(
        conversations=write_tokens(tmp_path / "t.csv", 5),
        format="tokens",
        grid=(write_grid(tmp_path / "g.csv"),),
        zones=("GB", "US-CAL-CISO"),
    )
    scenario = scenario_of(Plan(files=files), "tiny")
    assert scenario.workload.path == str(tmp_path / "t.csv")
    assert scenario.grid.paths == (str(tmp_path / "g.csv"),)
    assert [region.zone for region in scenario.fleet.regions] == ["GB", "US-CAL-CISO"]
    assert OwnFiles().changes(scenario) == {}


def test_zones_keep_what_the_fleet_says_of_them() -> None:
    mine = {"zone": "GB", "pue": 1.3, "round_trip_s": 0.013}
    scenario = load_scenario("tiny", fleet={"regions": [mine, "DE"]})
    changed = load_scenario(scenario, **OwnFiles(zones=("FR", "GB")).changes(scenario))
    first, second = changed.fleet.regions
    assert (first.zone, first.pue, first.round_trip_s) == ("FR", 1.0, 0.0)
    assert second.model_dump() == mine


# --- annual means -----------------------------------------------------------------------------


def test_the_span_of_the_packaged_means(sections: dict[str, Section]) -> None:
    means = load_annual_means()
    assert len(means.with_data_centre) >= published.ANNUAL_ZONES.value
    shown = [means.g_per_kwh[zone] for zone in means.with_data_centre]
    first, everywhere = table(sections["grid"], "grid-annual").rows
    assert value(first[6]) == pytest.approx(max(shown) / min(shown))
    assert value(first[8]) == pytest.approx(max(shown) / min(shown) - 20.4)
    assert value(everywhere[6]) == pytest.approx(
        max(means.g_per_kwh.values()) / min(means.g_per_kwh.values())
    )
    assert all(math.isfinite(mean) and mean > 0 for mean in means.g_per_kwh.values())


def test_the_packaged_means_are_made_again_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "annual.json"
    outcome = carbon_gym(
        *("calibrate", "annual", "--out", out),
        *("--means", shared_data / "grid" / "em_annual_2021_2025_all_zones.csv"),
        *("--cloud-regions", shared_data / "grid" / "gcp_region_to_zone.csv"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"{out}: 205 countries of 2024, 21 with a data centre\n"
    assert out.read_bytes() == packaged(PACKAGED).read_bytes()


def annual_files(folder: Path, mean: str = "40.5") -> tuple[Path, Path]:
    means, clouds = folder / "means.csv", folder / "clouds.csv"
    means.write_text(
        "zone,zone_name,year,ci_g_per_kwh\n"
        f"XA,Aland,2023,{mean}\nXA,Aland,2024,50\nXB,Bland,2023,162\nXB-N,North,2023,1\n",
        encoding="utf-8",
    )
    clouds.write_text("region,em_zone\nr1,XB-N\nr2,XC\n", encoding="utf-8")
    return means, clouds


def test_whole_countries_of_the_year_are_chosen(tmp_path: Path) -> None:
    content = annual_means(*annual_files(tmp_path), 2023)
    assert content["zones"] == [["XA", "Aland", 40.5], ["XB", "Bland", 162]]
    assert content["with_data_centre"] == ["XB"]
    assert [each["file"] for each in content["inputs"]] == ["means.csv", "clouds.csv"]


def test_annual_means_that_cannot_be_used(tmp_path: Path) -> None:
    means, clouds = annual_files(tmp_path, mean="none")
    with pytest.raises(InputError, match="year 2020; name one that is there: 2023, 2024"):
        annual_means(means, clouds, 2020)
    with pytest.raises(InputError, match=r"means\.csv, row 2: ci_g_per_kwh 'none' is not a"):
        annual_means(means, clouds, 2023)
    with pytest.raises(InputError, match="has no column zone; found region, em_zone"):
        annual_means(clouds, clouds, 2023)
