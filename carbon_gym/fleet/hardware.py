"""Energy, rates and memory of one model on one GPU type (SPEC §1, §2), as plain formulas."""

from __future__ import annotations

from carbon_gym.errors import InputError
from carbon_gym.scenario.fleet import Fleet, Gpu, Model
from carbon_gym.scenario.schema import EnergyProfile

BYTES_PER_PARAM = 2
"""fp16 weights, bytes per parameter (DERIVED from the published KV rooms)."""
USABLE_MEMORY_SHARE = 0.9
"""Share of GPU memory that weights and KV caches may take (DERIVED likewise)."""
MIN_KV_SHARE_OF_WEIGHTS = 0.2
"""A replica keeps at least this share of its weights' bytes free for KV caches (SPEC §1)."""
REFERENCE_W_PER_TFLOPS = 400 / (312 * 0.5)
"""W per usable TFLOPS of the reference GPU, A100-40GB (DERIVED from SPEC §1's table)."""


def kv_room_bytes(model: Model, gpu: Gpu, gpus: int) -> float:
    """KV room of one replica on `gpus` GPUs, bytes: 0.9·n·memory − 2·P (SPEC §1)."""
    return (
        USABLE_MEMORY_SHARE * gpus * gpu.memory_gb * 1e9
        - BYTES_PER_PARAM * model.params_billion * 1e9
    )


def gpus_per_replica(model: Model, gpu: Gpu, fleet: Fleet) -> int:
    """GPU count n(m, g): the smallest power of two that leaves enough KV room (SPEC §1).

    Raises:
        InputError: The model does not fit on `fleet.max_gpus_per_replica` GPUs.
    """
    weights_bytes = BYTES_PER_PARAM * model.params_billion * 1e9
    gpus = 1
    while gpus <= fleet.max_gpus_per_replica:
        if kv_room_bytes(model, gpu, gpus) >= MIN_KV_SHARE_OF_WEIGHTS * weights_bytes:
            return gpus
        gpus *= 2
    raise InputError(
        f"fleet: model {model.name!r} ({model.params_billion:g}e9 parameters) fits on no number of "
        f"{gpu.name!r} GPUs ({gpu.memory_gb:g} GB) up to fleet.max_gpus_per_replica = "
        f"{fleet.max_gpus_per_replica}; raise it, or leave out that model or GPU"
    )


def energy_kwh_per_input_token(model: Model, gpu: Gpu, profile: EnergyProfile) -> float:
    """e_in(m, g), kWh per uncached input token (SPEC §2).

    Physical, 2·P·W / (peak·u) / 3.6e6, unless the profile sets the reference model's energy.
    """
    if profile.reference_kwh_per_token is None:
        flops = 2 * model.params_billion * 1e9
        return flops * gpu.tdp_w / (gpu.peak_tflops * 1e12 * gpu.prefill_utilisation) / 3.6e6
    relative = gpu.relative_energy
    if relative is None:
        relative = gpu.tdp_w / (gpu.peak_tflops * gpu.prefill_utilisation) / REFERENCE_W_PER_TFLOPS
    size = model.params_billion / profile.reference_params_billion
    return profile.reference_kwh_per_token * size * relative


def prefill_tokens_per_s(model: Model, gpu: Gpu, gpus: int) -> float:
    """Prefill rate n·peak·u / (2P), tokens/s (SPEC §2)."""
    usable_flops_per_s = gpus * gpu.peak_tflops * 1e12 * gpu.prefill_utilisation
    return usable_flops_per_s / (2 * model.params_billion * 1e9)


def decode_tokens_per_s(model: Model, gpu: Gpu, gpus: int) -> float:
    """Decode rate at batch one, n·bandwidth / (2P), tokens/s (SPEC §2; reported only)."""
    bytes_per_s = gpus * gpu.bandwidth_tb_s * 1e12
    return bytes_per_s / (BYTES_PER_PARAM * model.params_billion * 1e9)
