"""Scenarios with a budget, their quotes under the filter, and how their policies are made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_budget_policy import SCALE_G, budget_world, filtered, served
from test_kernels_plain_python import plain_kernels, without_jit
from worlds import assert_same_ledger, random_world

from baselines import BUDGETED, CCAR, CcarBudget, FairCarbon, quality_target
from baselines.clairvoyant_study import converge
from baselines.fit_gate import NEVER_THRESHOLD, fit_gate
from baselines.tuned import (
    budget_price_g,
    gate_note,
    knobs_of,
    notes_on,
    read_tuned,
    scale_co2_g,
    target_note,
    tuned_note,
    tuned_options,
)
from carbon_gym import InputError, Scenario, load_scenario, make_policy, scenario_names
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.resources import packaged
from carbon_gym.simulator import Simulator, kernels
from carbon_gym.simulator import quotes as quotes_module
from carbon_gym.simulator import simulator as simulator_module

__all__ = ["plain_kernels", "without_jit"]  # fixtures
BORROWED = ("sharegpt-far", "sharegpt-budget-far")
"""Worlds to learn from: other zones, under the gate and knobs of sharegpt."""
PACKAGED = [name for name in scenario_names() if "-budget" in name and name not in BORROWED]
ONLY_ADMISSION = ("model_admissible", "admissible", "feasible")
seeds = st.integers(0, 2**32 - 1)


def simulator_of(world: Any) -> Simulator:
    return Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)


# ------------------------------------------------------------------------- quotes, filtered


def assert_same_quotes(found: Any, expected: Any) -> None:
    live = expected.row >= 0
    for name in ("row", "co2_g", "energy_kwh", "ttft_s", "available", "quality", *ONLY_ADMISSION):
        assert np.array_equal(getattr(found, name)[live], getattr(expected, name)[live]), name
    assert found.beta_q == expected.beta_q


@settings(max_examples=30)
@given(seed=seeds, ttft_s=st.sampled_from([0.1, 0.5, 2.0]))
def test_filtered_quotes_are_those_of_the_filter_scenario(seed: int, ttft_s: float) -> None:
    """In any order with `cache_blind` and `copy`, called again and again, the parent unharmed."""
    world = budget_world(seed, traces=2, turns=40, bounds={"ttft_s": ttft_s})
    floor, filter_ = simulator_of(world), simulator_of(filtered(world))
    while not floor.done:
        quotes, expected = floor.quote(), filter_.quote()
        before = {name: getattr(quotes, name).copy() for name in ONLY_ADMISSION}
        assert_same_quotes(quotes.filtered(), expected)
        assert_same_quotes(quotes.copy().filtered(), expected)
        assert_same_quotes(quotes.filtered().copy(), expected)
        assert_same_quotes(quotes.filtered().filtered(), expected)
        blind = expected.cache_blind()
        assert_same_quotes(quotes.filtered().cache_blind(), blind)
        assert_same_quotes(quotes.cache_blind().filtered(), blind)
        assert_same_quotes(quotes.copy().filtered().cache_blind(), blind)
        assert_same_quotes(quotes.filtered().copy().cache_blind(), blind)
        own_blind = quotes.cache_blind()  # of the floor, beside the one of the filter
        theirs = quotes.filtered().cache_blind()
        live = quotes.row >= 0
        in_time = own_blind.ttft_s <= quotes.ttft_bound_s
        assert np.array_equal(
            own_blind.feasible[live], (quotes.available & quotes.admissible & in_time)[live]
        )
        assert_same_quotes(theirs, blind)
        for name, array in before.items():
            assert np.array_equal(getattr(quotes, name), array), name
        chosen = quotes.cheapest()
        floor.commit(chosen)
        filter_.commit(chosen)


def test_in_a_filter_scenario_the_filtered_quotes_are_themselves() -> None:
    simulator = simulator_of(random_world(1))
    quotes = simulator.quote()
    assert quotes.filtered() is quotes
    world = budget_world(0).with_scenario(bounds={"beta_floor": 0.85, "beta_q": 0.85})
    assert simulator_of(world).quote().filtered().beta_q == 0.85


def test_filtered_quotes_are_made_once() -> None:
    simulator = simulator_of(budget_world(0))
    quotes = simulator.quote()
    twin = quotes.filtered()
    assert twin is not quotes
    simulator.commit(quotes.cheapest())
    assert simulator.quote().filtered() is twin
    assert np.shares_memory(twin.co2_g, quotes.co2_g)
    assert not np.shares_memory(twin.feasible, quotes.feasible)


def test_the_budget_as_plain_python(without_jit: pytest.MonkeyPatch) -> None:
    for seed in (0, 2, 5):
        world = budget_world(seed, turns=40, shape=(2, 2, 2))
        policies = (CCAR(), FairCarbon(), CcarBudget(SCALE_G, 2.0, 0.7, 0.1, session_floor=0.95))
        for policy in policies:
            plain = served(world, policy).ledger
            with without_jit.context() as patch:
                patch.setattr(simulator_module, "kernels", kernels)
                patch.setattr(quotes_module, "kernels", kernels)
                assert_same_ledger(plain, served(world, policy).ledger)


# ---------------------------------------------------------------------- scenarios and origins


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_budget_scenarios_use_gate_and_knobs_of_their_filter_scenario(name: str) -> None:
    base = name.replace("-budget", "")
    scenario, origin = load_scenario(name), load_scenario(base)
    assert (scenario.name, scenario.origin) == (name, base)
    assert scenario.bounds.quality_constraint == "budget"
    assert scenario.bounds.beta_floor == 0.7
    assert scenario.filtered().digest() == origin.digest() != scenario.digest()
    assert tuned_note(scenario) is None
    assert gate_note(scenario) is None
    for policy in BUDGETED:
        assert make_policy(policy, scenario).name == policy
    for policy in ("ccar", "gar-pd", "cedar", "gar-eps"):
        found, expected = tuned_options(policy, scenario), tuned_options(policy, origin)
        assert str(found) == str(expected)
    assert make_policy("ccar", scenario).name == "ccar"


def test_the_budget_scenarios_are_packaged() -> None:
    assert set(PACKAGED) == {
        f"{data}-budget{leave}" for data in ("sharegpt", "sharechat") for leave in ("", "-evict")
    }


@pytest.mark.parametrize("name", PACKAGED)
def test_what_extends_a_budget_scenario_keeps_its_origin(name: str, tmp_path: Path) -> None:
    base = name.replace("-budget", "")
    own, further = tmp_path / "own.yaml", tmp_path / "further.yaml"
    own.write_text(f"extends: {name}\nbounds: {{beta_floor: 0.8}}\n", encoding="utf-8")
    further.write_text("extends: own.yaml\ncapacity: {limit: 0.3}\n", encoding="utf-8")
    for source in (own, further):
        scenario = load_scenario(source)
        assert (scenario.name, scenario.origin) == (source.stem, base)
        assert scenario.bounds.quality_constraint == "budget"
        assert scenario.bounds.beta_floor == 0.8
    mapping = load_scenario({"extends": name})
    changed = load_scenario(name, bounds={"quality_target": 0.6})
    again = load_scenario(changed.to_dict())
    assert {s.origin for s in (mapping, changed, again)} == {base}
    assert load_scenario(changed, origin="congested").origin == "congested"
    named = tmp_path / "named.yaml"
    named.write_text(f"extends: {name}\norigin: congested\n", encoding="utf-8")
    assert load_scenario(named).origin == "congested"


def test_packaged_filter_scenarios_keep_their_own_origin(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    for name in scenario_names():
        if name in (*PACKAGED, *BORROWED):
            continue
        own.write_text(f"extends: {name}\n", encoding="utf-8")
        assert load_scenario(name).origin == load_scenario(own).origin == name


@pytest.mark.parametrize("name", BORROWED)
def test_worlds_to_learn_from_borrow_gate_and_knobs_and_say_so(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.origin == "sharegpt"
    assert scale_co2_g(scenario) == scale_co2_g(None)
    assert "was fitted on other rules" in str(gate_note(scenario))


def test_a_filtered_scenario_forgets_the_budget_only() -> None:
    scenario = load_scenario(
        "sharegpt-budget",
        bounds={"beta_q": 0.9, "ttft_s": 1.0, "beta_floor": 0.5, "quality_target": 0.6},
    )
    bounds = scenario.filtered().bounds
    assert (bounds.quality_constraint, bounds.beta_q, bounds.ttft_s) == ("filter", 0.9, 1.0)
    assert scenario.filtered().filtered() == scenario.filtered()
    expected = load_scenario("sharegpt", bounds={"beta_q": 0.9, "ttft_s": 1.0})
    assert scenario.filtered().digest() == expected.digest()
    assert scenario.filtered().origin == "sharegpt"


def test_knobs_for_another_floor_are_said() -> None:
    """Those of the paper's policies know no budget."""
    bounds = {"beta_floor": 0.8}
    scenario = load_scenario("sharegpt-budget", bounds=bounds, name="mine")
    note = tuned_note(scenario) or ""
    assert "ccar-budget-fixed" in note
    assert "mine" in note
    assert "cedar" not in note
    assert tuned_note(scenario, ["cedar", "ccar"]) is None
    assert tuned_note(scenario.filtered()) is None
    assert tuned_note(load_scenario("sharegpt", bounds=bounds)) is None
    assert gate_note(scenario) is None


