"""The native vector environment as Stable-Baselines3 wants it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from carbon_gym.envs.arrays import Lanes
from carbon_gym.envs.vector import CarbonRoutingVectorEnv

Observed = NDArray[np.float32] | dict[str, NDArray[np.float32]]
Indices = None | int | Iterable[int]

_OF_THE_LANES = ("layout", "metadata", "options", "render_mode", "slots", "spec", "world")
"""Attributes of the native environment that are the same for every lane."""


class CarbonVecEnv(VecEnv):
    """Conversations side by side, for SB3 and sb3-contrib.

    Lane i is the scalar `CarbonRouting-v0` seeded with ``seed + i``, reset as soon as it ends. A
    lane costs Python only when it ends; then its info has

    - "terminal_observation": the last one, an array (or dict of arrays) of its own;
    - "TimeLimit.truncated": whether it was cut short, so that its value is bootstrapped;
    - "episode": as SB3's `Monitor` gives it, "r" return, "l" turns, "t" seconds since the
      environment was made, and "co2_g", gCO2eq emitted over the episode.

    Infos of the other lanes are empty; `reset_infos` holds the "session" of every lane.
    Observations, rewards, dones and masks are copies. As it does what `Monitor` does,
    `env_is_wrapped` says so: `evaluate_policy` then counts these episodes, and `VecMonitor` warns
    that it will write its own over them.

    Args:
        num_envs: Number of lanes B.
        seed: Seeds the first `reset`, as `seed` does.
        **kwargs: Arguments of `carbon_gym.envs.vector.CarbonRoutingVectorEnv` but
            `autoreset_mode` and `copy`.

    Attributes:
        env: The native environment. Its arrays change with every step.
    """

    def __init__(self, num_envs: int, seed: int | None = None, **kwargs: Any) -> None:
        self.env = CarbonRoutingVectorEnv(
            num_envs, autoreset_mode=AutoresetMode.SAME_STEP, copy=False, **kwargs
        )
        super().__init__(num_envs, self.env.single_observation_space, self.env.single_action_space)
        self._flat = self.env.options.observation == "flat"
        self._steps = np.zeros(num_envs, dtype=np.int64)  # of the episodes, before the last step
        self._made_s = time.perf_counter()
        self._actions: NDArray[Any] = np.zeros(0, dtype=np.int64)
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the next `reset`: lane i gets ``seed + i``; None draws a seed from the system.

        Returns:
            The seeds of the lanes.
        """
        if seed is None:  # the base class would take it from NumPy's global state
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        return super().seed(seed)

    def reset(self) -> Any:
        """Begin an episode in every lane, with the seeds and options set since the last call.

        ``set_options({"session": index})`` names the conversations, for all lanes or for none.
        """
        seeds = None if self._seeds[0] is None else self._seeds
        self.env.reset(seed=seeds, options=self._asked())
        self._reset_seeds()
        self._reset_options()
        return self._observed(self.env.lanes.observation)

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """The "session" of every lane's running conversation, made when asked for."""
        return [{"session": session} for session in self.env.lanes.session.tolist()]

    @reset_infos.setter
    def reset_infos(self, infos: list[dict[str, Any]]) -> None:
        """Ignored: the base class sets empty ones."""

    def _asked(self) -> dict[str, Any] | None:
        if not any(self._options):
            return None
        for lane, options in enumerate(self._options):
            if set(options) != {"session"}:
                raise ValueError(
                    f"options of lane {lane} are {options!r}; give every lane {{'session': index}}"
                )
        return {"session": np.array([options["session"] for options in self._options])}

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take the actions, integers (B,), for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Serve one turn of every lane.

        Returns:
            Observations (B, ...), float32 rewards (B,), dones (B,) and B infos.

        Raises:
            RuntimeError: Before `reset`.
            ValueError: An action is no deployment; nothing was served.
        """
        np.copyto(self._steps, self.env.lanes.steps)
        lanes = self.env.serve(self._actions)
        done = lanes.terminated | lanes.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = done.nonzero()[0]
        if len(ended):
            self._add_ended(infos, ended, lanes)
        return self._observed(lanes.observation), lanes.reward.astype(np.float32), done, infos

    def _add_ended(
        self, infos: list[dict[str, Any]], ended: NDArray[np.intp], lanes: Lanes
    ) -> None:
        """Fill in the infos of the lanes whose episodes ended; they have begun others."""
        now_s = time.perf_counter() - self._made_s
        final = lanes.final_observation.take(ended, axis=0)
        # Reading an item of a memoryview is several times quicker than of an array.
        terminated, total = lanes.terminated.data, lanes.episode_return.data
        steps, co2_g = self._steps.data, lanes.episode_co2_g.data
        for row, lane in enumerate(ended.tolist()):
            infos[lane] = {
                "terminal_observation": final[row]
                if self._flat
                else self.env.layout.by_block(final[row]),
                "TimeLimit.truncated": not terminated[lane],
                "episode": {
                    "r": total[lane],
                    "l": steps[lane] + 1,
                    "t": now_s,
                    "co2_g": co2_g[lane],
                },
            }

    def action_masks(self) -> NDArray[np.bool_]:
        """The masks of the last observations, bool (B, D); sb3-contrib asks by `env_method`."""
        return self.env.action_masks()

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """What a method of the lanes returns: "action_masks", bool (D,) of each lane.

        Raises:
            AttributeError: Lanes have no such method.
        """
        lanes = self._get_indices(indices)
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[lane] for lane in lanes]
        methods = self.get_attr(method_name, lanes)
        return [method(*method_args, **method_kwargs) for method in methods]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute that every lane has, once for each lane.

        Raises:
            AttributeError: Lanes have no such attribute.
        """
        lanes = self._get_indices(indices)
        if attr_name == "action_masks":
            return [partial(self._mask_of, lane) for lane in lanes]
        if attr_name in ("observation_space", "action_space"):
            value = getattr(self.env, "single_" + attr_name)
        elif attr_name in _OF_THE_LANES:
            value = getattr(self.env, attr_name)
        else:
            raise AttributeError(
                f"lanes have no attribute {attr_name!r}; what belongs to all of them is an "
                "attribute of CarbonVecEnv.env"
            )
        return [value for _ in lanes]

    def _mask_of(self, lane: int) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.action_masks()[lane]
        return mask

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Refused: it would have no effect.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(
            f"{attr_name!r} cannot be set: lanes share one environment, whose arguments are fixed; "
            "make another CarbonVecEnv"
        )

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Indices = None) -> list[bool]:
        """Whether lanes do what a wrapper does: True for SB3's `Monitor`, nothing else."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[None]:
        """No pictures: render a scalar environment."""
        return [None] * self.num_envs

    def close(self) -> None:
        """Close the native environment."""
        self.env.close()

    def _observed(self, observation: NDArray[np.float32]) -> Observed:
        """A copy of flat observations in the form asked for."""
        if self._flat:
            return observation.copy()
        blocks = self.env.layout.by_block(observation)
        return {name: block.copy() for name, block in blocks.items()}
