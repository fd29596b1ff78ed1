"""The scenario: one frozen, validated object that says what an experiment is about."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from carbon_gym.scenario.schema import (
    Bounds,
    Caches,
    Capacity,
    EnergyProfile,
    Fleet,
    Grid,
    Quality,
    Section,
    Seeds,
    Splits,
    Workload,
)


class Scenario(Section):
    """Fleet, energy, caches, capacity, quality, bounds, workload, grid, splits and seeds.

    Build one with `carbon_gym.load_scenario`. It is frozen, picklable and JSON-plain:
    ``load_scenario(scenario.to_dict())`` gives an equal object.
    """

    name: str = "custom"
    description: str = ""
    origin: str = "sharegpt"
    """The packaged scenario that this one derives from: whose gate and tuned knobs the policies
    use. Set by `load_scenario`."""
    gate: str | None = None
    """File of `carbon-gym fit-gate` for `ccar` and `ccar-ev`; None: that of `origin`."""
    knobs: str | None = None
    """File of `carbon-gym tune-baselines` for the tuned baselines; None: that of `origin`."""
    fleet: Fleet
    energy: EnergyProfile = EnergyProfile()
    cache: Caches = Caches()
    capacity: Capacity = Capacity()
    quality: Quality = Quality()
    bounds: Bounds = Bounds()
    workload: Workload = Workload()
    grid: Grid = Grid()
    splits: Splits = Splits()
    seeds: Seeds = Seeds()

    def to_dict(self) -> dict[str, Any]:
        """The resolved scenario as plain JSON types."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """Hash of all that an experiment is: not of name, description, origin, gate and knobs."""
        content = self.model_dump(
            mode="json", exclude={"name", "description", "origin", "gate", "knobs"}
        )
        bounds = Bounds()
        for key in ("quality_constraint", "beta_floor", "quality_target"):
            # Younger than the digests that gates and knobs carry; by default they change nothing.
            if content["bounds"][key] == getattr(bounds, key):
                del content["bounds"][key]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
