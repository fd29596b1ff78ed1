"""Observations stay inside their bounds, accounts add up, violations never pay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from env_play import Greedy, play_episodes, serve_sessions
from env_worlds import assert_inside, constraint_of, fleet, masked_actions, random_scenario, vector
from inputs import write_grid, write_tokens

import carbon_gym
from carbon_gym.envs.background import Reference
from carbon_gym.scenario import Scenario

MODES = ("NextStep", "SameStep")
PACKAGED = ("sharegpt", "sharegpt-evict", "sharechat-long", "congested", "tiny")


def options_of(seed: int) -> dict[str, Any]:
    """Every option somewhere."""
    budget = seed % 3 == 0
    return {
        "mask": ("feasible", "room", None)[seed % 3],
        "autoreset_mode": MODES[seed % 2],
        "background": ("reference", "faircarbon", "session-affinity")[seed // 2 % 3],
        "max_turns": (None, 4, None, 1)[seed // 3 % 4],
        **constraint_of(budget),
        "threads": 1 + seed % 2,
    }


def play(seed: int, folder: Path, episodes: int, lanes: int, **workload: Any) -> Any:
    """Half of the episodes with masked actions, half with any."""
    scenario = random_scenario(seed, folder, **workload)
    env = vector(lanes, scenario=scenario, **options_of(seed))
    found = play_episodes(env, episodes // 2, seed, allowed=True)
    found += play_episodes(env, episodes // 2, seed + 1, allowed=False)
    env.close()
    return found


# ------------------------------------------------------------------------- random scenarios


def test_random_episodes_in_random_scenarios(tmp_path: Path) -> None:
    worlds = [play(seed, tmp_path, 300, 32) for seed in range(16)]
    happened = sum(worlds[1:], worlds[0])
    assert happened["episodes"] >= 16 * 300
    for what in ("hits", "masked", "refused", "feasible", "switched", "capacity_violation"):
        assert happened[what] > 100, what


@pytest.mark.slow
def test_a_hundred_thousand_random_episodes_in_twenty_random_scenarios(tmp_path: Path) -> None:
    for seed in range(100, 120):
        found = play(seed, tmp_path, 5000, 256, sessions=400)
        assert found["episodes"] >= 5000


def test_random_windows_of_fleets_in_random_scenarios(tmp_path: Path) -> None:
    for seed in range(16):
        options = options_of(seed)
        for name in ("autoreset_mode", "threads"):
            del options[name]
        env = fleet(scenario=random_scenario(seed, tmp_path), window_s=20_000.0, **options)
        rng = np.random.default_rng(seed)
        for start in range(2):
            observation, info = env.reset(seed=start)
            ended = False
            while not ended:
                assert_inside(env.layout, observation)
                mask = env.action_masks()
                assert mask.any()
                assert np.array_equal(mask, info["action_mask"] == 1)
                allowed = mask if start else np.ones_like(mask)
                action = masked_actions(rng, allowed[None])[0]
                observation, reward, terminated, truncated, info = env.step(action)
                assert np.isfinite(reward)
                ended = terminated or truncated
            assert_inside(env.layout, observation)
            with pytest.raises(RuntimeError):
                env.step(0)


EDGES: list[dict[str, Any]] = [
    {"cache": {"ttl_s": 0.0}},
    {"cache": {"ttl_s": 1e39}},
    {"bounds": {"ttft_s": 1e-50}},
    {"bounds": {"ttft_s": 1e99}},
    {"bounds": {"beta_q": 0.0}},
    {"bounds": {"beta_q": 1.0}},
    {"capacity": {"limit": 1e-12}},
    {"capacity": {"limit": 1e-12, "rule": "turns"}},
    {"capacity": {"limit": 1e99}},
    {"capacity": {"limit": None}},
    {"capacity": {"residency_s": 1e300}},
    {"capacity": {"rule": "turns", "slot_s": 0.0}},
    {"energy": {"reference_kwh_per_token": 1e-300}},
    {"grid": {"staleness_s": 1e12}},
    {"workload": {"statistics": "sharechat", "context_limit_tokens": 10**9, "min_turns": 30}},
]


@pytest.mark.parametrize("sections", EDGES, ids=str)
def test_numbers_stay_inside_at_the_edges_of_what_loads(sections: dict[str, Any]) -> None:
    env = vector(8, scenario=carbon_gym.load_scenario("tiny", **sections))
    found = play_episodes(env, 30, 0, allowed=False)
    capacity = sections.get("capacity", {})
    if "limit" in capacity:
        tight = capacity["limit"] is not None and capacity["limit"] < 1.0
        assert bool(found["capacity_violation"]) == tight


def test_a_cache_of_just_its_ttl(tmp_path: Path) -> None:
    """TTLs whose reciprocal rounds up in float32; later turns come exactly a TTL after."""
    for ttl_s in (1.7, 31.2, 600.0, 0.007):
        env = vector(4, scenario=from_files(tmp_path, ttl_s), split=None, mask=None)
        observation, _ = env.reset(options={"session": 0})
        for _ in range(3):
            assert_inside(env.layout, observation)
            observation, *_, info = env.step([0, 1, 2, 3])
        assert info["cached_tokens"].all()


def from_files(folder: Path, ttl_s: float) -> Scenario:
    """A conversation of four turns, a TTL apart from the day's begin on."""
    turns = write_tokens(
        folder / f"turns-{ttl_s}.csv",
        1,
        turns=lambda session: [(10, 20)] * 4,
        arrival=lambda session, turn: repr(ttl_s * turn),
    )
    grid = write_grid(folder / f"grid-{ttl_s}.csv")
    return carbon_gym.load_scenario(
        "tiny",
        cache={"ttl_s": ttl_s},
        workload={"source": "file", "path": str(turns), "format": "tokens"},
        grid={"source": "file", "paths": [str(grid)]},
    )


