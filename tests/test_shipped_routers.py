"""The routers that are shipped: whole, small, with their recipes, and at home on other fleets."""

from __future__ import annotations

import numpy as np
import pytest

from baselines.learned import best_shipped, learned_options, shipped
from baselines.settings import LEARNED_ON, SETTINGS, Setting, reference_of, setting_of
from baselines.tuned import budget_price_g, notes_on
from carbon_gym import make_policy
from carbon_gym.doors import policy_names
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.metrics.figures import Figures
from carbon_gym.router import load_router
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.simulator.run import run_policy

SEEDS = 5
"""Trainings of each recipe that are shipped."""


def scenario_in(setting: Setting) -> Scenario:
    return load_scenario(LEARNED_ON[setting][0])


@pytest.mark.parametrize("setting", SETTINGS)
def test_seeds_of_one_recipe(setting: Setting) -> None:
    files = shipped(scenario_in(setting))
    recipes = [load_router(path).recipe for path in files]
    assert [recipe["seed"] for recipe in recipes] == list(range(SEEDS))
    alike = [{k: v for k, v in recipe["config"].items() if k != "seed"} for recipe in recipes]
    assert all(one == alike[0] for one in alike)
    for path, recipe in zip(files, recipes, strict=True):
        assert path.stat().st_size < 50_000
        assert recipe["setting"] == setting
        assert recipe["command"].startswith("carbon-gym train --config")
        assert recipe["training"]["seconds"] > 0


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_best_on_validation_is_made(setting: Setting) -> None:
    scenario = scenario_in(setting)
    rows = [load_router(path).recipe["validation"] for path in shipped(scenario)]
    best = load_router(best_shipped(scenario)).recipe["validation"]
    assert best in rows
    kept = [row for row in rows if not row["missed"]]
    if kept:
        assert best["co2_relative"] == min(row["co2_relative"] for row in kept)
    assert "learned" in policy_names(scenario)
    assert make_policy("learned", scenario).name == "learned"
    router = learned_options(scenario)["router"]
    assert router.recipe["validation"] == best


def fleets_of(scenario: Scenario) -> Evaluation:
    return evaluation_fleets(scenario, split="validation", fleets=2, sessions=800)


def turns_of(scenario: Scenario) -> int:
    return sum(trace.turns for trace in fleets_of(scenario).traces)


def figures(scenario: Scenario, *policies: str) -> list[Figures]:
    laid = fleets_of(scenario)
    return [
        Figures.of(run_policy(scenario, make_policy(p, scenario), laid.traces, laid.grid).ledger)
        for p in policies
    ]


def test_on_a_fleet_of_another_size() -> None:
    """Trained on 5 models x 3 GPU types x 4 regions; here are 3 x 2 x 6."""
    whole = load_scenario("sharegpt")
    fleet = whole.fleet.model_dump()
    fleet["models"], fleet["gpus"] = fleet["models"][2:], fleet["gpus"][1:]
    zones = ["US-CAL-CISO", "US-TEX-ERCO", "GB", "DE", "AU-NSW", "JP-TK"]
    fleet["regions"] = [{"zone": zone} for zone in zones]
    smaller = load_scenario("sharegpt", fleet=fleet)
    assert len(smaller.fleet.models) * len(smaller.fleet.regions) * 2 == 36
    learned, faircarbon = figures(smaller, "learned", "faircarbon")
    assert learned.co2_g < faircarbon.co2_g
    assert learned.capacity_violation_rate <= faircarbon.capacity_violation_rate
    assert learned.quality_violation_rate == 0.0


@pytest.mark.parametrize("setting", SETTINGS)
def test_it_emits_less_than_the_rules_on_held_out_fleets(setting: Setting) -> None:
    """The smallest check of what the study shows on whole test days.

    On days as short as these a queue ends off its target; the difference counts at its price.
    """
    scenario = scenario_in(setting)
    rule = reference_of(scenario)
    learned, places, theirs = figures(scenario, "learned", "lookahead-places", rule)
    price_g = 0.6 * budget_price_g(scenario) if setting == "budget" else 0.0
    for ours in (learned, places):
        more = ours.quality_predicted - theirs.quality_predicted
        assert ours.co2_g - price_g * turns_of(scenario) * more < theirs.co2_g
        assert ours.quality_predicted > theirs.quality_predicted - 0.003
        assert ours.ttft_p95_s < 1.05 * theirs.ttft_p95_s


def test_the_report_says_where_it_was_learned() -> None:
    evicting = load_scenario("sharegpt-evict")
    assert any("learned on fleets of sharegpt" in note for note in notes_on(evicting, ["learned"]))
    assert not notes_on(load_scenario("sharechat"), ["learned", "lookahead"])


def test_settings_go_by_rules_not_by_names() -> None:
    renamed = load_scenario("sharegpt", capacity={"rule": "turns"})
    assert setting_of(renamed) == "congested"
    assert np.all([path.name.startswith("congested") for path in shipped(renamed)])