# ------------------------------------------------------------------------- making a policy


@pytest.mark.parametrize("name", BUDGETED)
def test_policies_of_a_budget_need_one(name: str) -> None:
    with pytest.raises(InputError, match="needs a quality budget") as error:
        make_policy(name, load_scenario("tiny"))
    assert "tiny" in str(error.value)
    assert "quality_constraint: budget" in str(error.value)


def with_target(target: float | None) -> Scenario:
    bounds: dict[str, Any] = {"quality_constraint": "budget", "quality_target": target}
    return load_scenario("tiny", bounds=bounds)


def test_a_target_of_the_users_moves_the_target() -> None:
    content = read_tuned(knobs_of(with_target(None)))
    margin = content["policies"]["ccar-budget"]["knobs"]["margin"]
    assert quality_target(with_target(None)) == content["ccar"]["quality"]
    for target in (0.3, 0.71, 1.0):
        assert quality_target(with_target(target)) == target
        policy: Any = make_policy("ccar-budget", with_target(target))
        assert policy.quality_target == pytest.approx(min(1.0, target + margin))
    own: Any = make_policy("ccar-budget", with_target(0.3), quality_target=0.5, eta=0.25)
    assert (own.quality_target, own.eta) == (0.5, 0.25)
    price_g = content["policies"]["ccar-budget-fixed"]["knobs"]["lambda_start"]
    price_g *= scale_co2_g(with_target(None))
    assert budget_price_g(with_target(0.4)) == pytest.approx(price_g)


