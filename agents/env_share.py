"""How much of a training run is spent in the environment."""

from __future__ import annotations

import time
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from agents.vec_env import CarbonVecEnv

LANES, N_STEPS, BATCH, EPOCHS = 64, 128, 2048, 4


class TimedVecEnv(VecEnvWrapper):
    """Counts the seconds spent in a `VecEnv`.

    Attributes:
        spent_s: Seconds spent in it so far: steps, resets and methods of the lanes.
    """

    def __init__(self, venv: VecEnv) -> None:
        self.spent_s = 0.0
        super().__init__(venv)

    def reset(self) -> Any:
        """As the environment's."""
        began_s = time.perf_counter()
        observation = self.venv.reset()
        self.spent_s += time.perf_counter() - began_s
        return observation

    def step_async(self, actions: Any) -> None:
        """As the environment's."""
        began_s = time.perf_counter()
        self.venv.step_async(actions)
        self.spent_s += time.perf_counter() - began_s

    def step_wait(self) -> Any:
        """As the environment's."""
        began_s = time.perf_counter()
        served = self.venv.step_wait()
        self.spent_s += time.perf_counter() - began_s
        return served

    def env_method(self, method_name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """As the environment's."""
        began_s = time.perf_counter()
        said = self.venv.env_method(method_name, *args, **kwargs)
        self.spent_s += time.perf_counter() - began_s
        return said


def ppo_env_share(
    repeats: int = 5, rollouts: int = 4, seed: int = 0, **kwargs: Any
) -> list[tuple[float, float]]:
    """Train SB3's PPO on one core, with timers inside the run.

    64 lanes, 128 steps between updates, batches of 2,048, 4 epochs, two networks of 64 × 64.

    Args:
        repeats: Measurements, after one rollout to warm up.
        rollouts: Rollouts, with their updates, in each.
        seed: Of the environment and the networks.
        **kwargs: Arguments of the environment.

    Returns:
        For each repeat the environment's share of the training time, in [0, 1], and turns/s.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        env = TimedVecEnv(CarbonVecEnv(LANES, **kwargs))
        model = PPO(
            "MlpPolicy",
            env,
            n_steps=N_STEPS,
            batch_size=BATCH,
            n_epochs=EPOCHS,
            policy_kwargs={"net_arch": [64, 64]},
            device="cpu",
            seed=seed,
        )
        model.learn(LANES * N_STEPS)
        found = []
        for _ in range(repeats):
            env.spent_s, began_s = 0.0, time.perf_counter()
            model.learn(rollouts * LANES * N_STEPS)
            took_s = time.perf_counter() - began_s
            found.append((env.spent_s / took_s, rollouts * LANES * N_STEPS / took_s))
        env.close()
        return found
    finally:
        torch.set_num_threads(threads)
