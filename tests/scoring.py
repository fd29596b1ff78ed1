"""Fleets of several shapes, and a scorer that was trained a little, for the tests of routers."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.scenario import load_scenario

OF_DEPLOYMENTS = ("model", "gpu", "region", "unit", "name_rank", "energy_kwh_per_token")
OF_DEPLOYMENTS += ("prefill_tokens_per_s", "decode_tokens_per_s", "gpus_per_replica")
OF_DEPLOYMENTS += ("kv_bytes_per_token", "kv_room_bytes", "round_trip_s")


@cache
def layout_of(models: int = 5, gpus: int = 3, regions: int = 4) -> ObservationLayout:
    """So many models, GPU types and regions of `sharegpt`; beyond four, regions are made up."""
    fleet = load_scenario("sharegpt").to_dict()["fleet"]
    zones = [dict(region) for region in fleet["regions"]]
    for extra in range(len(zones), regions):
        zones.append({**zones[0], "zone": f"made-up-{extra}", "pue": 1.1 + 0.05 * extra})
    changed = {
        "models": fleet["models"][:models],
        "gpus": fleet["gpus"][:gpus],
        "regions": zones[:regions],
    }
    scenario = load_scenario("sharegpt", fleet=changed)
    return ObservationLayout(Deployments.of(scenario))


def permuted(layout: ObservationLayout, order: NDArray[np.int64]) -> ObservationLayout:
    """The same fleet with its deployments in another order."""
    fleet = layout.fleet
    changed = {name: getattr(fleet, name)[order] for name in OF_DEPLOYMENTS}
    return ObservationLayout(dataclasses.replace(fleet, **changed))


def random_observations(
    layout: ObservationLayout, count: int, seed: int = 0
) -> NDArray[np.float32]:
    """Within their bounds; a session is in one place or, in every fifth, nowhere yet."""
    rng = np.random.default_rng(seed)
    made = rng.uniform(layout.low, layout.high, (count, layout.size)).astype(np.float32)
    current = made[:, layout.slices["current"]]
    current[:] = 0.0
    rows = np.flatnonzero(rng.random(count) < 0.8)
    current[rows, rng.integers(0, len(layout.fleet), len(rows))] = 1.0
    return made


def random_masks(layout: ObservationLayout, count: int, seed: int = 1) -> NDArray[np.bool_]:
    """Half of the deployments, at least one."""
    rng = np.random.default_rng(seed)
    masks = rng.random((count, len(layout.fleet))) < 0.5
    masks[np.arange(count), rng.integers(0, len(layout.fleet), count)] = True
    return masks


def scorer_policy(
    layout: ObservationLayout, masked: bool = True, seed: int = 0, **options: Any
) -> Any:
    """A scorer whose output layer is not zero, as if it had been trained."""
    import torch
    from gymnasium import spaces

    from agents.scorer import MaskableScorerPolicy, ScorerPolicy

    torch.manual_seed(seed)
    policy: Any = (MaskableScorerPolicy if masked else ScorerPolicy)(
        spaces.Box(layout.low, layout.high, dtype=np.float32),
        spaces.Discrete(len(layout.fleet)),
        lambda _: 3e-4,
        layout=layout,
        **{"prior_weight": 4.0, **options},
    )
    for parameter in policy.mlp_extractor.output.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return policy
