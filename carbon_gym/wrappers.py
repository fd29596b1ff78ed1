"""Other forms of the environments' actions and observations.

Import them from here, also for `gymnasium.make(spec)`: the wrappers keep their arguments, so that
``env.spec.to_json()`` holds them.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments


class FactoredAction(gymnasium.ActionWrapper[Any, Any, Any], RecordConstructorArgs):
    """Choose model, GPU and region apart: `MultiDiscrete` (M, G, R) in place of `Discrete`.

    Observations and `info` are unchanged. The mask still counts deployments, in `info` and by
    ``env.get_wrapper_attr("action_masks")()``; ``mask.reshape(env.action_space.nvec)`` has it by
    (model, GPU, region). What is allowed is not a product of models, GPUs and regions, so that no
    mask per factor says it: with maskable policies, keep the flat action.

    Args:
        env: `CarbonRouting-v0` or `CarbonRoutingFleet-v0`, its action flat.

    Raises:
        InputError: Another environment, or another action.

    Example:
        >>> env = FactoredAction(gymnasium.make("CarbonRouting-v0", scenario="tiny"))
        >>> env.action_space
        MultiDiscrete([2 1 2])
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        fleet = getattr(getattr(env.unwrapped, "layout", None), "fleet", None)
        if not isinstance(fleet, Deployments) or env.action_space != spaces.Discrete(len(fleet)):
            raise InputError(
                f"FactoredAction: {env} has the action {env.action_space}; wrap an environment of "
                "carbon_gym whose action is the deployment"
            )
        sizes = len(fleet.models), len(fleet.gpus), len(fleet.regions)
        self.action_space = spaces.MultiDiscrete(list(sizes))
        self._deployment = np.empty(sizes, dtype=np.int64)
        self._deployment[fleet.model, fleet.gpu, fleet.region] = np.arange(len(fleet))

    def action(self, action: Any) -> int:
        """The deployment of (model, GPU, region).

        Args:
            action: Three integers: an array, list or tuple.

        Raises:
            ValueError: Not three integers, or one out of range.
        """
        given = np.asarray(action)
        if given.shape != (3,) or given.dtype.kind not in "iu":
            raise ValueError(f"action {action!r} is none; give three integers: model, GPU, region")
        sizes = self._deployment.shape
        for index, size, name in zip(
            given.tolist(), sizes, ("model", "GPU", "region"), strict=True
        ):
            if not 0 <= index < size:
                raise ValueError(f"{name} {index} does not exist; choose from 0 to {size - 1}")
        return int(self._deployment[tuple(given.tolist())])


class DictMaskObservation(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Observations as a dict with the action mask in it, as RLlib and others want them.

    The mask is int8 (D,), 1: allowed, and belongs to the observation beside it; `info` keeps its
    own. Defaults are RLlib's names.

    Args:
        env: An environment of carbon_gym.
        obs_key: Key of the observation: a Box float32, or a Dict of them with
            ``observation="dict"``.
        mask_key: Key of the mask.

    Raises:
        InputError: Keys that are not two texts, or an environment without a mask.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        obs_key: str = "observations",
        mask_key: str = "action_mask",
    ) -> None:
        RecordConstructorArgs.__init__(self, obs_key=obs_key, mask_key=mask_key)
        super().__init__(env)
        for name, key in (("obs_key", obs_key), ("mask_key", mask_key)):
            if not isinstance(key, str) or not key:
                raise InputError(f"DictMaskObservation: {name} = {key!r} is not allowed; name it")
        if obs_key == mask_key:
            raise InputError(
                f"DictMaskObservation: obs_key and mask_key are both {obs_key!r}; give two names"
            )
        layout = getattr(env.unwrapped, "layout", None)
        if not isinstance(getattr(layout, "fleet", None), Deployments):
            raise InputError(
                f"DictMaskObservation: {env} has no action mask; wrap an environment of carbon_gym"
            )
        self._obs_key, self._mask_key = obs_key, mask_key
        deployments = len(env.unwrapped.layout.fleet)  # type: ignore[attr-defined]
        mask = spaces.Box(0, 1, (deployments,), dtype=np.int8)
        self.observation_space = spaces.Dict({obs_key: env.observation_space, mask_key: mask})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """As the environment's, with the mask in the observation."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observation, info["action_mask"]), info

    def step(self, action: Any) -> tuple[dict[str, Any], Any, bool, bool, dict[str, Any]]:
        """As the environment's, with the mask in the observation."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        with_mask = self._with_mask(observation, info["action_mask"])
        return with_mask, reward, terminated, truncated, info

    def _with_mask(self, observation: Any, mask: NDArray[np.int8]) -> dict[str, Any]:
        return {self._obs_key: observation, self._mask_key: mask.copy()}
