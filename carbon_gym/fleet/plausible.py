"""Numbers of a fleet that look like another unit: kWh for Wh, seconds for milliseconds."""

from __future__ import annotations

from collections.abc import Iterator

from carbon_gym.fleet.hardware import gpus_per_replica
from carbon_gym.fleet.profile import profile_of
from carbon_gym.scenario.fleet import Gpu, Model, Region
from carbon_gym.scenario.measured import Measured
from carbon_gym.scenario.scenario import Scenario

FACTOR = 100.0
"""A measured number that is more than so many times off what is computed is doubted (ASSUMED).
Decoding at batch one draws about 25 times what ρ_o = 4 says; a wrong prefix is off by 1,000."""
_WATTS_PER_TFLOPS = (0.1, 10.0)
"""Power over dense FP16 peak of the GPUs since 2016 lies within (ASSUMED)."""
_MEMORY_GB = (4.0, 1000.0)
_BANDWIDTH_TB_S = (0.1, 50.0)
_PUE = 3.0
_ROUND_TRIP_S = 1.0
"""Memory of a GPU and its bandwidth lie within the pairs, a PUE and a round trip below the single
numbers; else they are doubted, not refused (ASSUMED)."""
_UNITS = {
    "kwh_per_input_token": "kWh of a token, not of 1,000 tokens, and neither Wh nor J",
    "kwh_per_output_token": "kWh of a token, not of 1,000 tokens, and neither Wh nor J",
    "prefill_tokens_per_s": "tokens a second of one replica",
    "decode_tokens_per_s": "tokens a second of one request",
}


def doubts_of(scenario: Scenario) -> list[str]:
    """What of a fleet is allowed but hardly meant, one clause each: key, found, expected.

    Raises:
        InputError: A model fits on no allowed number of some GPU type.
    """
    fleet = scenario.fleet
    models = {model.name: model for model in fleet.models}
    gpus = {gpu.name: gpu for gpu in fleet.gpus}
    found = [doubt for gpu in fleet.gpus for doubt in _of_gpu(gpu)]
    for entry in fleet.measured:
        found += _of_measured(entry, models[entry.model], gpus[entry.gpu], scenario)
    for region in fleet.regions:
        found += _of_region(region, scenario.bounds.ttft_s)
    return found


def _of_gpu(gpu: Gpu) -> Iterator[str]:
    for name, value, (low, high), unit in (
        ("memory_gb", gpu.memory_gb, _MEMORY_GB, "1e9 bytes of one GPU"),
        ("bandwidth_tb_s", gpu.bandwidth_tb_s, _BANDWIDTH_TB_S, "1e12 bytes a second"),
        (
            "tdp_w / peak_tflops",
            gpu.tdp_w / gpu.peak_tflops,
            _WATTS_PER_TFLOPS,
            "watts over dense FP16 TFLOPS",
        ),
    ):
        if not low <= value <= high:
            yield (
                f"GPU type {gpu.name!r}: {name} = {value:g} is not between {low:g} and {high:g} "
                f"({unit})"
            )


def _of_measured(entry: Measured, model: Model, gpu: Gpu, scenario: Scenario) -> Iterator[str]:
    where = f"measured of {entry.model} on {entry.gpu}"
    own = scenario.fleet.model_copy(update={"measured": ()})
    gpus = entry.gpus_per_replica or gpus_per_replica(model, gpu, own)
    sized = Measured(
        model=entry.model, gpu=entry.gpu, gpus_per_replica=gpus, kv_room_gb=entry.kv_room_gb or 1.0
    )
    computed = profile_of(
        model,
        gpu,
        scenario.model_copy(update={"fleet": own.model_copy(update={"measured": (sized,)})}),
    )
    e_in = computed.kwh_per_input_token
    expected = {
        "kwh_per_input_token": e_in,
        "kwh_per_output_token": e_in * computed.output_ratio,
        "prefill_tokens_per_s": computed.prefill_tokens_per_s,
        "decode_tokens_per_s": computed.decode_tokens_per_s,
    }
    for name, usual in expected.items():
        value = getattr(entry, name)
        # A number of 0 is a statement, and so is a computed one.
        if value and usual and not 1 / FACTOR <= value / usual <= FACTOR:
            yield (
                f"{where}: {name} = {value:g} is {_times(value / usual)} the {usual:.2g} that is "
                f"computed; give {_UNITS[name]}"
            )
    memory_gb = gpus * gpu.memory_gb
    if entry.kv_room_gb is not None and entry.kv_room_gb > memory_gb:
        yield (
            f"{where}: kv_room_gb = {entry.kv_room_gb:g} is more than the {memory_gb:g} GB of the "
            f"{gpus} GPUs of a replica; give 1e9 bytes of one replica"
        )
    own_e_in = entry.kwh_per_input_token or e_in
    if entry.kwh_per_cached_token is not None and entry.kwh_per_cached_token > own_e_in:
        yield (
            f"{where}: kwh_per_cached_token = {entry.kwh_per_cached_token:g} is more than the "
            f"{own_e_in:.2g} of a token that is not cached"
        )


def _of_region(region: Region, ttft_s: float) -> Iterator[str]:
    if region.pue > _PUE:
        yield (
            f"region {region.zone!r}: pue = {region.pue:g} is above {_PUE:g}; give the facility's "
            "energy over that of its IT, such as 1.2"
        )
    if region.round_trip_s >= min(_ROUND_TRIP_S, ttft_s):
        yield (
            f"region {region.zone!r}: round_trip_s = {region.round_trip_s:g} s leaves little or "
            f"nothing of bounds.ttft_s = {ttft_s:g} s; give seconds, 0.095 for 95 ms"
        )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 1 else f"1/{1 / ratio:,.0f} of"
