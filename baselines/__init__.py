"""CCAR and the fixed policies it is compared with (SPEC §5, §6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from baselines.affinity import SessionAffinity
from baselines.ccar import CCAR
from baselines.faircarbon import FairCarbon
from baselines.largest_model import LargestModel
from baselines.lower_bound import LowerBound
from baselines.tuned import tuned_options

__distribution__ = "carbon-gym"

POLICIES: dict[str, Callable[..., Any]] = {
    "session-affinity": SessionAffinity,
    "faircarbon": FairCarbon,
    "ccar-no-gate": CCAR,
    "ccar-no-pricing": partial(CCAR, pricing=False),
    "largest-model": LargestModel,
    "lower-bound": LowerBound,
}
"""Names in tables and what builds the policy."""

__all__ = [
    "CCAR",
    "POLICIES",
    "FairCarbon",
    "LargestModel",
    "LowerBound",
    "SessionAffinity",
    "tuned_options",
]
