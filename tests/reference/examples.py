"""Small worlds with round numbers, and SPEC's own fleet, for hand-computed examples.

The toy model on the toy GPU: e_in = 2·1e9·900 / (1e12·0.5) / 3.6e6 = 1e-6 kWh per token, prefill
1e12·0.5 / 2e9 = 250 tokens/s, KV room 0.9·4e9 - 2e9 = 1.6e9 bytes, 5e6 bytes per token: 320 tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from carbon_gym.scenario.fleet import Ability, Fleet, Gpu, Model, Region
from carbon_gym.scenario.schema import Bounds, Caches, Capacity, EnergyProfile, Grid, Quality
from carbon_gym.workload.trace import Trace

from .simulator import ReferenceSimulator

ANY_ABILITY = Ability(coding=0.6, math=0.6, reasoning=0.6, creative=0.6, information=0.6)
"""The reference reads qualities per turn, never these."""


def model(
    name: str,
    params_billion: float,
    layers: int,
    kv_heads: int,
    head_dim: int = 128,
    context_tokens: int = 131_072,
) -> Model:
    """A model."""
    return Model(
        name=name,
        params_billion=params_billion,
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        context_tokens=context_tokens,
        ability=ANY_ABILITY,
    )


def gpu(
    name: str, peak: float, bandwidth: float, memory: float, tdp: float, u: float, relative: float
) -> Gpu:
    """A GPU type."""
    return Gpu(
        name=name,
        peak_tflops=peak,
        bandwidth_tb_s=bandwidth,
        memory_gb=memory,
        tdp_w=tdp,
        prefill_utilisation=u,
        relative_energy=relative,
    )


# The tables of SPEC §1.
QWEN_3B = model("Qwen2.5-3B-Instruct", 3.09, 36, 2, context_tokens=32_768)
LLAMA_8B = model("Llama-3.1-8B-Instruct", 8.03, 32, 8)
NEMO_12B = model("Mistral-Nemo-12B-Instruct", 12.25, 40, 8)
QWEN_32B = model("Qwen2.5-32B-Instruct", 32.76, 64, 8)
LLAMA_70B = model("Llama-3.1-70B-Instruct", 70.55, 80, 8)
MODELS = (QWEN_3B, LLAMA_8B, NEMO_12B, QWEN_32B, LLAMA_70B)
A10 = gpu("A10", 125, 0.600, 24, 150, 0.3266, 1.433)
A100 = gpu("A100-40GB", 312, 1.555, 40, 400, 0.5, 1.0)
H100 = gpu("H100-80GB", 989.4, 3.35, 80, 700, 0.3449, 0.8)
GPUS = (A10, A100, H100)
SPEC_FLEET = Fleet(
    models=MODELS,
    gpus=GPUS,
    regions=tuple(Region(zone=z) for z in ("US-CAL-CISO", "US-TEX-ERCO", "GB", "DE")),
)

TOY_MODEL = model("toy", 1.0, 1, 1, head_dim=1_250_000)
TOY_GPU = gpu("g", 1.0, 1.0, 4.0, 900.0, 0.5, 1.0)


def toy_fleet(
    *zones: str, models: Sequence[Model] = (TOY_MODEL,), gpus: Sequence[Gpu] = (TOY_GPU,)
) -> Fleet:
    """Toy model and GPU in some regions, one replica."""
    regions = tuple(Region(zone=zone) for zone in zones)
    return Fleet(models=tuple(models), gpus=tuple(gpus), regions=regions, replicas=1)


@dataclass
class World:
    """The sections of a scenario; no capacity limit unless given."""

    fleet: Fleet
    energy: EnergyProfile = field(default_factory=EnergyProfile)
    cache: Caches = field(default_factory=Caches)
    capacity: Capacity = field(default_factory=lambda: Capacity(limit=None))
    quality: Quality = field(default_factory=Quality)
    bounds: Bounds = field(default_factory=Bounds)
    grid: Grid = field(default_factory=Grid)


@dataclass
class Row:
    """One turn: session, arrival (s), q, H, o, and ô (o where not given), tokens."""

    session: int
    t: float
    q: int
    H: int
    o: int
    o_hat: float | None = None


def trace(rows: Sequence[Row], origin_unix_s: int = 0) -> Trace:
    """Rows in event order as a trace."""
    sessions = max((row.session for row in rows), default=-1) + 1
    turns: list[int] = []
    seen = [0] * sessions
    for row in rows:
        turns.append(seen[row.session])
        seen[row.session] += 1
    return Trace(
        origin_unix_s=origin_unix_s,
        session=np.array([row.session for row in rows], dtype=np.int64),
        turn=np.array(turns, dtype=np.int64),
        arrival_s=np.array([row.t for row in rows], dtype=np.float64),
        prompt_tokens=np.array([row.q for row in rows], dtype=np.int64),
        history_tokens=np.array([row.H for row in rows], dtype=np.int64),
        output_tokens=np.array([row.o for row in rows], dtype=np.int64),
        predicted_output_tokens=np.array(
            [row.o if row.o_hat is None else row.o_hat for row in rows], dtype=np.float64
        ),
        category=np.zeros(len(rows), dtype=np.int8),
        difficulty=np.zeros(len(rows), dtype=np.float64),
        session_id=tuple(str(s) for s in range(sessions)),
        session_key=np.arange(sessions, dtype=np.uint64),
        session_turns=np.array(seen, dtype=np.int64),
    )


def simulator(
    world: World,
    rows: Sequence[Row],
    grid: float | dict[str, float] | Callable[[str, float], float] = 100.0,
    predicted: Sequence[Sequence[float]] | None = None,
    *,
    origin_unix_s: int = 0,
    full_cache: bool = False,
) -> ReferenceSimulator:
    """A simulator on a constant, per-zone or arbitrary grid; all models equal by default."""

    def grid_at(zone: str, t_unix_s: float) -> float:
        if isinstance(grid, dict):
            return grid[zone]
        return grid if isinstance(grid, float) else grid(zone, t_unix_s)

    quality = predicted or [[0.5] * len(world.fleet.models) for _ in rows]
    realised = [[0.9 * x for x in row] for row in quality]
    return ReferenceSimulator(
        world, trace(rows, origin_unix_s), grid_at, quality, realised, full_cache=full_cache
    )
