"""What a router gave on some turns, and the constraints under which routers are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONSTRAINTS = {
    "quality_predicted": -1.0,
    "ttft_p95_s": 1.0,
    "quality_violation_rate": 1.0,
    "ttft_violation_rate": 1.0,
    "capacity_violation_rate": 1.0,
}
"""Figures over all turns that may not be worse than the reference's, and the sign of worse."""
ROUNDING = 1e-9
"""Kept at exactly the reference's figure: sums in another order differ by less."""


def no_worse(name: str, ours: float, theirs: float) -> bool:
    """Whether a figure of `CONSTRAINTS` is no worse than the reference's."""
    return bool(CONSTRAINTS[name] * (ours - theirs) <= ROUNDING)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was served, over all turns.

    Attributes:
        co2_g: Sum, gCO2eq.
        quality_predicted: Mean, in [0, 1].
        quality_realised: Mean, in [0, 1].
        ttft_p95_s: 95 % quantile, s.
        quality_violation_rate: Share of the turns, in [0, 1].
        ttft_violation_rate: Share of the turns, in [0, 1].
        capacity_violation_rate: Share of the turns, in [0, 1].
    """

    co2_g: float
    quality_predicted: float
    quality_realised: float
    ttft_p95_s: float
    quality_violation_rate: float
    ttft_violation_rate: float
    capacity_violation_rate: float

    @classmethod
    def of(cls, turns: Mapping[str, NDArray[Any]] | NDArray[np.void]) -> Figures:
        """Figures of some turns.

        Args:
            turns: Fields of `carbon_gym.simulator.arrays.OUTCOME`, each of N turns, N > 0.
        """
        return cls(
            co2_g=float(turns["co2_g"].sum()),
            quality_predicted=float(turns["quality_predicted"].mean()),
            quality_realised=float(turns["quality_realised"].mean()),
            ttft_p95_s=float(np.quantile(turns["ttft_s"], 0.95)),
            quality_violation_rate=float(turns["quality_violation"].mean()),
            ttft_violation_rate=float(turns["ttft_violation"].mean()),
            capacity_violation_rate=float(turns["capacity_violation"].mean()),
        )

    def co2_relative(self, reference: Figures) -> float:
        """CO2 as a share of the reference's; 1 where neither emits anything."""
        return self.co2_g / reference.co2_g if reference.co2_g else 1.0

    def missed(self, reference: Figures) -> dict[str, float]:
        """Constraints that are not kept, and by how much.

        Mean predicted quality is no lower, P95 TTFT and the rates of violations no higher than the
        reference's. By how much: the difference, of TTFT as a share of the reference's.
        """
        gaps = {
            name: worse * (getattr(self, name) - getattr(reference, name))
            for name, worse in CONSTRAINTS.items()
        }
        gaps["ttft_p95_s"] /= reference.ttft_p95_s or 1.0
        return {name: gap for name, gap in gaps.items() if gap > ROUNDING}
