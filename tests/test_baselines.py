"""The baselines of SPEC §6: every choice against the rule in plain Python, and what all keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_rules import (
    PlainCacheAware,
    PlainCarbonGreedy,
    PlainCedar,
    PlainGarEps,
    PlainGarPd,
    PlainLeastTtft,
    PlainSessionHash,
    PlainSingleModel,
    Rule,
    dispatch_of,
    keyed_bits,
)
from worlds import World, assert_same_ledger, random_world

from baselines import (
    CacheAware,
    CarbonGreedy,
    Cedar,
    GarEps,
    GarPd,
    LargestModel,
    LeastTtft,
    RandomChoice,
    SessionHash,
    SmallestModel,
)
from carbon_gym import InputError, load_scenario
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.policy import Policy
from carbon_gym.simulator import Simulator
from carbon_gym.simulator.run import run_policy

SCALE_G = 0.05  # about a turn's CO2 in the random worlds
PD = {"scale_co2_g": SCALE_G, "late_budget": 0.01}

RULES: dict[str, tuple[Callable[[], Policy], Callable[[], Rule]]] = {
    "session-hash": (SessionHash, PlainSessionHash),
    "gar-eps, home": (lambda: GarEps(0.05), lambda: PlainGarEps(epsilon=0.05)),
    "gar-eps, cleanest": (
        lambda: GarEps(0.1, "cleanest"),
        lambda: PlainGarEps(epsilon=0.1, region="cleanest"),
    ),
    "gar-pd": (
        lambda: GarPd(**PD, lambda_start=0.2, lambda_step=0.01, mu_start=0.3, mu_step=0.1),
        lambda: PlainGarPd(**PD, co2_price=0.2, co2_step=0.01, late_price=0.3, late_step=0.1),
    ),
    "gar-pd, quality only": (
        lambda: GarPd(**PD, lambda_start=0.0, lambda_step=0.0, mu_start=0.0, mu_step=0.0),
        lambda: PlainGarPd(**PD, co2_price=0.0, late_price=0.0),
    ),
    "cedar": (
        lambda: Cedar(SCALE_G, alpha=0.3, eta=0.2),
        lambda: PlainCedar(scale_co2_g=SCALE_G, alpha=0.3, eta=0.2),
    ),
    "cedar, lateness only": (
        lambda: Cedar(SCALE_G, alpha=1.0, eta=0.0, gamma=0.0),
        lambda: PlainCedar(scale_co2_g=SCALE_G, alpha=1.0, eta=0.0, gamma=0.0),
    ),
    "cache-aware": (CacheAware, PlainCacheAware),
    "carbon-greedy": (CarbonGreedy, PlainCarbonGreedy),
    "least-ttft": (LeastTtft, PlainLeastTtft),
    "largest-model": (LargestModel, lambda: PlainSingleModel(largest=True)),
    "smallest-model": (SmallestModel, lambda: PlainSingleModel(largest=False)),
}
UNFILTERED = ("session-hash", "carbon-greedy", "largest-model", "smallest-model")
"""Marked * in SPEC §6."""
REACHED = {
    "session-hash": {"full pool", "all free", "overfull", "short context"},
    "gar-eps, home": {"bound", "home full", "late", "overfull"},
    "gar-eps, cleanest": {"bound", "home full", "late", "overfull"},
    "gar-pd": {"overfull", "too late", "saved", "overspent"},
    "cedar": {"overfull", "too late", "stayed"},
    "cache-aware": {"followed", "small hit", "load decided", "late", "overfull"},
    "carbon-greedy": {"below quality", "overfull"},
    "least-ttft": {"late", "overfull"},
    "largest-model": {"overfull"},
}
"""Branches of the rules that the random worlds must take."""
BUILDERS: dict[str, Callable[[], Policy]] = {
    **{name: fast for name, (fast, _) in RULES.items()},
    "random": RandomChoice,
}
SEEDS = range(40)
seeds = st.integers(0, 2**32 - 1)


def world_of(seed: int) -> World:
    """Every third of round numbers, so that deployments tie."""
    return random_world(seed, turns=80, coarse=seed % 3 == 2)


def simulator_of(world: World) -> Simulator:
    return Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)


def played(world: World, policy: Policy) -> Simulator:
    """A finished run."""
    simulator = simulator_of(world)
    policy.reset(simulator.fleet, simulator.slots)
    while not simulator.done:
        simulator.commit(policy.choose(simulator.quote()))
    return simulator


def compare(world: World, policy: Policy, rule: Rule, where: str) -> None:
    """Let both choose at every turn; the run follows the fast one."""
    simulator = simulator_of(world)
    policy.reset(simulator.fleet, simulator.slots)
    while not simulator.done:
        quotes = simulator.quote()
        chosen = policy.choose(quotes)
        assert chosen.dtype == np.int64
        assert chosen.tolist() == [rule.choose(dispatch_of(quotes))], where
        simulator.commit(chosen)


@pytest.mark.parametrize("name", RULES)
def test_every_choice_is_the_rules(name: str) -> None:
    fast, plain = RULES[name]
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        rule = plain()
        compare(world_of(seed), fast(), rule, f"{name}, seed {seed}")
        happened += rule.happened
    for branch in REACHED.get(name, ()):
        assert happened[branch] > 5, f"the worlds must reach: {branch}"


@pytest.mark.parametrize("name", RULES)
def test_every_choice_is_the_rules_on_the_default_fleet(name: str, day: Evaluation) -> None:
    fast, plain = RULES[name]
    trace = day.traces[0]
    simulator = Simulator(day.scenario, [trace], day.grid)
    policy, rule = fast(), plain()
    policy.reset(simulator.fleet, simulator.slots)
    for _ in range(300):
        quotes = simulator.quote()
        chosen = policy.choose(quotes)
        assert chosen.tolist() == [rule.choose(dispatch_of(quotes))]
        simulator.commit(chosen)


@pytest.fixture(scope="module")
def day() -> Evaluation:
    """Three small test fleets of the default scenario."""
    return evaluation_fleets(load_scenario("sharegpt"), fleets=3, sessions=120)


@pytest.mark.parametrize("name", BUILDERS)
def test_constraints_hold_on_the_default_fleet(name: str, day: Evaluation) -> None:
    run = run_policy(day.scenario, BUILDERS[name](), day.traces, day.grid)
    assert not run.ledger["capacity_violation"].any(), "half of four regions has always room"
    assert bool(run.ledger["quality_violation"].any()) == (name in UNFILTERED)


@pytest.mark.parametrize("name", BUILDERS)
def test_fleets_side_by_side_are_the_fleets_alone(name: str, day: Evaluation) -> None:
    together = run_policy(day.scenario, BUILDERS[name](), day.traces, day.grid)
    for lane, trace in enumerate(day.traces):
        alone = run_policy(day.scenario, BUILDERS[name](), [trace], day.grid)
        rows = slice(together.bounds[lane], together.bounds[lane + 1])
        assert_same_ledger(together.ledger[rows], alone.ledger)


@settings(max_examples=15)
@given(seed=seeds, lanes=st.integers(2, 4))
@pytest.mark.parametrize("name", BUILDERS)
def test_lanes_do_not_mix_in_any_world(name: str, seed: int, lanes: int) -> None:
    world = random_world(seed, traces=lanes, turns=40)
    together = played(world, BUILDERS[name]())
    for lane, trace in enumerate(world.traces):
        alone = played(replace(world, traces=[trace]), BUILDERS[name]())
        rows = slice(together.bounds[lane], together.bounds[lane + 1])
        assert_same_ledger(together.ledger[rows], alone.ledger)


@pytest.mark.parametrize("name", BUILDERS)
def test_a_second_run_of_a_policy_is_the_first(name: str) -> None:
    world, policy = random_world(3, traces=2), BUILDERS[name]()
    first = played(world, policy)
    played(random_world(4, traces=3), policy)
    assert_same_ledger(played(world, policy).ledger, first.ledger)


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("name", BUILDERS)
@settings(max_examples=10)
@given(seed=seeds, data=st.data())
def test_permuting_the_fleet_permutes_the_choices(
    name: str, coarse: bool, seed: int, data: st.DataObject
) -> None:
    world = random_world(seed, turns=40, coarse=coarse)
    fleet = world.scenario.fleet
    shuffled = {
        key: tuple(data.draw(st.permutations(getattr(fleet, key)), label=key))
        for key in ("models", "gpus", "regions")
    }
    one = played(world, BUILDERS[name]())
    two = played(world.with_scenario(fleet=shuffled), BUILDERS[name]())
    for column in one.ledger.dtype.names or ():
        if column != "deployment":
            assert np.array_equal(one.ledger[column], two.ledger[column]), column
    names = [[s.fleet.triple(d) for d in s.ledger["deployment"]] for s in (one, two)]
    assert names[0] == names[1]


# ----------------------------------------------------------------- what the rules stand on


@pytest.mark.parametrize("lanes", ["fleets", "sessions"])
def test_quotes_say_who_the_session_is(lanes: Any) -> None:
    world = random_world(5, traces=3, turns=60)
    simulator = Simulator(
        world.scenario, world.traces, world.grid, predictor=world.predictor, lanes=lanes
    )
    keys = np.concatenate([trace.session_key for trace in world.traces])
    while not simulator.done:
        quotes = simulator.quote()
        live = quotes.row >= 0
        assert np.array_equal(quotes.session_key[live], keys[quotes.slot[live]])
        simulator.commit(quotes.cheapest())


@settings(max_examples=20)
@given(seed=seeds)
def test_cheapest_takes_another_view_of_what_is_feasible(seed: int) -> None:
    simulator = simulator_of(random_world(seed, turns=40))
    while not simulator.done:
        quotes = simulator.quote()
        other = quotes.available & (quotes.ttft_s < 0.3)
        expected = replace(quotes, feasible=other).cheapest()
        assert np.array_equal(quotes.cheapest(feasible=other), expected)
        blind = quotes.cache_blind()
        assert quotes.cache_blind() is blind, "made once, priced anew at every turn"
        assert np.shares_memory(blind.quality, quotes.quality)
        narrowed = replace(quotes, admissible=np.zeros_like(quotes.admissible)).cache_blind()
        assert not narrowed.admissible.any(), "of what it is asked of, not of the first"
        simulator.commit(quotes.cheapest())


# -------------------------------------------------------------------------------- one by one


def test_random_repeats_itself_and_differs_by_seed(day: Evaluation) -> None:
    runs = [
        run_policy(day.scenario, RandomChoice(seed), day.traces, day.grid).ledger["deployment"]
        for seed in (0, 0, 1)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).mean() > 0.9


def test_random_draws_evenly_by_session_and_turn(day: Evaluation) -> None:
    simulator = Simulator(day.scenario, day.traces, day.grid)
    policy = RandomChoice(seed=7)
    policy.reset(simulator.fleet, simulator.slots)
    by_name = sorted(range(60), key=simulator.fleet.triple)
    shares = []
    while not simulator.done:
        quotes = simulator.quote()
        chosen = policy.choose(quotes)
        for lane in np.flatnonzero(quotes.row >= 0).tolist():
            feasible = [d for d in by_name if quotes.feasible[lane, d]]
            if not feasible:
                assert chosen[lane] == quotes.cheapest()[lane]
                continue
            place = feasible.index(int(chosen[lane]))
            key, turn = int(quotes.session_key[lane]), int(quotes.turn[lane])
            drawn = ((keyed_bits(7, "random-policy", key, turn, 0) >> 11) + 0.5) * 2.0**-53
            assert place == int(drawn * len(feasible))
            shares.append((place + 0.5) / len(feasible))
        simulator.commit(chosen)
    tenths = np.histogram(shares, bins=10, range=(0, 1))[0] / len(shares)
    assert len(shares) > 1000
    assert tenths.min() > 0.05
    assert tenths.max() < 0.15


def test_session_hash_moves_only_the_sessions_of_a_pool_that_goes(day: Evaluation) -> None:
    without_limit = load_scenario(day.scenario, capacity={"limit": None})
    regions = without_limit.fleet.regions
    fewer = without_limit.fleet.model_copy(update={"regions": regions[:-1]})
    ledgers, pools = [], []
    for scenario in (without_limit, without_limit.model_copy(update={"fleet": fewer})):
        simulator = Simulator(scenario, day.traces, day.grid)
        policy = SessionHash()
        policy.reset(simulator.fleet, simulator.slots)
        while not simulator.done:
            simulator.commit(policy.choose(simulator.quote()))
        ledgers.append(simulator.ledger)
        pools.append([simulator.fleet.triple(d)[1:] for d in simulator.ledger["deployment"]])
    gone = regions[-1].zone
    stayed = [before == after for before, after in zip(*pools, strict=True)]
    assert all(s == (before[1] != gone) for s, before in zip(stayed, pools[0], strict=True))
    assert len(set(pools[0])) == 12
    counts = np.array(list(Counter(pools[0]).values())) / len(pools[0])
    assert counts.min() > 0.03, "sessions spread over all pools"


def test_a_session_keeps_its_pool_under_session_hash(day: Evaluation) -> None:
    scenario = load_scenario(day.scenario, capacity={"limit": None})
    run = run_policy(scenario, SessionHash(), day.traces, day.grid)
    assert not run.ledger["switched"].any()


def test_prices_of_gar_pd_move_with_what_is_spent(day: Evaluation) -> None:
    def mean_co2_g(scale_co2_g: float) -> float:
        policy = GarPd(scale_co2_g, 0.0, 0.0, 0.01, 0.0, 0.0)
        run = run_policy(day.scenario, policy, day.traces, day.grid)
        return float(run.ledger["co2_g"].mean())

    generous, tight = mean_co2_g(1e3), mean_co2_g(1e-3)
    assert tight < generous, "a budget that is overspent makes CO2 dear"


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: GarEps(-0.1), "epsilon"),
        (lambda: GarEps(float("nan")), "epsilon"),
        (lambda: GarEps(0.1, "far"), "home or cleanest"),  # type: ignore[arg-type]
        (lambda: Cedar(0.0, 1.0, 1.0), "scale_co2_g"),
        (lambda: Cedar(1.0, -1.0, 1.0), "alpha"),
        (lambda: Cedar(1.0, 1.0, float("inf")), "eta"),
        (lambda: GarPd(1.0, 0.0, -1.0, 0.0, 0.0, 0.0), "lambda_start"),
        (lambda: GarPd(1.0, 0.0, 0.0, 0.0, 0.0, float("nan")), "mu_step"),
        (lambda: GarPd(float("nan"), 0.0, 0.0, 0.0, 0.0, 0.0), "scale_co2_g"),
    ],
)
def test_bad_knobs_are_refused(build: Callable[[], Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        build()
