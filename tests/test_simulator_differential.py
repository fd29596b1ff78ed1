"""The fast simulator against the plain-Python reference, turn by turn on random small worlds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
import reference
from reference import ReferenceSimulator
from worlds import POLICY_NAMES, Floats, World, pick, random_trace, random_world, tell_quality

from carbon_gym import make_policy
from carbon_gym.simulator import Quotes, Simulator
from carbon_gym.simulator.arrays import NOWHERE, OUTCOME

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
    policy = None if name == "random" else make_policy(name)
    if policy is not None:
        policy.reset(fast.fleet, fast.slots)
    happened: Counter[str] = Counter(turns=slow.rows)
    for row in range(slow.rows):
        where = f"seed {seed}, {name}, row {row}"
        quotes, expected = fast.quote(), slow.quote(row)
        check_quote(quotes, expected, where)
        if policy is None:
            actions = rng.integers(0, len(fast.fleet), 1)
        else:
            actions = policy.choose(quotes)
            assert actions.dtype == np.int64
            chosen = reference.POLICIES[name](slow, row, expected)
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
    """Any shape; every sixth world has 3 x 2 x 7 deployments."""
    return random_world(seed, shape=(3, 2, 7) if seed % 6 == 5 else None)


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
    for name in ("ccar-no-gate", "session-affinity"):
        total = sum((counts[name] for counts in worlds), Counter())
        for what in ("hits", "evictions", "ttft_violation", "capacity_violation", "switched"):
            assert total[what] > 20, f"{name}: {what}"
        assert total["quality_violation"] == 0
    by_rule = Counter(
        (world.scenario.capacity.limit, world.scenario.capacity.rule, world.scenario.cache.on_leave)
        for world in map(world_of, SEEDS)
    )
    assert {key[0] for key in by_rule} == {None, 0.1, 0.25, 0.5, 1.0}
