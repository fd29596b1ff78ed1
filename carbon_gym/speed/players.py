"""Environments driven with random actions, and the clock beside them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from carbon_gym.speed import rounds

_MOST_STEPS = 1 << 20


class Player(ABC):
    """One environment, stepped with uniformly random actions that are drawn beforehand.

    Calling it steps as often as `warm_up` found, and returns the steps that count and their
    seconds. Episodes go on from call to call.
    """

    def __init__(self) -> None:
        self._actions: Any = None

    def warm_up(self, seconds: float) -> None:
        """Compile, and find how many steps take so long."""
        steps = 16
        self._draw(steps)
        self()
        _, took_s = self()
        while took_s < seconds / 4 and steps < _MOST_STEPS:
            steps *= 2
            self._draw(steps)
            _, took_s = self()
        self._draw(min(max(int(steps * seconds / took_s), 1), _MOST_STEPS))

    @abstractmethod
    def _draw(self, steps: int) -> None:
        """Draw the actions of so many steps."""

    @abstractmethod
    def __call__(self) -> tuple[float, float]:
        """Step; returns the steps that count, and seconds."""

    @abstractmethod
    def close(self) -> None:
        """Close the environment."""


class ScalarPlayer(Player):
    """One environment of `gymnasium.make`. Resets take time and count as no step."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__()
        self._env = env
        self._choices = int(env.action_space.n)  # type: ignore[attr-defined]  # it is Discrete
        env.reset(seed=0)

    def _draw(self, steps: int) -> None:
        self._actions = np.random.default_rng(0).integers(0, self._choices, steps).tolist()

    def __call__(self) -> tuple[float, float]:
        """Step; returns the steps, and seconds."""
        env = self._env
        began_s = rounds.clock_s()
        for action in self._actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return len(self._actions), rounds.clock_s() - began_s

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class VectorPlayer(Player):
    """A vector environment with NEXT_STEP autoreset.

    Args:
        env: The environment.
        resets: How many of all its lanes' steps so far have begun an episode, and do not count;
            asked outside the timed part. Default: every step counts.
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], resets: Callable[[], int] = lambda: 0
    ) -> None:
        super().__init__()
        self._env = env
        self._resets = resets
        self._choices = int(env.single_action_space.n)  # type: ignore[attr-defined]
        env.reset(seed=0)

    def _draw(self, steps: int) -> None:
        shape = (steps, self._env.num_envs)
        self._actions = np.random.default_rng(0).integers(0, self._choices, shape)

    def __call__(self) -> tuple[float, float]:
        """Step; returns the lanes' steps that count, and seconds."""
        env = self._env
        before = self._resets()
        began_s = rounds.clock_s()
        for chosen in self._actions:
            env.step(chosen)
        took_s = rounds.clock_s() - began_s
        return self._actions.size - (self._resets() - before), took_s

    def bytes_per_turn(self) -> float:
        """Bytes that a step writes for one lane: observation, reward, flags, mask and info.

        Of the arrays ``_key`` that tell for which lanes a key holds, one is written.
        """
        said, reward, terminated, truncated, info = self._env.step(self._actions[0])
        written = [said, reward, terminated, truncated, info["_co2_g"]]
        written += [array for key, array in info.items() if not key.startswith("_")]
        return sum(int(array.nbytes) for array in written) / self._env.num_envs

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def carbon_player(lanes: int, **options: Any) -> VectorPlayer:
    """Our native vector environment. Turns served count: no step that begins a conversation."""
    env = gymnasium.make_vec(
        "CarbonRouting-v0", num_envs=lanes, vectorization_mode="vector_entry_point", **options
    )
    counters = env.unwrapped.lanes.episode  # type: ignore[attr-defined]
    return VectorPlayer(env, resets=lambda: int(counters.sum()))
