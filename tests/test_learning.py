"""A learner with its defaults learns to route (slow: ``pytest -m slow``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

import carbon_gym  # noqa: F401 (registers)

pytestmark = pytest.mark.slow

STEPS, TRAIN_LANES = 200_000, 8
HELD_OUT = 2000
"""Conversations of the validation split, the same for all."""


def mean_return(choose: Callable[[Any, Any], NDArray[np.int64]]) -> float:
    """Mean undiscounted return of the held-out conversations, one in each lane."""
    env: Any = gymnasium.make_vec(
        "CarbonRouting-v0",
        num_envs=HELD_OUT,
        autoreset_mode="Disabled",
        copy=False,
        scenario="sharegpt",
        split="validation",
    )
    sessions = np.random.default_rng(0).choice(env.world.sessions, HELD_OUT, replace=False)
    observation, _ = env.reset(seed=0, options={"session": sessions})
    running = np.ones(HELD_OUT, dtype=bool)
    total = np.zeros(HELD_OUT)
    while running.any():
        observation, reward, terminated, _, _ = env.step(choose(env, observation))
        total[running] += reward[running]
        running &= ~terminated
        # The others' conversations go on; those that ended begin again and no longer count.
        env.reset(options={"reset_mask": terminated.copy()})
    return float(total.mean())


def test_maskable_ppo_closes_half_of_the_gap_to_the_cheapest_feasible() -> None:
    pytest.importorskip("sb3_contrib", reason="the train extra is not installed")
    import torch
    from sb3_contrib import MaskablePPO

    from agents import CarbonVecEnv

    rng = np.random.default_rng(0)

    def at_random(env: Any, observation: Any) -> NDArray[np.int64]:
        score = np.where(env.action_masks(), rng.random(env.action_masks().shape), -1.0)
        return score.argmax(axis=1)

    def cheapest(env: Any, observation: Any) -> NDArray[np.int64]:
        return np.asarray(env.quotes.cheapest())

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # batches of 64 are too small to share
    env = CarbonVecEnv(TRAIN_LANES, scenario="sharegpt")
    model = MaskablePPO("MlpPolicy", env, seed=0, device="cpu")
    model.learn(STEPS)
    torch.set_num_threads(threads)

    def learned(env: Any, observation: Any) -> NDArray[np.int64]:
        masks = env.action_masks()
        return model.predict(observation, action_masks=masks, deterministic=True)[0]

    low, high, reached = (mean_return(choose) for choose in (at_random, cheapest, learned))
    share = (reached - low) / (high - low)
    print(f"random {low:.3f}, cheapest feasible {high:.3f}, MaskablePPO {reached:.3f}: {share:.2f}")
    assert share >= 0.5
