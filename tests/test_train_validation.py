"""Held-out conversations and fleets, what is best, and values on a logarithmic scale."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from commandline import carbon_gym as command

pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import configure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.training.callbacks import Validate
from agents.training.config import Environment, load_config
from agents.training.model import make_model
from agents.training.progress import Progress, better
from agents.training.symlog import SymlogRolloutBuffer, symexp, symlog
from agents.training.validation import (
    Figures,
    HeldOut,
    HeldOutFleets,
    validate,
    validate_fleets,
)
from agents.vec_env import CarbonVecEnv
from carbon_gym.doors import make_policy
from carbon_gym.envs.background import Reference
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.run import run_policy

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


def small_model(algo: str, **changes: Any) -> Any:
    env = CarbonVecEnv(4, scenario="tiny", **ENVIRONMENT.arguments())
    return make_model(load_config(algo, lanes=4).model_copy(update=changes), env)


@pytest.mark.parametrize("name", ["tiny", "sharegpt-budget"])
def test_held_out_fleets_are_served_whole_beside_the_right_rule(name: str) -> None:
    scenario = load_scenario(name, workload={"sessions_per_fleet": 30})
    fleets = HeldOutFleets(scenario, 2)
    assert fleets.name == {"tiny": "ccar", "sharegpt-budget": "ccar-budget"}[name]
    laid = evaluation_fleets(scenario, split="validation", fleets=2)
    for policy, found in (
        (Reference(), fleets.serve(Reference())),
        (make_policy(fleets.name, scenario), fleets.reference),
    ):
        ledger = run_policy(scenario, policy, laid.traces, laid.grid).ledger
        assert found == Figures.of(ledger)
        assert len(ledger) == sum(trace.turns for trace in laid.traces)
    assert fleets.reference.missed(fleets.reference) == {}


def test_fleets_are_of_the_rules_that_the_environment_s_arguments_set() -> None:
    budget = ENVIRONMENT.model_copy(update={"quality_constraint": "budget", "quality_target": 0.6})
    for environment, constraint in ((ENVIRONMENT, "filter"), (budget, "budget")):
        held_out = HeldOut(load_scenario("tiny"), environment, 4)
        assert held_out.scenario.bounds.quality_constraint == constraint


@pytest.mark.parametrize(
    ("algo", "changes"),
    [
        ("maskable-ppo", {}),
        ("maskable-ppo", {"policy": "scorer"}),
        ("ppo", {"policy": "scorer"}),
        ("dqn", {}),
    ],
)
def test_validation_on_fleets_repeats_itself_and_leaves_the_generators_alone(
    algo: str, changes: dict[str, Any]
) -> None:
    model = small_model(algo, **changes)
    fleets = HeldOutFleets(load_scenario("tiny"), 2)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    weights = {name: value.clone() for name, value in model.policy.state_dict().items()}
    first = validate_fleets(model, fleets)
    assert validate_fleets(model, fleets) == first
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    after = model.policy.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in weights.items())
    assert first.quality_violation_rate == 0.0  # no algorithm leaves the mask


def test_whole_fleets_say_what_is_best(tmp_path: Path) -> None:
    """Made-up figures: the model that is best on conversations is not best on fleets."""
    model = small_model("maskable-ppo", n_steps=16, batch_size=64, n_epochs=1)
    asked: list[int] = []

    def alone(_: Any) -> Figures:
        return figures(co2_g=0.5 - model.num_timesteps / 2_000)

    def on_fleets(_: Any) -> Figures:
        asked.append(model.num_timesteps)
        return figures(co2_g=0.25 if model.num_timesteps == 192 else 0.75, quality_predicted=0.6)

    progress = Progress(tmp_path / "progress.json", "ccar", figures(), ("ccar", figures()))
    model.set_logger(configure(str(tmp_path), ["tensorboard"]))
    callback = Validate(tmp_path, alone, progress, 64, 448, on_fleets, 150)
    model.learn(448, callback)
    model.logger.close()
    assert [row["steps"] for row in progress.rows] == list(range(0, 449, 64))
    assert asked == [0, 192, 384, 448]
    assert [row["steps"] for row in progress.rows if "fleet" in row] == asked
    content = json.loads((tmp_path / "progress.json").read_text())
    assert content["fleet_reference"]["policy"] == "ccar"
    best = content["best"]
    assert (best["steps"], best["fleet"]["co2_relative"]) == (192, 0.5)
    assert best["fleet"]["missed"] == {}
    assert json.loads((tmp_path / "best" / "figures.json").read_text()) == best
    tags = set(EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"])
    for name in ("co2_relative", "quality_predicted", "ttft_p95_s", "missed"):
        assert {f"validation/{name}", f"validation/fleet/{name}"} <= tags
    assert {f"validation/fleet/{kind}_violation_rate" for kind in ("ttft", "quality")} <= tags


def test_without_fleets_conversations_say_what_is_best(tmp_path: Path) -> None:
    model = small_model("maskable-ppo", n_steps=16, batch_size=64, n_epochs=1)
    progress = Progress(tmp_path / "progress.json", "ccar", figures())
    model.set_logger(configure(None, []))
    model.learn(128, Validate(tmp_path, lambda _: figures(co2_g=0.25), progress, 64, 128))
    content = json.loads((tmp_path / "progress.json").read_text())
    assert "fleet_reference" not in content
    assert "fleet" not in content["best"]
    assert content["best"]["steps"] == 64


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
    fleets: list[dict[str, Any]] = [{**dear, "fleet": row} for row in ordered]
    assert all(better(a, b) for k, a in enumerate(fleets) for b in fleets[k + 1 :])
    assert all(better(row, kept) and not better(kept, row) for row in fleets)


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


def test_a_run_s_best_model_is_what_its_figures_on_fleets_say(tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "mine.yaml"
    content = {
        "scenario": "tiny",
        "lanes": 4,
        "n_steps": 16,
        "batch_size": 32,
        "policy": "scorer",
        "total_steps": 512,
        "environment": {"fleets": 1, "co2_scale_g": 0.05},
        "validation": {"every": 128, "sessions": 8, "fleets": 2, "fleets_every": 256},
    }
    file.write_text(json.dumps(content))
    done = command("train", "--algo", "maskable-ppo", "--config", file, "--out", run)
    assert done.code == 0, done.err
    assert "of ccar's on held-out fleets" in done.out
    progress = json.loads((run / "progress.json").read_text())
    fleet_rows = [row["steps"] for row in progress["validations"] if "fleet" in row]
    assert fleet_rows == [0, 256, 512]
    best = progress["best"]
    found = HeldOutFleets(load_scenario("tiny"), 2).serve(make_policy(str(run)))
    assert {**best["fleet"], "co2_relative": 0, "missed": {}} == {
        **asdict(found),
        "co2_relative": 0,
        "missed": {},
    }
    file.write_text(json.dumps({**content, "validation": {"sessions": 8, "fleets": 0}}))
    done = command("train", "--algo", "ppo", "--config", file, "--out", tmp_path / "without")
    assert "of ccar's on held-out conversations" in done.out
    progress = json.loads((tmp_path / "without" / "progress.json").read_text())
    assert "fleet" not in progress["best"]
