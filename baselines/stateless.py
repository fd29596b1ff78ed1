"""What policies share: remembering nothing, and knobs that are numbers."""

from __future__ import annotations

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import Floats

Knob = float | Floats
"""One value for all lanes, or float64 (B,), one per lane."""
MOST = 1e9
"""Upper bound of prices, so that no cost overflows."""


class Stateless:
    """A policy whose choice depends on the quotes alone."""

    name = "stateless"

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Begin a run; there is nothing to forget."""


def within(policy: str, low: float, high: float, **knob: Knob) -> Knob:
    """The one knob given by name, if it is from `low` to `high`; else `InputError`."""
    ((name, value),) = knob.items()
    if not np.all((np.asarray(value) >= low) & (np.asarray(value) <= high)):
        raise InputError(f"{policy}: {name} = {value} is not allowed; use {low:g} to {high:g}")
    return value


def positive(policy: str, **knob: float) -> float:
    """The one knob given by name, if it is a finite number above 0; else `InputError`."""
    ((name, value),) = knob.items()
    if not 0.0 < value < np.inf:
        raise InputError(f"{policy}: {name} = {value} is not allowed; use a number above 0")
    return value


def by_lane(knob: Knob) -> Floats:
    """A knob as float64 (1,) or (B, 1), to be multiplied with something (B, D)."""
    return np.asarray(knob, dtype=np.float64)[..., None]