# ----------------------------------------------------------------------- the default scenario


def test_no_feature_of_the_default_scenario_is_constant() -> None:
    env = vector(1024, scenario="sharegpt", fleets=16, co2_scale_g=None)
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    low, high = observation.min(axis=0), observation.max(axis=0)
    for _ in range(60):
        observation = env.step(masked_actions(rng, env.action_masks()))[0]
        # A lane's last observation has no costs; they must vary without it.
        open_ = observation[~env.lanes.ended]
        low, high = np.minimum(low, open_.min(axis=0)), np.maximum(high, open_.max(axis=0))
    constant = [
        f"{name}[{at - begin}] = {low[at]}"
        for name, begin, end, *_ in env.layout.describe()
        for at in range(begin, end)
        if low[at] == high[at]
    ]
    assert constant == []


def test_the_mean_reward_of_the_reference_is_minus_one() -> None:
    arguments = {"scenario": "tiny", "fleets": 16, "co2_scale_g": None}
    world = vector(1, **arguments).world
    served = serve_sessions(Reference(), np.arange(world.sessions), **arguments)
    assert np.isclose(served["reward"].mean(), -1.0, rtol=0.01)
    # Of the default scenario a sample of conversations.
    arguments["scenario"] = "sharegpt"
    world = vector(1, **arguments).world
    sample = np.random.default_rng(0).permutation(world.sessions)[:800]
    served = serve_sessions(Reference(), sample, **arguments)
    served = served[served["deployment"] >= 0]["reward"]
    assert served.max() < 0.0
    assert abs(served.mean() + 1.0) < 0.2


@pytest.mark.parametrize("background", ["reference", "faircarbon"])
def test_the_scale_is_the_training_references_whatever_is_asked_for(background: str) -> None:
    train = vector(1, scenario="tiny", fleets=16, co2_scale_g=None)
    other = vector(1, split="validation", background=background, co2_scale_g=None)
    assert other.options.rules.co2_scale_g == train.world.co2_g_per_turn


# -------------------------------------------------------------------------------- violations


@pytest.mark.parametrize("constraint", ["filter", "budget"])
def test_a_greedy_policy_breaks_no_constraint(constraint: str, tmp_path: Path) -> None:
    """One that maximises the reward of each step, over all actions, ties to the violation."""
    arguments = constraint_of(constraint == "budget")
    found = [Greedy(scenario="tiny", **arguments).play(100, 0)]
    found += [Greedy(scenario="sharegpt", **arguments).play(100, 0)]
    for seed in range(19):
        scenario = random_scenario(seed, tmp_path)
        found.append(Greedy(scenario=scenario, **arguments).play(30, seed))
        assert found[-1]["avoidable"] == 0, f"seed {seed}: {found[-1]}"
        assert found[-1]["refused"] == 0, f"seed {seed}: {found[-1]}"
    happened = sum(found[1:], found[0])
    assert happened["avoidable"] == happened["refused"] == 0
    for what in ("free", "late", "overfull", "not the cheapest"):
        assert happened[what] > 10, what


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["filter", "budget"])
@pytest.mark.parametrize("name", PACKAGED)
def test_a_greedy_policy_breaks_none_on_ten_thousand_turns(name: str, constraint: str) -> None:
    greedy = Greedy(
        scenario=name,
        **constraint_of(constraint == "budget"),
        co2_scale_g=None,
        fleets=4,
    )
    found = greedy.play(10_000, 0)
    assert found["avoidable"] == found["refused"] == 0, found


def test_rewards_of_violations_are_at_most_those_of_the_forced_deployment(tmp_path: Path) -> None:
    """Term by term: what a violation saves, it gives back."""
    for seed in range(16):
        options = {"mask": None, **constraint_of(seed % 2 == 1)}
        scenario = random_scenario(seed, tmp_path)
        env = vector(len(vector(1, scenario=scenario).world.fleet), scenario=scenario, **options)
        rng = np.random.default_rng(seed)
        for session in rng.integers(0, env.world.sessions, 12):
            env.reset(options={"session": int(session)})
            forced = int(env.quotes.cheapest()[0])
            feasible = env.quotes.feasible[0].copy()
            _, reward, _, _, info = env.step(np.arange(env.num_envs))
            wrong = info["quality_violation"] | info["ttft_violation"]
            assert (reward[wrong] <= reward[forced] + 1e-12).all()
            assert not info["reward_refund"][feasible].any()
            assert (info["reward_refund"] <= 0.0).all()
            assert (info["reward_capacity"] <= 0.0).all()
            assert np.array_equal(info["refused"], info["reward_capacity"] < 0.0)
            refused = info["refused"]
            assert (info["deployment_index"][refused] == forced).all()
            stays = info["deployment_index"][~refused]
            assert np.array_equal(stays, np.arange(env.num_envs)[~refused])
