"""The background's own policy, session by session through the environment, emits what it emitted.

Each conversation meets the others of the fleet run, with itself subtracted; so by the policy that
made the background, it takes the same path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from env_play import serve_sessions
from env_worlds import fleet, vector

import carbon_gym
from carbon_gym.envs.background import background_policy
from carbon_gym.scenario import Scenario
from carbon_gym.simulator import Simulator
from carbon_gym.simulator.arrays import OUTCOME

POLICIES = ("reference", "faircarbon", "ccar")


@dataclass
class Replay:
    """Both accounts of the same turns, in session order, and the world they come from."""

    env: np.ndarray
    run: np.ndarray
    world: Any

    def differing(self) -> float:
        """Share of turns that another deployment served."""
        return float((self.env["deployment"] != self.run["deployment"]).mean())

    def co2_ratio(self) -> float:
        return float(self.env["co2_g"].sum() / self.run["co2_g"].sum())


def replay(scenario: Scenario, background: str, fleets: int) -> Replay:
    arguments = {"scenario": scenario, "background": background, "fleets": fleets}
    world = vector(1, **arguments).world
    policy = background_policy(background, scenario)
    served = serve_sessions(policy, np.arange(world.sessions), **arguments)
    evaluation = world.evaluation
    simulator = Simulator(scenario, evaluation.traces, evaluation.grid)
    policy = background_policy(background, scenario)
    policy.reset(simulator.fleet, simulator.slots)
    while not simulator.done:
        simulator.commit(policy.choose(simulator.quote()))
    return Replay(served, simulator.ledger[world.by_session], world)


def scenario_of(pressure: bool, **sections: Any) -> Scenario:
    """Like sharegpt, with fewer sessions on fewer models; or so tight that caches are evicted."""
    content: dict[str, Any] = {
        "fleet": {"regions": ["US-CAL-CISO", "GB", "DE"]},
        "workload": {"sessions_per_fleet": 120},
        "cache": {"memory_pressure": pressure},
    }
    if pressure:
        # Rooms of a few conversations, which come back after a while.
        content["fleet"] |= {"models": ["Llama-3.1-8B-Instruct"], "gpus": ["A10"], "replicas": 1}
        content["workload"] |= {"sessions_per_fleet": 700, "gap_log_mean": 5.5}
        content["workload"] |= {"min_turns": 4}
    for name, change in sections.items():
        content[name] = {**content.get(name, {}), **change}
    return carbon_gym.load_scenario("sharegpt", **content)


@pytest.mark.parametrize("background", POLICIES)
@pytest.mark.parametrize("rule", ["sessions", "turns"])
@pytest.mark.parametrize("leave", ["retain", "evict"])
def test_without_memory_pressure_every_turn_is_the_same(
    background: str, rule: str, leave: str
) -> None:
    found = replay(
        scenario_of(False, capacity={"rule": rule}, cache={"on_leave": leave}), background, 1
    )
    assert found.world.background.evicted_until_s.shape[0] == 1
    assert abs(found.co2_ratio() - 1.0) < 1e-9
    for name in OUTCOME.names or ():
        assert np.array_equal(found.env[name], found.run[name]), name
    assert found.run["switched"].any()


@pytest.mark.parametrize(
    "capacity",
    [
        {"limit": None},
        {"limit": 0.1},
        {"limit": 0.1, "scope": "region"},
        {"rule": "turns", "limit": 0.2, "slot_s": 3600.0},
        {"residency_s": 0.0},
    ],
    ids=str,
)
def test_without_memory_pressure_under_any_capacity(capacity: dict[str, Any]) -> None:
    for background in ("reference", "ccar"):
        found = replay(scenario_of(False, capacity=capacity), background, 1)
        for name in OUTCOME.names or ():
            assert np.array_equal(found.env[name], found.run[name]), name


def evicted(found: Replay) -> int:
    """Turns of the run that came back within the TTL and found nothing."""
    turn, ttl_s = found.world.session_turns.turn, found.world.scenario.cache.ttl_s
    follows = np.flatnonzero(turn["turn"] > 0)
    idle_s = turn["arrival_s"][follows] - turn["arrival_s"][follows - 1]
    run = found.run[follows]
    lost = (idle_s <= ttl_s) & ~run["switched"] & (turn["history_tokens"][follows] > 0)
    return int((lost & (run["cached_tokens"] == 0)).sum())


@pytest.mark.parametrize("background", POLICIES)
@pytest.mark.parametrize(("rule", "leave"), [("sessions", "retain"), ("turns", "evict")])
def test_under_memory_pressure_within_one_percent(background: str, rule: str, leave: str) -> None:
    found = replay(
        scenario_of(True, capacity={"rule": rule}, cache={"on_leave": leave}), background, 1
    )
    assert np.isfinite(found.world.background.evicted_until_s).any()
    assert evicted(found) > 100
    assert abs(found.co2_ratio() - 1.0) < 0.01
    assert found.differing() < 0.05
    # Turn by turn: hardly any meets another cache.
    other = found.env["cached_tokens"] != found.run["cached_tokens"]
    assert other.mean() < 0.02


def test_a_fleet_environment_is_the_simulator_on_its_fleet() -> None:
    """Random actions over a whole day, from a warm start."""
    for name, pressure in (("sessions", False), ("turns", True)):
        scenario = scenario_of(pressure, capacity={"rule": name})
        env = fleet(scenario=scenario, window_s=1e9, mask=None)
        trace = env.world.evaluation.traces[0]
        rng = np.random.default_rng(0)
        noon_s = 43_200
        start = int(np.searchsorted(trace.arrival_s, noon_s))
        simulator = Simulator(scenario, [trace], env.world.evaluation.grid)
        policy = background_policy("reference", scenario)
        policy.reset(simulator.fleet, simulator.slots)
        for _ in range(start):
            simulator.commit(policy.choose(simulator.quote()))
        observation, said = env.reset(options={"start": trace.origin_unix_s + noon_s})
        ended = False
        for row in range(start, trace.turns):
            assert not ended
            quotes, own = simulator.quote(), env.quotes
            assert said["session"] == trace.session[row]
            for field in ("cached_tokens", "co2_g", "ttft_s", "feasible", "unit_load", "previous"):
                assert np.array_equal(getattr(quotes, field), getattr(own, field)), field
            assert np.array_equal(quotes.unit_places, own.unit_places)
            action = int(rng.integers(len(simulator.fleet)))
            observation, _, terminated, truncated, info = env.step(action)
            done = np.array([info["deployment_index"]])
            assert info["refused"] or done[0] == action
            simulator.commit(done)
            for field in OUTCOME.names or ():
                key = "deployment_index" if field == "deployment" else field
                assert info[key] == simulator.ledger[field][row], field
            ended, said = terminated or truncated, info
        assert ended
        assert not observation[env.layout.slices["deployments"]].any()
