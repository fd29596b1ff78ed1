"""Terms of one's own in the reward."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

import carbon_gym  # noqa: F401 (registers)
from carbon_gym.errors import InputError
from carbon_gym.wrappers import FactoredAction, RewardTerm, VectorRewardTerm

SCALE = 1e4
NAME = "reward_energy"


def energy(info: Any) -> Any:
    return -SCALE * info["energy_kwh"]


def made(**arguments: Any) -> Any:
    return gymnasium.make("CarbonRouting-v0", scenario="tiny", fleets=1, **arguments)


def vector(lanes: int = 6, **arguments: Any) -> Any:
    return gymnasium.make_vec(
        "CarbonRouting-v0", num_envs=lanes, scenario="tiny", fleets=1, **arguments
    )


def test_the_reward_gains_the_term_and_is_still_the_sum_of_its_terms() -> None:
    plain, own = made(), RewardTerm(made(), NAME, energy)
    plain.reset(seed=3)
    own.reset(seed=3)
    over = False
    while not over:
        action = plain.unwrapped.quotes.cheapest()[0]
        _, before, *_ = plain.step(action)
        _, reward, terminated, truncated, info = own.step(action)
        assert info[NAME] == -SCALE * info["energy_kwh"] < 0
        assert reward == pytest.approx(before + info[NAME])
        terms = [value for key, value in info.items() if key.startswith("reward_")]
        assert reward == pytest.approx(sum(terms))
        assert isinstance(reward, float)
        over = terminated or truncated


def test_terms_add_up_and_go_with_other_wrappers() -> None:
    env = RewardTerm(RewardTerm(made(), NAME, energy), "reward_constant", lambda info: 0.5)
    env.reset(seed=0)
    action = env.unwrapped.quotes.cheapest()[0]
    _, reward, _, _, info = env.step(action)
    terms = [value for key, value in info.items() if key.startswith("reward_")]
    assert info["reward_constant"] == 0.5
    assert reward == pytest.approx(sum(terms))
    assert RewardTerm(FactoredAction(made()), NAME, energy).action_space.shape == (3,)
    assert pickle.loads(pickle.dumps(RewardTerm(made(), NAME, energy))).reset(seed=0)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("copy", [True, False])
def test_a_lane_gets_what_the_scalar_environment_gets(mode: str, copy: bool) -> None:
    lanes = 6
    plain = vector(lanes, autoreset_mode=mode)
    own = VectorRewardTerm(vector(lanes, autoreset_mode=mode, copy=copy), NAME, energy)
    plain.reset(seed=0)
    own.reset(seed=0)
    waited = ended = 0
    for _ in range(25):
        actions = plain.unwrapped.quotes.cheapest()
        _, before, *_ = plain.step(actions)
        _, rewards, terminated, _, info = own.step(actions)
        served = info["_co2_g"]
        np.testing.assert_array_equal(info["_" + NAME], served)
        assert (info[NAME][~served] == 0).all()
        np.testing.assert_allclose(info[NAME][served], -SCALE * info["energy_kwh"][served])
        np.testing.assert_allclose(rewards, before + info[NAME])
        waited += int((~served).sum())
        if mode == "SameStep" and terminated.any():
            last = info["final_info"]
            np.testing.assert_array_equal(last["_" + NAME], terminated)
            np.testing.assert_array_equal(last[NAME], info[NAME])
        ended += int(terminated.sum())
    assert ended
    assert (waited > 0) == (mode == "NextStep")


def test_the_same_term_in_both_forms() -> None:
    one, many = RewardTerm(made(), NAME, energy), VectorRewardTerm(vector(1), NAME, energy)
    one.reset(seed=7)
    many.reset(seed=7)
    action = one.unwrapped.quotes.cheapest()
    assert one.step(action[0])[1] == pytest.approx(many.step(action)[1][0])


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_term_needs_a_name(name: Any) -> None:
    with pytest.raises(InputError, match="name the term"):
        RewardTerm(made(), name, energy)


@pytest.mark.parametrize("name", ["reward_co2", "action_mask"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    for env, action in (
        (RewardTerm(made(), name, energy), 0),
        (VectorRewardTerm(vector(2), name, energy), np.zeros(2, dtype=np.int64)),
    ):
        env.reset(seed=0)
        with pytest.raises(InputError, match=f"info has a key '{name}' already"):
            env.step(action)


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (lambda info: float("nan"), "not finite"),
        (lambda info: np.zeros(5), r"shape \(5,\)"),
    ],
)
def test_a_value_that_is_none_is_refused(term: Any, said: str) -> None:
    env, envs = RewardTerm(made(), NAME, term), VectorRewardTerm(vector(2), NAME, term)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=said):
        env.step(0)
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=said):
        envs.step(np.zeros(2, dtype=np.int64))
