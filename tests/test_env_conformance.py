"""Gymnasium's contract: spaces, flags, masks, actions."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_worlds import TINY, TINY_BUDGET, equal, fleet, scalar, vector
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import carbon_gym
from carbon_gym.envs.information import INDEX_KEY, NAME_KEY, OUTCOME_KEYS, STEP_KEYS

IDS = ("CarbonRouting-v0", "CarbonRoutingFleet-v0")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"observation": "dict"},
    {"mask": "room"},
    {"mask": None},
    {"quality_constraint": "filter"},
    {"quality_constraint": "budget", "quality_target": 0.6},
    {"weights": {"quality": 0.0, "capacity": 2.5}},
    {"max_turns": 3},
    {"background": "faircarbon"},
    {"background": "ccar", "observation": "dict", "mask": None},
    {"split": "test", "co2_scale_g": None},
]
MAKERS = (scalar, fleet)
both = pytest.mark.parametrize("make", MAKERS)


# ------------------------------------------------------------------------------ the checker


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_checker_has_nothing_to_say(name: str, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(name, **{**TINY, **options})
        check_env(env.unwrapped, skip_render_check=True)
        observation, _ = env.reset(seed=0)
        assert env.observation_space.contains(observation)
        for _ in range(3):
            env.action_space.seed(1)
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()


@pytest.mark.parametrize("name", IDS)
def test_a_spec_is_json_and_makes_the_same_environment(name: str) -> None:
    env = gymnasium.make(name, **TINY_BUDGET, weights={"ttft": 2.0})
    assert env.spec is not None
    text = env.spec.to_json()
    json.loads(text)
    again = gymnasium.make(EnvSpec.from_json(text))
    assert equal(again.reset(seed=3)[0], env.reset(seed=3)[0])
    assert gymnasium.make(f"carbon_gym:{name}", **TINY).spec is not None


def test_gymnasium_vectorises_both() -> None:
    for name in IDS:
        env = gymnasium.make_vec(name, num_envs=2, vectorization_mode="sync", **TINY)
        observation, info = env.reset(seed=0)
        assert observation.shape[0] == info["action_mask"].shape[0] == 2
        env.step(env.action_space.sample())
        env.close()


def test_importing_again_registers_nothing_twice() -> None:
    before = {name: gymnasium.registry[name] for name in IDS}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.reload(carbon_gym)
        importlib.reload(carbon_gym)
    assert all(gymnasium.registry[name] is before[name] for name in IDS)
    for name in IDS:
        entries = (before[name].entry_point, before[name].vector_entry_point)
        assert all(entry is None or isinstance(entry, str) for entry in entries)


def test_importing_is_light() -> None:
    heavy = ["torch", "stable_baselines3", "sklearn", "pandas", "matplotlib", "numba", "pydantic"]
    code = (
        "import sys, carbon_gym, gymnasium\n"
        "assert 'CarbonRouting-v0' in gymnasium.registry\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------- episodes


def length_of(env: Any, **reset: Any) -> tuple[int, bool, bool]:
    """Steps of an episode and its last flags."""
    env.reset(**reset)
    steps = 0
    while True:
        *_, terminated, truncated, _ = env.step(0)
        steps += 1
        if terminated or truncated:
            return steps, terminated, truncated


def test_a_conversation_of_n_turns_is_n_steps() -> None:
    env = scalar()
    turns = np.diff(env.world.first)
    assert turns.min() == 1
    assert turns.max() > 5
    for session, count in enumerate(turns):
        found = length_of(env, options={"session": session})
        assert found == (count, True, False)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_max_turns_truncates_below_the_length_only(limit: int) -> None:
    env = scalar(max_turns=limit)
    turns = np.diff(env.world.first)
    assert (turns == limit).any()
    for session, count in enumerate(turns):
        expected = (count, True, False) if count <= limit else (limit, False, True)
        assert length_of(env, options={"session": session}) == expected
    lanes = vector(len(turns), max_turns=limit, autoreset_mode="Disabled")
    lanes.reset(options={"session": np.arange(len(turns))})
    ended = np.zeros(len(turns), dtype=bool)
    for step in range(1, limit + 1):
        if ended.any():  # lanes that ended wait for their reset
            lanes.reset(options={"session": np.arange(len(turns)), "reset_mask": ended})
            break
        _, _, terminated, truncated, _ = lanes.step(np.zeros(len(turns), dtype=int))
        assert np.array_equal(terminated, turns == step)
        assert np.array_equal(truncated, (turns > step) & (step == limit))
        ended = terminated | truncated


def test_a_truncated_observation_is_the_next_turns() -> None:
    cut, whole = scalar(max_turns=2), scalar()
    session = int(np.argmax(np.diff(cut.world.first) > 3))
    for env in (cut, whole):
        env.reset(options={"session": session})
        env.step(1)
    after_cut, after = cut.step(2), whole.step(2)
    assert after_cut[2:4] == (False, True)
    assert after[2:4] == (False, False)
    assert np.array_equal(after_cut[0], after[0])
    assert equal(after_cut[4], after[4])


def test_a_terminal_observation_is_the_last_turns_without_costs() -> None:
    env = scalar()
    before, _ = env.reset(options={"session": 0})
    done = False
    while not done:
        mask = env.action_masks()
        after, _, done, _, info = env.step(0)
        if not done:
            before = after
    costs = env.layout.slices["deployments"]
    assert np.array_equal(after[: costs.start], before[: costs.start])
    assert not after[costs].any()
    assert np.array_equal(info["action_mask"], mask)


def test_max_episode_steps_of_gymnasium_is_honoured() -> None:
    env = gymnasium.make("CarbonRouting-v0", **TINY, max_episode_steps=2)
    turns = np.diff(env.unwrapped.world.first)
    for count, flags in ((1, (True, False)), (2, (True, True)), (4, (False, True))):
        session = int(np.argmax(turns == count))
        assert length_of(env, options={"session": session}) == (min(count, 2), *flags)
    lanes = gymnasium.make_vec("CarbonRouting-v0", num_envs=2, **TINY, max_episode_steps=2)
    sessions = [int(np.argmax(turns == count)) for count in (2, 4)]
    lanes.reset(options={"session": sessions})
    lanes.step([0, 0])
    _, _, terminated, truncated, _ = lanes.step([0, 0])
    assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, True])


def test_a_window_is_truncated_at_its_end() -> None:
    env = fleet(window_s=3600.0)
    arrival_s = env.world.evaluation.traces[0].arrival_s
    for seed in range(20):
        _, info = env.reset(seed=seed)
        steps, terminated, truncated = length_of(env, options={"start": info["start"]})
        start_s = np.datetime64(info["start"][:-6]).astype("datetime64[us]").astype(float) / 1e6
        start_s -= env.world.evaluation.traces[0].origin_unix_s
        expected = ((arrival_s >= start_s) & (arrival_s < start_s + 3600.0)).sum()
        assert (steps, terminated, truncated) == (expected, False, True)


@pytest.mark.parametrize("window_s", [1e-9, 0.5, 1.0, 1e9])
def test_windows_of_one_turn_and_of_the_whole_day(window_s: float) -> None:
    env = fleet(window_s=window_s)
    turns = env.world.evaluation.traces[0].turns
    for seed in range(10):
        steps, *flags = length_of(env, seed=seed)
        assert flags == [False, True]
        assert 1 <= steps <= turns
        if window_s > 1e6:
            assert steps == turns


def test_a_start_named_in_info_is_the_same_window() -> None:
    env = fleet(scenario="sharegpt", window_s=60.0)
    for seed in range(5):
        first, info = env.reset(seed=seed)
        again, info_again = env.reset(options={"start": info["start"]})
        assert info_again["start"] == info["start"]
        assert np.array_equal(first, again)


@both
def test_a_step_after_the_end_or_before_reset_is_refused(make: Any) -> None:
    env = make(max_turns=2)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)
    with pytest.raises(RuntimeError, match="reset"):
        _ = env.quotes
    length_of(env, seed=0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="over"):
            env.step(0)
    env.reset()
    env.step(0)
    env.close()
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)


# -------------------------------------------------------------------------- masks and actions


@both
@pytest.mark.parametrize("mask", ["feasible", "room", None])
def test_masks_belong_to_their_observation(make: Any, mask: str | None) -> None:
    env = make(mask=mask, max_turns=30)
    assert env.action_masks().dtype == np.bool_
    assert env.action_masks().all()
    rng = np.random.default_rng(0)
    for seed in range(15):
        _, info = env.reset(seed=seed)
        ended = False
        while not ended:
            said, given = env.action_masks(), info["action_mask"]
            assert (said.dtype, given.dtype) == (np.bool_, np.int8)
            assert np.array_equal(said, given == 1)
            quotes = env.quotes
            if mask is None:
                expected = np.ones(len(said), dtype=bool)
            else:
                expected = (quotes.feasible if mask == "feasible" else quotes.available)[0].copy()
            if not expected.any():
                expected[quotes.cheapest()[0]] = True
            assert np.array_equal(said, expected)
            action = int(rng.integers(len(said)))
            *_, terminated, truncated, info = env.step(action)
            assert info["masked"] == (not said[action])
            ended = terminated or truncated


@both
def test_actions_of_every_integer_kind_are_one_action(make: Any) -> None:
    env, expected = make(), None
    kinds: list[Any] = [int, np.int32, np.int64, np.uint8, np.array]
    kinds += [lambda a: np.array([a]), lambda a: np.array(a, dtype=np.int16)]
    for kind in kinds:
        env.reset(seed=5)
        found = env.step(kind(2))
        assert expected is None or equal(found, expected)
        expected = found
    assert expected is not None
    _, reward, terminated, truncated, info = expected
    assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
    for key in (*OUTCOME_KEYS, *STEP_KEYS, INDEX_KEY):
        assert type(info[key.name]) is key.dtype, key.name
    assert set(info) == {key.name for key in (*OUTCOME_KEYS, *STEP_KEYS, INDEX_KEY, NAME_KEY)} | {
        "action_mask",
        "session",
    }


@both
@pytest.mark.parametrize(
    "action", [4, -1, 2**70, 0.0, np.float32(1), "1", None, [1, 2], np.zeros((2, 2), int), np.nan]
)
def test_an_action_that_is_no_deployment_changes_nothing(make: Any, action: Any) -> None:
    env, twin = make(), make()
    for it in (env, twin):
        it.reset(seed=1)
        it.step(0)
    with pytest.raises(ValueError, match=r"0 to 3|one integer"):
        env.step(action)
    assert equal(env.step(3), twin.step(3))


@pytest.mark.parametrize(
    "actions",
    [[0, 4], [-1, 0], [0.0, 1.0], 0, [0, 0, 0], [True, False], np.array([0, 2**63], np.uint64)],
)
def test_wrong_actions_of_lanes_change_nothing(actions: Any) -> None:
    env, twin = vector(2), vector(2)
    for it in (env, twin):
        it.reset(seed=1)
        it.step([0, 1])
    with pytest.raises(ValueError, match=r"0 to 3|integers of shape"):
        env.step(actions)
    assert equal(env.step([3, 2]), twin.step([3, 2]))


def test_a_policy_answers_for_lanes_that_ended_too() -> None:
    """It says -1 there, and such a lane ignores its action."""
    for mode in ("NextStep", "SameStep"):
        env = vector(16, autoreset_mode=mode, quality_constraint="filter")
        env.reset(seed=0)
        for _ in range(30):
            env.step(env.quotes.cheapest())
