"""What the sensitivity analysis varies: β_Q by capacity, and one axis at a time (SPEC §7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from carbon_gym.reproduce.plan import Plan, World
from carbon_gym.reproduce.worlds import ON_LEAVE, Changes, changed_world

POLICIES = ("ccar-no-gate", "ccar")
BETAS = (0.8, 0.85, 0.9, 0.95)
LIMITS: tuple[float | None, ...] = (0.25, 0.5, 0.75, None)
"""c; None: no limit."""
RULES, SCOPES = ("sessions", "turns"), ("pool", "region")
QUICK_BETAS = (0.85, 0.95)
QUICK_LIMITS: tuple[float | None, ...] = (0.25, 0.5)
ZONES = (
    *("US-CAL-CISO", "US-TEX-ERCO", "GB", "DE"),
    *("US-NY-NYIS", "AU-NSW", "JP-TK", "CA-ON"),
)
"""Zones that join one after the other (ASSUMED); the first four are the default fleet's."""
_DEFAULT_ZONES = 4
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting of β_Q by capacity.

    Attributes:
        leave: Of `ON_LEAVE`.
        rule: What c counts.
        scope: What it bounds.
        beta_q: β_Q.
        limit: c.
    """

    leave: str
    rule: str
    scope: str
    beta_q: float
    limit: float | None

    @property
    def changes(self) -> Changes:
        """Without a limit rule and scope change nothing, so that these settings are one world."""
        capacity = {} if self.limit is None else {"rule": self.rule, "scope": self.scope}
        return {
            "bounds": {"beta_q": self.beta_q},
            "capacity": {**capacity, "limit": self.limit},
        }


@dataclass(frozen=True, slots=True)
class Axis:
    """Settings that differ in one thing.

    Attributes:
        name: What is varied, with its unit.
        settings: By value, in order: what is changed.
        default: The value of the default scenario.
    """

    name: str
    settings: dict[str, Changes]
    default: str


def cells(plan: Plan) -> list[Cell]:
    """Settings of β_Q by capacity, those of one heat map after the other."""
    leaves = ON_LEAVE[:1] if plan.quick else ON_LEAVE
    scopes = SCOPES[:1] if plan.quick else SCOPES
    betas = QUICK_BETAS if plan.quick else BETAS
    limits = QUICK_LIMITS if plan.quick else LIMITS
    return [Cell(*values) for values in product(leaves, RULES, scopes, betas, limits)]


def axes(plan: Plan) -> list[Axis]:
    """Axes; in a quick plan their ends and the default alone."""
    found = list(_axes(plan))
    if not plan.quick:
        return found
    return [Axis(axis.name, _ends(axis), axis.default) for axis in found]


def leaves(plan: Plan) -> Sequence[str]:
    """For which readings of leaving the axes are varied."""
    return ON_LEAVE[:1] if plan.quick else ON_LEAVE


def setting_world(plan: Plan, leave: str, changes: Changes) -> World:
    """The first data set under some settings."""
    return changed_world(plan.datasets[0], leave, POLICIES, plan.sensitivity_fleets, changes)


def _axes(plan: Plan) -> Iterator[Axis]:
    """All axes; values of TTL, ρ_c and staleness as SPEC §7 has them, the others ASSUMED."""
    yield _axis("cache TTL, min", "10", cache="ttl_s", values=(2, 5, 10, 30, 60), scale=_MINUTE)
    yield _axis("TTFT bound τ, s", "2", bounds="ttft_s", values=(0.5, 1, 2, 4))
    yield _axis("ρ_c", "0.03", energy="cached_input_ratio", values=(0, 0.03, 0.1))
    yield _axis("ρ_o", "4", energy="output_ratio", values=(1, 2, 4, 8))
    yield _axis("predictor error", "0.03", quality="predictor_sd", values=(0, 0.03, 0.06, 0.1))
    yield _axis("turn_sd", "0.4", quality="turn_sd", values=(0, 0.4, 0.8))
    yield _axis(
        "error of ô, log sd", "0", workload="predicted_output_log_sd", values=(0, 0.25, 0.5, 1)
    )
    yield _axis(
        "staleness of CI, min", "0", grid="staleness_s", values=(0, 15, 30, 60), scale=_MINUTE
    )
    zones = zones_of(plan)
    if len(zones) > 1:
        regions: dict[str, Changes] = {
            str(count): {"fleet": {"regions": list(zones[:count])}}
            for count in range(2, len(zones) + 1)
        }
        yield Axis("regions", regions, str(_DEFAULT_ZONES if zones is ZONES else len(zones)))


def zones_of(plan: Plan) -> Sequence[str]:
    """Zones that the axis of regions adds one by one: with a grid of the user's own, theirs."""
    if plan.files.zones:
        return plan.files.zones
    return ZONES[:_DEFAULT_ZONES] if plan.files.grid else ZONES


def _axis(name: str, default: str, values: Sequence[float], scale: float = 1.0, **key: str) -> Axis:
    """An axis of one key, given as ``section="key"``."""
    ((section, field),) = key.items()
    settings: dict[str, Changes] = {
        f"{value:g}": {section: {field: scale * value}} for value in values
    }
    return Axis(name, settings, default)


def _ends(axis: Axis) -> dict[str, Changes]:
    values = list(axis.settings)
    chosen = {values[0], values[-1], axis.default}
    return {value: change for value, change in axis.settings.items() if value in chosen}
