"""Checkpoints: all that a run needs to go on as if it had never stopped.

They hold pickles, as Stable-Baselines3's own files do: resume only runs that you trust.
"""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from agents.vec_env import CarbonVecEnv
from carbon_gym.errors import InputError

FOLDER, MODEL = "checkpoints", "model.zip"
_REPLAY, _STATE = "replay_buffer.pkl", "state.pkl"


def save_checkpoint(run: Path, model: BaseAlgorithm, keep: int) -> None:
    """Write a checkpoint, whole or not at all, and remove all but the latest `keep`.

    Between rollouts these are all that a run depends on: weights, optimizer, counters and episode
    statistics (Stable-Baselines3's own file), the replay buffer of dqn and qrdqn, the lanes, and
    the states of the generators.
    """
    with replacing_folder(run / FOLDER / f"{model.num_timesteps:010d}") as folder:
        model.save(folder / MODEL)
        if isinstance(model, OffPolicyAlgorithm):
            model.save_replay_buffer(folder / _REPLAY)
        state = {"lanes": _lanes(model), "generators": _generators(model)}
        (folder / _STATE).write_bytes(pickle.dumps(state))
    for old in sorted((run / FOLDER).iterdir())[:-keep]:
        shutil.rmtree(old)


def load_checkpoint(
    run: Path, algorithm: type[BaseAlgorithm], env: CarbonVecEnv, device: str
) -> BaseAlgorithm:
    """The model of a run's latest checkpoint; the lanes and all generators are set back to it.

    Args:
        run: The run's folder.
        algorithm: Class of the model.
        env: A fresh environment of the same arguments.
        device: For the networks.

    Raises:
        InputError: There is no checkpoint, or it cannot be read.
    """
    folder = next(iter(sorted((run / FOLDER).glob("[0-9]*"), reverse=True)), None)
    if folder is None:
        raise InputError(f"{run}: holds no checkpoint; begin again without --resume")
    try:
        model = algorithm.load(folder / MODEL, env=env, device=device, force_reset=False)
        if isinstance(model, OffPolicyAlgorithm):
            model.load_replay_buffer(folder / _REPLAY)
        state = pickle.loads((folder / _STATE).read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise InputError(
            f"{folder}: cannot be read ({error}); delete it to go on from the one before"
        ) from None
    env.reset()
    for part, arrays in _lanes(model).items():
        for name, array in arrays.items():
            array[...] = state["lanes"][part][name]
    _set_generators(model, state["generators"])
    return model


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `folder` if the block ends well."""
    partial, old = (folder.with_name(f".{folder.name}.{what}") for what in ("partial", "old"))
    for left_over in (partial, old):
        shutil.rmtree(left_over, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    if folder.exists():
        folder.rename(old)
    partial.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _lanes(model: BaseAlgorithm) -> dict[str, dict[str, Any]]:
    """What changes in the lanes: the environment's own arrays, by part and name.

    The turns that it reads them from are many times larger and made again.
    """
    env = model.get_env()
    assert isinstance(env, CarbonVecEnv)
    kit = env.env._desk.kit
    return {
        "state": kit.state._asdict(),
        "scratch": kit.scratch._asdict(),
        "lanes": kit.lanes._asdict(),
        "kit": {"ledger": kit.ledger},
    }


def _generators(model: BaseAlgorithm) -> dict[str, Any]:
    return {
        "actions": model.action_space.np_random.bit_generator.state,
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002 (what Stable-Baselines3 draws from)
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _set_generators(model: BaseAlgorithm, state: dict[str, Any]) -> None:
    model.action_space.np_random.bit_generator.state = state["actions"]
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
