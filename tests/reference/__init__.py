"""An independent, slow simulator in plain Python, written from the specification alone.

The fast simulator is compared with this one turn by turn, so nothing here is shared with it:
lists, dicts and loops, and every rule as literally as the specification words it.
"""

from .policies import (
    POLICIES,
    ccar_no_gate,
    ccar_no_pricing,
    faircarbon,
    largest_model,
    lower_bound,
    session_affinity,
)
from .records import Deployment, Outcome, Quote, deployments
from .simulator import Policy, ReferenceSimulator, run

__all__ = [
    "POLICIES",
    "Deployment",
    "Outcome",
    "Policy",
    "Quote",
    "ReferenceSimulator",
    "ccar_no_gate",
    "ccar_no_pricing",
    "deployments",
    "faircarbon",
    "largest_model",
    "lower_bound",
    "run",
    "session_affinity",
]
