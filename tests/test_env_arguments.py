"""What cannot be used is refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from env_worlds import fleet, scalar, vector

import carbon_gym
from carbon_gym.errors import InputError

both = pytest.mark.parametrize("make", [scalar, fleet])
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"scenario": "tinny"}, "tiny"),
    ({"split": "tests"}, "test"),
    ({"fleets": 0}, "fleets"),
    ({"fleets": 1.5}, "fleets"),
    ({"background": "fairkarbon"}, "faircarbon"),
    ({"background": None}, "reference"),
    ({"background": "clairvoyant"}, "bound"),
    ({"observation": "flatt"}, "flat"),
    ({"mask": "feasable"}, "feasible"),
    ({"mask": ["room"]}, "room"),
    ({"quality_constraint": "budgets"}, "budget"),
    ({"quality_target": 1.5}, "quality_target"),
    ({"quality_target": "high"}, "quality_target"),
    ({"weights": {"qualty": 1.0}}, "quality"),
    ({"weights": {"quality": -1.0}}, "quality"),
    ({"weights": {"quality": float("nan")}}, "quality"),
    ({"weights": {"quality": True}}, "quality"),
    ({"weights": 3}, "quality"),
    ({"co2_scale_g": 0.0}, "co2_scale_g"),
    ({"co2_scale_g": "much"}, "co2_scale_g"),
    ({"max_turns": 0}, "max_turns"),
    ({"max_turns": True}, "max_turns"),
    ({"max_turns": 2.0}, "max_turns"),
]


@both
@pytest.mark.parametrize(("argument", "named"), WRONG, ids=str)
def test_a_wrong_argument_is_said_in_one_sentence(
    make: Any, argument: dict[str, Any], named: str
) -> None:
    with pytest.raises(InputError) as error:
        make(**argument)
    text = str(error.value)
    assert named in text
    assert "\n" not in text
    if make is scalar:
        with pytest.raises(InputError):
            vector(2, **argument)


@pytest.mark.parametrize("value", ["x", 0, True, float("nan"), -1.0, float("inf")])
def test_a_wrong_window_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="window_s"):
        fleet(window_s=value)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"lanes": 0}, "num_envs"),
        ({"lanes": 2.5}, "num_envs"),
        ({"lanes": 2, "threads": 0}, "threads"),
        ({"lanes": 2, "autoreset_mode": "Never"}, "NextStep"),
        ({"lanes": 2, "render_mode": "ansi"}, "render_mode"),
    ],
    ids=str,
)
def test_a_wrong_argument_of_the_vector_environment(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        vector(**arguments)


def test_an_unknown_argument_is_refused() -> None:
    for make in (scalar, fleet, lambda **it: vector(2, **it)):
        with pytest.raises(TypeError, match="qualty"):
            make(qualty=1.0)


def test_a_scenario_without_conversations_is_refused() -> None:
    empty = carbon_gym.load_scenario("tiny", workload={"sessions_per_fleet": 0})
    for make in (scalar, fleet, lambda **it: vector(2, **it)):
        with pytest.raises(InputError, match="no conversation"):
            make(scenario=empty)


def test_wrong_options_of_a_reset_are_refused() -> None:
    env, lanes = scalar(), vector(2)
    for session in (40, -1, 1.0, True, "a", [], [0, 1], 2**70):
        with pytest.raises(ValueError, match="session"):
            env.reset(options={"session": session})
    for session in ([0, 40], [0, 1, 2], "ab"):
        with pytest.raises(ValueError, match="session"):
            lanes.reset(options={"session": session})
    for mask in ([1, 0], [True], np.ones((2, 1), dtype=bool)):
        with pytest.raises(ValueError, match="reset_mask"):
            lanes.reset(options={"reset_mask": mask})
    with pytest.raises(RuntimeError, match="every lane"):
        lanes.reset(options={"reset_mask": np.array([True, False])})
    for seed in ([1], [1, 2, 3], [-1, 0], [0.5, 1]):
        with pytest.raises(ValueError, match="seed"):
            lanes.reset(seed=seed)
    for it, key in ((env, "sesion"), (lanes, "sesion"), (fleet(), "session")):
        with pytest.raises(ValueError, match=key):
            it.reset(options={key: 1})
    for start in ("2021-07-02", "noon", True, float("nan"), 0, [1]):
        with pytest.raises(ValueError, match="start"):
            fleet().reset(options={"start": start})
