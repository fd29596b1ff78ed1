"""The fleet of a scenario: models, GPU types, regions."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from carbon_gym.scenario.measured import Measured, check_measured
from carbon_gym.scenario.section import NonNegative, Positive, Section, Share


class Ability(Section):
    """Quality of a model per category at zero difficulty, μ[m, k] in (0, 1) (SPEC §4)."""

    coding: Annotated[float, Field(gt=0, lt=1)]
    math: Annotated[float, Field(gt=0, lt=1)]
    reasoning: Annotated[float, Field(gt=0, lt=1)]
    creative: Annotated[float, Field(gt=0, lt=1)]
    information: Annotated[float, Field(gt=0, lt=1)]


class Model(Section):
    """One language model (SPEC §1)."""

    name: Annotated[str, Field(min_length=1)]
    params_billion: Positive
    """Parameters in 1e9."""
    layers: Annotated[int, Field(ge=1)]
    kv_heads: Annotated[int, Field(ge=1)]
    head_dim: Annotated[int, Field(ge=1)]
    context_tokens: Annotated[int, Field(ge=1)]
    ability: Ability

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache per token: keys and values, all layers, fp16 (DERIVED, SPEC §1)."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim


class Gpu(Section):
    """One GPU type (SPEC §1)."""

    name: Annotated[str, Field(min_length=1)]
    peak_tflops: Positive
    """Dense FP16 peak, 1e12 FLOP/s."""
    bandwidth_tb_s: Positive
    """Memory bandwidth, 1e12 bytes/s."""
    memory_gb: Positive
    """Memory, 1e9 bytes."""
    tdp_w: Positive
    prefill_utilisation: Share
    """Share of the peak reached in prefill, u_g."""
    relative_energy: Positive | None = None
    """Energy per token relative to the reference GPU; used with
    `EnergyProfile.reference_kwh_per_token` only. None: from power, peak and utilisation."""
    share: Share | None = None
    """gpu_share: part of its region's capacity (ASSUMED; None: 1 / number of GPU types)."""


class Region(Section):
    """One region and its grid zone."""

    zone: Annotated[str, Field(min_length=1)]
    pue: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Power usage effectiveness (1 by default, ASSUMED)."""
    round_trip_s: NonNegative = 0.0
    """Network round trip added to every TTFT of the region, s (not in the paper; 0)."""


class Fleet(Section):
    """Deployments are all (model, GPU, region) triples."""

    models: Annotated[tuple[Model, ...], Field(min_length=1)]
    gpus: Annotated[tuple[Gpu, ...], Field(min_length=1)]
    regions: Annotated[tuple[Region, ...], Field(min_length=1)]
    replicas: Annotated[int, Field(ge=1)] = 2
    """Replicas of every deployment; multiplies the KV room (ASSUMED)."""
    max_gpus_per_replica: Annotated[int, Field(ge=1)] = 16
    """Largest tensor-parallel group, GPUs (ASSUMED)."""
    measured: tuple[Measured, ...] = ()
    """Measured profiles; none: all is computed."""

    @model_validator(mode="after")
    def _measured_are_there(self) -> Self:
        check_measured(self.measured, [m.name for m in self.models], [g.name for g in self.gpus])
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for what, names in (
            ("model", [m.name for m in self.models]),
            ("GPU", [g.name for g in self.gpus]),
            ("region", [r.zone for r in self.regions]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what} {twice[0]!r} is listed twice; list each {what} once")
        return self
