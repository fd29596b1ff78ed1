"""One model on one GPU type: what was measured, and computed where nothing was."""

from __future__ import annotations

from dataclasses import dataclass

from carbon_gym.errors import InputError
from carbon_gym.fleet.hardware import (
    decode_tokens_per_s,
    energy_kwh_per_input_token,
    gpus_per_replica,
    kv_room_bytes,
    prefill_tokens_per_s,
)
from carbon_gym.scenario.fleet import Fleet, Gpu, Model
from carbon_gym.scenario.measured import Measured
from carbon_gym.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Profile:
    """Energy, rates and memory of one replica.

    Attributes:
        kwh_per_input_token: e_in, kWh per uncached input token.
        cached_input_ratio: ρ_c, energy of a cached against an uncached input token.
        output_ratio: ρ_o, energy of an output against an uncached input token.
        prefill_tokens_per_s: Prefill rate.
        decode_tokens_per_s: Decode rate of one request.
        gpus_per_replica: GPUs that it runs on.
        kv_room_bytes: Room for KV caches.
    """

    kwh_per_input_token: float
    cached_input_ratio: float
    output_ratio: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    gpus_per_replica: int
    kv_room_bytes: float


def measured_of(model: str, gpu: str, fleet: Fleet) -> Measured | None:
    """The measured entry of a model on a GPU type, by their names; None without one."""
    return next((m for m in fleet.measured if (m.model, m.gpu) == (model, gpu)), None)


def profile_of(model: Model, gpu: Gpu, scenario: Scenario) -> Profile:
    """The profile of a model on a GPU type (SPEC §1, §2).

    Rates are those of the number of GPUs, measured or computed; an energy per token does not depend
    on it.

    Raises:
        InputError: The model fits on no allowed number of GPUs, or not on the number measured.
    """
    fleet, energy = scenario.fleet, scenario.energy
    found = measured_of(model.name, gpu.name, fleet) or Measured.model_construct(
        model=model.name, gpu=gpu.name
    )
    gpus = found.gpus_per_replica or gpus_per_replica(model, gpu, fleet)
    room_bytes = kv_room_bytes(model, gpu, gpus)
    if found.kv_room_gb is not None:
        room_bytes = found.kv_room_gb * 1e9
    elif room_bytes <= 0:
        raise InputError(
            f"fleet.measured: {model.name!r} ({model.params_billion:g}e9 parameters of two bytes) "
            f"leaves no room for caches on {gpus} {gpu.name!r} of {gpu.memory_gb:g} GB; mend "
            "gpus_per_replica, or give kv_room_gb as the server reports it"
        )
    e_in = found.kwh_per_input_token or energy_kwh_per_input_token(model, gpu, energy)
    return Profile(
        kwh_per_input_token=e_in,
        cached_input_ratio=_ratio(found.kwh_per_cached_token, e_in, energy.cached_input_ratio),
        output_ratio=_ratio(found.kwh_per_output_token, e_in, energy.output_ratio),
        prefill_tokens_per_s=found.prefill_tokens_per_s or prefill_tokens_per_s(model, gpu, gpus),
        decode_tokens_per_s=found.decode_tokens_per_s or decode_tokens_per_s(model, gpu, gpus),
        gpus_per_replica=gpus,
        kv_room_bytes=room_bytes,
    )


def _ratio(measured_kwh: float | None, e_in: float, ratio: float) -> float:
    return ratio if measured_kwh is None else measured_kwh / e_in
