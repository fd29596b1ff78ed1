"""The plain-Python reference against numbers worked out by hand: physics, quotes, policies."""

from __future__ import annotations

import pytest
from reference import (
    Deployment,
    ccar_no_gate,
    deployments,
    largest_model,
    lower_bound,
    physics,
    run,
    session_affinity,
)
from reference.examples import (
    A10,
    A100,
    GPUS,
    H100,
    LLAMA_70B,
    MODELS,
    SPEC_FLEET,
    TOY_GPU,
    Row,
    World,
    gpu,
    model,
    simulator,
    toy_fleet,
)

from carbon_gym.scenario.fleet import Fleet, Region
from carbon_gym.scenario.schema import Capacity, EnergyProfile, Grid

COUNTS_70B = (8, 8, 4)


def test_input_energy_of_the_70b_on_an_a100() -> None:
    e_in = physics.input_kwh_per_token(LLAMA_70B, A100, EnergyProfile())
    assert e_in == pytest.approx(1.005e-7, rel=1e-4)
    assert e_in * physics.JOULES_PER_KWH == pytest.approx(0.36, abs=0.005)


def test_energy_ratios_of_the_gpus() -> None:
    e_in = [physics.input_kwh_per_token(LLAMA_70B, g, EnergyProfile()) for g in GPUS]
    assert e_in[0] / e_in[1] == pytest.approx(1.433, abs=5e-4)
    assert e_in[2] / e_in[1] == pytest.approx(0.8, abs=5e-4)


def test_reference_energy_scales_with_size_and_gpu() -> None:
    paper = EnergyProfile(reference_kwh_per_token=4.24e-9)
    assert physics.input_kwh_per_token(LLAMA_70B, A100, paper) == pytest.approx(4.24e-9)
    expected = 4.24e-9 * 3.09 / 70.55 * 1.433
    assert physics.input_kwh_per_token(MODELS[0], A10, paper) == pytest.approx(expected)
    without_ratio = H100.model_copy(update={"relative_energy": None})
    derived = physics.input_kwh_per_token(LLAMA_70B, without_ratio, paper)
    assert derived == pytest.approx(0.8 * 4.24e-9, rel=1e-3)


def test_gpu_counts() -> None:
    counts = [[physics.gpu_count(m, g, 16) for g in GPUS] for m in MODELS]
    # 32B: 65.52 GB of weights ask for 78.6 GB; 2 x A100 and 1 x H100 give 72 GB. 12B: 24.5 GB
    # ask for 29.4 GB; one A10 gives 21.6 GB. 8B: 16.06 GB ask for 19.27 GB.
    assert counts == [[1, 1, 1], [1, 1, 1], [2, 1, 1], [4, 4, 2], list(COUNTS_70B)]


def test_kv_rooms_and_decode_rates_of_the_70b() -> None:
    pairs = list(zip(GPUS, COUNTS_70B, strict=True))
    rooms = [physics.kv_room_of_replica_bytes(LLAMA_70B, g, n) / 1e9 for g, n in pairs]
    assert rooms == pytest.approx([31.7, 146.9, 146.9], abs=1e-6)
    rates = [physics.decode_tokens_per_s(LLAMA_70B, g, n) for g, n in pairs]
    assert [round(rate) for rate in rates] == [34, 88, 95]


def test_replicas_multiply_the_kv_room() -> None:
    sim = simulator(World(SPEC_FLEET), [])
    last_model = [room for room in sim.room_bytes[-12::4] if room is not None]
    assert [room / 2e9 for room in last_model] == pytest.approx([31.7, 146.9, 146.9])


def test_kv_bytes_per_token() -> None:
    sizes = [physics.kv_bytes_per_token(m) for m in MODELS]
    assert sizes == [36_864, 131_072, 163_840, 262_144, 327_680]


def test_model_that_fits_no_gpu_count() -> None:
    fleet = SPEC_FLEET.model_copy(update={"max_gpus_per_replica": 7})
    with pytest.raises(ValueError, match=r"Llama-3\.1-70B-Instruct does not fit"):
        simulator(World(fleet), [])


