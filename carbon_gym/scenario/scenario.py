"""The scenario: one frozen, validated object that says what an experiment is about."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Self

from pydantic import model_validator

from carbon_gym.errors import did_you_mean
from carbon_gym.scenario.fleet import Fleet
from carbon_gym.scenario.schema import (
    Bounds,
    Caches,
    Capacity,
    EnergyProfile,
    Grid,
    Quality,
    Seeds,
    Splits,
    Workload,
)
from carbon_gym.scenario.section import Section

_YOUNGER_KEYS: Final = (
    ("bounds", "quality_constraint"),
    ("bounds", "beta_floor"),
    ("bounds", "quality_target"),
    ("fleet", "measured"),
    ("quality", "predictor"),
    ("quality", "predictor_bias"),
    ("workload", "category_shares"),
    ("workload", "log_column"),
    ("workload", "predicted_output_log_sd"),
)
"""(section, key) of what is younger than the digests that gates and knobs carry. Their defaults
are what those experiments were, so that a key is left out of the digest while it has its own."""


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

    @model_validator(mode="after")
    def _biased_models_exist(self) -> Self:
        known = [model.name for model in self.fleet.models]
        for entry in self.quality.predictor_bias:
            if entry.model not in known:
                raise ValueError(
                    f"quality.predictor_bias names {entry.model!r}, which is not in the fleet; "
                    f"{did_you_mean(entry.model, known)}name one of {', '.join(known)}"
                )
        return self

    def filtered(self) -> Scenario:
        """The same scenario with quality filtered per query, as the paper has it (SPEC §4)."""
        default = Bounds()
        update = {
            name: getattr(default, name)
            for name in ("quality_constraint", "beta_floor", "quality_target")
        }
        return self.model_copy(update={"bounds": self.bounds.model_copy(update=update)})

    def to_dict(self) -> dict[str, Any]:
        """The resolved scenario as plain JSON types."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """Hash of all that an experiment is: not of name, description, origin, gate and knobs."""
        content = self.model_dump(
            mode="json", exclude={"name", "description", "origin", "gate", "knobs"}
        )
        for name, key in _YOUNGER_KEYS:
            section = getattr(self, name)
            if getattr(section, key) == type(section).model_fields[key].default:
                del content[name][key]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
