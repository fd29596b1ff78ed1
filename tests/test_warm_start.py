"""Warm starts, and training against the fleet that a learned router makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from commandline import carbon_gym

pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

import torch
from stable_baselines3.common.logger import configure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_train import SMALL_SCORER, assert_same, config_of, contents

from agents.training import run as training
from agents.training.config import load_config
from agents.training.model import ALGORITHMS, make_model
from agents.training.run import train
from agents.training.warm_start import prepare, teach
from agents.vec_env import CarbonVecEnv
from carbon_gym.datasets import load_dataset
from carbon_gym.doors import make_policy
from carbon_gym.envs.world import World
from carbon_gym.errors import InputError
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.run import run_policy

TINY = load_scenario("tiny")
TAUGHT = {"policy": "ccar", "fleets": 2, "epochs": 6, "batch_size": 64, "learning_rate": 0.01}


def config_with(tmp_path: Path, algo: str = "maskable-ppo", **changes: Any) -> Any:
    warm_start = {**TAUGHT, **changes.pop("warm_start", {})}
    file = config_of(algo, tmp_path, warm_start=warm_start, total_steps=64, **changes)
    return load_config(None, file)


@pytest.mark.parametrize("network", [{}, SMALL_SCORER], ids=["mlp", "scorer"])
@pytest.mark.parametrize("algo", ["ppo", "maskable-ppo", "a2c"])
def test_it_learns_the_policy_and_leaves_the_value(
    tmp_path: Path, algo: str, network: dict[str, Any]
) -> None:
    config = config_with(tmp_path, algo, **network)
    env = CarbonVecEnv(config.lanes, scenario=TINY, **config.environment.arguments())
    lesson = prepare(config, TINY, env.env.layout, tmp_path)
    assert lesson is not None
    model = make_model(config, env)
    model.set_logger(configure(str(tmp_path), ["tensorboard"]))
    seen = torch.as_tensor(np.asarray(lesson.dataset.observations))
    generators = torch.get_rng_state()
    with torch.no_grad():
        value = model.policy.predict_values(seen)
    teach(model, lesson, tmp_path)
    with torch.no_grad():
        assert torch.equal(model.policy.predict_values(seen), value)
    assert torch.equal(torch.get_rng_state(), generators)
    assert not model.policy.optimizer.state
    model.logger.close()
    said = json.loads((tmp_path / "warm_start.json").read_text())
    assert said["masked"] == (algo == "maskable-ppo")
    assert said["turns_learned"] == said["counts"]["turns"]
    first, last = said["epochs"][0], said["epochs"][-1]
    assert last["loss"] < 0.7 * first["loss"]
    assert last["agreement"] > max(0.75, first["agreement"] - 0.01)  # the first may be high
    events = EventAccumulator(str(tmp_path)).Reload()
    logged = [event.value for event in events.Scalars("warm_start/loss")]
    assert logged == pytest.approx([epoch["loss"] for epoch in said["epochs"]])
    assert "warm_start/agreement" in events.Tags()["scalars"]
    assert not (tmp_path / "warm_start").exists()


def test_decisions_recorded_before_teach_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    line = ("record", "ccar", "--scenario", "tiny", "--fleets", 2, "--out", folder)
    assert carbon_gym(*line).code == 0
    for name, policy in (("named", "ccar"), ("folder", str(folder))):
        config = config_with(tmp_path, warm_start={"policy": policy})
        train(config, TINY, tmp_path / name)
    models = [contents(tmp_path / name, "maskable-ppo")["model"] for name in ("named", "folder")]
    assert_same(*models)
    assert folder.is_dir()


def test_what_lies_outside_the_mask_is_not_learned(tmp_path: Path) -> None:
    config = config_with(tmp_path, warm_start={"policy": "carbon-greedy", "epochs": 1})
    train(config, TINY, tmp_path / "run")
    said = json.loads((tmp_path / "run" / "warm_start.json").read_text())
    assert said["turns_learned"] == said["counts"]["turns"] - said["counts"]["outside_mask"]
    assert said["counts"]["outside_mask"] > 0


def test_a_wider_mask_teaches_against_all(tmp_path: Path) -> None:
    """Recorded among the feasible, but free to choose whatever has room."""
    folder = tmp_path / "data"
    line = ("record", "ccar", "--scenario", "tiny", "--fleets", 1, "--out", folder)
    assert carbon_gym(*line).code == 0
    environment = {"fleets": 1, "co2_scale_g": 0.05, "mask": "room"}
    env = CarbonVecEnv(1, scenario=TINY, **environment)
    for policy, masked in ((str(folder), False), ("ccar", True)):
        config = config_with(tmp_path, warm_start={"policy": policy}, environment=environment)
        lesson = prepare(config, TINY, env.env.layout, tmp_path / "run")
        assert lesson is not None
        assert (lesson.masks is not None) == masked


def test_a_run_killed_while_it_is_taught_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, run = config_with(tmp_path), tmp_path / "run"
    monkeypatch.setattr(training, "teach", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train(config, TINY, run)
    monkeypatch.undo()
    assert len(load_dataset(run / "warm_start").fleets) == 2
    train(config, TINY, run)
    train(config, TINY, tmp_path / "other")
    assert_same(*(contents(folder, "maskable-ppo") for folder in (run, tmp_path / "other")))


@pytest.mark.parametrize(
    ("split", "scenario", "said"),
    [
        ("validation", "tiny", "was recorded on split 'validation'"),
        ("train", "other", "was recorded on the fleet of"),
    ],
)
def test_it_refuses_what_is_held_out_or_does_not_fit(
    tmp_path: Path, split: str, scenario: str, said: str
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("extends: tiny\ndescription: d\nfleet: {regions: [GB, DE]}\n")
    folder, source = tmp_path / "data", other if scenario == "other" else "tiny"
    line = ("record", "ccar", "--scenario", source, "--split", split, "--fleets", 1)
    assert carbon_gym(*line, "--out", folder).code == 0
    config = config_with(tmp_path, warm_start={"policy": str(folder)})
    with pytest.raises(InputError, match=said):
        train(config, TINY, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("policy", "said"),
    [("ccra", "did you mean 'ccar'"), ("nowhere.npz", "there is no such file")],
)
def test_an_unknown_policy_leaves_no_folder(tmp_path: Path, policy: str, said: str) -> None:
    config = config_with(tmp_path, warm_start={"policy": policy})
    with pytest.raises(InputError, match=said):
        train(config, TINY, tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ----------------------------------------------------------------------------- background iterated


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("router")
    without_prior = {**SMALL_SCORER, "scorer": {"width": 8, "turn_width": 8, "value_width": 8}}
    file = config_of("maskable-ppo", folder, **without_prior)
    train(load_config(None, file, total_steps=256), TINY, folder / "run")
    assert carbon_gym("export", folder / "run", "--out", folder / "router.npz").code == 0
    return folder / "router.npz"


@pytest.mark.parametrize("scenario", ["tiny", "memory-tight"])
def test_a_router_makes_the_background(router: Path, scenario: str) -> None:
    loaded = load_scenario(scenario, workload={"sessions_per_fleet": 60})
    world = World(loaded, "train", 2, str(router))
    traces, grid = world.evaluation.traces, world.evaluation.grid
    run = run_policy(loaded, make_policy(str(router)), traces, grid)
    assert np.array_equal(world.background.deployment, run.ledger["deployment"])
    assert np.array_equal(world.background.co2_g, run.ledger["co2_g"])
    reference = World(loaded, "train", 2, "reference").background
    assert not np.array_equal(world.background.deployment, reference.deployment)


def test_training_goes_on_against_the_fleet_of_the_learned_router(
    tmp_path: Path, router: Path
) -> None:
    environment = {"fleets": 1, "co2_scale_g": 0.05, "background": str(router)}
    changes = {**SMALL_SCORER, "environment": environment}
    warm_start = {"policy": str(router), "epochs": 2}
    config = config_with(tmp_path, warm_start=warm_start, **changes)
    run = tmp_path / "run"
    train(config, TINY, run)
    assert load_config(None, run / "config.yaml").environment.background == str(router)
    done = carbon_gym("train", "--resume", run, "--total-steps", 192)
    assert done.code == 0, done.err
    assert "(192 steps)" in done.out
    best = run / "best" / "model.zip"
    assert ALGORITHMS["maskable-ppo"].load(best, device="cpu").num_timesteps > 0
    assert carbon_gym("export", run, "--out", tmp_path / "second.npz").code == 0
    env = gym.make("CarbonRouting-v0", scenario=TINY, fleets=1, background=str(router))
    assert env.reset(seed=0)[0].shape == env.observation_space.shape
