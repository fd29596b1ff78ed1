"""Training runs: every algorithm, killed and gone on with, stopped, and what they leave."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym

pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.training.callbacks import Checkpoint
from agents.training.config import CONFIGS, load_config
from agents.training.model import ALGORITHMS
from agents.training.run import Outcome, train
from agents.training.validation import HeldOut, validate
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.router import load_router
from carbon_gym.scenario import load_scenario

ON_POLICY = ("ppo", "maskable-ppo", "a2c")
SMALL = {
    "lanes": 4,
    "scenario": "tiny",
    "environment": {"fleets": 1, "co2_scale_g": 0.05},
    "validation": {"every": 200, "sessions": 12},
    "checkpoints": {"every": 150},
    "net_arch": [8],
}
OF_THE_ALGORITHM: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 16, "batch_size": 32, "n_epochs": 2},
    "maskable-ppo": {"n_steps": 16, "batch_size": 32, "n_epochs": 2},
    "a2c": {"log_every": 5},
    "dqn": {"buffer_size": 400, "learning_starts": 64, "log_every": 10},
    "qrdqn": {"buffer_size": 400, "learning_starts": 64, "log_every": 10, "n_quantiles": 5},
}
STEPS = 600


def config_of(algo: str, folder: Path, **changes: Any) -> Path:
    """A small configuration as a file (JSON is YAML)."""
    file = folder / f"{algo}.yaml"
    content = {**SMALL, "algo": algo, "total_steps": STEPS, **OF_THE_ALGORITHM[algo], **changes}
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def trained(algo: str, folder: Path, run: Path, changes: Any = None, **options: Any) -> Outcome:
    config = load_config(None, config_of(algo, folder, **(changes or {})))
    return train(config, load_scenario("tiny"), run, **options)


def last_checkpoint(run: Path) -> Path:
    return sorted((run / "checkpoints").iterdir())[-1]


def contents(run: Path, algo: str) -> dict[str, Any]:
    """What the latest checkpoint holds, as tensors and arrays."""
    folder = last_checkpoint(run)
    model = ALGORITHMS[algo].load(folder / "model.zip", device="cpu")
    state = pickle.loads((folder / "state.pkl").read_bytes())
    return {"steps": model.num_timesteps, "model": model.get_parameters(), "state": state}


def assert_same(a: Any, b: Any, place: str = "") -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys(), place
        for key in a:
            assert_same(a[key], b[key], f"{place}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), place
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{place}/{k}")
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b), place
    elif isinstance(a, np.ndarray):
        assert a.tobytes() == b.tobytes(), place
    else:
        assert a == b, place


@pytest.mark.parametrize("algo", CONFIGS)
def test_every_algorithm_leaves_a_whole_run(algo: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = carbon_gym("train", "--config", config_of(algo, tmp_path), "--seed", 5, "--out", run)
    assert done.code == 0, done.err
    assert done.err == ""
    assert "of ccar's" in done.out
    assert load_config(None, run / "config.yaml").seed == 5
    assert load_scenario(str(run / "scenario.yaml")) == load_scenario("tiny")
    progress = json.loads((run / "progress.json").read_text())
    assert [row["steps"] for row in progress["validations"]] == sorted(
        {row["steps"] for row in progress["validations"]}
    )
    assert progress["validations"][-1]["steps"] == progress["steps"] >= STEPS
    assert json.loads((run / "best" / "figures.json").read_text()) == progress["best"]
    assert len(list((run / "checkpoints").iterdir())) == 2
    tags = set(EventAccumulator(str(run)).Reload().Tags()["scalars"])
    assert {"rollout/ep_rew_mean", "time/fps", "validation/co2_relative"} <= tags
    assert {"validation/quality_predicted", "validation/ttft_p95_s"} <= tags
    assert ("train/entropy" in tags) == (algo in ON_POLICY)
    again = carbon_gym("train", "--config", config_of(algo, tmp_path), "--out", run)
    assert again.code == 2
    assert "holds a run" in again.err


KILLED = """
import os, signal, sys
from pathlib import Path
from agents.training.config import load_config
from agents.training.run import train
from carbon_gym.scenario import load_scenario

made = 0
def on_steps(steps):
    global made
    made += steps
    if made >= 400:
        os.kill(os.getpid(), signal.SIGKILL)

