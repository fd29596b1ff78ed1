"""Knobs for a fleet on which nothing was tuned: scale and target are taken from its own turns."""

from __future__ import annotations

import json
from pathlib import Path

from baselines.tuned import knobs_of, read_tuned
from carbon_gym.files import replacing
from carbon_gym.scenario.load import load_scenario
from carbon_gym.scenario.scenario import Scenario

_RULES = ("fleet", "energy", "cache", "capacity", "quality", "bounds")
"""Sections that scale and target depend on, beside turns and grid."""


def borrows_knobs(scenario: Scenario) -> bool:
    """Whether a scenario uses the knobs of a packaged one whose fleet or rules are others."""
    if scenario.knobs is not None:
        return False
    ours, origin = scenario.filtered(), load_scenario(scenario.origin).filtered()
    return any(getattr(ours, name) != getattr(origin, name) for name in _RULES)


def write_own_knobs(
    path: Path, scenario: Scenario, scale_co2_g: float, ccar_quality: float
) -> Scenario:
    """Write the knobs that a scenario borrows with its own scale and target.

    A price of quality in units of another fleet's CO2, and a mean quality that other models
    reached, would say nothing here. The steps and the price in units of the scale stay those that
    were tuned.

    Args:
        path: The file, replaced if it is there.
        scenario: Of `borrows_knobs`.
        scale_co2_g: Mean CO2 per turn of faircarbon, gCO2eq.
        ccar_quality: Mean predicted quality of CCAR.

    Returns:
        The scenario with that file.

    Raises:
        InputError: The file of knobs is missing or damaged, or the place cannot be written to.
    """
    borrowed = read_tuned(knobs_of(scenario))
    own = {
        **{key: borrowed[key] for key in ("schema", "scenario", "scenario_digest", "beta_floor")},
        "command": f"carbon-gym audit: scale and quality are those of its own turns; the rest is "
        f"that of {borrowed['scenario']}",
        "faircarbon": {**borrowed["faircarbon"], "scale_co2_g": scale_co2_g},
        "ccar": {"quality": ccar_quality},
        "policies": borrowed["policies"],
    }
    with replacing(path) as partial:
        partial.write_text(json.dumps(own, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    read_tuned.cache_clear()
    return scenario.model_copy(update={"knobs": str(path)})
