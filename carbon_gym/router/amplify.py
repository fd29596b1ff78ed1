"""How a router is asked for more or less quality: the models' differences seen larger or smaller.

A scorer has no knob. What it pays for quality it pays by the differences of quality that it sees;
multiplied by a factor they count for that many times as much, as under a price that is as many
times higher.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.router.plan import Plan
from carbon_gym.simulator.arrays import Float32Table, Floats
from carbon_gym.simulator.jit import inlined, kernel


@inlined
def amplify(x: NDArray[np.float32], begin: int, models: int, factor: float) -> None:
    """Multiply how far every model is from the best, in q̂ and in its share of the best.

    Args:
        x: float32 (n,), an observation; changed in place.
        begin: Where its qualities begin; their shares of the best follow.
        models: Number of models M.
        factor: 1 leaves them as they are.
    """
    best = x[begin]
    for m in range(begin, begin + models):
        best = max(best, x[m])
    for m in range(begin, begin + models):
        x[m] = np.float32(best - factor * (best - x[m]))
    for m in range(begin + models, begin + 2 * models):
        x[m] = np.float32(1.0 - factor * (1.0 - x[m]))


@kernel
def amplify_all(observations: Float32Table, begin: int, models: int, factor: Floats) -> None:
    """`amplify` of every observation (B, n) by its lane's factor (B,)."""
    for b in range(observations.shape[0]):
        amplify(observations[b], begin, models, factor[b])


def qualities_of(plan: Plan) -> tuple[int, int]:
    """Where the qualities begin in the observations of a plan, and the number of models."""
    begin, _, models = plan.blocks[1].tolist()
    return begin, models