config = load_config(None, Path(sys.argv[1]))
train(config, load_scenario("tiny"), Path(sys.argv[2]), on_steps=on_steps)
"""


SMALL_SCORER: dict[str, Any] = {
    "policy": "scorer",
    "scorer": {"width": 8, "turn_width": 8, "value_width": 8, "prior_weight": 3.0},
}
TAUGHT: dict[str, Any] = {
    "warm_start": {"policy": "ccar", "fleets": 1, "epochs": 2, "batch_size": 64}
}
KILLED_RUNS: list[tuple[str, dict[str, Any]]] = [
    *((algo, {}) for algo in CONFIGS),
    ("ppo", SMALL_SCORER),
    ("maskable-ppo", {**SMALL_SCORER, **TAUGHT, "value_target": "symlog"}),
    ("a2c", TAUGHT),
]


@pytest.mark.parametrize(("algo", "changes"), KILLED_RUNS)
def test_a_killed_run_ends_where_an_uninterrupted_one_ends(
    algo: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    file = config_of(algo, tmp_path, **changes)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(file), str(cut)], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert 0 < int(last_checkpoint(cut).name) < 400
    assert carbon_gym("train", "--resume", cut).code == 0
    trained(algo, tmp_path, whole, changes)
    assert_same(contents(cut, algo), contents(whole, algo))
    progress = [json.loads((run / "progress.json").read_text()) for run in (cut, whole)]
    assert progress[0] == progress[1]


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, end_of_rollout = tmp_path / "run", Checkpoint._on_rollout_end

    def interrupted(self: Checkpoint) -> None:
        end_of_rollout(self)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Checkpoint, "_on_rollout_end", interrupted)
    done = carbon_gym("train", "--config", config_of("ppo", tmp_path), "--out", run)
    assert done.code == 130
    assert f"stopped at step 64; go on with: carbon-gym train --resume {run}" in done.out
    assert last_checkpoint(run).name == "0000000064"
    monkeypatch.undo()
    done = carbon_gym("train", "--resume", run, "--total-steps", 128)
    assert done.code == 0
    assert "(128 steps)" in done.out
    assert last_checkpoint(run).name == "0000000128"


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"

    def impatient(self: Checkpoint) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Checkpoint, "_on_rollout_end", impatient)
    done = carbon_gym("train", "--config", config_of("ppo", tmp_path), "--out", run)
    assert done.code == 130
    assert f"--resume {run}" in done.err
    assert last_checkpoint(run).name == "0000000000"


def test_a_run_without_a_checkpoint_cannot_go_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained("a2c", tmp_path, run, stop=lambda: True)
    folder = last_checkpoint(run)
    (folder / "state.pkl").write_bytes(b"")
    done = carbon_gym("train", "--resume", run)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "cannot be read" in done.err
    folder.rename(tmp_path / "away")
    done = carbon_gym("train", "--resume", run)
    assert done.code == 2
    assert "holds no checkpoint" in done.err


@pytest.mark.parametrize("algo", ["ppo", "a2c", "maskable-ppo"])
@pytest.mark.parametrize("target", ["raw", "symlog"])
def test_a_scorer_trains_and_its_router_chooses_alike(
    tmp_path: Path, algo: str, target: str
) -> None:
    run = tmp_path / "run"
    config = load_config(None, config_of(algo, tmp_path, **SMALL_SCORER, value_target=target))
    train(config, load_scenario("tiny"), run)
    model = ALGORITHMS[algo].load(run / "best" / "model.zip", device="cpu")
    done = carbon_gym("export", run, "--out", tmp_path / "router.npz")
    assert done.code == 0, done.err
    layout = ObservationLayout(Deployments.of(load_scenario("tiny")))
    seen = np.random.default_rng(0).uniform(layout.low, layout.high, (64, layout.size))
    seen = seen.astype(np.float32)
    router = load_router(tmp_path / "router.npz")
    masks = np.ones((64, len(layout.fleet)), dtype=np.int8)
    told, _ = model.predict(seen, deterministic=True)
    assert np.array_equal(router.act(seen, masks, layout), told)


@pytest.mark.parametrize("target", ["raw", "symlog"])
def test_the_best_model_is_the_one_that_its_figures_say(tmp_path: Path, target: str) -> None:
    run = tmp_path / "run"
    config = load_config(None, config_of("maskable-ppo", tmp_path, value_target=target))
    best = train(config, load_scenario("tiny"), run).progress["best"]
    held_out = HeldOut(load_scenario("tiny"), config.environment, config.validation.sessions)
    model = ALGORITHMS["maskable-ppo"].load(run / "best" / "model.zip", device="cpu")
    assert validate(model, held_out).co2_g == best["co2_g"]


def test_a_bad_environment_leaves_no_folder(tmp_path: Path) -> None:
    file = config_of("ppo", tmp_path, environment={"background": "ccra"})
    done = carbon_gym("train", "--config", file, "--out", tmp_path / "run")
    assert done.code == 2
    assert "did you mean 'ccar'" in done.err
    assert not (tmp_path / "run").exists()
