"""Scenarios for the environments: small, random, and with every rule somewhere at its edge."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from inputs import write_grid
from worlds import pick, random_world

import carbon_gym
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.scenario import Scenario

TINY: dict[str, Any] = {"scenario": "tiny", "fleets": 1, "co2_scale_g": 0.05}
"""Arguments of an environment that is made in no time."""
TINY_BUDGET: dict[str, Any] = {**TINY, "quality_constraint": "budget", "quality_target": 0.6}
SHAPES = ((1, 1, 1), (1, 1, 2), (2, 1, 1), (1, 3, 1), (2, 2, 2), (3, 2, 3), (1, 2, 5), (5, 3, 6))
_DAYS = datetime(2021, 6, 30, tzinfo=UTC)


def random_scenario(seed: int, folder: Path, sessions: int = 40, **sections: Any) -> Scenario:
    """Some shape, rules and grid; `sections` fix fields.

    Rooms hold a few thousand tokens, TTLs and limits are zero now and then, contexts run from 900
    to 131,072 tokens and conversations to as many, grids have ties and zeros.
    """
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    world = random_world(seed, shape=shape, turns=4, coarse=seed % 5 == 3)
    zones = [region.zone for region in world.scenario.fleet.regions]
    kind = seed % 4
    tables = (
        rng.uniform(0.0, 900.0, (len(zones), 144)).round(2),
        rng.choice([0.0, 100.0, 250.0], (len(zones), 144)),
        np.zeros((len(zones), 144)),
        rng.uniform(0.0, 900.0, (len(zones), 144)).round(2),
    )
    grid = write_grid(
        folder / f"grid-{seed}.csv",
        start=_DAYS,
        hours=144,
        zones=zones,
        value=lambda zone, hour: float(tables[kind][zone, hour]),
    )
    content: dict[str, Any] = {
        "workload": {
            "sessions_per_fleet": sessions,
            "statistics": pick(rng, "sharegpt", "sharechat"),
            "min_turns": pick(rng, 1, 1, 8),
            "context_limit_tokens": pick(rng, 4096, 32_768, 131_072),
            "gap_log_mean": pick(rng, 0.0, 4.885, 6.5),
        },
        "grid": {"source": "file", "paths": [str(grid)]},
        "splits": {"train": {"start": "2021-07-01", "stop": "2021-07-04"}},
    }
    for name, change in sections.items():
        content[name] = {**content.get(name, {}), **change}
    return carbon_gym.load_scenario(world.scenario, **content)


def constraint_of(budget: bool) -> dict[str, Any]:
    """Quality per query, or as a mean."""
    if budget:
        return {"quality_constraint": "budget", "quality_target": 0.6}
    return {"quality_constraint": "filter"}


def scalar(**arguments: Any) -> Any:
    """A scalar environment of conversations, bare."""
    return gymnasium.make("CarbonRouting-v0", **{**TINY, **arguments}).unwrapped


def fleet(**arguments: Any) -> Any:
    """A scalar environment of fleets, bare."""
    return gymnasium.make("CarbonRoutingFleet-v0", **{**TINY, **arguments}).unwrapped


def vector(lanes: int, **arguments: Any) -> Any:
    """A native vector environment."""
    found: VectorEnv[Any, Any, Any] = gymnasium.make_vec(
        "CarbonRouting-v0", num_envs=lanes, **{**TINY, **arguments}
    )
    return found.unwrapped


def make_for_a_process() -> Any:
    """A whole environment, made where this is called."""
    return gymnasium.make("carbon_gym:CarbonRouting-v0", **TINY)


def masked_actions(rng: np.random.Generator, mask: np.ndarray) -> np.ndarray:
    """A uniformly random allowed action of every row of masks (B, D)."""
    return np.argmax(rng.random(mask.shape) * (mask > 0), axis=1)


def equal(a: Any, b: Any) -> bool:
    """Bit for bit, whatever mixture of mappings, tuples, arrays and numbers they are."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b))
    return bool(a == b)


def trajectory(env: Any, seed: int | None, steps: int, **reset: Any) -> list[Any]:
    """All that a scalar environment returns in so many steps of random actions, resets included.

    Actions are drawn by `seed` from all deployments, allowed or not.
    """
    rng = np.random.default_rng(0 if seed is None else seed)
    seen: list[Any] = [env.reset(seed=seed, **reset)]
    for _ in range(steps):
        seen.append(env.step(int(rng.integers(env.action_space.n))))
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def assert_inside(layout: ObservationLayout, observation: np.ndarray) -> None:
    """float32, finite, inside the declared bounds; names the feature that is not."""
    assert observation.dtype == np.float32
    good = np.isfinite(observation) & (observation >= layout.low) & (observation <= layout.high)
    if good.all():
        return
    at = int(np.argwhere(~good)[0][-1])
    names = [row[0] for row in layout.describe() if row[1] <= at < row[2]]
    raise AssertionError(f"{names[0]} = {observation[~good][0]!r}")
