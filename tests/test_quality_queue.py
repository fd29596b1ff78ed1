"""The queue that holds a mean quality, and the router that is moved by it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from baselines.lookahead import Lookahead
from baselines.tuned import budget_of, queue_of
from carbon_gym import make_policy
from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.quality.queue import SLOPE, SPAN, QualityQueue
from carbon_gym.router.amplify import amplify_all
from carbon_gym.router.measure import made_up_router
from carbon_gym.router.policy import RouterPolicy
from carbon_gym.router.rollout import serve_fleets
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.run import run_policy
from carbon_gym.simulator.simulator import Simulator


def test_it_is_the_formula() -> None:
    eta, target = 0.05, 0.7
    queue, short, drift = QualityQueue(1, eta), 0.0, 0.0
    rng = np.random.default_rng(0)
    for q in rng.uniform(0.3, 0.9, 200):
        queue.account(np.array([True]), target, np.array([q]))
        short += target - q
        drift += eta * eta * SLOPE / 4.0 * short
        assert queue.factor[0] == pytest.approx(math.exp(eta * short + drift))


def test_lanes_that_are_done_and_queues_without_a_step_stay() -> None:
    queue = QualityQueue(3, np.array([0.1, 0.1, 0.0]))
    queue.account(np.array([True, False, True]), 0.9, np.zeros(3))
    assert queue.factor[0] > 1.0
    assert queue.factor[1:].tolist() == [1.0, 1.0]


def test_it_stays_within_its_span() -> None:
    queue = QualityQueue(2, 1.0)
    for _ in range(500):
        queue.account(np.ones(2, dtype=np.bool_), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert queue.factor == pytest.approx([SPAN, 1.0 / SPAN])


def test_amplified_differences_are_as_many_times_as_large() -> None:
    x = np.array([[9.0, 0.5, 0.7, 1.0, 0.6, 1.0, 7.0]] * 3, dtype=np.float32)
    amplify_all(x, 1, 2, np.array([1.0, 2.0, 0.5]))
    np.testing.assert_allclose(x[:, 1], [0.5, 0.3, 0.6], atol=1e-6)
    np.testing.assert_allclose(x[:, 3], 1.0, atol=1e-6)
    np.testing.assert_allclose(x[:, 2], 0.7, atol=1e-6)
    np.testing.assert_allclose(x[:, 4], [0.6, 0.2, 0.8], atol=1e-6)
    assert (x[:, [0, 5, 6]] == x[0, [0, 5, 6]]).all()


def test_a_rollout_under_a_budget_decides_as_the_policy_does() -> None:
    scenario = load_scenario("sharegpt-budget")
    laid = evaluation_fleets(scenario, split="train", fleets=2, sessions=150)
    view = FleetView(Simulator(scenario, laid.traces, laid.grid))
    router, queue = made_up_router(view.layout), queue_of(scenario)
    assert queue["eta"] > 0.0
    policy = RouterPolicy(router, **queue)
    served = run_policy(scenario, policy, laid.traces, laid.grid).ledger
    serve_fleets(view, router._weights, **queue)
    np.testing.assert_array_equal(view.simulator.ledger, served)
    view.reset()
    serve_fleets(view, router._weights)
    assert (view.simulator.ledger["deployment"] != served["deployment"]).any(), "it mattered"


@pytest.mark.parametrize("wrong_by", [0.3, 3.0])
def test_a_lookahead_reaches_its_target_from_a_wrong_price(wrong_by: float) -> None:
    scenario = load_scenario("sharegpt-budget")
    laid = evaluation_fleets(scenario, split="train", fleets=2)
    budget = budget_of(scenario)
    budget["price_g"] *= wrong_by
    run = run_policy(scenario, Lookahead(0.01, {}, **budget), laid.traces, laid.grid)
    reached = run.ledger["quality_predicted"].mean()
    assert reached == pytest.approx(budget["quality_target"], rel=0.004)


def test_where_quality_is_filtered_there_is_none() -> None:
    assert queue_of(load_scenario("sharegpt")) == {}
    policy = make_policy("lookahead", load_scenario("sharegpt"))
    assert isinstance(policy, Lookahead)
    assert policy.eta == 0.0
    assert policy.factor is None
