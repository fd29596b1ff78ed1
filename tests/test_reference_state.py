"""The plain-Python reference against hand-worked examples: caches and capacity (SPEC §3, §10)."""

from __future__ import annotations

import math

import pytest
from reference.capacity import limit_of
from reference.examples import TOY_GPU, Row, World, gpu, simulator, toy_fleet
from reference.simulator import ReferenceSimulator

from carbon_gym.scenario.schema import Caches, Capacity


def held(sim: ReferenceSimulator, d: int, now_s: float) -> dict[int, int]:
    """Tokens by session that deployment d holds."""
    sessions = set(sim.session)
    tokens = {s: sim.caches[d].held_tokens(s, now_s) for s in sessions}
    return {s: n for s, n in tokens.items() if n > 0}


def replay(sim: ReferenceSimulator, choices: list[int]) -> None:
    """Commit the next rows to given deployments."""
    for d in choices:
        sim.commit(len(sim.chosen), d)


# ------------------------------------------------------------------------------------ caches


@pytest.mark.parametrize(("age_s", "cached"), [(599.0, 110), (600.0, 110), (600.001, 0)])
def test_the_edge_of_the_ttl_is_alive(age_s: float, cached: int) -> None:
    rows = [Row(0, 5.0, 100, 0, 10), Row(0, 5.0 + age_s, 20, 110, 10)]
    sim = simulator(World(toy_fleet("A")), rows)
    sim.commit(0, 0)
    outcome = sim.commit(1, 0)
    assert outcome.cached_tokens == cached
    assert outcome.recompute_kwh == pytest.approx(1e-6 * (110 - cached))
    assert outcome.energy_kwh == pytest.approx(1e-6 * (0.03 * cached + 110 - cached + 20 + 40))


@pytest.mark.parametrize(("on_leave", "back"), [("retain", 110), ("evict", 0)])
def test_what_is_left_behind(on_leave: str, back: int) -> None:
    cache = Caches.model_validate({"on_leave": on_leave})
    rows = [
        Row(0, 0.0, 100, 0, 10),
        Row(1, 1.0, 50, 0, 5),
        Row(0, 60.0, 20, 110, 10),
        Row(0, 120.0, 20, 140, 10),
    ]
    sim = simulator(World(toy_fleet("A", "B"), cache=cache), rows)
    replay(sim, [0, 0])
    assert sim.commit(2, 1).recompute_kwh == pytest.approx(110e-6)
    assert sim.quote(3).cached_tokens == [back, 140]
    assert held(sim, 0, 120.0).get(1) == 55, "another session's cache stays"
    outcome = sim.commit(3, 0)
    assert outcome.recompute_kwh == pytest.approx(1e-6 * (140 - back))
    assert outcome.switched


def test_the_least_recently_used_session_is_evicted() -> None:
    # Room for 320 tokens.
    rows = [
        Row(0, 0.0, 60, 0, 40),
        Row(1, 10.0, 60, 0, 40),
        Row(2, 20.0, 60, 0, 40),
        Row(0, 30.0, 5, 100, 5),  # replaces its own entry: 110 + 100 + 100
        Row(3, 40.0, 30, 0, 20),  # 360 > 320: session 1 is the one to go
        Row(4, 50.0, 100, 0, 61),  # 421 > 320: 2 goes, and 110 + 50 + 161 = 321: so does 0
    ]
    sim = simulator(World(toy_fleet("A")), rows)
    replay(sim, [0, 0, 0, 0])
    assert held(sim, 0, 30.0) == {0: 110, 1: 100, 2: 100}
    replay(sim, [0])
    assert held(sim, 0, 40.0) == {0: 110, 2: 100, 3: 50}
    replay(sim, [0])
    assert held(sim, 0, 50.0) == {3: 50, 4: 161}


def test_of_two_sessions_used_at_the_same_instant_the_earlier_event_goes() -> None:
    rows = [Row(1, 0.0, 100, 0, 50), Row(0, 0.0, 100, 0, 50), Row(2, 0.0, 30, 0, 10)]
    sim = simulator(World(toy_fleet("A")), rows)
    replay(sim, [0, 0, 0])
    assert held(sim, 0, 0.0) == {0: 150, 2: 40}


def test_an_entry_as_large_as_the_room_is_kept_and_a_larger_one_is_not() -> None:
    rows = [
        Row(0, 0.0, 60, 0, 40),
        Row(1, 1.0, 300, 0, 21),
        Row(1, 2.0, 10, 321, 1),
        Row(2, 3.0, 300, 0, 20),
    ]
    sim = simulator(World(toy_fleet("A")), rows)
    replay(sim, [0, 0])
    assert held(sim, 0, 1.0) == {0: 100}, "321 tokens evict nobody and are not kept"
    assert sim.commit(2, 0).cached_tokens == 0
    replay(sim, [0])
    assert held(sim, 0, 3.0) == {2: 320}