def test_order_of_deployments() -> None:
    every = deployments(SPEC_FLEET)
    assert len(every) == 60
    assert every[0] == Deployment("Qwen2.5-3B-Instruct", "A10", "US-CAL-CISO")
    assert every[1] == Deployment("Qwen2.5-3B-Instruct", "A10", "US-TEX-ERCO")
    assert every[4] == Deployment("Qwen2.5-3B-Instruct", "A100-40GB", "US-CAL-CISO")
    assert every[12] == Deployment("Llama-3.1-8B-Instruct", "A10", "US-CAL-CISO")


@pytest.mark.parametrize(("cleaner", "chosen"), [(0.680, 0), (0.6806, 0), (0.6808, 1), (0.682, 1)])
def test_break_even_of_a_switch_at_4k_history(cleaner: float, chosen: int) -> None:
    # Hit 0.03·4000 + 100 + 4·400 = 1820, miss 5700: 1 - 1820/5700 = 68.07 % cleaner.
    fleet = Fleet(models=(LLAMA_70B,), gpus=(A100,), regions=(Region(zone="A"), Region(zone="B")))
    rows = [Row(0, 0.0, 3000, 0, 1000), Row(0, 60.0, 100, 4000, 400)]

    def grid(zone: str, t_unix_s: float) -> float:
        if zone == "A":
            return 100.0
        return 1000.0 if t_unix_s < 30 else 100.0 * (1 - cleaner)

    outcomes = run(simulator(World(fleet), rows, grid), ccar_no_gate)
    assert [outcome.deployment for outcome in outcomes] == [0, chosen]
    assert [outcome.switched for outcome in outcomes] == [False, chosen == 1]


def test_turns_by_hand() -> None:
    fleet = toy_fleet("A").model_copy(
        update={"regions": (Region(zone="A", pue=1.5, round_trip_s=0.1),)}
    )
    rows = [Row(0, 0.0, 100, 0, 50), Row(0, 60.0, 20, 150, 10, 40.0), Row(0, 90.0, 30, 90, 10)]
    sim = simulator(World(fleet), rows, 200.0)
    assert (sim.quote(0).previous, sim.quote(0).first) == (None, None)
    first = sim.commit(0, 0)
    assert first.energy_kwh == pytest.approx(300e-6)
    assert first.co2_g == pytest.approx(0.09)
    assert first.ttft_s == pytest.approx(0.5)
    quote = sim.quote(1)
    assert (quote.previous, quote.first) == (0, 0)
    assert quote.cached_tokens == [150]
    assert quote.energy_kwh == pytest.approx([1e-6 * (4.5 + 20 + 160)])
    assert quote.co2_g == pytest.approx([0.05535])
    assert quote.ttft_s == pytest.approx([0.18])
    assert quote.blind_energy_kwh == pytest.approx([330e-6])
    assert quote.blind_co2_g == pytest.approx([0.099])
    assert quote.blind_ttft_s == pytest.approx([0.78])
    second = sim.commit(1, 0)
    assert second.energy_kwh == pytest.approx(1e-6 * (4.5 + 20 + 40)), "o, not ô"
    assert (second.cached_tokens, second.recompute_kwh) == (150, 0.0)
    assert (second.quality_predicted, second.quality_realised) == (0.5, 0.45)
    assert sim.quote(2).cached_tokens == [90], "180 tokens are held, but the history is 90"


def test_an_imported_history_is_cached_nowhere_and_is_no_recomputation() -> None:
    outcome = run(simulator(World(toy_fleet("A")), [Row(0, 0.0, 10, 200, 5)]), ccar_no_gate)[0]
    assert (outcome.cached_tokens, outcome.recompute_kwh) == (0, 0.0)
    assert outcome.energy_kwh == pytest.approx(230e-6)


def test_router_sees_an_older_intensity_than_the_account() -> None:
    origin = 1_672_531_200  # 2023-01-01 00:00 UTC
    world = World(toy_fleet("A"), grid=Grid(staleness_s=1.0))
    sim = simulator(
        world,
        [Row(0, 300.0, 100, 0, 0)],
        lambda _, t_unix_s: 10.0 if t_unix_s < origin + 300 else 20.0,
        origin_unix_s=origin,
    )
    assert sim.quote(0).co2_g == pytest.approx([1e-3])
    assert sim.commit(0, 0).co2_g == pytest.approx(2e-3)


