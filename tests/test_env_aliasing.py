"""What a caller keeps never changes, and environments share nothing that changes."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import fields
from typing import Any

import gymnasium
import numpy as np
import pytest
from env_play import lanes_trajectory
from env_worlds import (
    TINY_BUDGET,
    equal,
    fleet,
    scalar,
    trajectory,
    vector,
)

MODES = ("NextStep", "SameStep", "Disabled")
both = pytest.mark.parametrize("make", [scalar, fleet])
SHORT = {"max_turns": 6}


@both
@pytest.mark.parametrize("form", ["flat", "dict"])
def test_what_is_kept_never_changes(make: Any, form: str) -> None:
    env = make(observation=form, **SHORT)
    kept = trajectory(env, 0, 0)
    frozen = copy.deepcopy(kept)
    for seed in range(4):
        more = trajectory(env, seed, 12)
        kept += more
        frozen += copy.deepcopy(more)
        masks = env.action_masks()
        kept.append(masks)
        frozen.append(masks.copy())
    assert equal(kept, frozen)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", ["flat", "dict"])
def test_what_is_kept_of_lanes_never_changes(mode: str, form: str) -> None:
    env = vector(4, observation=form, autoreset_mode=mode, **SHORT)
    kept = lanes_trajectory(env, 0, 40)
    again = lanes_trajectory(vector(4, observation=form, autoreset_mode=mode, **SHORT), 0, 40)
    assert equal(kept, again), "kept by the caller while the environment went on"


@both
def test_writing_into_what_was_returned_changes_nothing(make: Any) -> None:
    env, twin = make(**SHORT), make(**SHORT)
    rng = np.random.default_rng(0)
    for it in (env, twin):
        it.reset(seed=0)
    for _ in range(40):
        action = int(rng.integers(env.action_space.n))
        found, expected = env.step(action), twin.step(action)
        assert equal(found, expected)
        scribble(found)
        scribble(env.action_masks())
        if expected[2] or expected[3]:
            scribble(env.reset())
            twin.reset()


@pytest.mark.parametrize("mode", MODES)
def test_writing_into_what_lanes_returned_changes_nothing(mode: str) -> None:
    arguments = {"autoreset_mode": mode, **SHORT}
    clean = lanes_trajectory(vector(3, **arguments), 0, 40)
    dirty = lanes_trajectory(vector(3, **arguments), 0, 40, after=scribble)
    assert equal(clean, dirty)


def scribble(value: Any) -> None:
    """Write into every array inside."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for it in value:
            scribble(it)
    elif isinstance(value, np.ndarray) and value.flags.writeable:
        value[...] = 0 if value.any() else 1


def test_actions_and_quotes_belong_to_the_caller() -> None:
    env, twin = vector(3), vector(3)
    for it in (env, twin):
        it.reset(seed=0)
    actions = np.array([0, 1, 2])
    found, expected = env.step(actions), twin.step(np.array([0, 1, 2]))
    assert actions.tolist() == [0, 1, 2]
    quotes = env.quotes
    for array in (quotes.co2_g, quotes.cached_tokens, quotes.available, quotes.unit_available):
        array[...] = 0
    quotes.model_admissible[...] = True
    actions[...] = 3
    assert equal(found, expected)
    assert equal(env.step([3, 3, 3]), twin.step([3, 3, 3]))


@both
def test_environments_of_one_configuration_share_nothing_mutable(make: Any) -> None:
    weights = {"quality": 3.0, "capacity": 2.0}
    arguments = {**TINY_BUDGET, "weights": weights, "mask": None}
    alone = trajectory(make(**copy.deepcopy(arguments)), 1, 40)
    one, two = make(**arguments), make(**arguments)
    weights["quality"] = 100.0  # edited afterwards
    found_one, found_two = [one.reset(seed=1)], [two.reset(seed=2)]
    rng = np.random.default_rng(1)
    for _ in range(40):  # interleaved
        found_one.append(one.step(int(rng.integers(4))))
        found_two.append(two.step(0))
        if found_one[-1][2] or found_one[-1][3]:
            found_one.append(one.reset())
        if found_two[-1][2] or found_two[-1][3]:
            two.reset()
    assert equal(found_one, alone)
    spec = gymnasium.make("CarbonRouting-v0", **arguments).spec
    assert spec is not None
    assert spec.kwargs["weights"]["quality"] == 100.0
    assert vars(gymnasium.registry["CarbonRouting-v0"])["kwargs"] == {}


def test_what_environments_share_of_a_world_is_never_written() -> None:
    """Scalar, vector and fleet environments of one world: its arrays stay as they were."""
    for options in ({}, {"background": "faircarbon", "scenario": "congested", "fleets": 1}):
        env = scalar(**options)
        before = digest_of(env.world)
        trajectory(env, 0, 60)
        trajectory(fleet(**options), 0, 60)
        lanes_trajectory(vector(5, **options), 0, 30)
        assert digest_of(scalar(**options).world) == before


def fleet_arrays(deployments: Any) -> list[Any]:
    return [getattr(deployments, field.name) for field in fields(deployments)]


def digest_of(world: Any) -> str:
    digest = hashlib.sha256()
    tables = [*world.session_turns, world.session_context, world.first]
    tables += [*world.fleet_turns(0)[0], world.fleet_turns(0)[1], *fleet_arrays(world.fleet)]
    tables += [world.background.deployment, world.background.others, world.background.co2_g]
    for table in tables:
        if isinstance(table, np.ndarray):
            digest.update(table.tobytes())
    return digest.hexdigest()


@both
def test_reset_gives_what_a_fresh_environment_gives(make: Any) -> None:
    fresh = trajectory(make(), 7, 30)
    for steps in (0, 1, 5, 23):
        used = make()
        trajectory(used, 3, steps)
        assert equal(trajectory(used, 7, 30), fresh)


@pytest.mark.parametrize("mode", MODES)
def test_reset_of_lanes_gives_what_fresh_ones_give(mode: str) -> None:
    fresh = lanes_trajectory(vector(3, autoreset_mode=mode), 7, 30)
    for steps in (0, 1, 5, 23):
        used = vector(3, autoreset_mode=mode)
        lanes_trajectory(used, 3, steps)
        assert equal(lanes_trajectory(used, 7, 30), fresh), steps
