"""Quality as a budget: who keeps to the filter, and what the budget's own rules choose."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_rules import Dispatch, Rule, admissible, dispatch_of
from worlds import World, assert_same_ledger, random_world

from baselines import BUDGETED, POLICIES, CcarBudget
from baselines.learned import LEARNED, LOOKAHEADS
from baselines.replay import Replay
from carbon_gym import load_scenario, make_policy
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.policy import Policy
from carbon_gym.quality.queue import SLOPE, SPAN, most_shortfall
from carbon_gym.simulator import Simulator
from carbon_gym.simulator.arrays import NOWHERE
from carbon_gym.simulator.run import PolicyRun, run_policy

SCALE_G = 0.05  # about a turn's CO2 in the random worlds
SEEDS = range(24)
seeds = st.integers(0, 2**32 - 1)


def budget_world(seed: int, **options: Any) -> World:
    """Every third of round numbers, so that deployments tie; floors below and above the filter."""
    beta_q = (0.85, 0.85, 1.0, 0.5)[seed % 4]
    bounds = {"quality_constraint": "budget", "beta_floor": (0.7, 0.0, 0.7)[seed % 3]}
    options = {"turns": 80, "coarse": seed % 3 == 2, **options}
    bounds |= {"beta_q": beta_q, **options.pop("bounds", {})}
    world = random_world(seed, **options)
    return world.with_scenario(bounds=bounds)


def filtered(world: World) -> World:
    return replace(world, scenario=world.scenario.filtered())


def served(world: World, policy: Policy) -> PolicyRun:
    return run_policy(world.scenario, policy, world.traces, world.grid, predictor=world.predictor)


def played(world: World, policy: Policy) -> Simulator:
    """A finished run by hand."""
    simulator = Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)
    policy.reset(simulator.fleet, simulator.slots)
    while not simulator.done:
        simulator.commit(policy.choose(simulator.quote()))
    return simulator


# ------------------------------------------------------------------ the paper keeps its filter


@pytest.mark.parametrize(
    "name",
    [name for name in POLICIES if name not in (*BUDGETED, *LOOKAHEADS, LEARNED, Replay.name)],
)
def test_policies_of_the_paper_choose_under_a_budget_as_under_the_filter(name: str) -> None:
    below_the_filter = 0
    for seed in SEEDS:
        world = budget_world(seed, traces=1 + seed % 2)
        policies = make_policy(name, world.scenario), make_policy(name, filtered(world).scenario)
        under_budget = served(world, policies[0]).ledger
        expected = served(filtered(world), policies[1]).ledger
        for field in expected.dtype.names or ():
            if field != "quality_violation":  # of the floor here, of the filter there
                assert np.array_equal(under_budget[field], expected[field]), f"{field}, {seed}"
        free = served(world, CcarBudget(SCALE_G, 0.0)).ledger["deployment"]
        below_the_filter += int((free != expected["deployment"]).sum())
    assert below_the_filter > 50, "the budget must allow what the filter does not"


# --------------------------------------------------------------------------- the fixed price


@dataclass
class PlainBudget(Rule):
    """One turn after the other in loops; after each, the price is set by the queue and its sum."""

    scale_co2_g: float = SCALE_G
    start: float = 1.0
    target: float = 0.0
    step: float = 0.0
    blind: bool = False
    queue: float = 0.0
    drift: float = 0.0

    @property
    def price(self) -> float:
        span = math.log(SPAN)
        return self.start * math.exp(min(max(self.step * self.queue + self.drift, -span), span))

    def choose(self, turn: Dispatch) -> int:
        allowed = admissible(turn)
        feasible = self.within_bounds(turn, allowed, self.blind)
        co2_g = turn.blind_co2_g if self.blind else turn.co2_g
        ttft_s = turn.blind_ttft_s if self.blind else turn.ttft_s
        if feasible:
            worth_g = self.price * self.scale_co2_g
            chosen = min(
                feasible,
                key=lambda d: (
                    co2_g[d] - worth_g * turn.quality[d],
                    co2_g[d],
                    ttft_s[d],
                    turn.names[d],
                ),
            )
            cheapest = min(feasible, key=lambda d: (co2_g[d], ttft_s[d], turn.names[d]))
            self.happened["paid for quality"] += chosen != cheapest
        else:
            chosen = self.best_effort(turn, allowed, self.blind)
        self.account(turn.quality[chosen])
        return chosen

    def account(self, got: float) -> None:
        if self.step > 0.0:
            span = math.log(SPAN)
            most = 2.0 * span / self.step
            self.queue = min(max(self.queue + self.target - got, -most), most)
            moved = self.drift + self.step**2 * SLOPE / 4.0 * self.queue
            self.drift = min(max(moved, -span), span)
            self.happened["upper end"] += self.step * self.queue + self.drift > span
            self.happened["lower end"] += self.step * self.queue + self.drift < -span
            self.happened["queue full"] += abs(self.queue) == most


@pytest.mark.parametrize(
    ("options", "reached"),
    [
        ({"start": 3.0}, {"paid for quality", "late", "overfull"}),
        ({"start": 3.0, "blind": True}, {"paid for quality", "late", "overfull"}),
        ({"start": 1e9}, {"paid for quality"}),
        ({"start": 2.0, "step": 0.3, "target": 0.9}, {"paid for quality", "late", "upper end"}),
        ({"start": 2.0, "step": 0.02, "target": 0.6}, {"paid for quality"}),
        ({"start": 5.0, "step": 1.0, "target": 0.1, "blind": True}, {"lower end", "queue full"}),
    ],
)
def test_every_choice_is_the_rules(options: dict[str, Any], reached: set[str]) -> None:
    happened: set[str] = set()
    for seed in range(30):
        rule = PlainBudget(**options)
        policy = CcarBudget(SCALE_G, rule.start, rule.target, rule.step, pricing=not rule.blind)
        world = budget_world(seed)
        simulator = Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)
        policy.reset(simulator.fleet, simulator.slots)
        while not simulator.done:
            quotes = simulator.quote()
            chosen = policy.choose(quotes)
            assert chosen.tolist() == [rule.choose(dispatch_of(quotes))], f"seed {seed}"
            assert policy.price == pytest.approx(rule.price, rel=1e-9)
            simulator.commit(chosen)
        happened |= {what for what, count in rule.happened.items() if count}
    assert reached <= happened


def test_a_price_of_nothing_and_of_everything() -> None:
    differ = 0
    for seed in SEEDS:
        world = budget_world(seed, traces=2)
        simulator = Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)
        free, dear = CcarBudget(SCALE_G, 0.0), CcarBudget(SCALE_G, 1e9)
        for policy in (free, dear):
            policy.reset(simulator.fleet, simulator.slots)
        while not simulator.done:
            quotes = simulator.quote()
            cheapest, best = free.choose(quotes), dear.choose(quotes)
            assert np.array_equal(cheapest, quotes.cheapest())
            quality = quotes.quality[:, quotes.fleet.model]
            for lane in np.flatnonzero(quotes.row != NOWHERE):
                if quotes.feasible[lane].any():
                    most = quality[lane][quotes.feasible[lane]].max()
                    assert quality[lane, best[lane]] == most
                    differ += int(best[lane] != cheapest[lane])
                else:
                    assert best[lane] == cheapest[lane]
            simulator.commit(best)
    assert differ > 100


@settings(max_examples=20)
@given(seed=seeds)
def test_a_higher_price_never_buys_a_turn_less_quality(seed: int) -> None:
    """The exchange argument, turn by turn on the same quotes; whichever price made the caches."""
    world = budget_world(seed, turns=40)
    prices = (0.0, 0.1, 1.0, 4.0, 16.0, 64.0, 1e4)
    simulator = Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)
    policies = [CcarBudget(SCALE_G, price) for price in prices]
    for policy in policies:
        policy.reset(simulator.fleet, simulator.slots)
    while not simulator.done:
        quotes = simulator.quote()
        chosen = [int(policy.choose(quotes)[0]) for policy in policies]
        got = [float(quotes.quality[0, quotes.fleet.model[d]]) for d in chosen]
        paid_g = [float(quotes.co2_g[0, d]) for d in chosen]
        assert got == sorted(got)
        if quotes.feasible.any():
            assert paid_g == sorted(paid_g)
        simulator.commit(np.array([chosen[seed % len(prices)]]))


def test_a_higher_price_buys_a_whole_run_more_quality() -> None:
    """Weakly: the price also moves the caches and loads that the next turns meet."""
    day = evaluation_fleets(
        load_scenario("tiny", bounds={"quality_constraint": "budget"}), fleets=3
    )
    means = [
        run_policy(day.scenario, CcarBudget(0.015, price), day.traces, day.grid)
        .ledger["quality_predicted"]
        .mean()
        for price in (0.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 1e6)
    ]
    assert all(later >= before - 0.001 for before, later in pairwise(means))
    assert means[-1] > means[0] + 0.02


def test_faircarbon_budget_is_blind_to_caches() -> None:
    differ = 0
    for seed in SEEDS:
        world = budget_world(seed, turns=120, bounds={"ttft_s": 0.5})
        caches = (
            {"ttl_s": 600.0, "on_leave": "retain", "memory_pressure": False},
            {"ttl_s": 600.0, "on_leave": "evict", "memory_pressure": True},
            {"ttl_s": 0.0, "on_leave": "retain", "memory_pressure": False},
        )
        knobs: dict[str, Any] = {"lambda_start": 2.0, "quality_target": 0.8, "eta": 0.05}
        blind, aware = (
            [
                served(world.with_scenario(cache=cache), build(SCALE_G, **knobs)).ledger[
                    "deployment"
                ]
                for cache in caches
            ]
            for build in (POLICIES["faircarbon-budget"], POLICIES["ccar-budget"])
        )
        for other in blind[1:]:
            assert np.array_equal(blind[0], other), seed
        differ += int((aware[0] != aware[2]).sum())
    assert differ > 50, "ccar-budget, in contrast, looks at them"


# ---------------------------------------------------------------------------- the price online


def prices_of(world: World, policy: CcarBudget) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """By lane: λ before each turn and after the last one, and q̂ of each turn."""
    simulator = Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)
    policy.reset(simulator.fleet, simulator.slots)
    start = np.broadcast_to(policy.lambda_start, simulator.lanes)
    price: list[list[float]] = [[float(x)] for x in start]
    got: list[list[float]] = [[] for _ in range(simulator.lanes)]
    while not simulator.done:
        quotes = simulator.quote()
        chosen = policy.choose(quotes)
        assert policy.price is not None
        for lane in range(simulator.lanes):
            if quotes.row[lane] == NOWHERE:
                assert policy.price[lane] == price[lane][-1], "a lane that is done does not move"
            else:
                price[lane].append(float(policy.price[lane]))
                model = quotes.fleet.model[chosen[lane]]
                got[lane].append(float(quotes.quality[lane, model]))
        simulator.commit(chosen)
    return [np.array(one) for one in price], [np.array(one) for one in got]


@settings(max_examples=40)
@given(
    seed=seeds,
    eta=st.floats(0.05, 1.0),
    target=st.floats(0.0, 1.0),
    start=st.floats(0.01, 100.0),
)
def test_the_shortfall_is_bounded_while_the_price_can_rise(
    seed: int, eta: float, target: float, start: float
) -> None:
    world = budget_world(seed, traces=2, turns=400)
    policy = CcarBudget(SCALE_G, start, target, eta)
    for price, got in zip(*prices_of(world, policy), strict=True):
        assert len(price) == len(got) + 1
        assert (price >= start / SPAN * (1 - 1e-12)).all()
        assert (price <= start * SPAN * (1 + 1e-12)).all()
        short, below = 0.0, 0
        for n, quality in enumerate(got, start=1):
            if price[n] >= start * SPAN * (1 - 1e-12):
                break
            short += target - quality
            assert short / n <= most_shortfall(eta, n) + 1e-9
            below += short / n > 0.05
        assert below <= 2 * math.log(SPAN) / eta / 0.05


def test_lanes_that_are_done_do_not_move() -> None:
    for seed in range(6):  # a step so small that λ reaches none of its ends
        prices, _ = prices_of(budget_world(seed, traces=3), CcarBudget(SCALE_G, 1.0, 0.7, eta=0.02))
        assert all(len(set(price.tolist())) > len(price) // 2 for price in prices)


def test_the_bound_on_the_shortfall_is_not_idle() -> None:
    """In some of these worlds a mean gets near it: the price must rise for it not to fall below."""
    nearest = 0.0
    for seed in SEEDS:
        world = budget_world(seed, turns=400)
        for target in (0.6, 0.7, 0.8):
            for price, got in zip(
                *prices_of(world, CcarBudget(SCALE_G, 1.0, target, 1.0)), strict=True
            ):
                below = price[1:] < SPAN * (1 - 1e-12)
                free = len(got) if below.all() else int(np.argmin(below))
                short = np.cumsum(target - got)[:free].max(initial=0.0)
                nearest = max(nearest, short / most_shortfall(1.0, 1))
    assert nearest > 0.3


def test_lanes_keep_their_own_knobs() -> None:
    """Each lane alone, with its own start, target and steps, and beside the others."""
    for seed in range(12):
        world = budget_world(seed, traces=3)
        by_lane = {
            "lambda_start": np.array([0.5, 4.0, 30.0]),
            "quality_target": np.array([0.9, 0.5, 0.7]),
            "eta": np.array([0.3, 0.0, 0.05]),
        }
        together = served(world, CcarBudget(SCALE_G, **by_lane))
        for lane, trace in enumerate(world.traces):
            own = {name: float(values[lane]) for name, values in by_lane.items()}
            alone = served(replace(world, traces=[trace]), CcarBudget(SCALE_G, **own))
            rows = slice(together.bounds[lane], together.bounds[lane + 1])
            assert_same_ledger(together.ledger[rows], alone.ledger)


@pytest.mark.parametrize("name", BUDGETED)
def test_fleets_side_by_side_are_the_fleets_alone(name: str) -> None:
    for seed in range(8):
        world = budget_world(seed, traces=3)
        together = served(world, make_policy(name, world.scenario))
        policy = make_policy(name, world.scenario)  # used again and again
        for lane, trace in enumerate(world.traces):
            alone = served(replace(world, traces=[trace]), policy)
            rows = slice(together.bounds[lane], together.bounds[lane + 1])
            assert_same_ledger(together.ledger[rows], alone.ledger)
