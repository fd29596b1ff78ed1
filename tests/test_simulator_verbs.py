"""The verbs of the simulator: what they refuse, what they keep, and what a quote may know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import World, assert_same_ledger, play, random_world

from carbon_gym.grid.series import STEP_S
from carbon_gym.simulator import Quotes, Simulator
from carbon_gym.simulator.arrays import QuoteBuffers

seeds = st.integers(0, 2**32 - 1)


def actions_for(seed: int) -> np.ndarray:
    """Random actions of four lanes and 200 steps, to be taken modulo D."""
    return np.random.default_rng(seed).integers(0, 10**6, (4, 200))


def simulator_of(world: World) -> Simulator:
    return Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)


def snapshot(quotes: Quotes) -> dict[str, np.ndarray]:
    """Copies of all that a policy can read of a quote, the cache-blind prices among it."""
    seen = {name: getattr(quotes, name).copy() for name in QuoteBuffers._fields}
    blind = quotes.cache_blind()
    for name in ("energy_kwh", "co2_g", "ttft_s", "feasible"):
        seen[f"blind {name}"] = getattr(blind, name).copy()
    return seen


def assert_same_quotes(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name


def finish(simulator: Simulator, actions: np.ndarray) -> None:
    """Serve all turns that are left by given actions."""
    for step in range(actions.shape[1]):
        if simulator.done:
            return
        simulator.quote()
        simulator.commit(actions[: simulator.lanes, step] % len(simulator.fleet))


# ------------------------------------------------------------------------------------ verbs


@settings(max_examples=20)
@given(seeds, st.integers(1, 4), st.integers(0, 30))
def test_reset_gives_a_fresh_simulator(seed: int, lanes: int, steps: int) -> None:
    world, actions = random_world(seed, traces=lanes, turns=60), actions_for(seed)
    fresh, used = simulator_of(world), simulator_of(world)
    finish(used, actions_for(seed + 1)[:, :steps])
    kept, before = used.ledger, used.ledger.copy()
    used.reset()
    assert used.turns_served == 0
    assert used.done == fresh.done
    with pytest.raises(RuntimeError, match="quote"):
        used.commit(actions[:lanes, 0])
    assert_same_quotes(snapshot(used.quote()), snapshot(fresh.quote()))
    finish(used, actions)
    finish(fresh, actions)
    assert_same_ledger(used.ledger, fresh.ledger)
    assert_same_ledger(kept, before)


@settings(max_examples=20)
@given(seeds)
def test_quoting_twice_changes_nothing(seed: int) -> None:
    world, actions = random_world(seed, traces=2, turns=60), actions_for(seed)
    once, often = simulator_of(world), simulator_of(world)
    for step in range(200):
        if once.done:
            break
        first = snapshot(often.quote())
        assert_same_quotes(snapshot(often.quote()), first)
        assert_same_quotes(snapshot(once.quote()), first)
        chosen = actions[:2, step] % len(once.fleet)
        often.commit(chosen)
        once.commit(chosen)
    assert often.done
    assert_same_ledger(often.ledger, once.ledger)


@settings(max_examples=20)
@given(seeds)
def test_step_is_commit_and_quote(seed: int) -> None:
    world, actions = random_world(seed, traces=3, turns=60), actions_for(seed)
    stepped, apart = simulator_of(world), simulator_of(world)
    quotes = stepped.quote()
    for step in range(200):
        live = quotes.row >= 0
        seen, expected = snapshot(quotes), snapshot(apart.quote())
        assert np.array_equal(seen["row"], expected["row"])
        for name, array in expected.items():
            assert np.array_equal(seen[name][live], array[live]), name
        if apart.done:
            break
        chosen = actions[:3, step] % len(apart.fleet)
        quotes = stepped.step(chosen)
        apart.commit(chosen)
    assert stepped.done
    assert_same_ledger(stepped.ledger, apart.ledger)


def test_commit_needs_a_quote_of_the_same_turns() -> None:
    simulator = simulator_of(random_world(1))
    for verb in (simulator.commit, simulator.step):
        with pytest.raises(RuntimeError, match=r"quote\(\)"):
            verb(np.zeros(1, dtype=np.int64))
    simulator.quote()
    simulator.commit(np.zeros(1, dtype=np.int64))
    with pytest.raises(RuntimeError, match=r"quote\(\)"):
        simulator.commit(np.zeros(1, dtype=np.int64))
    assert simulator.turns_served == 1


def test_an_action_out_of_range_is_refused_and_changes_nothing() -> None:
    world = random_world(2, shape=(2, 2, 2), traces=2)
    disturbed, calm, actions = simulator_of(world), simulator_of(world), actions_for(2)
    wrong = ([0, 8], [-1, 0], [2**40, 1], [3, -(2**62)], [0], [0, 0, 0], [[0, 0]], [0.0, 1.5])
    for step in range(10):
        before = snapshot(disturbed.quote())
        for bad in wrong:
            with pytest.raises(ValueError, match=r"0 to 7|shape|integers"):
                disturbed.commit(np.array(bad))
            with pytest.raises(ValueError, match=r"0 to 7|shape|integers"):
                disturbed.step(np.array(bad))
        assert disturbed.turns_served == calm.turns_served
        assert_same_quotes(snapshot(disturbed.quote()), before)
        calm.quote()
        chosen = actions[:2, step] % 8
        disturbed.commit(chosen)
        calm.commit(chosen)
    finish(disturbed, actions)
    finish(calm, actions)
    assert_same_ledger(disturbed.ledger, calm.ledger)


@pytest.mark.parametrize(
    "action", [[3], np.array([3], dtype=np.int32), np.array([3], dtype=np.uint8), np.array(3), 3]
)
def test_actions_arrive_in_any_integer_form(action: Any) -> None:
    simulator = simulator_of(random_world(2, shape=(2, 2, 2)))
    simulator.quote()
    simulator.commit(action)
    assert simulator.ledger["deployment"][0] == 3


def test_actions_of_lanes_that_are_done_are_ignored() -> None:
    world = random_world(4, traces=2)
    lengths = [trace.turns for trace in world.traces]
    assert lengths[0] != lengths[1]
    simulator = simulator_of(world)
    while not simulator.done:
        live = simulator.quote().row >= 0
        simulator.commit(np.where(live, 0, -77))
    assert simulator.turns_served == sum(lengths)
    assert (simulator.ledger["deployment"] == 0).all()
    simulator.quote()
    simulator.commit(np.array([-1, 10**9]))
    assert simulator.done, "a commit after the end leaves a run done"


# ---------------------------------------------------------------------------------- aliasing


def arrays_of(thing: Any) -> Iterator[np.ndarray]:
    """Every array that can be reached from an object of ours."""
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, tuple | list):
        for item in thing:
            yield from arrays_of(item)
    elif is_dataclass(thing):
        for field in fields(thing):
            yield from arrays_of(getattr(thing, field.name))
    elif isinstance(thing, Simulator):
        for item in vars(thing).values():
            yield from arrays_of(item)


def test_two_simulators_of_one_scenario_share_nothing_mutable() -> None:
    world = random_world(5, traces=2)
    one, two = simulator_of(world), simulator_of(world)
    theirs = list(arrays_of(two))
    assert len(theirs) > 60
    given = [*arrays_of(world.traces), *arrays_of(world.grid)]
    for mine in arrays_of(one):
        for other in (*theirs, *given):
            assert not np.shares_memory(mine, other)
    # Nor does what the caller does to the inputs afterwards matter.
    expected = play(random_world(5, traces=2), "random", actions_for(5)).ledger
    for array in given:
        if array.dtype != object:
            array[...] = 1
    finish(one, actions_for(5))
    assert_same_ledger(one.ledger, expected)


@settings(max_examples=20)
@given(seeds)
def test_a_copy_of_the_quotes_stays(seed: int) -> None:
    world, actions = random_world(seed, turns=40), actions_for(seed)
    simulator = simulator_of(world)
    copies: list[tuple[Quotes, dict[str, np.ndarray], np.ndarray, np.ndarray]] = []
    for step in range(200):
        quotes = simulator.quote()
        expected = snapshot(quotes)
        kept = quotes.copy()
        copies.append((kept, expected, quotes.cheapest(), quotes.cache_blind().cheapest()))
        if simulator.done:
            break
        simulator.commit(actions[:1, step] % len(simulator.fleet))
    for kept, expected, cheapest, blind in copies:
        assert_same_quotes(snapshot(kept), expected)
        assert np.array_equal(kept.cheapest(), cheapest)
        assert np.array_equal(kept.cache_blind().cheapest(), blind)


# --------------------------------------------------------------------------------- foresight


def with_another_future(world: World, row: int, rng: np.random.Generator) -> World:
    """Another reply of a turn, and everything after it different: turns, qualities and grid."""
    trace, staleness_s = world.trace, world.scenario.grid.staleness_s
    later = np.arange(trace.turns) > row
    changed = trace.turns - row
    output = trace.output_tokens.copy()
    output[row:] = rng.integers(0, 3000, changed)
    update = {"output_tokens": output, "arrival_s": trace.arrival_s + later * 777.0}
    for name in ("prompt_tokens", "history_tokens", "predicted_output_tokens"):
        update[name] = getattr(trace, name) + later * rng.integers(0, 2000, trace.turns)
    other = replace(trace, **update)
    names = [model.name for model in world.scenario.fleet.models]
    said = world.predictor.predict(trace, world.scenario.fleet.models).copy()
    said[row + 1 :] = rng.uniform(0.01, 1.0, said[row + 1 :].shape)
    world.predictor.tell(other, names, said)
    seen_unix_s = trace.origin_unix_s + trace.arrival_s[row] - staleness_s
    step = max(int((seen_unix_s - world.grid.start_unix_s) // STEP_S), 0)
    values = world.grid.values.copy()
    values[step + 1 :] = rng.uniform(0, 900, values[step + 1 :].shape)
    return replace(world, traces=[other], grid=replace(world.grid, values=values))


@settings(max_examples=40)
@given(seeds, st.floats(0, 1), st.sampled_from([0.0, 300.0, 450.125, 7200.0]))
def test_no_quote_knows_the_reply_or_anything_later(
    seed: int, share: float, staleness_s: float
) -> None:
    world = random_world(seed, turns=60).with_scenario(grid={"staleness_s": staleness_s})
    row = min(int(share * world.trace.turns), world.trace.turns - 1)
    other = with_another_future(world, row, np.random.default_rng(seed))
    one, two, actions = simulator_of(world), simulator_of(other), actions_for(seed)
    for i in range(row + 1):
        assert_same_quotes(snapshot(two.quote()), snapshot(one.quote()))
        one.commit(actions[:1, i] % len(one.fleet))
        two.commit(actions[:1, i] % len(two.fleet))
    if staleness_s == 0.0:  # else the grid of the latest accounts is among what was changed
        assert_same_ledger(two.ledger[:row], one.ledger[:row])


@pytest.mark.parametrize("staleness_s", [0.0, 600.0])
def test_the_router_sees_the_past_and_the_account_the_present(staleness_s: float) -> None:
    world = random_world(16, turns=100, grid={"staleness_s": staleness_s})
    simulator, trace, grid_at = simulator_of(world), world.trace, world.grid_at()
    zones = simulator.fleet.regions
    last_s: dict[int, float] = {}
    for i in range(trace.turns):
        quotes = simulator.quote()
        now_s, session = trace.arrival_s[i], int(trace.session[i])
        now_unix_s = trace.origin_unix_s + now_s
        seen_unix_s = now_unix_s - staleness_s
        assert quotes.intensity[0].tolist() == [grid_at(z, seen_unix_s) for z in zones]
        before = [grid_at(z, seen_unix_s - 3600.0) for z in zones]
        assert quotes.intensity_hour_ago[0].tolist() == before
        assert quotes.idle_s[0] == now_s - last_s.get(session, -np.inf)
        last_s[session] = now_s
        simulator.commit(np.zeros(1, dtype=np.int64))
        now = grid_at(zones[0], now_unix_s) * simulator.fleet.pue[0]
        entry = simulator.ledger[i]
        assert entry["co2_g"] == pytest.approx(now * entry["energy_kwh"], rel=1e-12)
    assert trace.arrival_s[-1] > 9000, "hours pass"


def test_a_policy_that_writes_into_its_quotes_changes_no_account() -> None:
    world = random_world(7, shape=(2, 2, 3), traces=2, turns=60)
    clean, dirty = simulator_of(world), simulator_of(world)
    while not clean.done:
        actions = clean.quote().cheapest()
        quotes = dirty.quote()
        quotes.cached_tokens[:] = 0
        quotes.ttft_s[:] = 1e9
        quotes.available[:] = False
        quotes.admissible[:] = False
        quotes.unit_available[:] = False
        quotes.model_admissible[:] = False
        quotes.previous[:] = 0
        quotes.row[:] = -1
        clean.commit(actions)
        dirty.commit(actions)
    assert_same_ledger(clean.ledger, dirty.ledger)
