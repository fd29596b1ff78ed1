"""Held-out conversations, what is best, and values on a logarithmic scale."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

import torch
from stable_baselines3.common.buffers import RolloutBuffer

from agents.training.config import Environment, load_config
from agents.training.model import make_model
from agents.training.progress import better
from agents.training.symlog import SymlogRolloutBuffer, symexp, symlog
from agents.training.validation import Figures, HeldOut, validate
from agents.vec_env import CarbonVecEnv
from carbon_gym.scenario import load_scenario

ENVIRONMENT = Environment(fleets=1, co2_scale_g=0.05)
ALL = 10_000


def figures(**changes: float) -> Figures:
    base = dict.fromkeys(Figures.__dataclass_fields__, 0.5)
    return Figures(**{**base, **changes})


@pytest.mark.parametrize("budget", [False, True])
def test_every_held_out_conversation_is_served_once(budget: bool) -> None:
    constraint = {"quality_constraint": "budget", "quality_target": 0.6} if budget else {}
    environment = ENVIRONMENT.model_copy(update=constraint)
    scenario = load_scenario("tiny")
    held_out = HeldOut(scenario, environment, ALL)
    assert held_out.name == ("ccar-budget-fixed" if budget else "ccar")
    found = held_out.serve(lambda env, _: env.quotes.cheapest())
    arguments: dict[str, Any] = {**environment.arguments(), "split": "validation"}
    env: Any = gymnasium.make("CarbonRouting-v0", scenario=scenario, **arguments).unwrapped
    turns: list[dict[str, Any]] = []
    for session in range(env.world.sessions):
        env.reset(seed=0, options={"session": session})
        over = False
        while not over:
            _, _, over, _, info = env.step(env.quotes.cheapest()[0])
            turns.append(info)
    assert len(turns) == env.world.first[-1]
    assert found.co2_g == pytest.approx(sum(turn["co2_g"] for turn in turns), rel=1e-12)
    late = np.mean([turn["ttft_violation"] for turn in turns])
    assert found.ttft_violation_rate == pytest.approx(late, rel=1e-12)
    assert found.ttft_p95_s == np.quantile([turn["ttft_s"] for turn in turns], 0.95)


def test_validation_repeats_itself_and_leaves_the_generators_alone() -> None:
    held_out = HeldOut(load_scenario("tiny"), ENVIRONMENT, 10)
    env = CarbonVecEnv(4, scenario="tiny", **ENVIRONMENT.arguments())
    model = make_model(load_config("maskable-ppo", lanes=4), env)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = validate(model, held_out)
    assert validate(model, held_out) == first
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert first.quality_violation_rate == 0.0  # it obeys the mask


def test_what_is_missed_says_by_how_much() -> None:
    reference = figures()
    assert figures().missed(reference) == {}
    assert figures(quality_predicted=0.6, ttft_p95_s=0.1, co2_g=9.0).missed(reference) == {}
    worse = figures(quality_predicted=0.4, ttft_p95_s=0.75, quality_realised=0.0)
    assert worse.missed(reference) == pytest.approx({"quality_predicted": 0.1, "ttft_p95_s": 0.5})
    for name in ("quality", "ttft", "capacity"):
        rate = f"{name}_violation_rate"
        assert figures(**{rate: 0.6}).missed(reference) == pytest.approx({rate: 0.1})
    assert figures(co2_g=0.25).co2_relative(reference) == 0.5


def test_kept_constraints_go_before_co2() -> None:
    kept, dear = {"missed": {}, "co2_relative": 0.9}, {"missed": {}, "co2_relative": 1.5}
    little = {"missed": {"ttft_p95_s": 0.1}, "co2_relative": 0.5}
    much = {"missed": {"ttft_p95_s": 0.1, "quality_predicted": 0.1}, "co2_relative": 0.1}
    ordered = [kept, dear, little, much]
    assert all(better(a, b) for k, a in enumerate(ordered) for b in ordered[k + 1 :])
    assert not any(better(b, a) for k, a in enumerate(ordered) for b in ordered[k:])
    assert better(much, None)


def test_symexp_takes_symlog_back() -> None:
    values = np.array([-5e4, -1.0, -1e-3, 0.0, 1e-3, 2.0, 5e4], dtype=np.float32)
    assert torch.allclose(symexp(torch.from_numpy(symlog(values))), torch.from_numpy(values))


@pytest.mark.parametrize("algo", ["ppo", "maskable-ppo", "a2c"])
def test_a_symlog_value_is_read_back_but_fitted_as_it_is(algo: str) -> None:
    env = CarbonVecEnv(4, scenario="tiny", **ENVIRONMENT.arguments())
    config = load_config(algo, lanes=4).model_copy(update={"value_target": "symlog"})
    model: Any = make_model(config, env)
    observation = torch.from_numpy(env.reset())
    actions, chosen, _ = model.policy(observation)
    fitted = model.policy.evaluate_actions(observation, actions)[0]
    assert torch.allclose(chosen, symexp(fitted))
    assert torch.allclose(model.policy.predict_values(observation), symexp(fitted))
    assert not torch.allclose(chosen, fitted)


def test_symlog_changes_targets_but_not_advantages() -> None:
    env = CarbonVecEnv(2, scenario="tiny", **ENVIRONMENT.arguments())
    rng = np.random.default_rng(0)
    observed = env.reset()
    buffers = [
        kind(8, env.observation_space, env.action_space, "cpu", n_envs=2)
        for kind in (RolloutBuffer, SymlogRolloutBuffer)
    ]
    for _ in range(8):
        reward = -rng.lognormal(0.0, 2.0, 2).astype(np.float32)
        value = torch.from_numpy(rng.normal(size=2).astype(np.float32))
        for buffer in buffers:
            buffer.add(observed, np.zeros((2, 1)), reward, np.zeros(2), value, torch.zeros(2))
    for buffer in buffers:
        buffer.compute_returns_and_advantage(torch.zeros(2), np.ones(2, dtype=bool))
    raw, logarithmic = buffers
    assert np.array_equal(raw.advantages, logarithmic.advantages)
    assert np.array_equal(symlog(raw.returns), logarithmic.returns)
    assert np.array_equal(symlog(raw.values), logarithmic.values)