def test_an_entry_that_outgrows_the_room_leaves_nothing_of_its_session() -> None:
    rows = [Row(0, 0.0, 100, 0, 100), Row(0, 1.0, 100, 200, 21), Row(0, 2.0, 1, 321, 1)]
    sim = simulator(World(toy_fleet("A")), rows)
    replay(sim, [0, 0])
    assert held(sim, 0, 2.0) == {}


def test_expired_entries_free_their_room() -> None:
    cache = Caches(ttl_s=50.0)
    rows = [Row(0, 0.0, 100, 0, 100), Row(1, 30.0, 60, 0, 40), Row(2, 51.0, 100, 0, 100)]
    sim = simulator(World(toy_fleet("A"), cache=cache), rows)
    replay(sim, [0, 0, 0])
    assert held(sim, 0, 51.0) == {1: 100, 2: 200}


def test_replicas_and_memory_pressure() -> None:
    rows = [Row(s, float(s), 100, 0, 100) for s in range(4)]
    two_replicas = toy_fleet("A").model_copy(update={"replicas": 2})
    sim = simulator(World(two_replicas), rows)
    replay(sim, [0] * 4)
    assert held(sim, 0, 3.0) == {1: 200, 2: 200, 3: 200}, "640 tokens"
    sim = simulator(World(toy_fleet("A"), cache=Caches(memory_pressure=False)), rows)
    replay(sim, [0] * 4)
    assert held(sim, 0, 3.0) == {0: 200, 1: 200, 2: 200, 3: 200}


# ---------------------------------------------------------------------------------- capacity

TWIN = gpu("twin", 1.0, 1.0, 4.0, 900.0, 0.5, 1.0)
FOUR_POOLS = toy_fleet("A", "B", gpus=(TOY_GPU, TWIN))
"""Deployments g/A, g/B, twin/A, twin/B: four pools of half a region each."""


def turns(*sessions: int, at: tuple[float, ...] | None = None) -> list[Row]:
    """One small turn of each session, a second apart unless times are given."""
    times = at or tuple(float(k) for k in range(len(sessions)))
    return [Row(s, t, 10, 0, 10) for s, t in zip(sessions, times, strict=True)]


def test_sessions_per_pool() -> None:
    # Places per pool: ceil(1/2 · 1/2 · N) with N active sessions, the newcomer included.
    world = World(FOUR_POOLS, capacity=Capacity(limit=0.5))
    sim = simulator(world, turns(0, 1, 2, 3, 0, 4, 0, 5, 6))
    full_then_chosen = [
        ([True, True, True, True], 0),  # N = 1: one place each
        ([False, True, True, True], 1),  # N = 2
        ([False, False, True, True], 2),  # N = 3
        ([False, False, False, True], 3),  # N = 4
        ([True, False, False, False], 0),  # N = 4: session 0 is at home in the first
        ([True, True, True, True], 0),  # N = 5: two places each; the first now holds 0 and 4
        ([True, True, True, True], 1),  # session 0 may stay or go; it goes
        ([True, False, True, True], 0),  # N = 6: (4), (1, 0), (2), (3); two places each
        ([False, False, True, True], 2),  # N = 7: (4, 5), (1, 0), (2), (3)
    ]
    for i, (available, choice) in enumerate(full_then_chosen):
        assert sim.quote(i).available == available, i
        assert not sim.commit(i, choice).capacity_violation, i


def test_sessions_per_region() -> None:
    # Places per region: ceil(1/2 · N); both GPUs of a region share them.
    world = World(FOUR_POOLS, capacity=Capacity(limit=0.5, scope="region"))
    sim = simulator(world, turns(0, 1, 2, 0, 3, 4))
    expected = [
        ([True, True, True, True], 0),  # N = 1: one place each
        ([False, True, False, True], 3),  # N = 2: A is full
        ([True, True, True, True], 2),  # N = 3: two places each
        ([True, True, True, True], 2),  # session 0 changes GPU inside A
        ([False, True, False, True], 2),  # N = 4: two places, A holds 0 and 2: a violation
        ([False, True, False, True], 1),  # N = 5: three places, A holds 0, 2, 3
    ]
    for i, (available, choice) in enumerate(expected):
        assert sim.quote(i).available == available, i
        assert sim.commit(i, choice).capacity_violation == (not available[choice])


