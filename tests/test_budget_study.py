"""The study of the budget (docs/budget.py) on a tiny world: what it measures, resumes and says."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from carbon_gym import load_scenario, make_policy
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.simulator.run import run_policy

DOCS = Path(__file__).resolve().parents[1] / "docs"
FLEETS = 2


@pytest.fixture(autouse=True)
def _docs_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def study(**changes: Any) -> Any:
    return module("budget_plan").Study(main=("tiny",), swept=("tiny",), fleets=FLEETS, **changes)


def units_of(part: str, **changes: Any) -> list[Any]:
    return list(study(**changes).units((part,)))


def test_units_differ_and_can_be_loaded() -> None:
    plan = module("budget_plan")
    units = [*study(conversations="turns.csv", grid="grid.csv").units(), *plan.Study().units()]
    assert len({unit.id for unit in units}) == len(units)
    assert {unit.part for unit in units} == set(plan.PARTS)
    for world in {unit.world for unit in units}:
        rules = world.rules()
        if world.setting == plan.UNDISTURBED and world.scenario.endswith("-budget"):
            assert rules.bounds.beta_q >= 0.7
    budgets = [unit for unit in units if unit.policy != "ccar"]
    assert all(u.world.rules().bounds.quality_constraint == "budget" for u in budgets[::17])
    assert not any("turns.csv" in unit.id for unit in units)


def test_every_model_is_overrated_once_and_mixes_add_up() -> None:
    plan = module("budget_plan")
    scenario = load_scenario("sharegpt-budget")
    changes = dict(plan.disturbances(scenario))
    biased = [
        (entry["model"], entry["bias"])
        for change in changes.values()
        for entry in change.get("quality", {}).get("predictor_bias", ())
    ]
    assert {name for name, bias in biased if bias > 0} == {m.name for m in scenario.fleet.models}
    assert sum(bias < 0 for _, bias in biased) == 2
    usual = {"coding": 0.2, "math": 0.1, "reasoning": 0.3, "creative": 0.3, "information": 0.1}
    shares = plan.mixed(usual, ("math", "reasoning"), 0.8)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    assert shares["math"] + shares["reasoning"] == pytest.approx(0.8, abs=1e-5)
    assert shares["creative"] / shares["coding"] == pytest.approx(1.5, abs=1e-4)


def test_running_mean_is_that_of_the_plain_loop() -> None:
    unit = next(u for u in units_of("wrong-lambda") if u.policy == "ccar-budget" and u.price == 3)
    record = module("budget_measure").measure(unit)
    scenario = load_scenario("tiny", bounds={"quality_constraint": "budget"})
    world = evaluation_fleets(scenario, split="test", fleets=FLEETS)
    tuned = make_policy("ccar-budget", scenario)
    policy = make_policy("ccar-budget", scenario, lambda_start=3 * tuned.lambda_start)  # type: ignore[attr-defined]
    run = run_policy(scenario, policy, world.traces, world.grid)
    target = policy.quality_target  # type: ignore[attr-defined]
    for fleet in range(FLEETS):
        quality = run.ledger["quality_predicted"][run.bounds[fleet] : run.bounds[fleet + 1]]
        means = [float(np.mean(quality[: n + 1])) for n in range(len(quality))]
        away = [mean / target - 1 for mean in means]
        assert record["running"]["end"][fleet] == pytest.approx(away[-1], rel=1e-4, abs=1e-6)
        stays = [all(abs(x) <= 0.005 for x in away[n:]) for n in range(len(away))]
        expected = stays.index(True) + 1 if True in stays else None
        assert record["running"]["settled"][fleet] == expected
    assert record["running"]["lowest_after_1000"] == [None] * FLEETS  # days are shorter here
    assert record["co2_g"] == pytest.approx(
        [
            run.ledger["co2_g"][a:b].sum()
            for a, b in zip(run.bounds[:-1], run.bounds[1:], strict=True)
        ],
        rel=1e-5,
    )


@pytest.mark.parametrize(
    ("away", "expected"),
    [
        ([0.0, 0.001], 1),
        ([0.1, 0.006, 0.005, 0.0], 3),
        ([0.1, 0.0, -0.006, 0.0], 4),
        ([0.0, 0.1], None),
    ],
)
def test_settled_counts_turns(away: list[float], expected: int | None) -> None:
    assert module("budget_measure")._settled(np.array(away)) == expected


def test_follow_is_held_against_ccar_itself() -> None:
    units = units_of("wrong-lambda")
    unit = next(u for u in units if u.policy == "ccar-budget-follow" and u.price == 1)
    record = module("budget_measure").measure(unit)
    ccar = module("budget_measure").measure(next(u for u in units_of("main") if u.policy == "ccar"))
    margin = float(np.max(make_policy(unit.policy, unit.world.rules()).margin))  # type: ignore[attr-defined]
    expected = np.array(ccar["quality_predicted"]) + margin
    assert record["running"]["target"] == pytest.approx(expected, rel=1e-5)
    assert ccar["versus_ccar"]["saving"]["mean"] == 0.0


def test_sweep_resumes_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, measuring = module("budget"), module("budget_measure")
    path, measure, ran = tmp_path / "budget.json", measuring.measure, []

    def stopping(unit: Any, known: str | None = None) -> Any:
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(unit.id)
        return measure(unit, known)

    monkeypatch.setattr(measuring, "measure", stopping)
    with pytest.raises(KeyboardInterrupt):
        budget.run_units(study(), ("main",), path)
    monkeypatch.setattr(measuring, "measure", measure)
    assert set(json.loads(path.read_text())["units"]) == set(ran)
    assert budget.run_units(study(), ("main",), path) == len(units_of("main")) - 3
    whole = path.read_text()
    assert budget.run_units(study(), ("main",), path) == 0
    assert budget.run_units(study(), ("real",), path) == 0  # no files, nothing planned
    assert path.read_text() == whole
    results = json.loads(whole)
    results["units"][ran[1]]["key"] = "of other rules"
    results["units"]["main | gone | as it is | ccar | "] = results["units"][ran[0]]
    path.write_text(json.dumps(results))
    assert budget.run_units(study(), ("main",), path) == 1
    assert path.read_text() == whole


def test_a_key_says_what_a_record_depends_on() -> None:
    measuring = module("budget_measure")
    units = study().units(("main", "guard", "wrong-lambda"))
    keys = {unit.id: measuring._key(unit, measuring._evaluation(unit.world)) for unit in units}
    assert len(set(keys.values())) == len(keys)


def test_page_has_a_section_for_each_part(tmp_path: Path) -> None:
    budget, pages = module("budget"), module("budget_page")
    path = tmp_path / "budget.json"
    budget.run_units(study(), ("main", "wrong-lambda", "guard"), path)
    (tmp_path / "budget_conclusions.md").write_text("## What follows\n\nThis.\n")
    pages.write_page(budget.read_results(path), tmp_path)
    text = (tmp_path / "budget.md").read_text()
    assert [line[3] for line in text.splitlines() if line.startswith("## ")] == list("ABCW")
    assert f"Method: {FLEETS} fleets" in text
    assert (tmp_path / module("budget_picture").PICTURE).stat().st_size > 1000
    record = budget.read_results(path)["units"]["main | tiny | as it is | ccar-budget | "]
    ccar = budget.read_results(path)["units"]["main | tiny | as it is | ccar | "]
    saved = np.mean(1 - np.array(record["co2_g"]) / np.array(ccar["co2_g"]))
    assert f"| ccar-budget | {sum(record['co2_g']):.0f} | {100 * saved:.1f} |" in text
    assert "nan" not in text


def test_curve_gives_the_saving_at_equal_quality_or_null() -> None:
    tables = module("budget_tables")
    points = [
        {"quality_realised": [0.6, 0.6], "co2_g": [1.0, 1.0]},
        {"quality_realised": [0.7, 0.62], "co2_g": [4.0, 4.0]},
    ]
    reference = {"quality_realised": [0.65, 0.61], "co2_g": [4.0, 4.0]}
    assert tables.shown_equal(tables.at_equal_quality(points, reference)) == "50.0"
    reference["quality_realised"][1] = 0.65
    assert tables.shown_equal(tables.at_equal_quality(points, reference)) == "null (1 of 2 fleets)"


def test_one_unit_of_each_sweep_is_measured() -> None:
    measuring = module("budget_measure")
    for part in ("robustness", "levels"):
        for unit in units_of(part)[:: 29 if part == "robustness" else 19]:
            record = measuring.measure(unit)
            assert len(record["co2_g"]) == FLEETS
            assert all(math.isfinite(value) for value in record["quality_realised"])


def test_committed_page_is_that_of_the_committed_figures() -> None:
    conclusions = (DOCS / "budget_conclusions.md").read_text(encoding="utf-8")
    results = module("budget").read_results(DOCS / "budget.json")
    expected = module("budget_page").page(results, conclusions)
    assert (DOCS / "budget.md").read_text(encoding="utf-8") == expected
