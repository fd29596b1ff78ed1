"""Policies that keep CCAR in their shadow: what they promise and what they cannot know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from env_worlds import fleet, scalar
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_budget_policy import SCALE_G, PlainBudget, budget_world, filtered, played, served
from test_leak import RULES, START_S, Inputs, changed_after, original
from worlds import World, assert_same_ledger

from baselines import CCAR, CcarBudget
from baselines.tuned import SHADOWED
from carbon_gym import InputError, load_scenario, make_policy
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.policy import Policy
from carbon_gym.simulator import Quotes, Simulator
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.run import run_policy
from carbon_gym.simulator.shadow import shadow_of

FLOOR = 0.95
seeds = st.integers(0, 2**32 - 1)


def shadows() -> dict[str, Policy]:
    """Who may stand in the shadow."""
    return {"ccar": make_policy("ccar"), "ccar-no-gate": CCAR()}


class Watched:
    """A policy whose quotes are noted: (session, q̂ chosen, best feasible q̂, q̂ of best effort)."""

    def __init__(self, policy: CcarBudget) -> None:
        self.policy, self.name = policy, policy.name
        self.accompany, self.reset = policy.accompany, policy.reset
        self.turns: dict[int, tuple[int, float, np.ndarray, int, int]] = {}
        self.prices: list[np.ndarray] = []

    def choose(self, quotes: Quotes) -> Ints:
        quality = quotes.quality[:, quotes.fleet.model]
        forced = quotes.cheapest()
        chosen = self.policy.choose(quotes)
        for lane in np.flatnonzero(quotes.row != NOWHERE):
            allowed = quality[lane][quotes.feasible[lane]].copy()
            self.turns[int(quotes.row[lane])] = (
                int(quotes.slot[lane]),
                float(quality[lane, chosen[lane]]),
                allowed,
                int(chosen[lane]),
                int(forced[lane]),
            )
        assert self.policy.price is not None
        self.prices.append(self.policy.price.copy())
        return chosen


@settings(max_examples=30)
@given(
    seed=seeds,
    follow=st.booleans(),
    eta=st.sampled_from([0.0, 0.02, 1.0]),
    floor=st.sampled_from([0.5, FLOOR, 1.0]),
    start=st.sampled_from([0.01, 0.5, 5.0]),
)
@pytest.mark.parametrize("name", ["ccar", "ccar-no-gate"])
def test_every_session_keeps_its_share_wherever_that_can_be(
    name: str, seed: int, follow: bool, eta: float, floor: float, start: float
) -> None:
    world = budget_world(seed, traces=1 + seed % 3, turns=120)
    policy = Watched(
        CcarBudget(
            SCALE_G,
            start,
            0.5,
            eta,
            follow=follow,
            session_floor=floor,
            shadow=shadows()[name],
        )
    )
    run = served(world, policy)
    theirs = served(filtered(world), shadows()[name]).ledger["quality_predicted"]
    check_promise(policy, theirs, floor)
    got = np.array([policy.turns[row][1] for row in range(len(run.ledger))])
    assert np.array_equal(got, run.ledger["quality_predicted"])


def check_promise(policy: Watched, theirs: np.ndarray, floor: float) -> int:
    """Turn by turn, lane after lane; how often the promise narrowed the choice."""
    given, owed, broken = {}, {}, 0
    for row in sorted(policy.turns):  # rows stand lane after lane in the order of events
        slot, got, allowed, chosen, forced = policy.turns[row]
        before = given.get(slot, 0.0)
        owed[slot] = owed.get(slot, 0.0) + float(theirs[row])
        given[slot] = before + got
        needed = floor * owed[slot] - before
        if not len(allowed):
            assert chosen == forced, "best effort, whatever was promised"
        elif allowed.max() >= needed + 1e-9:
            assert given[slot] >= floor * owed[slot] - 2e-9, f"row {row}"
        elif allowed.max() < needed - 2e-9:
            assert got == allowed.max(), f"row {row}: the best that there is"
            broken += 1
    return broken


def test_the_promise_costs_something_and_is_sometimes_out_of_reach() -> None:
    worse = unreachable = 0
    for seed in range(24):
        world = budget_world(seed, traces=2, turns=120)
        knobs: dict[str, Any] = {"lambda_start": 0.2}
        plain = served(world, CcarBudget(SCALE_G, **knobs)).ledger
        watched = Watched(CcarBudget(SCALE_G, **knobs, session_floor=FLOOR))
        kept = served(world, watched).ledger
        theirs = served(filtered(world), CCAR()).ledger["quality_predicted"]
        unreachable += check_promise(watched, theirs, FLOOR)
        worse += int((plain["quality_predicted"] < kept["quality_predicted"]).sum())
    assert worse > 100
    assert unreachable > 20


@pytest.mark.parametrize("name", ["ccar", "ccar-no-gate"])
def test_the_shadow_is_a_run_of_its_own(name: str) -> None:
    """Under memory pressure, both capacity rules, evict and retain: whatever the worlds draw."""
    differ = 0
    for seed in range(16):
        world = budget_world(seed, traces=3)
        policy = CcarBudget(SCALE_G, 1.0, 0.6, 0.1, session_floor=FLOOR, shadow=shadows()[name])
        run = served(world, policy)
        alone = served(filtered(world), shadows()[name])
        assert policy._shadow is not None
        assert_same_ledger(policy._shadow._simulator.ledger, alone.ledger)
        differ += int((run.ledger["deployment"] != alone.ledger["deployment"]).sum())
    assert differ > 100


def test_the_target_that_follows_is_what_ccar_gives_the_turn() -> None:
    """The same prices as with those targets told beforehand, turn by turn."""
    for seed in range(12):
        world = budget_world(seed, traces=1)
        policy = Watched(CcarBudget(SCALE_G, 2.0, eta=0.05, follow=True, margin=0.01))
        run = served(world, policy)
        theirs = served(filtered(world), CCAR()).ledger["quality_predicted"]
        queue = PlainBudget(start=2.0, step=0.05)
        for n, (target, got) in enumerate(
            zip(theirs + 0.01, run.ledger["quality_predicted"], strict=True)
        ):
            queue.target = float(target)
            queue.account(float(got))
            assert policy.prices[n] == pytest.approx(queue.price, rel=1e-9)


# ------------------------------------------------------------------ a shadow, and whose


def test_a_shadow_leaves_its_simulator_as_it_is() -> None:
    world = budget_world(3, traces=2)
    simulator = Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)
    simulator.commit(simulator.quote().cheapest())
    quotes = simulator.quote().copy()
    before = simulator.ledger.copy()
    shadow = shadow_of(simulator)
    assert shadow.turns_served == 0
    assert shadow.scenario.bounds.quality_constraint == "filter"
    while not shadow.done:
        shadow.commit(shadow.quote().cheapest())
    assert np.array_equal(simulator.ledger, before)
    again = simulator.quote()
    for name in ("row", "co2_g", "ttft_s", "admissible", "feasible", "unit_load"):
        assert np.array_equal(getattr(again, name), getattr(quotes, name)), name
    expected = served(filtered(world), CCAR())
    assert_same_ledger(shadow.ledger, expected.ledger)


@pytest.mark.parametrize("name", SHADOWED)
def test_without_a_run_over_whole_fleets_there_is_no_shadow(name: str) -> None:
    world = budget_world(1)
    policy = make_policy(name, world.scenario)
    with pytest.raises(InputError, match="run_policy"):
        played(world, policy)
    served(world, policy)
    with pytest.raises(InputError, match="run_policy"):
        played(budget_world(2), policy)  # not in the shadow of the run before


@pytest.mark.parametrize("name", SHADOWED)
def test_a_second_run_of_a_policy_is_the_first(name: str) -> None:
    world, other = budget_world(4, traces=2), budget_world(5, traces=3)
    policy = make_policy(name, world.scenario)
    first = served(world, policy)
    served(other, policy)
    assert_same_ledger(served(world, policy).ledger, first.ledger)


@pytest.mark.parametrize("name", [*SHADOWED, "ccar-budget-fixed", "reference"])
@pytest.mark.parametrize("make", [scalar, fleet])
def test_they_serve_as_the_background_of_environments(make: Any, name: str) -> None:
    scenario = load_scenario("tiny", bounds={"quality_constraint": "budget"})
    env = make(scenario=scenario, fleets=2, background=name)
    world = env.world
    policy = make_policy("ccar-budget-fixed" if name == "reference" else name, scenario)
    run = run_policy(scenario, policy, world.evaluation.traces, world.evaluation.grid)
    assert np.array_equal(world.background.deployment, run.ledger["deployment"])
    assert np.array_equal(world.background.co2_g, run.ledger["co2_g"])


def test_a_background_under_memory_pressure_is_served_twice_alike() -> None:
    scenario = load_scenario("tiny", bounds={"quality_constraint": "budget"}, fleet={"replicas": 1})
    scenario = scenario.model_copy(
        update={
            "fleet": scenario.fleet.model_copy(
                update={
                    "models": tuple(
                        model.model_copy(update={"head_dim": 60 * model.head_dim})
                        for model in scenario.fleet.models
                    )
                }
            )
        }
    )
    env = scalar(scenario=scenario, fleets=2, background="ccar-budget-sessions")
    background = env.world.background
    assert len(background.evicted_until_s) > 1, "memory pressure must bite"
    policy = make_policy("ccar-budget-sessions", scenario)
    evaluation = env.world.evaluation
    run = run_policy(scenario, policy, evaluation.traces, evaluation.grid)
    assert np.array_equal(background.deployment, run.ledger["deployment"])


# ------------------------------------------------------------------------------ no foresight


def choices(folder: Path, inputs: Inputs, name: str, rules: dict[str, Any]) -> list[Any]:
    """(s since `START_S`, session, turn, deployment, λ) of every turn, by time."""
    conversations, grid = inputs.write(folder)
    changes = {
        **rules,
        "workload": {"source": "file", "path": str(conversations), "format": "tokens"},
        "grid": {"source": "file", "paths": [str(grid)], **rules.get("grid", {})},
        "bounds": {"quality_constraint": "budget"},
    }
    evaluation = evaluation_fleets(load_scenario("tiny", **changes))
    names = [n for trace in evaluation.traces for n in trace.session_id]
    seen: list[Any] = []

    class Noting(Watched):
        def choose(self, quotes: Quotes) -> Ints:
            chosen = super().choose(quotes)
            assert self.policy.price is not None
            for lane in np.flatnonzero(quotes.row != NOWHERE):
                begin_s = evaluation.traces[lane].origin_unix_s - START_S
                when = begin_s + float(quotes.time_s[lane])
                price = float(self.policy.price[lane])
                session = names[int(quotes.slot[lane])]
                seen.append((when, session, int(quotes.turn[lane]), int(chosen[lane]), price))
            return chosen

    policy: Any = make_policy(name, evaluation.scenario)
    run_policy(evaluation.scenario, Noting(policy), evaluation.traces, evaluation.grid)
    return sorted(seen)


@pytest.mark.parametrize("rules", RULES)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(SHADOWED), cut=st.integers(0, 95), seed=st.integers(0, 10**6))
def test_choices_up_to_t_do_not_change_with_what_comes_after(
    tmp_path: Path, rules: str, name: str, cut: int, seed: int
) -> None:
    before = original(seed)
    t_s = int(np.sort(before.arrival_s, axis=None)[cut])
    after = changed_after(before, t_s, seed + 1)
    known, again = (
        [turn for turn in choices(tmp_path, inputs, name, RULES[rules]) if turn[0] <= t_s]
        for inputs in (before, after)
    )
    assert len(known) > cut
    assert known == again


def test_worlds_differ_by_what_they_draw() -> None:
    """What the properties above stand on: evictions, both capacity rules, evict and retain."""
    drawn: list[World] = [budget_world(seed, traces=2) for seed in range(24)]
    rules = {(w.scenario.capacity.rule, w.scenario.cache.on_leave) for w in drawn}
    assert len(rules) == 4
    unlimited = 0
    for world in drawn:
        loose = replace(world).with_scenario(cache={"memory_pressure": False})
        runs = [served(w, CcarBudget(SCALE_G, 1.0)).ledger["cached_tokens"] for w in (world, loose)]
        unlimited += int(not np.array_equal(*runs))
    assert unlimited > 3, "memory pressure must bite"
