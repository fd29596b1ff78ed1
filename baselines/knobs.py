"""What is searched when baselines are tuned: the knobs and their ranges (SPEC §6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from baselines.cedar import Cedar
from baselines.gar_eps import GarEps
from baselines.gar_pd import GarPd
from carbon_gym.policy import Policy

_DIGITS = 3
"""Significant digits of a knob, so that files can be read."""


@dataclass(frozen=True, slots=True)
class Range:
    """A knob between two values, even on the logarithm if `log`."""

    name: str
    low: float
    high: float
    log: bool = False

    def at(self, share: float) -> float:
        """The value at a share of the range, 0 to 1."""
        if self.log:
            value = self.low * math.exp(share * math.log(self.high / self.low))
        else:
            value = self.low + share * (self.high - self.low)
        return float(f"{value:.{_DIGITS}g}")


@dataclass(frozen=True, slots=True)
class Choice:
    """A knob that is one of a few words."""

    name: str
    options: tuple[str, ...]

    def at(self, share: float) -> str:
        """The option at a share of the range, 0 to 1."""
        return self.options[min(int(share * len(self.options)), len(self.options) - 1)]


@dataclass(frozen=True, slots=True)
class Tunable:
    """A policy with knobs.

    Attributes:
        build: Its class.
        knobs: What is searched; their bounds are ASSUMED, so wide that a best on one of them is
            as good as 0 (α, λ's step; a step of 0 would not be "online") or as never (ε, μ).
        edge: The knob that alone decides how far the bounds are met; moved alone at the end.
    """

    build: Callable[..., Policy]
    knobs: tuple[Range | Choice, ...]
    edge: str | None = None


TUNABLE: dict[str, Tunable] = {
    "gar-eps": Tunable(
        GarEps, (Range("epsilon", 0.0, 0.3), Choice("region", ("home", "cleanest")))
    ),
    "gar-pd": Tunable(
        GarPd,
        (
            Range("lambda_start", 0.03, 30.0, log=True),
            Range("lambda_step", 1e-6, 1e-2, log=True),
            Range("mu_start", 0.01, 1e4, log=True),
            Range("mu_step", 1e-4, 1.0, log=True),
        ),
    ),
    "cedar": Tunable(
        Cedar,
        (Range("alpha", 0.01, 1e3, log=True), Range("eta", 0.01, 1e3, log=True)),
    ),
}
"""The policies that are tuned under the filter, by name."""
TUNABLE_UNDER_BUDGET: dict[str, Tunable] = {
    "gar-pd-budget": Tunable(
        partial(GarPd, filtered=False),
        (Range("co2_budget", 0.15, 1.5, log=True), *TUNABLE["gar-pd"].knobs),
        edge="co2_budget",
    ),
}
"""Those that are tuned by the same search under a quality budget (SPEC §8)."""
