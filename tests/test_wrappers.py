"""Other forms of actions and observations."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import carbon_gym  # noqa: F401 (registers)
from carbon_gym.errors import InputError
from carbon_gym.wrappers import DictMaskObservation, FactoredAction

IDS = ("CarbonRouting-v0", "CarbonRoutingFleet-v0")


def made(env_id: str = IDS[0], **arguments: Any) -> Any:
    return gymnasium.make(env_id, **{"scenario": "tiny", "fleets": 1, **arguments})


def assert_checked(env: Any) -> None:
    """Gymnasium's checker finds nothing, but that there is a wrapper."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*different from the unwrapped version")
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("env_id", IDS)
def test_three_factors_name_every_deployment_once(env_id: str) -> None:
    env = FactoredAction(made(env_id, mask=None))
    fleet = env.unwrapped.layout.fleet  # type: ignore[attr-defined]
    assert env.action_space == spaces.MultiDiscrete([2, 1, 2])
    named = {}
    for action in np.ndindex(2, 1, 2):
        triple = (fleet.models[action[0]], fleet.gpus[action[1]], fleet.regions[action[2]])
        assert fleet.triple(env.action(action)) == triple
        named[env.action(np.array(action))] = triple
    assert len(named) == len(fleet)


def test_factored_steps_are_the_flat_ones() -> None:
    factored, flat = FactoredAction(made(mask=None)), made(mask=None)
    rng = np.random.default_rng(0)
    for seed in range(4):
        first, second = factored.reset(seed=seed), flat.reset(seed=seed)
        over = False
        while not over:
            np.testing.assert_array_equal(first[0], second[0])
            action = rng.integers([2, 1, 2])
            first, second = factored.step(action), flat.step(factored.action(action))
            assert first[1:4] == second[1:4]
            assert first[4].keys() == second[4].keys()
            assert first[4]["deployment"] == second[4]["deployment"]
            over = first[2]


def test_the_flat_mask_is_reachable_and_folds_into_factors() -> None:
    env = FactoredAction(made())
    for seed in range(10):
        _, info = env.reset(seed=seed)
        mask = env.get_wrapper_attr("action_masks")()
        assert np.array_equal(mask, info["action_mask"])
        folded = mask.reshape(env.action_space.nvec)  # type: ignore[attr-defined]
        for action in np.ndindex(*folded.shape):
            assert folded[action] == mask[env.action(action)]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ((2, 0, 0), "model 2 does not exist; choose from 0 to 1"),
        ((0, -1, 0), "GPU -1"),
        ((0, 0, 2), "region 2"),
        ((0.0, 0.0, 0.0), "three integers"),
        ((0, 0), "three integers"),
        (1, "three integers"),
    ],
)
def test_actions_that_are_none_change_nothing(action: Any, said: str) -> None:
    env, untouched = FactoredAction(made(mask=None)), FactoredAction(made(mask=None))
    env.reset(seed=3)
    untouched.reset(seed=3)
    with pytest.raises(ValueError, match=said):
        env.step(action)
    np.testing.assert_array_equal(env.step((1, 0, 1))[0], untouched.step((1, 0, 1))[0])


@pytest.mark.parametrize("observation", ["flat", "dict"])
@pytest.mark.parametrize("env_id", IDS)
def test_the_mask_in_the_observation_is_its_own(env_id: str, observation: str) -> None:
    env = DictMaskObservation(made(env_id, observation=observation), "obs", "mask")
    inner = made(env_id, observation=observation)
    rng = np.random.default_rng(1)
    found, info = env.reset(seed=2)
    expected, _ = inner.reset(seed=2)
    for _ in range(8):
        assert found in env.observation_space
        assert list(found) == ["obs", "mask"]
        assert found["mask"].dtype == np.int8
        assert np.array_equal(found["mask"], info["action_mask"])
        assert not np.shares_memory(found["mask"], info["action_mask"])
        assert np.array_equal(found["mask"], inner.unwrapped.action_masks())
        for name in expected if observation == "dict" else [...]:
            np.testing.assert_array_equal(found["obs"][name], expected[name])
        kept = copy.deepcopy(found)
        action = int(rng.choice(np.flatnonzero(found["mask"])))
        before = found
        found, *_, terminated, truncated, info = env.step(action)
        expected, *_ = inner.step(action)
        np.testing.assert_array_equal(before["mask"], kept["mask"])
        if terminated or truncated:
            break


def test_defaults_are_rllibs_names() -> None:
    space = DictMaskObservation(made()).observation_space
    assert isinstance(space, spaces.Dict)
    assert set(space) == {"observations", "action_mask"}
    assert space["observations"].dtype == np.float32
    assert space["action_mask"] == spaces.Box(0, 1, (4,), np.int8)


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasiums_checker_is_content(env_id: str) -> None:
    for observation in ("flat", "dict"):
        assert_checked(FactoredAction(made(env_id, observation=observation)))
        assert_checked(DictMaskObservation(made(env_id, observation=observation)))
    assert_checked(DictMaskObservation(FactoredAction(made(env_id))))


def wrapped() -> Any:
    return DictMaskObservation(FactoredAction(made()), obs_key="obs")


def test_specs_keep_the_wrappers() -> None:
    env = wrapped()
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = gymnasium.make(spec)
    assert again.observation_space == env.observation_space
    assert again.action_space == env.action_space
    assert again.spec.to_json() == env.spec.to_json()
    found, expected = again.reset(seed=1)[0], env.reset(seed=1)[0]
    np.testing.assert_array_equal(found["obs"], expected["obs"])


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"]
)
def test_wrapped_environments_are_copied(copied: Any) -> None:
    env = wrapped()
    env.reset(seed=1)
    other = copied(env)
    for action in ((0, 0, 1), (1, 0, 0)):
        found, reward, *_ = other.step(action)
        expected, same, *_ = env.step(action)
        assert reward == same
        np.testing.assert_array_equal(found["obs"], expected["obs"])
        np.testing.assert_array_equal(found["action_mask"], expected["action_mask"])


def test_vectors_of_wrapped_environments() -> None:
    env = gymnasium.vector.SyncVectorEnv([wrapped] * 2)
    found, _ = env.reset(seed=0)
    assert found["obs"].shape[0] == 2
    assert found["action_mask"].shape == (2, 4)
    env.step(env.action_space.sample())


def test_wrong_uses_are_said() -> None:
    cart = gymnasium.make("CartPole-v1")
    for wrapper in (FactoredAction, DictMaskObservation):
        with pytest.raises(InputError, match="carbon_gym"):
            wrapper(cart)
    with pytest.raises(InputError, match="MultiDiscrete"):
        FactoredAction(FactoredAction(made()))
    with pytest.raises(InputError, match="two names"):
        DictMaskObservation(made(), "same", "same")
    with pytest.raises(InputError, match="obs_key"):
        DictMaskObservation(made(), "")
