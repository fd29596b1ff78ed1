"""The same seed gives the same episodes, in scalar and in vector environments."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from env_play import lanes_trajectory
from env_worlds import (
    constraint_of,
    equal,
    fleet,
    make_for_a_process,
    random_scenario,
    scalar,
    trajectory,
    vector,
)
from gymnasium.vector import AutoresetMode, SyncVectorEnv

MODES = ("NextStep", "SameStep", "Disabled")
both = pytest.mark.parametrize("make", [scalar, fleet])


@both
def test_other_seeds_give_other_episodes(make: Any) -> None:
    env = make(scenario="sharegpt")
    firsts = [env.reset(seed=seed)[0].tobytes() for seed in range(30)]
    assert firsts[0] != firsts[1]
    assert len(set(firsts)) >= 29
    again = [env.reset(seed=seed)[0].tobytes() for seed in range(30)]
    assert firsts == again


@both
def test_reset_without_a_seed_goes_on(make: Any) -> None:
    env, twin = make(), make()
    runs = []
    for it in (env, twin):
        it.reset(seed=11)
        runs.append([it.reset()[0].tobytes() for _ in range(12)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 4
    unseeded = [[make().reset()[0].tobytes() for _ in range(3)] for _ in range(4)]
    assert len({tuple(run) for run in unseeded}) > 1


@both
def test_no_global_random_state_is_read_or_written(make: Any) -> None:
    found = []
    for state in (0, 1):
        random.seed(state)
        np.random.seed(state)  # noqa: NPY002
        before = (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
        env = make()
        found.append(trajectory(env, 5, 20))
        if make is scalar:
            lanes = vector(3)
            found[-1].append(lanes_trajectory(lanes, 5, 20))
            lanes.reset()
        make().reset()
        after = (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
        assert before == after
    assert equal(found[0], found[1])


@both
def test_the_action_space_draws_by_itself(make: Any) -> None:
    env = make()
    drawn = []
    for seed in (0, 1):
        env.reset(seed=seed)
        env.action_space.seed(9)
        drawn.append([int(env.action_space.sample()) for _ in range(20)])
        env.reset()
    assert drawn[0] == drawn[1]
    one, two = make(), make()
    two.action_space.seed(123)
    two.action_space.sample()
    assert equal(one.reset(seed=4), two.reset(seed=4))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("threads", "kept"), [(1, True), (2, True), (2, False), (1, False)])
@pytest.mark.parametrize("options", [{}, {"max_turns": 3}, {"scenario": "congested"}], ids=str)
def test_lanes_are_scalar_environments_bit_for_bit(
    mode: str, threads: int, kept: bool, options: dict[str, Any]
) -> None:
    lanes, seed = 5, 40
    env = vector(lanes, autoreset_mode=mode, threads=threads, copy=kept, mask="room", **options)
    assert_lanes_are_scalar(env, [scalar(mask="room", **options) for _ in range(lanes)], seed, mode)
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_lanes_are_scalar_environments_in_random_worlds(mode: str, tmp_path: Path) -> None:
    for seed in range(8):
        options = {
            "scenario": random_scenario(seed, tmp_path),
            "mask": (None, "feasible")[seed % 2],
        }
        options |= constraint_of(seed >= 4)
        env = vector(3, autoreset_mode=mode, observation="dict", **options)
        alone = [scalar(observation="dict", **options) for _ in range(3)]
        assert_lanes_are_scalar(env, alone, seed, mode)


def assert_lanes_are_scalar(env: Any, scalars: list[Any], seed: int, mode: str) -> None:
    """Steps both by the same random actions; every number of every lane is compared."""
    rng = np.random.default_rng(seed)
    lanes = len(scalars)
    observation, info = env.reset(seed=seed)
    ended = np.zeros(lanes, dtype=bool)
    for b, it in enumerate(scalars):
        alone, alone_info = it.reset(seed=seed + b)
        assert equal(lane_of(observation, b), alone)
        assert np.array_equal(info["action_mask"][b], alone_info["action_mask"])
        assert info["session"][b] == alone_info["session"]
    finished = 0
    for _ in range(40):
        if mode == "Disabled" and ended.any():
            observation, info = env.reset(options={"reset_mask": ended})
            for b in np.flatnonzero(ended):
                alone, alone_info = scalars[b].reset()
                assert equal(lane_of(observation, b), alone)
                assert np.array_equal(info["action_mask"][b], alone_info["action_mask"])
        actions = rng.integers(0, env.single_action_space.n, lanes)
        observation, reward, terminated, truncated, info = env.step(actions)
        before, ended = ended, terminated | truncated
        for b, it in enumerate(scalars):
            if mode == "NextStep" and before[b]:
                alone, alone_info = it.reset()
                assert (reward[b], ended[b], info["_co2_g"][b]) == (0.0, False, False)
            else:
                alone, gain, last, cut, alone_info = it.step(actions[b])
                assert (gain, last, cut) == (reward[b], terminated[b], truncated[b])
                for key, value in alone_info.items():
                    if key not in ("action_mask", "deployment", "session"):
                        assert info["_" + key][b]
                        assert info[key][b] == value, key
            if mode == "SameStep" and ended[b]:
                assert info["_final_obs"][b]
                assert equal(lane_of(info["final_obs"], b), alone)
                last_mask = info["final_info"]["action_mask"][b]
                assert np.array_equal(last_mask, alone_info["action_mask"])
                alone, alone_info = it.reset()
            elif mode == "SameStep" and ended.any():
                assert not info["_final_obs"][b]
            assert equal(lane_of(observation, b), alone)
            assert np.array_equal(info["action_mask"][b], alone_info["action_mask"])
            assert info["session"][b] == alone_info["session"]
            over = ended[b] and mode != "SameStep"
            for name in ("co2_g", "feasible", "unit_load", "session_key") if not over else ():
                assert np.array_equal(getattr(env.quotes, name)[b], getattr(it.quotes, name)[0])
            assert not (over and terminated[b]) or env.quotes.row[b] == -1
        assert np.array_equal(env.action_masks(), info["action_mask"] == 1)
        finished += ended.sum()
    assert finished > 0


def lane_of(observation: Any, b: int) -> Any:
    if isinstance(observation, dict):
        return {key: value[b] for key, value in observation.items()}
    return observation[b]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_lanes_are_gymnasiums_own_vector_environment(mode: AutoresetMode) -> None:
    """Its conventions of resets and of info too."""
    theirs = SyncVectorEnv([make_for_a_process] * 4, autoreset_mode=mode)
    ours = vector(4, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    assert equal(theirs.reset(seed=5), ours.reset(seed=5))
    finished = 0
    for _ in range(40):
        actions = rng.integers(0, 4, 4)
        *expected, info = theirs.step(actions)
        *found, own_info = ours.step(actions)
        assert equal(found, expected)
        ended = found[2] | found[3]
        finished += ended.sum()
        for key in set(info) & set(own_info) - {"final_obs", "final_info"}:
            if not key.startswith("_"):
                shown = info["_" + key]
                assert np.array_equal(info[key][shown], own_info[key][shown]), key
                assert own_info["_" + key][shown].all()
        if mode == AutoresetMode.SAME_STEP and ended.any():
            assert np.array_equal(info["_final_obs"], own_info["_final_obs"])
            for b in np.flatnonzero(ended):
                assert np.array_equal(info["final_obs"][b], own_info["final_obs"][b])
                for key in ("co2_g", "masked", "deployment_index"):
                    assert info["final_info"][key][b] == own_info[key][b]
        if mode == AutoresetMode.DISABLED and ended.any():
            begun = theirs.reset(options={"reset_mask": ended.copy()})
            assert equal(begun[0], ours.reset(options={"reset_mask": ended})[0])
    assert finished > 5


def test_lists_of_seeds_and_lanes_without_one() -> None:
    env = vector(4)
    named = lanes_reset(env, [3, 4, 5, 6])
    assert named == lanes_reset(vector(4), 3)
    assert lanes_reset(env, np.array([3, 4, 5, 6])) == named
    partly = vector(4, scenario="sharegpt")
    partly.reset(seed=[1, None, None, None])
    seen = [partly.step(np.zeros(4, int))[0].copy() for _ in range(40)]
    for a, b in ((1, 2), (2, 3), (0, 1)):
        assert any(not np.array_equal(it[a], it[b]) for it in seen), "lanes without a seed differ"
    again = vector(2)
    again.reset(seed=8)
    went_on = lanes_reset(again, [None, 8])
    assert went_on[1] == lanes_reset(vector(2), [0, 8])[1]


def lanes_reset(env: Any, seed: Any) -> list[int]:
    return [int(session) for session in env.reset(seed=seed)[1]["session"]]
