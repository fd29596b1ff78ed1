"""CCAR and the fixed policies it is compared with (SPEC §5, §6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from baselines.affinity import SessionAffinity
from baselines.cache_aware import CacheAware
from baselines.carbon_greedy import CarbonGreedy
from baselines.ccar import CCAR
from baselines.ccar_budget import CcarBudget
from baselines.cedar import Cedar
from baselines.clairvoyant import Clairvoyant
from baselines.faircarbon import FairCarbon
from baselines.gar_eps import GarEps
from baselines.gar_pd import GarPd
from baselines.learned import LEARNED, Learned, shipped
from baselines.least_ttft import LeastTtft
from baselines.lookahead import Lookahead
from baselines.lower_bound import LowerBound
from baselines.own_knobs import borrows_knobs, write_own_knobs
from baselines.random_choice import RandomChoice
from baselines.replay import Replay
from baselines.session_hash import SessionHash
from baselines.settings import reference_of
from baselines.single_model import LargestModel, SmallestModel
from baselines.tuned import (
    BUDGETED,
    budget_price_g,
    files_of,
    gate_of,
    knobs_of,
    notes_on,
    quality_target,
    queue_of,
    scale_co2_g,
    tuned_options,
)

__distribution__ = "carbon-gym"

POLICIES: dict[str, Callable[..., Any]] = {
    "session-affinity": SessionAffinity,
    "session-hash": SessionHash,
    "faircarbon": FairCarbon,
    "gar-eps": GarEps,
    "gar-pd": GarPd,
    "cedar": Cedar,
    "cache-aware": CacheAware,
    "carbon-greedy": CarbonGreedy,
    "least-ttft": LeastTtft,
    "largest-model": LargestModel,
    "smallest-model": SmallestModel,
    "random": RandomChoice,
    "replay": Replay,
    "ccar": partial(CCAR, name="ccar"),
    "ccar-ev": partial(CCAR, name="ccar-ev"),
    "ccar-no-gate": partial(CCAR, name="ccar-no-gate"),
    "ccar-no-pricing": partial(CCAR, pricing=False, name="ccar-no-pricing"),
    "ccar-budget": partial(CcarBudget, name="ccar-budget"),
    "ccar-budget-fixed": partial(CcarBudget, name="ccar-budget-fixed"),
    "ccar-budget-follow": partial(CcarBudget, name="ccar-budget-follow"),
    "ccar-budget-sessions": partial(CcarBudget, name="ccar-budget-sessions"),
    "faircarbon-budget": partial(CcarBudget, pricing=False, name="faircarbon-budget"),
    "gar-pd-budget": partial(GarPd, filtered=False, name="gar-pd-budget"),
    "lookahead": partial(Lookahead, name="lookahead"),
    "lookahead-places": partial(Lookahead, name="lookahead-places"),
    "learned": Learned,
    "clairvoyant": Clairvoyant,
    "lower-bound": LowerBound,
}
"""Names in tables and what builds the policy."""

__all__ = [
    "BUDGETED",
    "CCAR",
    "LEARNED",
    "POLICIES",
    "CacheAware",
    "CarbonGreedy",
    "CcarBudget",
    "Cedar",
    "Clairvoyant",
    "FairCarbon",
    "GarEps",
    "GarPd",
    "LargestModel",
    "Learned",
    "LeastTtft",
    "Lookahead",
    "LowerBound",
    "RandomChoice",
    "Replay",
    "SessionAffinity",
    "SessionHash",
    "SmallestModel",
    "borrows_knobs",
    "budget_price_g",
    "files_of",
    "gate_of",
    "knobs_of",
    "notes_on",
    "quality_target",
    "queue_of",
    "reference_of",
    "scale_co2_g",
    "shipped",
    "tuned_options",
    "write_own_knobs",
]
