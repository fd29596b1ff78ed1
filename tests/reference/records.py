"""What the reference speaks of: a deployment, a turn's quote and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carbon_gym.scenario.fleet import Fleet


@dataclass(frozen=True)
class Deployment:
    """A (model, GPU type, region) triple, by name; `region` is the grid zone."""

    model: str
    gpu: str
    region: str

    @property
    def name(self) -> tuple[str, str, str]:
        """What the last tie is broken by (SPEC §3)."""
        return (self.model, self.gpu, self.region)


@dataclass
class Quote:
    """One turn priced on every deployment with what a router knows; lists over deployments.

    The `blind_` lists are the same with C = 0 everywhere (SPEC §5, `pricing=False`).
    """

    cached_tokens: list[int]
    energy_kwh: list[float]
    co2_g: list[float]
    ttft_s: list[float]
    available: list[bool]
    """The deployment's pool has room."""
    admissible: list[bool]
    feasible: list[bool]
    """Room, admissible and ttft <= τ."""
    blind_energy_kwh: list[float]
    blind_co2_g: list[float]
    blind_ttft_s: list[float]
    blind_feasible: list[bool]
    previous: int | None
    """Deployment that served the session's previous turn."""
    first: int | None
    """Deployment that served the session's first turn."""


@dataclass
class Outcome:
    """One turn as accounted, with the true reply length and the account's carbon intensity."""

    deployment: int
    cached_tokens: int
    energy_kwh: float
    co2_g: float
    ttft_s: float
    recompute_kwh: float
    quality_predicted: float
    quality_realised: float
    quality_violation: bool
    ttft_violation: bool
    capacity_violation: bool
    switched: bool


def deployments(fleet: Fleet) -> list[Deployment]:
    """All triples: models outermost, then GPUs, then regions."""
    result: list[Deployment] = []
    for model in fleet.models:
        for gpu in fleet.gpus:
            for region in fleet.regions:
                result.append(Deployment(model.name, gpu.name, region.zone))
    return result
