"""Properties of the plain-Python reference on random fleets of sessions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    POLICIES,
    Outcome,
    ccar_no_gate,
    ccar_no_pricing,
    faircarbon,
    largest_model,
    run,
    session_affinity,
)
from reference.examples import MODELS, SPEC_FLEET, Row, World, simulator

from carbon_gym.scenario.fleet import Fleet
from carbon_gym.scenario.schema import Caches, Capacity


def draw_rows(data: st.DataObject) -> list[Row]:
    """Up to a dozen sessions' turns with growing histories."""
    rows: list[Row] = []
    t = 0.0
    held = [0] * 5
    for _ in range(data.draw(st.integers(0, 25))):
        t += data.draw(st.sampled_from([0.0, 10.0, 150.0, 700.0]))
        s = data.draw(st.integers(0, 4))
        q, o = data.draw(st.integers(1, 3000)), data.draw(st.integers(1, 2000))
        rows.append(Row(s, t, q, held[s], o, float(data.draw(st.integers(1, 900)))))
        held[s] += q + o
    return rows


def draw_world(data: st.DataObject, fleet: Fleet) -> World:
    """Caches and capacity of every kind."""
    capacity = Capacity(
        limit=data.draw(st.sampled_from([None, 0.25, 0.5, 1.0])),
        scope=data.draw(st.sampled_from(["pool", "region"])),
        rule=data.draw(st.sampled_from(["sessions", "turns"])),
        residency_s=900.0,
    )
    leave = data.draw(st.sampled_from(["retain", "evict"]))
    return World(fleet, cache=Caches(on_leave=leave), capacity=capacity)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_without_pricing_and_gate_ccar_is_faircarbon_and_the_bound_is_below_all(
    data: st.DataObject,
) -> None:
    world = draw_world(data, SPEC_FLEET)
    rows = draw_rows(data)
    quality = [[data.draw(st.floats(0.01, 1.0)) for _ in MODELS] for _ in rows]

    def grid(zone: str, t_unix_s: float) -> float:
        return 100.0 + (len(zone) * 37 + int(t_unix_s // 300) * 53) % 400

    played: dict[str, list[Outcome]] = {}
    for name, policy in POLICIES.items():
        full = name == "lower-bound"
        played[name] = run(simulator(world, rows, grid, quality, full_cache=full), policy)
    assert played["faircarbon"] == played["ccar-no-pricing"]
    bound = played.pop("lower-bound")
    del played["largest-model"]  # may be inadmissible, so that the bound does not hold for it
    for outcomes in played.values():
        for outcome, least in zip(outcomes, bound, strict=True):
            assert outcome.co2_g >= least.co2_g * (1 - 1e-12)
            assert not outcome.quality_violation


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_permuting_the_fleet_permutes_the_choices(data: st.DataObject) -> None:
    shuffled = SPEC_FLEET.model_copy(
        update={
            "gpus": tuple(data.draw(st.permutations(SPEC_FLEET.gpus))),
            "regions": tuple(data.draw(st.permutations(SPEC_FLEET.regions))),
        }
    )
    world = draw_world(data, SPEC_FLEET)
    rows = draw_rows(data)
    for policy in (ccar_no_gate, ccar_no_pricing, faircarbon, session_affinity, largest_model):
        one = simulator(world, rows)
        world_two = World(shuffled, cache=world.cache, capacity=world.capacity)
        two = simulator(world_two, rows)
        names_one = [one.deployments[o.deployment] for o in run(one, policy)]
        names_two = [two.deployments[o.deployment] for o in run(two, policy)]
        assert names_one == names_two
