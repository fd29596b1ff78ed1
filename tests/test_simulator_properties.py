"""Properties of the simulator: conservation, monotony, scaling, symmetry, and what it may see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import (
    POLICY_NAMES,
    World,
    assert_same_ledger,
    play,
    random_trace,
    random_world,
    tell_quality,
)

from carbon_gym.simulator import Simulator

UNTUNED = POLICY_NAMES
KEEPS_THE_FILTER = ("session-affinity", "faircarbon", "ccar-no-gate", "ccar-no-pricing")
seeds = st.integers(0, 2**32 - 1)


def actions_for(seed: int) -> np.ndarray:
    """Random actions of four lanes and 200 steps, to be taken modulo D."""
    return np.random.default_rng(seed).integers(0, 10**6, (4, 200))


def simulator_of(world: World) -> Simulator:
    return Simulator(world.scenario, world.traces, world.grid, predictor=world.predictor)


# ------------------------------------------------------------------------------ conservation


@settings(max_examples=50)
@given(seeds, st.sampled_from([*POLICY_NAMES, "random"]))
def test_the_account_follows_from_the_deployments_alone(seed: int, name: str) -> None:
    world = random_world(seed, turns=80, cache={"memory_pressure": False})
    simulator = play(world, name, actions_for(seed))
    ledger, fleet, trace = simulator.ledger, simulator.fleet, world.trace
    scenario, grid_at = world.scenario, world.grid_at()
    ttl_s, evicts = scenario.cache.ttl_s, scenario.cache.on_leave == "evict"
    held: dict[tuple[int, int], tuple[int, float]] = {}
    last: dict[int, int] = {}
    energy_kwh, co2_g, recompute_kwh, cached_tokens = [], [], [], []
    for i in range(trace.turns):
        d, session, now_s = int(ledger["deployment"][i]), int(trace.session[i]), trace.arrival_s[i]
        H, q, o = trace.history_tokens[i], trace.prompt_tokens[i], trace.output_tokens[i]
        tokens, since_s = held.get((session, d), (0, 0.0))
        C = min(tokens, H) if now_s - since_s <= ttl_s else 0
        C = H if name == "lower-bound" else C
        e_in = fleet.energy_kwh_per_token[d]
        profile = scenario.energy
        weighted = profile.cached_input_ratio * C + (H - C) + q + profile.output_ratio * o
        region = fleet.region[d]
        intensity = grid_at(fleet.regions[region], trace.origin_unix_s + now_s)
        energy_kwh.append(e_in * weighted)
        co2_g.append(fleet.pue[region] * intensity * e_in * weighted)
        recompute_kwh.append(e_in * (H - C) if trace.turn[i] else 0.0)
        cached_tokens.append(C)
        if evicts and last.get(session, d) != d:
            held.pop((session, last[session]), None)
        held[session, d], last[session] = (H + q + o, now_s), d
    assert ledger["cached_tokens"].tolist() == cached_tokens
    for column, expected in (
        ("energy_kwh", energy_kwh),
        ("co2_g", co2_g),
        ("recompute_kwh", recompute_kwh),
    ):
        np.testing.assert_allclose(ledger[column], expected, rtol=1e-12)
        assert ledger[column].sum() == pytest.approx(sum(expected), rel=1e-12)
    # Every history token of a later turn was either cached or computed again.
    later = trace.turn > 0
    again = ledger["recompute_kwh"][later] / fleet.energy_kwh_per_token[ledger["deployment"][later]]
    np.testing.assert_allclose(
        again + ledger["cached_tokens"][later], trace.history_tokens[later], rtol=1e-9
    )


@settings(max_examples=50)
@given(seeds)
def test_what_is_cached_is_part_of_the_history_and_never_costs_more(seed: int) -> None:
    world = random_world(seed, turns=60)
    simulator, actions = simulator_of(world), actions_for(seed)
    step = 0
    while not simulator.done:
        quotes = simulator.quote()
        assert (quotes.cached_tokens >= 0).all()
        assert (quotes.cached_tokens <= quotes.history_tokens[:, None]).all()
        blind = quotes.cache_blind()
        assert (quotes.co2_g <= blind.co2_g).all()
        assert (quotes.energy_kwh <= blind.energy_kwh).all()
        assert (quotes.ttft_s <= blind.ttft_s).all()
        assert (quotes.feasible >= blind.feasible).all()
        assert (
            quotes.feasible
            == (
                quotes.available
                & quotes.admissible
                & (quotes.ttft_s <= world.scenario.bounds.ttft_s)
            )
        ).all()
        simulator.commit(actions[:1, step] % len(simulator.fleet))
        step += 1


@settings(max_examples=50)
@given(seeds, st.sampled_from([0.0, 60.0, 300.0, 600.0]))
def test_longer_memory_never_costs_more(seed: int, ttl_s: float) -> None:
    """The same actions under a longer TTL, and without memory pressure."""
    world = random_world(seed, turns=80).with_scenario(cache={"ttl_s": ttl_s})
    short = play(world, "random", actions_for(seed)).ledger
    long_world = world.with_scenario(cache={"ttl_s": ttl_s + 200.0})
    longer = play(long_world, "random", actions_for(seed)).ledger
    unbounded_world = long_world.with_scenario(cache={"memory_pressure": False})
    unbounded = play(unbounded_world, "random", actions_for(seed)).ledger
    for less, more in ((short, longer), (longer, unbounded)):
        assert (more["cached_tokens"] >= less["cached_tokens"]).all()
        assert (more["co2_g"] <= less["co2_g"]).all()
        assert (more["recompute_kwh"] <= less["recompute_kwh"]).all()
        assert (more["ttft_s"] <= less["ttft_s"]).all()


# -------------------------------------------------------------------- scaling and symmetry


@pytest.mark.parametrize("factor", [2.0, 0.25, 23.7, 1e-3])
@pytest.mark.parametrize("name", UNTUNED)
def test_the_reference_energy_scales_the_account_and_changes_no_decision(
    name: str, factor: float
) -> None:
    for seed in range(8):
        world = random_world(seed, turns=80, energy={"reference_kwh_per_token": 4.24e-9})
        scaled = world.with_scenario(energy={"reference_kwh_per_token": 4.24e-9 * factor})
        one, two = play(world, name).ledger, play(scaled, name).ledger
        assert np.array_equal(one["deployment"], two["deployment"])
        exact = float(np.log2(factor)).is_integer()
        for column in ("co2_g", "energy_kwh", "recompute_kwh"):
            rtol = 0.0 if exact else 1e-12
            np.testing.assert_allclose(two[column], factor * one[column], rtol=rtol, atol=0)
        assert np.array_equal(one["ttft_s"], two["ttft_s"])


def level_grid(world: World, kind: str) -> World:
    """The same world on a grid of ties: all regions equal, or no carbon at all."""
    values = world.grid.values.copy()
    if kind == "equal":
        values[:] = values[:, :1]
    elif kind == "zero":
        values[:] = 0.0
    return replace(world, grid=replace(world.grid, values=values))


@pytest.mark.parametrize("kind", ["any", "equal", "zero"])
@pytest.mark.parametrize("name", UNTUNED)
@settings(max_examples=20)
@given(seed=seeds, data=st.data())
def test_permuting_the_fleet_permutes_the_choices(
    name: str, kind: str, seed: int, data: st.DataObject
) -> None:
    world = level_grid(random_world(seed, turns=40), kind)
    fleet = world.scenario.fleet
    if kind == "equal":  # all that is left to choose by is the name
        fleet = fleet.model_copy(
            update={
                "gpus": tuple(
                    gpu.model_copy(update={"name": other.name})
                    for gpu, other in zip([fleet.gpus[0]] * 3, fleet.gpus, strict=False)
                ),
                "regions": tuple(
                    region.model_copy(update={"pue": 1.0, "round_trip_s": 0.0})
                    for region in fleet.regions
                ),
            }
        )
    parts = {key: getattr(fleet, key) for key in ("models", "gpus", "regions")}
    shuffled = {
        key: tuple(data.draw(st.permutations(part), label=key)) for key, part in parts.items()
    }
    one = play(world.with_scenario(fleet=parts), name)
    two = play(world.with_scenario(fleet=shuffled), name)
    names = [[s.fleet.triple(d) for d in s.ledger["deployment"]] for s in (one, two)]
    assert names[0] == names[1]
    for column in one.ledger.dtype.names or ():
        if column != "deployment":
            assert np.array_equal(one.ledger[column], two.ledger[column]), column


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 7)])
@pytest.mark.parametrize("name", [*POLICY_NAMES, "random"])
def test_fleets_of_one_and_of_forty_two(name: str, shape: tuple[int, int, int]) -> None:
    world = random_world(7, shape=shape)
    simulator = play(world, name, actions_for(7))
    assert len(simulator.fleet) == np.prod(shape)
    assert simulator.turns_served == world.trace.turns > 0
    deployments = simulator.ledger["deployment"]
    assert ((deployments >= 0) & (deployments < len(simulator.fleet))).all()
    if shape == (1, 1, 1):
        assert not simulator.ledger["switched"].any()
        assert not simulator.ledger["quality_violation"].any()


@pytest.mark.parametrize("name", [*POLICY_NAMES, "random"])
def test_an_empty_fleet(name: str) -> None:
    world = random_world(3)
    world.traces[:] = [random_trace(np.random.default_rng(0), world.scenario, 0)]
    tell_quality(np.random.default_rng(0), world, world.trace)
    simulator = play(world, name, actions_for(0))
    assert simulator.done
    assert len(simulator.ledger) == simulator.turns_served == 0
    assert simulator.quote().row.tolist() == [-1]
    simulator.commit(np.array([999]))
    assert simulator.done


# ----------------------------------------------------------------------- relations of policies


@settings(max_examples=50)
@given(seeds)
def test_ccar_without_pricing_is_faircarbon(seed: int) -> None:
    world = random_world(seed, turns=80)
    assert_same_ledger(play(world, "ccar-no-pricing").ledger, play(world, "faircarbon").ledger)


@settings(max_examples=50)
@given(seeds)
def test_the_lower_bound_is_below_all_that_keep_the_quality_filter(seed: int) -> None:
    world = random_world(seed, turns=80)
    bound = play(world, "lower-bound").ledger["co2_g"]
    for name in KEEPS_THE_FILTER:
        ledger = play(world, name).ledger
        assert not ledger["quality_violation"].any()
        assert (bound <= ledger["co2_g"] * (1 + 1e-12)).all()
