"""The comparison: the layout of results.json, its rows, and that it is whole at every moment."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commandline import POLICIES, benchmark
from inputs import write_grid, write_tokens
from test_rows import KEYS, LONG_KEYS

from carbon_gym import benchmark as module
from carbon_gym.benchmark import REFERENCES, compare, policy_key, references_in, turns_to_serve
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.scenario import load_scenario
from carbon_gym.scenario.schema import CATEGORIES

Row = dict[str, Any]
OPTIONAL = ("co2_relative", "saving_vs_faircarbon", "recompute_mwh_per_turn", "ttft_p95_s")
NESTED = {"saving_vs_faircarbon", "by_session_turns", "quality_by_category", "versus_ccar"}
FRACTIONS = (
    "quality_predicted",
    "quality_realised",
    "session_quality_low_decile",
    "quality_violation_rate",
    "ttft_violation_rate",
    "capacity_violation_rate",
)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluation_fleets(load_scenario("tiny"), fleets=3)


@pytest.fixture(scope="module")
def rows(evaluation: Evaluation) -> list[Row]:
    return compare(evaluation, POLICIES)


def results(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return content


def untimed(rows: list[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if key != "decision_us"} for row in rows]


def pooled(rows: list[Row], policy: str) -> Row:
    (found,) = [row for row in rows if row["policy"] == policy and row["fleet"] == "all"]
    return found


def check_interval(interval: Any) -> None:
    assert interval is None or set(interval) == {"mean", "low", "high", "method"}
    if interval is not None:
        assert interval["low"] <= interval["mean"] <= interval["high"] <= 1


def check_row(row: Row) -> None:
    """The schema of the issue."""
    assert row.keys() >= KEYS
    assert row["fleet"] == "all" or type(row["fleet"]) is int
    for key in KEYS - NESTED - {"scenario", "policy", "fleet"}:
        assert isinstance(row[key], int | float) or (row[key] is None and key in OPTIONAL)
        assert row[key] is None or (math.isfinite(row[key]) and row[key] >= 0)
    assert all(0 <= row[key] <= 1 for key in FRACTIONS)
    check_interval(row["saving_vs_faircarbon"])
    assert list(row["by_session_turns"]) == [">5", ">10", ">20", ">30"]
    for part in row["by_session_turns"].values():
        assert part.keys() >= LONG_KEYS
        assert part["co2_g"] <= row["co2_g"]
        check_interval(part["saving_vs_faircarbon"])


def test_results_of_the_command_have_the_layout_of_the_issue(tmp_path: Path) -> None:
    outcome = benchmark("--scenario", "tiny", "--fleets", 2, "--out", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    content = results(tmp_path)
    assert content.keys() >= {"schema", "scenario", "versions", "rows"}
    assert content["schema"] == 1
    assert load_scenario(content["scenario"]["tiny"]) == load_scenario("tiny")
    assert content["versions"].keys() >= {"carbon-gym", "python", "numpy", "numba", "gymnasium"}
    inputs = content["inputs"]["tiny"]
    assert len(inputs["days"]) == 2
    assert inputs["digest"] == load_scenario("tiny").digest()
    assert any("seeds.arrivals" in note for note in inputs["notes"])
    for row in content["rows"]:
        check_row(row)
    assert [(row["policy"], row["fleet"]) for row in content["rows"]] == [
        (policy, fleet) for policy in POLICIES for fleet in (0, 1, "all")
    ]


def test_rows_of_fleets_add_up_to_the_pooled_one(rows: list[Row]) -> None:
    for policy in POLICIES:
        mine = [row for row in rows if row["policy"] == policy]
        assert [row["fleet"] for row in mine] == [0, 1, 2, "all"]
        for key in ("sessions", "turns", "co2_g", "energy_kwh"):
            assert sum(row[key] for row in mine[:3]) == pytest.approx(mine[3][key])


def test_categories_add_up_to_the_row(rows: list[Row]) -> None:
    for row in rows:
        parts = row["quality_by_category"]
        assert tuple(parts) == CATEGORIES
        assert sum(part["turns"] for part in parts.values()) == row["turns"]
        for key in ("quality_predicted", "quality_realised"):
            total = sum(part["turns"] * (part[key] or 0.0) for part in parts.values())
            assert total / row["turns"] == pytest.approx(row[key])
        assert row["versus_ccar"] is None  # quality is no budget here


def test_relative_numbers_hang_together(rows: list[Row]) -> None:
    affinity, faircarbon = (pooled(rows, name) for name in REFERENCES)
    assert affinity["co2_relative"] == 1.0
    assert faircarbon["saving_vs_faircarbon"]["mean"] == 0.0
    for policy in POLICIES:
        row = pooled(rows, policy)
        assert row["co2_relative"] == pytest.approx(row["co2_g"] / affinity["co2_g"])
        # Three fleets: the saving is that of the pooled totals.
        saving = 1 - row["co2_g"] / faircarbon["co2_g"]
        assert row["saving_vs_faircarbon"]["mean"] == pytest.approx(saving)
        assert row["saving_vs_faircarbon"]["method"] == "bootstrap-over-sessions"


def test_a_subset_is_still_relative_to_the_references(
    evaluation: Evaluation, rows: list[Row]
) -> None:
    some = compare(evaluation, ["lower-bound", "ccar-no-gate", "lower-bound"])
    assert [row["policy"] for row in some] == ["lower-bound"] * 4 + ["ccar-no-gate"] * 4
    known = {(row["policy"], row["fleet"]): row for row in untimed(rows)}
    for row in untimed(some):
        assert row == known[row["policy"], row["fleet"]]


def test_processes_change_nothing_but_times(evaluation: Evaluation, rows: list[Row]) -> None:
    served: list[int] = []
    both = compare(evaluation, ["session-affinity", "faircarbon"], jobs=2, on_turns=served.append)
    assert untimed(both) == [row for row in untimed(rows) if row["policy"] in REFERENCES]
    assert sum(served) == turns_to_serve(evaluation, REFERENCES)


def test_a_fault_in_a_process_arrives_here(evaluation: Evaluation) -> None:
    with pytest.raises(InputError, match="'no-such-policy'"):
        compare(evaluation, ["no-such-policy"], jobs=2)


def test_progress_ends_where_it_was_said_to(evaluation: Evaluation) -> None:
    served: list[int] = []
    compare(evaluation, ["lower-bound"], on_turns=served.append)
    assert sum(served) == turns_to_serve(evaluation, ["lower-bound"])
    turns = sum(trace.turns for trace in evaluation.traces)
    assert turns_to_serve(evaluation, ["ccar-no-gate"]) == 3 * turns
    assert turns_to_serve(evaluation, ["ccar-no-gate"], ["ccar-no-gate"]) == 0


def test_five_fleets_have_t_intervals_and_single_ones_a_bootstrap() -> None:
    rows = compare(evaluation_fleets(load_scenario("tiny"), fleets=5, sessions=15), ["lower-bound"])
    methods = [row["saving_vs_faircarbon"]["method"] for row in rows]
    assert methods == ["bootstrap-over-sessions"] * 5 + ["paired-t-over-fleets"]


def test_a_fleet_without_sessions(tmp_path: Path) -> None:
    """Sessions on the first and the third day only."""
    file = write_tokens(
        tmp_path / "t.csv", 6, arrival=lambda s, t: f"2023-05-{8 + 2 * (s % 2):02}T10:0{t}:00Z"
    )
    grid = write_grid(tmp_path / "g.csv")
    outcome = benchmark(
        *("--scenario", "tiny", "--conversations", file, "--grid", grid, "--out", tmp_path / "o")
    )
    assert outcome.code == 0
    empty = [row for row in results(tmp_path / "o")["rows"] if row["fleet"] == 1]
    assert len(empty) == len(POLICIES)
    for row in empty:
        assert (row["sessions"], row["turns"], row["co2_g"]) == (0, 0, 0.0)
        assert row["saving_vs_faircarbon"] is row["co2_relative"] is row["ttft_p95_s"] is None


# --- where quality is a budget ------------------------------------------------------------------


@pytest.fixture(scope="module")
def budget() -> Evaluation:
    scenario = load_scenario("tiny", bounds={"quality_constraint": "budget"})
    return evaluation_fleets(scenario, fleets=2)


def test_a_budget_is_guarded_by_ccar_whether_it_is_asked_for_or_not(budget: Evaluation) -> None:
    assert references_in(budget.scenario) == (*REFERENCES, "ccar")
    served: list[int] = []
    alone = compare(budget, ["largest-model"], on_turns=served.append)
    assert sum(served) == turns_to_serve(budget, ["largest-model"])
    rows = compare(budget, ["ccar", "largest-model"])
    assert untimed(alone) == untimed(rows)[3:]
    for theirs, mine in zip(rows[:3], rows[3:], strict=True):
        found = mine["versus_ccar"]
        assert found["saving"]["mean"] == pytest.approx(1 - mine["co2_g"] / theirs["co2_g"])
        if mine["fleet"] != "all":
            for key in ("quality_realised", "quality_predicted"):
                difference = mine[key] - theirs[key]
                assert found[f"{key}_difference"]["mean"] == pytest.approx(difference)
            difference_s = mine["ttft_p95_s"] - theirs["ttft_p95_s"]
            assert found["ttft_p95_difference_s"]["mean"] == pytest.approx(difference_s)
        assert theirs["versus_ccar"]["session_quality_ratio"]["predicted"]["smallest"] == 1.0
        assert theirs["versus_ccar"]["low_decile_difference"]["own"]["mean"] == 0.0


def test_processes_and_done_rows_keep_the_guard(budget: Evaluation) -> None:
    names = ["largest-model", "lower-bound"]
    rows = compare(budget, names)
    assert untimed(compare(budget, names, jobs=2)) == untimed(rows)
    done = {"largest-model": rows[:3]}
    assert untimed(compare(budget, names, done=done)) == untimed(rows)
    assert turns_to_serve(budget, names, names) == 0


def test_rows_hang_on_the_gate_of_what_they_are_compared_with(
    budget: Evaluation, tmp_path: Path
) -> None:
    names = ["largest-model", "random"]
    before = [policy_key(name, budget) for name in names]
    gate = tmp_path / "gate.json"
    gate.write_text("{}", encoding="utf-8")
    other = replace(budget, scenario=budget.scenario.model_copy(update={"gate": str(gate)}))
    assert all(policy_key(n, other) != key for n, key in zip(names, before, strict=True))


@pytest.mark.parametrize("columns", [80, 120])
def test_the_guards_table_is_printed_and_kept(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    own = tmp_path / "budget.yaml"
    own.write_text("extends: tiny\nbounds: {quality_constraint: budget}\n", encoding="utf-8")
    outcome = benchmark(
        *("--scenario", own, "--fleets", 5, "--sessions", 15, "--out", tmp_path / "o"),
        *("--policies", "ccar,largest-model,lower-bound"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    before, _, table = outcome.out.partition("against ccar, on the same turns")
    assert "saving %" in before
    cells = {line.split()[0]: line.split() for line in table.splitlines() if line.strip()}
    assert ["largest-model" in cells, "lower-bound" in cells, "ccar" in cells] == [1, 1, 0]
    row = pooled(results(tmp_path / "o")["rows"], "largest-model")
    assert cells["largest-model"][1] == f"{100 * row['versus_ccar']['saving']['mean']:.1f}"
    text = (tmp_path / "o" / "table.md").read_text(encoding="utf-8")
    assert text.count("Against ccar, on the same turns (budget)") == 1
    header = (tmp_path / "o" / "results.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "versus_ccar.session_quality_ratio.realised.below_95_percent" in header.split(",")


# --- the file ---------------------------------------------------------------------------------


def test_scenarios_stand_beside_each_other(tmp_path: Path) -> None:
    own = tmp_path / "evict.yaml"
    own.write_text("extends: tiny\ncache: {on_leave: evict}\n", encoding="utf-8")
    outcome = benchmark(
        *("--scenario", "tiny", "--scenario", own, "--scenario", "tiny"),
        *("--policies", "faircarbon", "--fleets", 1, "--out", tmp_path / "o"),
    )
    assert outcome.code == 0
    content = results(tmp_path / "o")
    assert list(content["scenario"]) == list(content["inputs"]) == ["tiny", "evict"]
    assert content["scenario"]["evict"]["cache"]["on_leave"] == "evict"
    assert [row["scenario"] for row in content["rows"]] == ["tiny", "tiny", "evict", "evict"]


@pytest.mark.parametrize("fault", [InputError, RuntimeError, KeyboardInterrupt])
def test_a_fault_in_the_second_scenario_leaves_the_first_ones_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    second = tmp_path / "second.yaml"
    second.write_text("extends: tiny\n", encoding="utf-8")
    real = module.run_policy

    def breaks(scenario: Any, *args: Any, **options: Any) -> Any:
        if scenario.name == "second":
            raise fault("here")
        return real(scenario, *args, **options)

    monkeypatch.setattr(module, "run_policy", breaks)
    arguments = ("--scenario", "tiny", "--scenario", second, "--fleets", 1)
    arguments += ("--policies", "faircarbon", "--out", tmp_path / "o")
    if fault is RuntimeError:
        with pytest.raises(RuntimeError, match="here"):  # a fault of ours keeps its traceback
            benchmark(*arguments)
    else:
        assert benchmark(*arguments).code != 0
    assert not list((tmp_path / "o").glob("second*"))
    assert {row["scenario"] for row in results(tmp_path / "o")["rows"]} == {"tiny"}


# --- real input -------------------------------------------------------------------------------


def test_cache_aware_pricing_saves_on_real_conversations_and_grids(
    shared_data: Path, tmp_path: Path
) -> None:
    outcome = benchmark(
        *("--scenario", "sharegpt", "--sessions", 50, "--days", 5, "--start", "2023-05-08"),
        *("--conversations", shared_data / "conversations" / "sharegpt_turns.csv.gz"),
        *("--grid", shared_data / "grid" / "em_hourly_2021_2023_lca.csv.gz"),
        *("--zones", "US-CAL-CISO,US-TEX-ERCO,GB,DE", "--out", tmp_path),
        *("--policies", "session-affinity,faircarbon,ccar-no-gate"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    content = results(tmp_path)
    (name,) = content["scenario"]
    assert name == "sharegpt on sharegpt_turns.csv.gz + em_hourly_2021_2023_lca.csv.gz"
    assert content["inputs"][name]["days"] == [f"2023-05-{day:02}" for day in range(8, 13)]
    ccar, faircarbon = (pooled(content["rows"], p) for p in ("ccar-no-gate", "faircarbon"))
    assert ccar["co2_g"] < faircarbon["co2_g"]
    assert ccar["saving_vs_faircarbon"]["mean"] > 0
    assert ccar["recompute_mwh_per_turn"] < faircarbon["recompute_mwh_per_turn"]
