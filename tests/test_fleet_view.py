"""What a learned router sees of a simulator's fleets is what the fleet environment shows."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import carbon_gym
from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.errors import InputError
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.router import load_router
from carbon_gym.router.measure import made_up_router
from carbon_gym.router.policy import RouterPolicy
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.arrays import NOWHERE
from carbon_gym.simulator.run import run_policy
from carbon_gym.simulator.simulator import Simulator

FLEETS = 3


@pytest.mark.parametrize("name", ["tiny", "memory-tight"])
def test_the_view_shows_what_the_fleet_environment_shows(name: str) -> None:
    scenario = load_scenario(name)
    laid = evaluation_fleets(scenario, split="train", fleets=FLEETS)
    simulator = Simulator(scenario, laid.traces, laid.grid)
    view = FleetView(simulator)
    env = gym.make("CarbonRoutingFleet-v0", scenario=name, fleets=FLEETS, window_s=86_400.0)
    trace, fleet = laid.traces[1], 1
    start = trace.origin_unix_s + int(trace.arrival_s[0])
    seen, info = env.reset(options={"start": start})
    rng = np.random.default_rng(3)
    for _ in range(300):
        quotes = simulator.quote()
        view.observe()
        np.testing.assert_array_equal(view.observation[fleet], seen)
        np.testing.assert_array_equal(view.mask[fleet], info["action_mask"])
        live = quotes.row != NOWHERE
        chosen = [
            rng.choice(np.flatnonzero(row)) if on else 0
            for row, on in zip(view.mask, live, strict=True)
        ]
        seen, _, _, over, info = env.step(chosen[fleet])
        if over:
            break
        simulator.commit(np.array(chosen))


def test_a_router_serves_fleets_as_one_by_one_decisions_say(tmp_path: Path) -> None:
    scenario = load_scenario("tiny")
    laid = evaluation_fleets(scenario, split="train", fleets=2)
    simulator = Simulator(scenario, laid.traces, laid.grid)
    router = made_up_router(FleetView(simulator).layout)
    run = run_policy(scenario, RouterPolicy(router), laid.traces, laid.grid)
    view = FleetView(simulator)
    while not simulator.done:
        quotes = simulator.quote()
        view.observe()
        chosen = np.zeros(len(laid.traces), dtype=np.int64)
        for lane in np.flatnonzero(quotes.row != NOWHERE):
            one = slice(lane, lane + 1)
            chosen[one] = router.act(view.observation[one], view.mask[one], view.layout)
        simulator.commit(chosen)
    np.testing.assert_array_equal(run.ledger["deployment"], simulator.ledger["deployment"])


def test_a_router_outside_a_run_says_what_it_needs() -> None:
    scenario = load_scenario("tiny")
    laid = evaluation_fleets(scenario, split="train", fleets=1)
    simulator = Simulator(scenario, laid.traces, laid.grid)
    policy = RouterPolicy(made_up_router(FleetView(simulator).layout))
    policy.reset(simulator.fleet, simulator.slots)
    with pytest.raises(InputError, match="run_policy"):
        policy.choose(simulator.quote())


def test_a_missing_router_is_named() -> None:
    with pytest.raises(InputError, match=r"nowhere\.npz"):
        carbon_gym.make_policy("nowhere.npz")
    with pytest.raises(InputError, match=r"nowhere\.npz"):
        load_router("nowhere.npz")
