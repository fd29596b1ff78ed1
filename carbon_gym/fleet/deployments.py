"""The deployments of a fleet as arrays: what never changes during a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from carbon_gym.fleet.profile import profile_of
from carbon_gym.scenario.scenario import Scenario

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Deployments:
    """All (model, GPU, region) triples, models outermost, regions innermost.

    Policies may read everything here: an operator knows their fleet.

    Attributes:
        models: Names, length M.
        gpus: Names, length G.
        regions: Zone codes, length R.
        model: int64 (D,), index into `models`.
        gpu: int64 (D,), index into `gpus`.
        region: int64 (D,), index into `regions`.
        unit: int64 (D,), capacity unit: a pool (GPU type in a region) or a region.
        unit_share: float64 (U,), share of the fleet's capacity before the limit c.
        name_rank: int64 (D,), position by (model, GPU, region) name; breaks ties (SPEC §3).
        params_billion: float64 (M,), model sizes in 1e9 parameters.
        context_tokens: int64 (M,), the models' own context, tokens.
        energy_kwh_per_token: float64 (D,), e_in, kWh per uncached input token.
        cached_input_ratio: float64 (D,), ρ_c, energy of a cached against an uncached input token.
        output_ratio: float64 (D,), ρ_o, energy of an output against an uncached input token.
        prefill_tokens_per_s: float64 (D,).
        decode_tokens_per_s: float64 (D,), at batch one; reported only.
        gpus_per_replica: int64 (D,).
        kv_bytes_per_token: float64 (D,).
        kv_room_bytes: float64 (D,), over all replicas.
        pue: float64 (R,).
        round_trip_s: float64 (D,).
    """

    models: tuple[str, ...]
    gpus: tuple[str, ...]
    regions: tuple[str, ...]
    model: Ints
    gpu: Ints
    region: Ints
    unit: Ints
    unit_share: Floats
    name_rank: Ints
    params_billion: Floats
    context_tokens: Ints
    energy_kwh_per_token: Floats
    cached_input_ratio: Floats
    output_ratio: Floats
    prefill_tokens_per_s: Floats
    decode_tokens_per_s: Floats
    gpus_per_replica: Ints
    kv_bytes_per_token: Floats
    kv_room_bytes: Floats
    pue: Floats
    round_trip_s: Floats

    def __len__(self) -> int:
        return len(self.model)

    def name(self, deployment: int) -> str:
        """``model @ GPU @ region`` of one deployment."""
        model, gpu, region = self.triple(deployment)
        return f"{model} @ {gpu} @ {region}"

    def triple(self, deployment: int) -> tuple[str, str, str]:
        """Names of (model, GPU, region) of one deployment."""
        return (
            self.models[self.model[deployment]],
            self.gpus[self.gpu[deployment]],
            self.regions[self.region[deployment]],
        )

    @classmethod
    def of(cls, scenario: Scenario) -> Deployments:
        """Build the arrays of a scenario's fleet.

        Raises:
            InputError: A model fits on no allowed number of some GPU type, or not on the number
                that was measured.
        """
        fleet = scenario.fleet
        triples = list(product(fleet.models, fleet.gpus, fleet.regions))
        model, gpu, region = (
            np.array(index, dtype=np.int64)
            for index in zip(
                *product(*(range(len(x)) for x in (fleet.models, fleet.gpus, fleet.regions))),
                strict=True,
            )
        )
        profiles = {
            (m.name, g.name): profile_of(m, g, scenario) for m in fleet.models for g in fleet.gpus
        }
        each = [profiles[m.name, g.name] for m, g, _ in triples]
        names = [(m.name, g.name, r.zone) for m, g, r in triples]
        rank = np.empty(len(triples), dtype=np.int64)
        rank[sorted(range(len(triples)), key=names.__getitem__)] = np.arange(len(triples))
        if scenario.capacity.scope == "pool":
            unit = gpu * len(fleet.regions) + region
            shares = [g.share or 1 / len(fleet.gpus) for g in fleet.gpus]
            unit_share = np.repeat(np.array(shares), len(fleet.regions))
        else:
            unit = region.copy()
            unit_share = np.ones(len(fleet.regions))

        return cls(
            models=tuple(m.name for m in fleet.models),
            gpus=tuple(g.name for g in fleet.gpus),
            regions=tuple(r.zone for r in fleet.regions),
            model=model,
            gpu=gpu,
            region=region,
            unit=unit,
            unit_share=unit_share,
            name_rank=rank,
            params_billion=np.array([m.params_billion for m in fleet.models]),
            context_tokens=np.array([m.context_tokens for m in fleet.models], dtype=np.int64),
            energy_kwh_per_token=np.array([p.kwh_per_input_token for p in each]),
            cached_input_ratio=np.array([p.cached_input_ratio for p in each]),
            output_ratio=np.array([p.output_ratio for p in each]),
            prefill_tokens_per_s=np.array([p.prefill_tokens_per_s for p in each]),
            decode_tokens_per_s=np.array([p.decode_tokens_per_s for p in each]),
            gpus_per_replica=np.array([p.gpus_per_replica for p in each], dtype=np.int64),
            kv_bytes_per_token=np.array([float(m.kv_bytes_per_token) for m, _, _ in triples]),
            kv_room_bytes=np.array([fleet.replicas * p.kv_room_bytes for p in each]),
            pue=np.array([r.pue for r in fleet.regions]),
            round_trip_s=np.array([r.round_trip_s for _, _, r in triples]),
        )