def test_sessions_after_the_residency_are_newcomers() -> None:
    world = World(toy_fleet("A", "B"), capacity=Capacity(limit=0.5, residency_s=100.0))
    rows = turns(0, 1, 2, 0, 1, at=(0.0, 10.0, 100.0, 101.0, 111.0))
    sim = simulator(world, rows)
    replay(sim, [0, 1])
    # At 100 s session 0 is just active: N = 3, two places, nobody is turned away.
    assert sim.quote(2).available == [True, True]
    replay(sim, [0])
    # At 101 s session 0 has been idle too long: N = 3 with 1 and 2; a newcomer, but 1 < 2.
    assert sim.quote(3).available == [True, True]
    replay(sim, [0])
    # At 111 s session 1 is idle beyond residency: A holds 0 and 2, N = 3, two places.
    assert sim.quote(4).available == [False, True]


def test_the_last_turn_says_where_a_session_is_active() -> None:
    world = World(toy_fleet("A", "B"), capacity=Capacity(limit=0.5))
    sim = simulator(world, turns(0, 1, 0, 2, 3, 0))
    replay(sim, [0, 1, 1])
    # Session 0 went to B: A is empty, B holds both, N = 3, two places.
    assert sim.quote(3).available == [True, False]
    replay(sim, [0])
    assert sim.quote(4).available == [True, False], "N = 4, two places, A holds one"
    replay(sim, [0])
    assert sim.quote(5).available == [False, True], "session 0 lives in B now; A holds 2 and 3"


def test_gpu_shares_of_the_scenario() -> None:
    gpus = (
        TOY_GPU.model_copy(update={"share": 0.25}),
        TWIN.model_copy(update={"share": 0.75}),
    )
    world = World(toy_fleet("A", gpus=gpus), capacity=Capacity(limit=1.0))
    sim = simulator(world, turns(0, 1, 2, 3, 4))
    # Places: ceil(N / 4) and ceil(3 N / 4).
    for i, (available, choice) in enumerate(
        [
            ([True, True], 0),  # N = 1: 1, 1
            ([False, True], 1),  # N = 2: 1, 2
            ([False, True], 1),  # N = 3: 1, 3
            ([False, True], 1),  # N = 4: 1, 3
            ([True, True], 0),  # N = 5: 2, 4
        ]
    ):
        assert sim.quote(i).available == available
        replay(sim, [choice])


@pytest.mark.parametrize("scope", ["pool", "region"])
def test_turns_of_the_trailing_window(scope: str) -> None:
    # One GPU type: a pool is a region. At most ceil(n / 2) of the n turns of the window.
    capacity = Capacity.model_validate({"limit": 0.5, "rule": "turns", "scope": scope})
    times = (0.0, 1.0, 2.0, 3.0, 300.0, 300.5, 300.6, 300.7)
    rows = turns(*[0] * 8, at=times)
    sim = simulator(World(toy_fleet("A", "B"), capacity=capacity), rows)
    expected = [
        ([True, True], 0),  # n = 1: one turn
        ([False, True], 1),  # n = 2: one; the session is pushed away
        ([True, True], 0),  # n = 3: two
        ([False, True], 1),  # n = 4: two, A has served two
        ([True, True], 0),  # the turn at 0 s counts until 300 s: n = 5, three; 2 and 2 served
        ([True, True], 0),  # and no longer: n = 5 with those at 1, 2, 3, 300 s; 2 and 2 served
        ([False, True], 0),  # n = 6: three, A has served those; a violation,
        ([False, True], 1),  # which counts: n = 7, four, A has served four
    ]
    for i, (available, choice) in enumerate(expected):
        assert sim.quote(i).available == available, i
        assert sim.commit(i, choice).capacity_violation == (not available[choice])


def test_turns_per_pool_and_per_region_differ() -> None:
    for scope, available in (
        ("pool", [False, True, True, True]),  # ceil(2 / 4) = 1: g/A has served one
        ("region", [False, True, False, True]),  # ceil(2 / 2) = 1: A has served one
    ):
        capacity = Capacity.model_validate({"limit": 0.5, "rule": "turns", "scope": scope})
        sim = simulator(World(FOUR_POOLS, capacity=capacity), turns(0, 0))
        replay(sim, [0])
        assert sim.quote(1).available == available


def test_without_a_limit_there_is_always_room() -> None:
    sim = simulator(World(FOUR_POOLS, capacity=Capacity(limit=None)), turns(*range(9)))
    for i in range(9):
        assert sim.quote(i).available == [True] * 4
        replay(sim, [0])


def test_the_ceiling_is_taken_less_1e9() -> None:
    assert math.ceil(0.2 * 0.75 * 20) == 4, "3.0000000000000004 without it"
    assert limit_of(0.2, 0.75, 20) == 3
    assert limit_of(1 / 3, 0.5, 6) == 1
    assert limit_of(1 / 3, 0.5, 7) == 2
    assert limit_of(1.0, 0.5, 1) == 1
