"""The knobs that were tuned on validation, per packaged scenario (SPEC §6)."""

from __future__ import annotations

from typing import Any

from carbon_gym.scenario.scenario import Scenario


def tuned_options(policy: str, scenario: Scenario | None) -> dict[str, Any]:
    """Options of a policy that were fitted or tuned for the scenario's origin; may be empty."""
    return {}
