"""The environment as Stable-Baselines3 sees it."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="the train extra is not installed")
pytest.importorskip("sb3_contrib", reason="the train extra is not installed")

from env_worlds import TINY
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecCheckNan,
    VecMonitor,
    VecNormalize,
)

import carbon_gym
from agents import CarbonVecEnv
from agents.env_share import ppo_env_share

LANES = 5
SMALL: dict[str, Any] = {"n_steps": 32, "batch_size": 64, "n_epochs": 2, "seed": 0}


@pytest.fixture
def venv() -> Iterator[CarbonVecEnv]:
    made = CarbonVecEnv(LANES, seed=3, **TINY)
    yield made
    made.close()


def of_scalars(lanes: int, **arguments: Any) -> DummyVecEnv:
    """What SB3 itself makes of scalar environments."""

    def make() -> Any:
        return Monitor(gymnasium.make("CarbonRouting-v0", **{**TINY, **arguments}))

    return DummyVecEnv([make] * lanes)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return np.array_equal(one, other) and one.dtype == other.dtype and one.shape == other.shape


def random_allowed(venv: Any, rng: np.random.Generator) -> Any:
    masks = get_action_masks(venv)
    return np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"observation": "dict"},
        {"mask": None},
        {"max_turns": 2},
        {"max_turns": 3, "observation": "dict", "mask": "room"},
    ],
    ids=str,
)
def test_lanes_are_scalar_environments_bit_for_bit(arguments: dict[str, Any]) -> None:
    ours = CarbonVecEnv(LANES, **{**TINY, **arguments})
    theirs = of_scalars(LANES, **arguments)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.seed(11) == theirs.seed(11)
    assert same(ours.reset(), theirs.reset())
    rng = np.random.default_rng(0)
    ended = cut = 0
    for _ in range(60):
        masks = get_action_masks(ours)
        assert same(masks, get_action_masks(theirs))
        assert [info["session"] for info in ours.reset_infos] == [
            info["session"] for info in theirs.reset_infos
        ]
        actions = rng.integers(0, ours.action_space.n, LANES)
        observed, rewards, dones, infos = ours.step(actions)
        their_observed, their_rewards, their_dones, their_infos = theirs.step(actions)
        assert same(observed, their_observed)
        assert same(rewards, their_rewards)
        assert same(dones, their_dones)
        for lane in range(LANES):
            if not dones[lane]:
                assert infos[lane] == {}
                continue
            info, their_info = infos[lane], their_infos[lane]
            assert same(info["terminal_observation"], their_info["terminal_observation"])
            assert info["TimeLimit.truncated"] is their_info["TimeLimit.truncated"]
            assert info["episode"]["l"] == their_info["episode"]["l"]
            assert info["episode"]["r"] == pytest.approx(their_info["episode"]["r"], abs=1e-6)
            ended, cut = ended + 1, cut + info["TimeLimit.truncated"]
    assert ended > LANES
    assert (cut > 0) == ("max_turns" in arguments)
    assert cut < ended


def test_episode_info_is_the_sum_of_its_turns() -> None:
    venv = CarbonVecEnv(LANES, seed=0, **TINY)
    venv.reset()
    rng = np.random.default_rng(1)
    total, turns, co2_g = np.zeros(LANES), np.zeros(LANES, dtype=int), np.zeros(LANES)
    for _ in range(80):
        *_, dones, infos = venv.step(random_allowed(venv, rng))
        total += venv.env.lanes.reward
        co2_g += venv.env._desk.ledger["co2_g"]
        turns += 1
        for lane in np.flatnonzero(dones):
            episode = infos[lane]["episode"]
            assert (episode["r"], episode["l"], episode["co2_g"]) == (
                total[lane],
                turns[lane],
                co2_g[lane],
            )
            assert episode["t"] >= 0.0
            assert [type(episode[key]) for key in ("r", "l", "t", "co2_g")] == [
                float,
                int,
                float,
                float,
            ]
        total[dones], turns[dones], co2_g[dones] = 0.0, 0, 0.0


def test_nothing_returned_ever_changes(venv: CarbonVecEnv) -> None:
    kept: list[tuple[Any, Any]] = []
    rng = np.random.default_rng(2)
    first = venv.reset()
    kept.append((first, first.copy()))
    infos: list[dict[str, Any]] = []
    for _ in range(30):
        masks, at_reset = venv.action_masks(), venv.reset_infos[0]
        *step, infos = venv.step(random_allowed(venv, rng))
        for value in (masks, at_reset, *step, infos):
            kept.append((value, copy.deepcopy(value)))
        # A consumer that writes into what it got reaches no other lane and no later step.
        infos[0]["mine"] = 1
        kept[-1] = (infos, copy.deepcopy(infos))
        assert not any("mine" in info for info in infos[1:])
        step[1] += 100.0
        kept[-3] = (step[1], step[1].copy())
    for value, before in kept:
        np.testing.assert_equal(value, before)
    terminal = [info["terminal_observation"] for info in infos if info and len(info) > 1]
    assert not any(np.shares_memory(a, b) for a, b in itertools.combinations(terminal, 2))
    *_, infos = venv.step(random_allowed(venv, rng))
    assert "mine" not in infos[0]


def test_seeds_are_used_once_at_the_next_reset() -> None:
    one, other = CarbonVecEnv(LANES, seed=5, **TINY), CarbonVecEnv(LANES, **TINY)
    other.seed(5)
    first = one.reset()
    assert same(first, other.reset())
    second = one.reset()
    assert not same(first, second)
    assert same(second, other.reset())
    assert one.seed(5) == [5, 6, 7, 8, 9]
    assert same(first, one.reset())
    state = np.random.get_state()[1].copy()  # noqa: NPY002 (it must stay as it is)
    assert one.seed(None) != one.seed(None)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_options_name_the_conversations(venv: CarbonVecEnv) -> None:
    venv.set_options({"session": 7})
    venv.reset()
    assert venv.reset_infos == [{"session": 7}] * LANES
    venv.set_options([{"session": k} for k in range(LANES)])
    venv.reset()
    assert [info["session"] for info in venv.reset_infos] == list(range(LANES))
    venv.reset()
    assert [info["session"] for info in venv.reset_infos] != list(range(LANES))
    venv.set_options([{"session": 1}] + [{}] * (LANES - 1))
    with pytest.raises(ValueError, match=r"options of lane 1 are \{\}; give every lane"):
        venv.reset()


def test_masks_are_found(venv: CarbonVecEnv) -> None:
    assert is_masking_supported(venv)
    assert venv.action_masks().all()  # before reset
    venv.reset()
    masks = venv.action_masks()
    assert masks.dtype == np.bool_
    assert masks.shape == (LANES, 4)
    assert np.array_equal(np.stack(venv.env_method("action_masks")), masks)
    assert np.array_equal(venv.env_method("action_masks", indices=[2, 0]), masks[[2, 0]])
    assert np.array_equal(venv.env_method("action_masks", indices=1), masks[[1]])
    assert np.array_equal(venv.get_attr("action_masks")[1](), masks[1])
    wrapped = VecNormalize(VecMonitor(DummyMonitorless(venv)), norm_obs=False)
    assert np.array_equal(get_action_masks(wrapped), masks)


class DummyMonitorless(VecCheckNan):
    """Says that no lane has a Monitor, so that `VecMonitor` does not warn."""

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def test_lanes_answer_as_environments(venv: CarbonVecEnv) -> None:
    assert venv.get_attr("render_mode") == [None] * LANES
    assert venv.get_attr("layout", indices=0)[0].size == venv.observation_space.shape[0]
    assert venv.get_attr("action_space", indices=[1, 2]) == [venv.action_space] * 2
    assert venv.has_attr("slots")
    assert not venv.has_attr("cartpole")
    assert venv.env_is_wrapped(Monitor) == [True] * LANES
    assert venv.env_is_wrapped(gymnasium.wrappers.TimeLimit, indices=0) == [False]
    with pytest.raises(AttributeError, match="'max_turns' cannot be set"):
        venv.set_attr("max_turns", 3)
    with pytest.raises(AttributeError, match="lanes have no attribute 'step'"):
        venv.env_method("step", 0)
    assert venv.get_images() == [None] * LANES


def test_wrong_calls_are_said(venv: CarbonVecEnv) -> None:
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        venv.step(np.zeros(LANES, dtype=np.int64))
    venv.reset()
    with pytest.raises(ValueError, match="lane 0: deployment 4 does not exist"):
        venv.step(np.full(LANES, 4))


def test_it_pickles_and_goes_on(venv: CarbonVecEnv) -> None:
    venv.reset()
    rng = np.random.default_rng(3)
    for _ in range(5):
        venv.step(random_allowed(venv, rng))
    for twin in (pickle.loads(pickle.dumps(venv)), copy.deepcopy(venv)):
        actions = venv.action_masks().argmax(axis=1)
        before = venv.env.lanes.observation.copy()
        assert same(twin.env.lanes.observation, before)
        twin.step(actions)
        assert same(venv.env.lanes.observation, before)


@pytest.mark.parametrize("observation", ["flat", "dict"])
def test_ppo_learns_without_a_warning(observation: str) -> None:
    arguments = {**TINY, "observation": observation, "max_turns": 4}
    venv = VecCheckNan(CarbonVecEnv(4, **arguments))
    held_out = VecCheckNan(CarbonVecEnv(2, seed=1, **{**arguments, "split": "validation"}))
    model = PPO("MlpPolicy" if observation == "flat" else "MultiInputPolicy", venv, **SMALL)
    model.learn(400, callback=EvalCallback(held_out, eval_freq=50, verbose=0))
    assert model.ep_info_buffer is not None
    assert len(model.ep_info_buffer) > 10
    assert {"r", "l", "t", "co2_g"} <= model.ep_info_buffer[0].keys()


def test_maskable_ppo_learns_and_keeps_to_the_mask() -> None:
    class Watched(CarbonVecEnv):
        def step_async(self, actions: Any) -> None:
            assert self.action_masks()[np.arange(4), actions].all()
            super().step_async(actions)

    model = MaskablePPO("MlpPolicy", Watched(4, **TINY), **SMALL)
    held_out = CarbonVecEnv(2, seed=1, **TINY, split="validation")
    model.learn(400, callback=MaskableEvalCallback(held_out, eval_freq=50, verbose=0))


def test_ppo_learns_the_same_as_on_scalar_environments() -> None:
    def trained(venv: Any) -> Any:
        model = PPO("MlpPolicy", venv, **SMALL).learn(300)
        return model.policy.state_dict()

    ours, theirs = trained(CarbonVecEnv(4, **TINY)), trained(of_scalars(4))
    assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)


def test_wrappers_of_sb3_work() -> None:
    with pytest.warns(UserWarning, match="already wrapped with a `Monitor`"):
        monitored = VecMonitor(CarbonVecEnv(4, seed=0, **TINY))
    venv = VecNormalize(monitored)
    model = PPO("MlpPolicy", venv, **SMALL).learn(200)
    returns, lengths = evaluate_policy(
        model, CarbonVecEnv(3, seed=9, **TINY), n_eval_episodes=7, return_episode_rewards=True
    )
    assert len(returns) == len(lengths) == 7


@pytest.mark.parametrize("observation", ["flat", "dict"])
@pytest.mark.parametrize("mask", ["feasible", "room", None])
@pytest.mark.parametrize("name", ["CarbonRouting-v0", "CarbonRoutingFleet-v0"])
def test_the_checker_of_sb3_is_content(name: str, mask: str | None, observation: str) -> None:
    env = gymnasium.make(name, **TINY, mask=mask, observation=observation)
    check_env(env, warn=True)


def test_subprocesses_run_it_under_spawn() -> None:
    def make() -> Any:
        return gymnasium.make("carbon_gym:CarbonRouting-v0", **TINY)

    theirs = SubprocVecEnv([make] * 2, start_method="spawn")
    ours = CarbonVecEnv(2, **TINY)
    theirs.seed(4)
    ours.seed(4)
    assert same(ours.reset(), theirs.reset())
    for _ in range(5):
        actions = ours.action_masks().argmax(axis=1)
        assert same(ours.step(actions)[0], theirs.step(actions)[0])
    theirs.close()


def test_the_share_of_the_environment_is_a_share() -> None:
    ((share, turns_per_s),) = ppo_env_share(repeats=1, rollouts=1, **TINY)
    assert 0.0 < share < 1.0
    assert turns_per_s > 0.0


def test_importing_agents_loads_no_torch() -> None:
    code = (
        "import sys, agents; "
        "print([m for m in ('torch', 'stable_baselines3', 'numba') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
    assert carbon_gym.__name__ == "carbon_gym"
