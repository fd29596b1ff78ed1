"""Copies, pickles and processes go on with the same episodes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_worlds import (
    equal,
    fleet,
    make_for_a_process,
    scalar,
    trajectory,
    vector,
)

import carbon_gym

MODES = ("NextStep", "SameStep")
both = pytest.mark.parametrize("make", [scalar, fleet])
SHORT = {"max_turns": 6}


@both
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
@pytest.mark.parametrize("steps", [None, 0, 3])
def test_a_copy_continues_identically(make: Any, duplicate: Any, steps: int | None) -> None:
    env = make(**SHORT)
    if steps is not None:
        env.reset(seed=2)
        for _ in range(steps):
            if any(env.step(1)[2:4]):
                env.reset()
    twin = duplicate(env)
    if steps is not None:
        assert np.array_equal(env.action_masks(), twin.action_masks())
        assert np.array_equal(env.quotes.co2_g, twin.quotes.co2_g)
    seed = 0 if steps is None else None
    first = trajectory_from(env, seed)
    assert equal(trajectory_from(twin, seed), first)


def trajectory_from(env: Any, seed: int | None) -> list[Any]:
    """What it returns from where it stands; begun anew if a seed is given."""
    if seed is not None:
        return trajectory(env, seed, 25)
    seen: list[Any] = []
    for k in range(25):
        seen.append(env.step(k % 4))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_copy_of_lanes_continues_identically(duplicate: Any, mode: str, threads: int) -> None:
    env = vector(4, autoreset_mode=mode, threads=threads)
    env.reset(seed=2)
    for _ in range(7):
        env.step([0, 1, 2, 3])
    twin = duplicate(env)
    other = duplicate(twin)
    for _ in range(3):
        other.step([0, 0, 0, 0])
    for k in range(25):
        actions = [k % 4, 0, 1, 2]
        assert equal(env.step(actions), twin.step(actions))
    for it in (env, twin, other):
        it.close()


SCRIPT = """
import hashlib, multiprocessing, os
import numpy as np

def run(_=None):
    import gymnasium, carbon_gym
    digest = hashlib.sha256()
    for name in ("CarbonRouting-v0", "CarbonRoutingFleet-v0"):
        env = gymnasium.make(name, scenario="tiny", fleets=1, co2_scale_g=0.05)
        env.reset(seed=3)
        for k in range(60):
            observation, reward, terminated, truncated, info = env.step(k % 4)
            digest.update(observation.tobytes())
            said = (reward, terminated, truncated, sorted(info.items(), key=str))
            digest.update(repr(said).encode())
            if terminated or truncated:
                digest.update(env.reset()[0].tobytes())
    return digest.hexdigest()

if __name__ == "__main__":
    print(run())
    for number, method in enumerate(("fork", "spawn", "forkserver")):
        os.environ["PYTHONHASHSEED"] = str(number)
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(run, [0])[0])
"""


def test_every_start_method_gives_the_same_episodes(tmp_path: Path) -> None:
    script = tmp_path / "episodes.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 4
    assert len(set(done.stdout.split())) == 1


def test_gymnasiums_vector_environments_hold_it_too() -> None:
    """Asynchronous ones under spawn; numbers as in one scalar environment."""
    env = gymnasium.vector.AsyncVectorEnv([make_for_a_process] * 2, context="spawn")
    try:
        observation, _ = env.reset(seed=3)
        stepped = env.step(np.array([1, 2]))
    finally:
        env.close()
    for b in range(2):
        alone = make_for_a_process()
        assert np.array_equal(observation[b], alone.reset(seed=3 + b)[0])
        after, reward, *_ = alone.step(b + 1)
        assert np.array_equal(stepped[0][b], after)
        assert stepped[1][b] == reward


@pytest.mark.slow
def test_sb3s_vector_environments_hold_it_too() -> None:
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    env = vec_env.SubprocVecEnv([make_for_a_process] * 2, start_method="spawn")
    try:
        env.seed(3)
        observation = env.reset()
        masks = env.env_method("action_masks")
    finally:
        env.close()
    for b in range(2):
        alone = make_for_a_process()
        assert np.array_equal(observation[b], alone.reset(seed=3 + b)[0])
        assert np.array_equal(masks[b], alone.unwrapped.action_masks())


def test_everything_that_is_handed_around_pickles() -> None:
    env = scalar()
    env.reset(seed=0)
    for it in (env.layout, env.options, env.world, env.observation_space, env.spec):
        again = pickle.loads(pickle.dumps(it))
        assert type(again) is type(it)
    layout = pickle.loads(pickle.dumps(env.layout))
    assert layout.slices == env.layout.slices
    assert pickle.loads(pickle.dumps(env.world)) is env.world
    assert carbon_gym.load_scenario("tiny") == env.world.scenario
