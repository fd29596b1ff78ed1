"""Training. Importing `agents` loads neither torch nor Stable-Baselines3."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.vec_env import CarbonVecEnv

__distribution__ = "carbon-gym"

__all__ = ["CarbonVecEnv"]


def __getattr__(name: str) -> Any:
    if name == "CarbonVecEnv":
        from carbon_gym.errors import from_extra

        with from_extra("agents.CarbonVecEnv"):
            return importlib.import_module("agents.vec_env").CarbonVecEnv
    raise AttributeError(f"module 'agents' has no attribute {name!r}")
