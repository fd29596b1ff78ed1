"""Environments under a quality budget: what a turn is worth, and the traffic that it meets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from env_worlds import fleet, random_scenario, scalar, vector
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import budget_price_g, quality_target
from carbon_gym import InputError, Scenario, load_scenario, make_policy
from carbon_gym.envs.options import DEFAULT_WEIGHTS
from carbon_gym.simulator.run import run_policy


def tiny_budget(**bounds: Any) -> Scenario:
    return load_scenario("tiny", bounds={"quality_constraint": "budget", **bounds})


def expected_rewards(env: Any) -> np.ndarray:
    """−co2/scale + λ_q·q̂ of every deployment, as the router estimates them; −inf outside F."""
    quotes, rules = env.quotes, env.options.rules
    quality = quotes.quality[0, quotes.fleet.model]
    worth = -quotes.co2_g[0] / rules.co2_scale_g + rules.quality_weight * quality
    return np.asarray(np.where(quotes.feasible[0], worth, -np.inf))


@pytest.mark.parametrize("co2_scale_g", [0.05, 0.002, None])
@pytest.mark.parametrize("make", [scalar, fleet])
def test_the_best_expected_reward_is_what_the_fixed_price_chooses(
    make: Any, co2_scale_g: float | None
) -> None:
    scenario = tiny_budget()
    env = make(scenario=scenario, fleets=2, co2_scale_g=co2_scale_g)
    policy = make_policy("ccar-budget-fixed", scenario)
    policy.reset(env.world.fleet, 1)
    compared = not_cheapest = 0
    for seed in range(6 if make is fleet else 40):
        env.reset(seed=seed)
        ended, steps = False, 0
        while not ended and steps < 150:
            worth = expected_rewards(env)
            chosen = int(policy.choose(env.quotes)[0])
            if np.isfinite(worth).any():
                assert worth[chosen] >= worth.max() - 1e-9 * abs(worth.max())
                tied = np.sum(worth >= worth.max() - 1e-9 * abs(worth.max()))
                assert chosen == int(worth.argmax()) or tied > 1
                compared += 1
                not_cheapest += int(chosen != int(env.quotes.cheapest()[0]))
            model = int(env.quotes.fleet.model[chosen])
            said, feasible = float(env.quotes.quality[0, model]), env.quotes.feasible[0, chosen]
            *_, terminated, truncated, info = env.step(chosen)
            rules = env.options.rules
            if feasible:  # outside of F the floor and the refund have their say
                gained = rules.quality_weight * (said - rules.quality_target)
                assert info["reward_quality"] == pytest.approx(gained)
            assert info["reward_co2"] == pytest.approx(-info["co2_g"] / rules.co2_scale_g)
            ended, steps = terminated or truncated, steps + 1
    assert compared > 100
    assert not_cheapest > compared // 20


@pytest.mark.parametrize("seed", range(6))
def test_so_it_is_in_any_world(seed: int, tmp_path: Path) -> None:
    scenario = random_scenario(seed, tmp_path, bounds={"quality_constraint": "budget"})
    env = scalar(scenario=scenario, fleets=2, mask=None)
    policy = make_policy("ccar-budget-fixed", scenario)
    rng = np.random.default_rng(seed)
    for _ in range(12):
        env.reset(seed=int(rng.integers(2**31)))
        ended = False
        while not ended:
            worth = expected_rewards(env)
            chosen = int(policy.choose(env.quotes)[0])
            if np.isfinite(worth).any():
                assert worth[chosen] >= worth.max() - 1e-9 * max(abs(worth.max()), 1.0)
            action = int(rng.integers(env.action_space.n))
            *_, terminated, truncated, _ = env.step(action)
            ended = terminated or truncated


def test_the_price_of_quality_is_what_validation_found() -> None:
    scenario = tiny_budget()
    for scale_g in (0.05, 0.5):
        rules = scalar(scenario=scenario, co2_scale_g=scale_g).options.rules
        assert rules.quality_weight * scale_g == pytest.approx(budget_price_g(scenario))
        assert rules.quality_target == quality_target(scenario)
    own = scalar(scenario=scenario, weights={"quality": 7.0}).options.rules
    assert (own.quality_weight, own.ttft_weight) == (7.0, DEFAULT_WEIGHTS["ttft"])
    others = scalar(scenario=scenario, weights={"ttft": 3.0}).options.rules
    assert others.quality_weight * others.co2_scale_g == pytest.approx(budget_price_g(scenario))
    assert others.ttft_weight == 3.0
    none = scalar(scenario=scenario, weights={"quality": 0.0}).options.rules
    assert none.quality_weight == 0.0


def test_under_the_filter_the_weight_is_the_default() -> None:
    rules = scalar(scenario="tiny").options.rules
    assert rules.quality_weight == DEFAULT_WEIGHTS["quality"]
    assert rules.quality_target == 0.0
    back = scalar(scenario=tiny_budget(), quality_constraint="filter").options.rules
    assert (back.budget, back.quality_weight) == (False, DEFAULT_WEIGHTS["quality"])


@settings(max_examples=5)
@given(target=st.floats(0.0, 1.0))
def test_a_target_moves_the_reward_and_nothing_else(target: float) -> None:
    envs = [scalar(scenario=tiny_budget(), quality_target=own, mask=None) for own in (None, target)]
    for env in envs:
        env.reset(seed=5)
    rules = [env.options.rules for env in envs]
    for action in (0, 3, 1):
        (_, first, *_, info), (_, second, *_, again) = (env.step(action) for env in envs)
        assert info["co2_g"] == again["co2_g"]
        moved = rules[0].quality_weight * (rules[0].quality_target - target)
        assert second - first == pytest.approx(moved, abs=1e-9)


def test_the_background_is_the_run_of_the_fixed_price() -> None:
    scenario = tiny_budget()
    world = vector(2, scenario=scenario, fleets=3).world
    policy = make_policy("ccar-budget-fixed", scenario)
    run = run_policy(scenario, policy, world.evaluation.traces, world.evaluation.grid)
    assert np.array_equal(world.background.deployment, run.ledger["deployment"])
    assert scalar(scenario=scenario, fleets=3, background="reference").world is world


def test_the_scale_is_that_of_the_scenarios_own_background() -> None:
    scenario = tiny_budget()
    env = scalar(scenario=scenario, co2_scale_g=None, background="faircarbon")
    own = scalar(scenario=scenario, co2_scale_g=None)
    assert env.options.rules.co2_scale_g == own.options.rules.co2_scale_g


def test_a_background_of_a_budget_needs_one() -> None:
    with pytest.raises(InputError, match="needs a quality budget"):
        scalar(scenario="tiny", background="ccar-budget-fixed")


@pytest.mark.parametrize("policy", ["ccar", "faircarbon", "session-affinity"])
def test_a_background_of_the_papers_is_that_of_the_filter(policy: str) -> None:
    under_budget = scalar(scenario=tiny_budget(), background=policy).world.background
    expected = scalar(scenario="tiny", background=policy).world.background
    assert np.array_equal(under_budget.deployment, expected.deployment)
    assert np.array_equal(under_budget.others, expected.others)
