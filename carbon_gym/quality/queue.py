"""A price of quality that moves until a mean is reached: the virtual queue of SPEC §8."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.jit import inlined, kernel

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SPAN = 10.0
"""How far the price may move from its start, up and down, as a factor (ASSUMED)."""
SLOPE = 0.045
"""Rise of the mean q̂ per unit of the price's logarithm (DERIVED: fixed prices around the tuned one,
sharegpt and sharechat, validation); it only sets how fast the queue's own start is mended."""


class QualityQueue:
    """The factor on the price of quality, lane by lane.

    A virtual queue Z holds what the turns so far are short of the target: ``Z ← Z + target − q̂``,
    q̂ that of the model chosen, and

        factor = exp(η·Z + I),   I ← I + η²·SLOPE/4 · Z.

    (SPEC's queue is the price itself, moved by addition. On the logarithm, a price that is wrong by
    a factor is mended alike in both directions. The sum I of the queue takes over what the start
    was wrong by, so that Z returns to 0 and the mean to its target; its factor is that of critical
    damping.) The factor stays within `SPAN`, I within its logarithm, Z within twice that over η.

    What that bounds: as long as the factor is below its upper end, the shortfall summed over all
    turns so far, ``Σ(target − q̂)``, is at most ``2·ln(SPAN)/η``. After n turns, hence, the running
    mean lies below the target by at most that over n, and it lies below by more than δ for at most
    that over δ turns. At its upper end the price is `SPAN` times what validation found quality to
    be worth: little more is to be had.

    Args:
        lanes: Number of lanes B.
        eta: η, step of the logarithm per unit of quality and turn; 0: the factor stays 1. One value
            or one per lane.

    Attributes:
        factor: float64 (B,).
    """

    def __init__(self, lanes: int, eta: float | Floats) -> None:
        self._eta = np.full(lanes, eta, dtype=np.float64)
        self.short, self.drift = np.zeros(lanes), np.zeros(lanes)  # Z and I
        self.factor = np.ones(lanes)

    def account(self, live: Bools, target: float | Floats, got: Floats) -> None:
        """Count a turn of every lane that is live.

        Args:
            live: bool (B,).
            target: Mean quality to reach; one value or one per lane.
            got: float64 (B,), q̂ of what was chosen.
        """
        wanted = np.full(len(live), target, dtype=np.float64)
        _account(self._eta, live, wanted, got, self.short, self.drift, self.factor)


@inlined
def advance(
    eta: float, missing: float, b: int, short: Floats, drift: Floats, factor: Floats
) -> None:
    """Count a turn of lane b that is short of the target by `missing`."""
    if eta <= 0.0:
        return
    span = math.log(SPAN)
    most = 2.0 * span / eta
    short[b] = min(max(short[b] + missing, -most), most)
    drift[b] = min(max(drift[b] + eta * eta * (SLOPE / 4.0) * short[b], -span), span)
    factor[b] = math.exp(min(max(eta * short[b] + drift[b], -span), span))


@kernel
def _account(
    eta: Floats,
    live: Bools,
    target: Floats,
    got: Floats,
    short: Floats,
    drift: Floats,
    factor: Floats,
) -> None:
    for b in range(live.shape[0]):
        if live[b]:
            advance(eta[b], target[b] - got[b], b, short, drift, factor)


def most_shortfall(eta: float, turns: int) -> float:
    """Bound on how far the mean q̂ of the first `turns` turns lies below the target.

    While the factor stays below its upper end; see `QualityQueue`.
    """
    return 2.0 * math.log(SPAN) / (eta * turns)