def test_the_clairvoyants_study_knows_no_budget() -> None:
    days = [
        evaluation_fleets(scenario, split="validation", fleets=1)
        for scenario in (with_target(None), load_scenario("tiny"))
    ]
    found, expected = (converge(day) for day in days)
    for content in (found, expected):
        for row in content["rows"]:
            row["seconds"] = row["us_per_turn"] = 0.0
    assert found == expected


def test_a_gate_fitted_under_a_budget_is_that_of_the_filter(tmp_path: Path) -> None:
    scenario = with_target(0.6)
    days = [evaluation_fleets(scenario, split=split, fleets=1) for split in ("train", "validation")]
    content = fit_gate(*days, thresholds=(0.5, NEVER_THRESHOLD), weights=(0.0, 1.0), jobs=1)
    path = tmp_path / "gate.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert gate_note(scenario.model_copy(update={"gate": str(path)})) is None
    filter_days = [replace(day, scenario=day.scenario.filtered()) for day in days]
    again = fit_gate(*filter_days, thresholds=(0.5, NEVER_THRESHOLD), weights=(0.0, 1.0), jobs=1)
    assert content == again


def test_the_shadow_of_the_tuned_policies_is_the_tuned_ccar() -> None:
    for name in ("ccar-budget-follow", "ccar-budget-sessions"):
        options = tuned_options(name, with_target(None))
        assert options["shadow"].gate is not None
        assert str(options["shadow"].gate) == str(tuned_options("ccar", with_target(None))["gate"])


