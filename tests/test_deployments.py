"""The fleet's arrays against the published figures (SPEC §1, §2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from carbon_gym import InputError, load_scenario
from carbon_gym.fleet import Deployments

LARGEST = "Llama-3.1-70B-Instruct"


@pytest.fixture(scope="module")
def fleet() -> Deployments:
    return Deployments.of(load_scenario("sharegpt"))


def at(fleet: Deployments, model: str, gpu: str) -> int:
    """The first deployment of a model on a GPU type."""
    found = [d for d in range(len(fleet)) if fleet.triple(d)[:2] == (model, gpu)]
    return found[0]


@pytest.mark.parametrize(
    ("gpu", "gpus", "room_gb", "decode"),
    [("A10", 8, 31.7, 34), ("A100-40GB", 8, 146.9, 88), ("H100-80GB", 4, 146.9, 95)],
)
def test_the_largest_model_has_the_published_replicas(
    fleet: Deployments, gpu: str, gpus: int, room_gb: float, decode: int
) -> None:
    d = at(fleet, LARGEST, gpu)
    assert fleet.gpus_per_replica[d] == gpus
    assert fleet.kv_room_bytes[d] / 2 == pytest.approx(room_gb * 1e9, abs=0.05e9), "2 replicas"
    assert round(fleet.decode_tokens_per_s[d]) == decode


def test_the_energies_stand_as_published(fleet: Deployments) -> None:
    for model in fleet.models:
        a10, a100, h100 = (
            fleet.energy_kwh_per_token[at(fleet, model, gpu)]
            for gpu in ("A10", "A100-40GB", "H100-80GB")
        )
        assert a10 / a100 == pytest.approx(1.433, rel=1e-3)
        assert h100 / a100 == pytest.approx(0.8, rel=1e-3)
    reference = fleet.energy_kwh_per_token[at(fleet, LARGEST, "A100-40GB")]
    assert reference == pytest.approx(1.005e-7, rel=1e-3)


def test_the_paper_s_profile_scales_by_size_and_published_ratio() -> None:
    fleet = Deployments.of(load_scenario("sharegpt", energy="paper"))
    for model, params in zip(fleet.models, fleet.params_billion, strict=True):
        for gpu, relative in (("A10", 1.433), ("A100-40GB", 1.0), ("H100-80GB", 0.8)):
            expected = 4.24e-9 * params / 70.55 * relative
            found = fleet.energy_kwh_per_token[at(fleet, model, gpu)]
            assert found == pytest.approx(expected, rel=1e-12)


def test_a_gpu_without_a_relative_energy_has_the_physical_ratio() -> None:
    gpus = [gpu.model_dump() for gpu in load_scenario("sharegpt").fleet.gpus]
    for gpu in gpus:
        gpu["relative_energy"] = None
    change: dict[str, Any] = {"fleet": {"gpus": gpus}, "energy": "paper"}
    fleet = Deployments.of(load_scenario("sharegpt", **change))
    reference = fleet.energy_kwh_per_token[at(fleet, LARGEST, "A100-40GB")]
    assert reference == pytest.approx(4.24e-9, rel=1e-12)
    a10 = fleet.energy_kwh_per_token[at(fleet, LARGEST, "A10")]
    assert a10 / reference == pytest.approx(1.433, rel=1e-3)


def test_kv_bytes_and_prefill_rates(fleet: Deployments) -> None:
    kv = {fleet.models[fleet.model[d]]: fleet.kv_bytes_per_token[d] for d in range(len(fleet))}
    assert list(kv.values()) == [36_864, 131_072, 163_840, 262_144, 327_680]
    for d in range(len(fleet)):
        # Energy per token times rate is the power of the replica.
        watts = fleet.energy_kwh_per_token[d] * 3.6e6 * fleet.prefill_tokens_per_s[d]
        tdp_w = {"A10": 150, "A100-40GB": 400, "H100-80GB": 700}[fleet.triple(d)[1]]
        assert watts == pytest.approx(fleet.gpus_per_replica[d] * tdp_w, rel=1e-9)


def test_order_names_and_units(fleet: Deployments) -> None:
    assert len(fleet) == 60
    triples = [fleet.triple(d) for d in range(60)]
    assert triples == sorted(triples, key=lambda t: [fleet.models.index(t[0])])
    assert fleet.name(0) == " @ ".join(triples[0])
    by_rank = [triples[d] for d in np.argsort(fleet.name_rank)]
    assert by_rank == sorted(triples)
    pools = {(t[1], t[2]): fleet.unit[d] for d, t in enumerate(triples)}
    assert sorted(pools.values()) == list(range(12))
    assert fleet.unit_share.tolist() == [1 / 3] * 12


def test_shares_by_pool_and_by_region() -> None:
    gpus = [gpu.model_dump() for gpu in load_scenario("sharegpt").fleet.gpus]
    gpus[1]["share"] = 0.5
    pools = Deployments.of(load_scenario("sharegpt", fleet={"gpus": gpus}))
    assert pools.unit_share[pools.unit[at(pools, LARGEST, "A100-40GB")]] == 0.5
    assert pools.unit_share[pools.unit[at(pools, LARGEST, "A10")]] == 1 / 3
    regions = Deployments.of(
        load_scenario("sharegpt", fleet={"gpus": gpus}, capacity={"scope": "region"})
    )
    assert regions.unit_share.tolist() == [1.0] * 4
    assert regions.unit.tolist() == regions.region.tolist()


def test_a_model_that_fits_no_number_of_gpus_is_named_with_the_way_out() -> None:
    scenario = load_scenario("sharegpt", fleet={"max_gpus_per_replica": 4})
    with pytest.raises(InputError) as caught:
        Deployments.of(scenario)
    message = str(caught.value)
    for word in (f"model '{LARGEST}'", "'A10'", "max_gpus_per_replica = 4", "raise it"):
        assert word in message
    assert "\n" not in message


def test_the_smallest_power_of_two_with_a_fifth_of_the_weights_free() -> None:
    scenario = load_scenario("tiny")
    model = scenario.fleet.models[0].model_dump() | {"params_billion": 10.0}
    gpu = scenario.fleet.gpus[0].model_dump()
    for memory_gb, expected in ((27.0, 1), (26.6, 2), (14.0, 2), (13.0, 4)):
        parts = {"models": [model], "gpus": [gpu | {"memory_gb": memory_gb}]}
        fleet = Deployments.of(load_scenario("tiny", fleet=parts))
        assert set(fleet.gpus_per_replica.tolist()) == {expected}
