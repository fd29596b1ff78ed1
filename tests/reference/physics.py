"""GPU counts, rates and energies of one model on one GPU type (SPEC §1, §2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carbon_gym.scenario.fleet import Gpu, Model
    from carbon_gym.scenario.schema import EnergyProfile

USABLE_MEMORY_SHARE = 0.9
"""Share of the GPU memory that weights and caches may fill (DERIVED, SPEC §1)."""
BYTES_PER_PARAMETER = 2
"""fp16 weights (DERIVED, SPEC §1)."""
LEAST_ROOM_SHARE = 0.2
"""Least KV room of a replica as a share of the weights (SPEC §1)."""
JOULES_PER_KWH = 3.6e6

REFERENCE_GPU_JOULES_PER_FLOP = 400.0 / (312e12 * 0.5)
"""A100-40GB: 400 W, 312 dense FP16 TFLOPS, u = 0.5 (SPEC §1), whose relative energy is 1."""


def weight_bytes(model: Model) -> float:
    """Bytes of the weights, 2·P (SPEC §1)."""
    return BYTES_PER_PARAMETER * model.params_billion * 1e9


def kv_bytes_per_token(model: Model) -> int:
    """Bytes of one token's keys and values: two tensors per layer, 2 bytes each (SPEC §1)."""
    return 2 * 2 * model.layers * model.kv_heads * model.head_dim


def kv_room_of_replica_bytes(model: Model, gpu: Gpu, gpus: int) -> float:
    """KV room of one replica on `gpus` GPUs, 0.9·n·memory - 2·P, bytes (SPEC §1)."""
    return USABLE_MEMORY_SHARE * gpus * gpu.memory_gb * 1e9 - weight_bytes(model)


def gpu_count(model: Model, gpu: Gpu, largest: int) -> int:
    """Smallest power of two n with 0.9·n·memory - 2·P >= 0.2·2·P (SPEC §1).

    Raises:
        ValueError: No power of two up to `largest` fits.
    """
    count = 1
    while count <= largest:
        room_bytes = kv_room_of_replica_bytes(model, gpu, count)
        if room_bytes >= LEAST_ROOM_SHARE * weight_bytes(model):
            return count
        count = count * 2
    raise ValueError(f"{model.name} does not fit on up to {largest} {gpu.name}")


def prefill_tokens_per_s(model: Model, gpu: Gpu, gpus: int) -> float:
    """Prefill rate n·peak·u/(2P), tokens/s (SPEC §2)."""
    flop_per_token = 2 * model.params_billion * 1e9
    return gpus * gpu.peak_tflops * 1e12 * gpu.prefill_utilisation / flop_per_token


def decode_tokens_per_s(model: Model, gpu: Gpu, gpus: int) -> float:
    """Decode rate at batch one n·bandwidth/(2P), tokens/s (SPEC §2)."""
    return gpus * gpu.bandwidth_tb_s * 1e12 / weight_bytes(model)


def joules_per_flop(gpu: Gpu) -> float:
    """W/(peak·u), J per prefill FLOP (SPEC §2)."""
    return gpu.tdp_w / (gpu.peak_tflops * 1e12 * gpu.prefill_utilisation)


def input_kwh_per_token(model: Model, gpu: Gpu, energy: EnergyProfile) -> float:
    """e_in(m, g), kWh per uncached input token (SPEC §2, "On the reference energy")."""
    if energy.reference_kwh_per_token is None:
        flop_per_token = 2 * model.params_billion * 1e9
        return flop_per_token * joules_per_flop(gpu) / JOULES_PER_KWH
    relative = gpu.relative_energy
    if relative is None:
        relative = joules_per_flop(gpu) / REFERENCE_GPU_JOULES_PER_FLOP
    size = model.params_billion / energy.reference_params_billion
    return energy.reference_kwh_per_token * size * relative