DAMAGE: dict[str, tuple[Any, str]] = {
    "no policies": (lambda c: c.pop("policies"), "no knobs of ccar-budget"),
    "tuned before budgets": (lambda c: c["policies"].pop("ccar-budget"), "no knobs of ccar-budget"),
    "no ccar": (lambda c: c.pop("ccar"), "no ccar.quality"),
    "ccar is a word": (lambda c: c.update(ccar={"quality": "good"}), "no ccar.quality"),
    "no scale": (lambda c: c["faircarbon"].pop("scale_co2_g"), "no knobs of ccar-budget"),
    "knobs are a number": (
        lambda c: c["policies"]["ccar-budget"].update(knobs=3),
        "no knobs of ccar-budget",
    ),
    "a negative price": (
        lambda c: c["policies"]["ccar-budget"]["knobs"].update(lambda_start=-1.0),
        "lambda_start",
    ),
    "another knob": (
        lambda c: c["policies"]["ccar-budget"]["knobs"].update(speed=1.0),
        "speed",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_an_input_error(damage: str, tmp_path: Path) -> None:
    content = json.loads(packaged("tuned/tiny.json").read_text(encoding="utf-8"))
    change, match = DAMAGE[damage]
    change(content)
    path = tmp_path / f"{damage.replace(' ', '-')}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    scenario = with_target(None).model_copy(update={"knobs": str(path)})
    with pytest.raises(InputError, match=match):
        make_policy("ccar-budget", scenario)
    if "no " in match:
        with pytest.raises(InputError, match="tune-baselines"):
            make_policy("ccar-budget", scenario)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"scale_co2_g": 0.0, "lambda_start": 1.0}, "scale_co2_g"),
        ({"scale_co2_g": 1.0, "lambda_start": -1.0}, "lambda_start"),
        ({"scale_co2_g": 1.0, "lambda_start": float("nan")}, "lambda_start"),
        ({"scale_co2_g": 1.0, "lambda_start": 1.0, "eta": 0.1}, "needs a quality_target"),
        ({"scale_co2_g": 1.0, "lambda_start": 1.0, "eta": 1.5, "quality_target": 0.5}, "eta"),
        ({"scale_co2_g": 1.0, "lambda_start": 1.0, "quality_target": 1.5}, "quality_target"),
        ({"scale_co2_g": 1.0, "lambda_start": 1.0, "session_floor": 1.1}, "session_floor"),
        ({"scale_co2_g": 1.0, "lambda_start": 1.0, "margin": float("nan")}, "margin"),
    ],
)
def test_bad_knobs_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        CcarBudget(**options)


def test_a_target_of_ones_own_is_not_ignored_in_silence() -> None:
    bounds = {"quality_constraint": "budget", "quality_target": 0.6}
    own = load_scenario("tiny", bounds=bounds)
    note = target_note(own) or ""
    assert "0.6 moves ccar-budget, faircarbon-budget only" in note
    assert "ccar-budget-follow" in note
    assert target_note(own, ["ccar-budget", "ccar"]) is None
    assert target_note(load_scenario("tiny", bounds={"quality_constraint": "budget"})) is None
    assert note in notes_on(own, ["ccar-budget-fixed", *BUDGETED])


def test_a_price_that_could_never_move_is_refused() -> None:
    with pytest.raises(InputError, match="lambda_start = 0 never moves"):
        make_policy("ccar-budget", load_scenario("sharegpt-budget"), lambda_start=0.0)
    assert make_policy("ccar-budget-fixed", load_scenario("sharegpt-budget"), lambda_start=0.0)
