"""Routers that nobody trained, as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.router.plan import signature
from carbon_gym.router.weights import Weights, shapes, write_router
from carbon_gym.scenario import load_scenario

TINY = load_scenario("tiny")


def write_made_up(path: Path, seed: int | None, spread: float = 0.02, **config: Any) -> str:
    """A router's file, near CCAR's price; without a seed it says nothing of how it was made."""
    rng = np.random.default_rng((seed or 0, len(config)))
    arrays: dict[str, Any] = {
        name: rng.normal(0.0, spread, shape).astype(np.float32)
        for name, shape in shapes(8, 8).items()
    }
    arrays["prior"] = np.array([6.0], dtype=np.float32)
    recipe = {"seed": seed, "config": {"algo": "ppo", "seed": seed, **config}}
    layout = ObservationLayout(Deployments.of(TINY))
    header = {"layout": signature(layout), "recipe": {} if seed is None else recipe}
    write_router(path, Weights(**arrays), header)
    return str(path)
