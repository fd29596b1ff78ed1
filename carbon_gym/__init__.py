"""carbon_gym: learning to route LLM conversations so that they emit less CO2.

The names below are imported when they are first used, so that ``import carbon_gym`` is light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from carbon_gym.doors import make_policy, policy_names
    from carbon_gym.errors import InputError
    from carbon_gym.scenario import Scenario, load_scenario, scenario_names

_DOORS = {
    "InputError": "carbon_gym.errors",
    "Scenario": "carbon_gym.scenario",
    "load_scenario": "carbon_gym.scenario",
    "make_policy": "carbon_gym.doors",
    "policy_names": "carbon_gym.doors",
    "scenario_names": "carbon_gym.scenario",
}

__all__ = [
    "InputError",
    "Scenario",
    "load_scenario",
    "make_policy",
    "policy_names",
    "scenario_names",
]


def _register() -> None:
    """Register the environments, as strings: nothing of them is imported before `gymnasium.make`.

    Importing again changes nothing.
    """
    if "CarbonRouting-v0" not in gymnasium.registry:
        gymnasium.register(
            "CarbonRouting-v0",
            entry_point="carbon_gym.envs.routing:CarbonRoutingEnv",
            vector_entry_point="carbon_gym.envs.vector:CarbonRoutingVectorEnv",
        )
    if "CarbonRoutingFleet-v0" not in gymnasium.registry:
        gymnasium.register(
            "CarbonRoutingFleet-v0",
            entry_point="carbon_gym.envs.fleet:CarbonRoutingFleetEnv",
        )


_register()


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return getattr(importlib.import_module(_DOORS[name]), name)
    raise AttributeError(f"module 'carbon_gym' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_DOORS])
