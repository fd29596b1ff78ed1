"""The fast simulator against the plain-Python reference, turn by turn on random small worlds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import reference
from reference import ReferenceSimulator
from reference.capacity import active_units, limit_of
from reference.examples import Row, toy_fleet, trace
from worlds import (
    POLICY_NAMES,
    Floats,
    World,
    assert_same_ledger,
    play,
    policy_named,
    random_trace,
    random_world,
    tell_quality,
)

from carbon_gym.scenario.scenario import Scenario
from carbon_gym.scenario.schema import Capacity
from carbon_gym.simulator import Quotes, Simulator
from carbon_gym.simulator.arrays import NOWHERE, OUTCOME
from carbon_gym.workload.trace import Trace

SEEDS = range(48)
TOLERANCE = 1e-9
EXACT = ("cached_tokens", "available", "admissible", "feasible")
CLOSE = ("energy_kwh", "co2_g", "ttft_s")
OUTCOME_FLAGS = ("quality_violation", "ttft_violation", "capacity_violation", "switched")


def close(fast: Sequence[float] | Floats, slow: Sequence[float]) -> bool:
    """Equal to a relative 1e-9."""
    found, expected = np.asarray(fast, dtype=float), np.asarray(slow, dtype=float)
    return bool((np.abs(found - expected) <= TOLERANCE * np.abs(expected)).all())


def check_quote(quotes: Quotes, slow: reference.Quote, where: str) -> None:
    """Every array of a one-lane quote, cache-aware and cache-blind."""
    blind = quotes.cache_blind()
    for name in EXACT:
        assert getattr(quotes, name)[0].tolist() == getattr(slow, name), f"{where}: {name}"
    for name in CLOSE:
        assert close(getattr(quotes, name)[0], getattr(slow, name)), f"{where}: {name}"
        assert close(getattr(blind, name)[0], getattr(slow, f"blind_{name}")), f"{where}: {name}"
    assert blind.feasible[0].tolist() == slow.blind_feasible, f"{where}: blind feasible"
    assert quotes.previous[0] == (NOWHERE if slow.previous is None else slow.previous), where


def check_outcome(entry: np.void, slow: reference.Outcome, where: str) -> None:
    """Every field of the account of one turn."""
    for name in OUTCOME.names or ():
        found, expected = entry[name].item(), getattr(slow, name)
        if isinstance(expected, float):
            assert close([found], [expected]), f"{where}: {name} {found} {expected}"
        else:
            assert found == expected, f"{where}: {name}"


def check_load(quotes: Quotes, slow: ReferenceSimulator, row: int, where: str) -> bool:
    """Load and places of every capacity unit, recounted; whether a ceil needed its slack."""
    rules, now_s, session = slow.scenario.capacity, slow.arrival_s[row], slow.session[row]
    if rules.rule == "sessions":
        active = active_units(slow.history, now_s, rules.residency_s)
        total = len(set(active) | {session})
        loads = Counter(unit for other, unit in active.items() if other != session)
    else:
        window = [t.unit for t in slow.history if now_s - t.arrival_s <= rules.slot_s]
        total, loads = len(window) + 1, Counter(window)
    slack = False
    for d, unit in enumerate(slow.unit):
        u, places, share = quotes.fleet.unit[d], NOWHERE, slow.share_of_unit[unit]
        if rules.limit is not None:
            places = limit_of(share, rules.limit, total)
            slack |= places != math.ceil(share * rules.limit * total)
        assert quotes.unit_load[0, u] == loads[unit], where
        assert quotes.unit_places[0, u] == places, where
    return slack


def commit(slow: ReferenceSimulator, row: int, deployment: int) -> tuple[reference.Outcome, int]:
    """The outcome, and how many living caches of other sessions it drove out."""
    caches, now_s, session = slow.caches[deployment], slow.arrival_s[row], slow.session[row]
    living = {e.session for e in caches.entries if caches.is_alive(e, now_s)} - {session}
    outcome = slow.commit(row, deployment)
    return outcome, len(living - {e.session for e in caches.entries})


def compare(world: World, name: str, seed: int) -> Counter[str]:
    """Play one policy on both in lockstep; counts what happened."""
    bound = name == "lower-bound"
    fast = Simulator(
        world.scenario, world.traces, world.grid, predictor=world.predictor, full_cache=bound
    )
    if bound:  # the bound must not miss a region that a stale intensity hides
        world = world.with_scenario(grid={"staleness_s": 0.0})
    slow = ReferenceSimulator(
        world.scenario,
        world.trace,
        world.grid_at(),
        fast.quality_predicted,
        fast.quality_realised,
        full_cache=bound,
    )
    rng = np.random.default_rng(seed)
    policy = None if name == "random" else policy_named(name)
    if policy is not None:
        policy.reset(fast.fleet, fast.slots)
    happened: Counter[str] = Counter(turns=slow.rows)
    for row in range(slow.rows):
        where = f"seed {seed}, {name}, row {row}"
        quotes, expected = fast.quote(), slow.quote(row)
        check_quote(quotes, expected, where)
        as_filtered = slow.quote(row, filtered=True)  # what the paper's policies see of a budget
        check_quote(quotes.filtered(), as_filtered, f"{where}, filtered")
        happened["the filter is not the floor"] += as_filtered.admissible != expected.admissible
        happened["slack"] += check_load(quotes, slow, row, where)
        if policy is None:
            actions = rng.integers(0, len(fast.fleet), 1)
        else:
            actions = policy.choose(quotes)
            assert actions.dtype == np.int64
            chosen = reference.POLICIES[name](slow, row, as_filtered)
            assert actions.tolist() == [chosen], where
        fast.commit(actions)
        outcome, evicted = commit(slow, row, int(actions[0]))
        check_outcome(fast.ledger[row], outcome, where)
        happened["evictions"] += evicted
    assert fast.done
    for flag in OUTCOME_FLAGS:
        happened[flag] += int(fast.ledger[flag].sum())
    happened["hits"] += int((fast.ledger["cached_tokens"] > 0).sum())
    return happened


def world_of(seed: int) -> World:
    """Any shape and some rule of quality; see `shaped_world`."""
    world = shaped_world(seed)
    if seed % 3 != 1:
        return world
    return world.with_scenario(
        bounds={"quality_constraint": "budget", "beta_floor": (0.0, 0.7, 0.7, 0.95)[seed // 3 % 4]}
    )


def shaped_world(seed: int) -> World:
    """Some are 3 x 2 x 7, some small and short of memory, some full of ties."""
    if seed % 6 == 5:
        return random_world(seed, shape=(3, 2, 7))
    if seed % 4 == 0:
        return random_world(seed, shape=(1, 2, 2), cache={"memory_pressure": True, "ttl_s": 600.0})
    if seed % 4 == 1:
        return random_world(seed, coarse=True)
    return random_world(seed)


@cache
def played(seed: int) -> dict[str, Counter[str]]:
    """What happened in one world under every policy and under random actions."""
    world = world_of(seed)
    return {name: compare(world, name, seed) for name in (*POLICY_NAMES, "random")}


@pytest.mark.parametrize("seed", SEEDS)
def test_every_quote_choice_and_outcome_agrees(seed: int) -> None:
    assert played(seed)["random"]["turns"] > 0


def test_the_random_worlds_reach_every_rule() -> None:
    worlds = [played(seed) for seed in SEEDS]
    evicting = sum(any(c["evictions"] for c in counts.values()) for counts in worlds)
    assert evicting >= len(SEEDS) // 3, "memory pressure must bite in a good share of the worlds"
    assert sum(counts["random"]["evictions"] for counts in worlds) > 100
    assert sum(counts["random"]["slack"] for counts in worlds) > 0, "SPEC §10's ceil"
    budgets = [counts["random"]["the filter is not the floor"] for counts in worlds]
    assert sum(budgets) > 100
    assert sum(count > 0 for count in budgets) >= len(SEEDS) // 8
    for name in ("ccar-no-gate", "session-affinity"):
        total = sum((counts[name] for counts in worlds), Counter())
        for what in ("hits", "evictions", "ttft_violation", "capacity_violation", "switched"):
            assert total[what] > 20, f"{name}: {what}"
        bounds = [world_of(seed).scenario.bounds for seed in SEEDS]
        for counts, rule in zip(worlds, bounds, strict=True):
            if rule.admissible_share <= rule.beta_q:  # a floor above the filter they cannot keep
                assert counts[name]["quality_violation"] == 0
    rules = [world_of(seed).scenario.capacity for seed in SEEDS]
    assert {rule.limit for rule in rules} == {None, 0.1, 0.25, 0.5, 1.0}
    assert {(rule.rule, rule.scope) for rule in rules} == set(
        product(("sessions", "turns"), ("pool", "region"))
    )
    assert {world_of(seed).scenario.cache.on_leave for seed in SEEDS} == {"retain", "evict"}


def test_a_cache_of_just_its_ttl_outlives_another_commit_at_that_instant() -> None:
    rows = [Row(1, 0.0, 100, 0, 10), Row(0, 600.0, 20, 0, 10), Row(1, 600.0, 20, 110, 10)]
    world = random_world(0, shape=(1, 1, 1))
    scenario = Scenario(fleet=toy_fleet("A"), capacity=Capacity(limit=None))
    turns = trace(rows, origin_unix_s=world.trace.origin_unix_s)
    world.predictor.tell(turns, ["toy"], np.full((3, 1), 0.5))
    grid = replace(world.grid, zones=("A",))
    world = replace(world, scenario=scenario, traces=[turns], grid=grid)
    for name in ("ccar-no-gate", "random"):
        happened = compare(world, name, 0)
        assert (happened["turns"], happened["hits"], happened["evictions"]) == (3, 1, 0)


# ------------------------------------------------------------------------------------ lanes


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("name", [*POLICY_NAMES, "random"])
def test_fleets_side_by_side_are_the_fleets_alone(lanes: int, name: str) -> None:
    for seed in range(200 + 10 * lanes, 204 + 10 * lanes):
        world = random_world(seed, traces=lanes)
        if lanes > 1:  # one fleet without a turn, anywhere among the others
            rng = np.random.default_rng(seed)
            at = int(rng.integers(lanes))
            world.traces[at] = random_trace(rng, world.scenario, 0)
            tell_quality(rng, world, world.traces[at])
        actions = np.random.default_rng(seed).integers(0, 10**6, (lanes, 200))
        together = play(world, name, actions)
        for lane, turns in enumerate(world.traces):
            alone = play(replace(world, traces=[turns]), name, actions[lane : lane + 1])
            rows = slice(together.bounds[lane], together.bounds[lane + 1])
            assert_same_ledger(together.ledger[rows], alone.ledger)


@pytest.mark.parametrize("name", [*POLICY_NAMES, "random"])
def test_a_lane_of_one_session_is_a_fleet_of_one_session(name: str) -> None:
    for seed in range(300, 306):
        world = random_world(seed, traces=1 + seed % 2, turns=60)
        actions = np.random.default_rng(seed).integers(0, 10**6, (40, 200))
        sessions = play(world, name, actions, lanes="sessions")
        assert sessions.lanes == sum(turns.sessions for turns in world.traces)
        unbounded = world.with_scenario(capacity={"limit": None}, cache={"memory_pressure": False})
        lane = 0
        for turns in world.traces:
            for session in range(turns.sessions):
                alone = one_session(unbounded, turns, session)
                fleet = play(alone, name, actions[lane : lane + 1])
                rows = slice(sessions.bounds[lane], sessions.bounds[lane + 1])
                assert_same_ledger(sessions.ledger[rows], fleet.ledger)
                lane += 1


def one_session(world: World, turns: Trace, session: int) -> World:
    """A world in which one session of a trace is served alone."""
    rows = np.flatnonzero(turns.session == session)
    names = [f.name for f in fields(turns) if len(np.shape(getattr(turns, f.name))) == 1]
    by_row = [n for n in names if n not in ("session_id", "session_key", "session_turns")]
    alone = replace(
        turns,
        **{name: getattr(turns, name)[rows] for name in by_row},
        session_id=turns.session_id[session : session + 1],
        session_key=turns.session_key[session : session + 1],
        session_turns=turns.session_turns[session : session + 1],
    )
    alone = replace(alone, session=np.zeros(len(rows), dtype=np.int64))
    names = [model.name for model in world.scenario.fleet.models]
    said = world.predictor.predict(turns, world.scenario.fleet.models)[rows]
    world.predictor.tell(alone, names, said)
    return replace(world, traces=[alone])