def test_a_turn_with_exactly_the_bounded_ttft_is_feasible() -> None:
    rows = [Row(0, 0.0, 500, 0, 5), Row(1, 0.0, 501, 0, 5)]
    sim = simulator(World(toy_fleet("A")), rows)
    for i, in_time in enumerate([True, False]):
        quote = sim.quote(i)
        assert (quote.feasible, quote.blind_feasible) == ([in_time], [in_time])
        assert sim.commit(i, 0).ttft_violation == (not in_time)


SMALL = model("small", 0.5, 1, 1, head_dim=1, context_tokens=300)
MIDDLE = model("middle", 0.7, 1, 1, head_dim=1, context_tokens=1000)
LARGE = model("large", 1.0, 1, 1, head_dim=1, context_tokens=1000)
THREE = World(toy_fleet("A", models=(SMALL, MIDDLE, LARGE)))


@pytest.mark.parametrize(
    ("history", "qualities", "admissible"),
    [
        (0, [0.6799, 0.68, 0.8], [False, True, True]),  # 0.85 · 0.8 = 0.68
        (190, [0.9, 0.5, 0.5], [True, False, False]),  # 190 + 100 + ô = 300 fits
        (191, [0.9, 0.5, 0.42], [False, True, False]),  # small no longer counts in the maximum
        (2000, [0.9, 0.5, 0.5], [False, True, True]),  # none fits: the two largest contexts do
    ],
)
def test_admissible_models(history: int, qualities: list[float], admissible: list[bool]) -> None:
    sim = simulator(THREE, [Row(0, 0.0, 100, history, 999, 10.0)], predicted=[qualities])
    assert sim.quote(0).admissible == admissible
    assert sim.commit(0, 0).quality_violation == (not admissible[0])


def test_ties_go_to_the_faster_then_to_the_name() -> None:
    # Twice the power and twice the peak: the same energy, twice the speed.
    fast = gpu("z-fast", 2.0, 1.0, 4.0, 1800.0, 0.5, 1.0)
    fleet = toy_fleet("C", "B", gpus=(TOY_GPU, fast))
    sim = simulator(World(fleet), [Row(0, 0.0, 100, 0, 10)])
    chosen = sim.deployments[ccar_no_gate(sim, 0, sim.quote(0))]
    assert chosen == Deployment("toy", "z-fast", "B")


def test_best_effort_when_only_the_ttft_bound_fails() -> None:
    fast = gpu("fast", 2.0, 1.0, 4.0, 3600.0, 0.5, 1.0)
    fleet = toy_fleet("A", "B", gpus=(TOY_GPU, fast))
    sim = simulator(World(fleet), [Row(0, 0.0, 2000, 0, 10)], {"A": 100.0, "B": 99.0})
    quote = sim.quote(0)
    assert quote.feasible == [False] * 4
    chosen = ccar_no_gate(sim, 0, quote)
    assert sim.deployments[chosen] == Deployment("toy", "fast", "B"), "fastest, then least CO2"
    outcome = sim.commit(0, chosen)
    assert (outcome.ttft_violation, outcome.capacity_violation) == (True, False)


def test_best_effort_keeps_to_pools_with_room_while_there_are_any() -> None:
    fast = gpu("fast", 2.0, 1.0, 4.0, 3600.0, 0.5, 1.0)
    world = World(toy_fleet("A", gpus=(TOY_GPU, fast)), capacity=Capacity(limit=1.0))
    sim = simulator(world, [Row(0, 0.0, 2000, 0, 10), Row(1, 1.0, 2000, 0, 10)])
    outcomes = run(sim, ccar_no_gate)
    # One place in each pool: the second session is left the slow one.
    assert [sim.deployments[outcome.deployment].gpu for outcome in outcomes] == ["fast", "g"]
    assert not any(outcome.capacity_violation for outcome in outcomes)


