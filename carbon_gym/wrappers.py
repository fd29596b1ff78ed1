"""Other forms of the environments' actions and observations, and rewards with terms of your own.

Import them from here, also for `gymnasium.make(spec)`: the wrappers keep their arguments, so that
``env.spec.to_json()`` holds them (not those of `RewardTerm`, whose function is none for JSON).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments

Term = Callable[[Mapping[str, Any]], Any]
"""Given the `info` of a step, a term of the reward: a number, or for B lanes float (B,)."""


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


class RewardTerm(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Add a term of your own to the reward, and to `info` under its name.

    The reward stays the sum of the terms in `info`. A violation never pays by the environment's own
    terms; whether it does by yours is yours to see to.

    Args:
        env: An environment of carbon_gym, or one that is wrapped already: terms add up.
        name: Key of the term in `info`, e.g. "reward_energy".
        term: Gives the term's value from the step's `info`.

    Raises:
        InputError: A name that is no text, or that `info` has already.
        ValueError: A value that is not one finite number.

    Example:
        >>> env = gymnasium.make("CarbonRouting-v0", scenario="tiny")
        >>> env = RewardTerm(env, "reward_energy", lambda info: -1e3 * info["energy_kwh"])
    """

    def __init__(self, env: gymnasium.Env[Any, Any], name: str, term: Term) -> None:
        RecordConstructorArgs.__init__(self, name=name, term=term)
        super().__init__(env)
        self._name, self._term = _named(name), term

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """As the environment's, with the term in reward and `info`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        value = _values(self._name, self._term, info, ())
        info[self._name] = float(value)
        return observation, float(reward) + float(value), terminated, truncated, info


class VectorRewardTerm(VectorWrapper):
    """`RewardTerm` for conversations side by side; the same term serves both, written for arrays.

    Lanes that only began an episode in a step have no turn, and 0 for the term.

    Args:
        env: ``gymnasium.make_vec("CarbonRouting-v0", ...)``.
        name: As there.
        term: As there; `info` holds arrays (B,).

    Raises:
        InputError: As there.
        ValueError: Another shape than () or (B,), or a value that is not finite.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], name: str, term: Term) -> None:
        super().__init__(env)
        self._name, self._term = _named(name), term

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """As the environment's, with the term in rewards and `info`."""
        observations, rewards, terminated, truncated, info = self.env.step(actions)
        served = info["_co2_g"].copy()
        value = _values(self._name, self._term, info, (self.num_envs,), served)
        info[self._name], info["_" + self._name] = value, served
        if "final_info" in info:
            info["final_info"][self._name] = value
            info["final_info"]["_" + self._name] = info["_final_info"]
        return observations, rewards + value, terminated, truncated, info


def _named(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InputError(f"name = {name!r} is not allowed; name the term, such as 'reward_energy'")
    return name


def _values(
    name: str,
    term: Term,
    info: Mapping[str, Any],
    shape: tuple[int, ...],
    served: NDArray[np.bool_] | bool = True,
) -> NDArray[np.float64]:
    """The term's values, 0 where no turn was served."""
    if name in info:
        raise InputError(f"info has a key {name!r} already; give the term another name")
    given = np.asarray(term(info), dtype=np.float64)
    if given.shape not in ((), shape):
        raise ValueError(f"term {name!r} gave an array of shape {given.shape}; give {shape}")
    value = np.where(served, given, 0.0)
    if not np.isfinite(value).all():
        raise ValueError(f"term {name!r} gave a value that is not finite; give numbers")
    return value