def test_best_effort_when_no_pool_has_room() -> None:
    # One pool, c = 0.5: the second session of two finds ceil(0.5·2) = 1 place, taken. The fast
    # model is inadmissible, so the violation goes to the admissible one.
    world = World(toy_fleet("A", models=(SMALL, LARGE)), capacity=Capacity(limit=0.5))
    rows = [Row(0, 0.0, 100, 0, 10), Row(1, 1.0, 100, 0, 10)]
    sim = simulator(world, rows, predicted=[[0.1, 0.9], [0.1, 0.9]])
    outcomes = run(sim, ccar_no_gate)
    assert [outcome.deployment for outcome in outcomes] == [1, 1]
    assert [outcome.capacity_violation for outcome in outcomes] == [False, True]
    assert not any(o.quality_violation or o.ttft_violation for o in outcomes)


def test_session_affinity_prefers_the_deployment_then_the_region_then_anything() -> None:
    twin = gpu("twin", 2.0, 1.0, 4.0, 2700.0, 0.5, 1.0)  # faster, but 1.5 times the energy
    fleet = toy_fleet("A", "B", gpus=(TOY_GPU, twin)).model_copy(
        update={"regions": (Region(zone="A"), Region(zone="B", round_trip_s=0.5))}
    )
    rows = [
        Row(0, 0.0, 100, 0, 10),  # the cheapest: g in B
        Row(0, 60.0, 100, 110, 10),  # stays although A is five times as clean now
        Row(0, 1000.0, 390, 220, 10),  # cache gone, 610 tokens: 2.94 s on g/B, 1.72 s on twin/B
        Row(0, 2000.0, 300, 600, 10),  # 2.3 s on twin/B, only twin/A (1.8 s) is in time
        Row(0, 3000.0, 300, 800, 10),  # 2.2 s on twin/A: nothing is, the fastest is taken
    ]

    def grid(zone: str, t_unix_s: float) -> float:
        return 50.0 if zone == "B" else 100.0 if t_unix_s < 30 else 10.0

    sim = simulator(World(fleet), rows, grid)
    outcomes = run(sim, session_affinity)
    chosen = [sim.deployments[outcome.deployment] for outcome in outcomes]
    assert [d.gpu + "/" + d.region for d in chosen] == [
        "g/B",
        "g/B",
        "twin/B",
        "twin/A",
        "twin/A",
    ]
    assert [o.ttft_violation for o in outcomes] == [False] * 4 + [True]


def test_largest_model_ignores_quality_and_ttft_but_not_room() -> None:
    fleet = toy_fleet("A", "B", models=(LARGE, MIDDLE))
    world = World(fleet, capacity=Capacity(limit=0.5))
    rows = [Row(s, float(s), 2000, 0, 10) for s in range(3)]
    sim = simulator(world, rows, {"A": 100.0, "B": 200.0}, [[0.1, 0.9]] * 3)
    outcomes = run(sim, largest_model)
    # Places: ceil(0.5·1) = 1, ceil(0.5·2) = 1, ceil(0.5·3) = 2 per region.
    assert [sim.deployments[o.deployment].region for o in outcomes] == ["A", "B", "A"]
    assert all(o.quality_violation and o.ttft_violation for o in outcomes)
    assert not any(o.capacity_violation for o in outcomes)


def test_lower_bound_has_the_whole_history_everywhere() -> None:
    world = World(toy_fleet("A", "B"), capacity=Capacity(limit=0.01, scope="region"))
    rows = [Row(0, 0.0, 100, 50, 10), Row(0, 5000.0, 100, 4000, 10)]
    sim = simulator(world, rows, {"A": 100.0, "B": 90.0}, full_cache=True)
    outcomes = run(sim, lower_bound)
    assert [outcome.deployment for outcome in outcomes] == [1, 1]
    assert [outcome.cached_tokens for outcome in outcomes] == [50, 4000]
    assert outcomes[1].energy_kwh == pytest.approx(1e-6 * (120 + 100 + 40))
    assert outcomes[1].recompute_kwh == 0.0


def test_rows_come_in_order() -> None:
    sim = simulator(World(toy_fleet("A")), [Row(0, 0.0, 1, 0, 1), Row(0, 1.0, 1, 2, 1)])
    with pytest.raises(ValueError, match="row 1 is not next"):
        sim.quote(1)
    sim.commit(0, 0)
    with pytest.raises(ValueError, match="row 0 is not next"):
        sim.commit(0, 0)
    with pytest.raises(ValueError, match=r"outside 0\.\.0"):
        sim.commit(1, 1)
