"""Evolution strategies over a scorer's weights: antithetic pairs, ranks, Adam.

After Salimans et al. 2017 (arXiv 1703.03864). All candidates of a generation serve the same fleets,
so that what they differ by is their own; generations go round the groups of training fleets. Every
draw is keyed by the generation: a search that goes on ends where one without a stop ends.

How far candidates may lie from the mean differs by a factor of ten from one clone to another. It is
hence set by what it costs: σ shrinks while candidates are dearer in the mean than their centre by
more than `MOST_HARM`, and grows while they are dearer by less than half of that.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from agents.policy_search.workers import Workers
from carbon_gym.router.rollout import flat
from carbon_gym.router.weights import Weights

Floats = NDArray[np.float64]
_FIRST, _SECOND, _TINY = 0.9, 0.98, 1e-8
"""Decay of Adam's moments: shorter memories than usual, there are few steps (ASSUMED)."""
_LEAST_SCALE = 1e-3
"""Of an array whose weights are all near 0 (ASSUMED)."""
MOST_HARM = 0.008
"""In units of the cost, i.e. of the reference's CO2 (ASSUMED)."""
_SHRINK, _GROW = 0.7, 1.2
"""Factors on σ (ASSUMED)."""


@dataclass(frozen=True, eq=False)
class Searched:
    """Where an evolution is.

    Attributes:
        weights: float64 (n,), the mean.
        scale: float64 (n,), the unit in which each is moved: the root mean square of its array at
            the beginning.
        first: float64 (n,), Adam's moments.
        second: float64 (n,).
        sigma: float64 (), standard deviation of a candidate in units of `scale`.
    """

    weights: Floats
    scale: Floats
    first: Floats
    second: Floats
    sigma: Floats


def begin(weights: Weights, sigma: float) -> Searched:
    """Around a scorer's weights."""
    scale = []
    for field in fields(Weights):
        array = getattr(weights, field.name).astype(float)
        size = max(float(np.sqrt((array**2).mean())), _LEAST_SCALE)
        scale.append(np.full(array.size, size))
    start = flat(weights)
    zeros = np.zeros_like(start)
    return Searched(start, np.concatenate(scale), zeros, zeros, np.array(sigma))


def generation(
    number: int, at: Searched, workers: Workers, *, seed: int, pairs: int, step: float
) -> tuple[Searched, float, Floats]:
    """One generation, counted from 0.

    Args:
        number: Which; it names the group of fleets and keys the draws.
        at: Where the search is.
        workers: Measure the candidates.
        seed: Of the draws.
        pairs: Antithetic pairs of candidates.
        step: Of Adam, in units of σ.

    Returns:
        Where it goes, the cost of where it was, and the costs of the candidates (pairs, 2).
    """
    rng = np.random.default_rng([seed, 2, number])
    noise = rng.standard_normal((pairs, len(at.weights)))
    moves = at.sigma * at.scale * noise
    tried = [at.weights + sign * move for move in moves for sign in (1.0, -1.0)]
    found = np.array(workers.costs(number, [at.weights, *tried]))
    centre, costs = float(found[0]), found[1:].reshape(pairs, 2)
    ranks = costs.ravel().argsort(kind="stable").argsort(kind="stable").reshape(pairs, 2)
    shaped = ranks / (2 * pairs - 1) - 0.5
    slope = ((shaped[:, 0] - shaped[:, 1])[:, None] * noise).mean(axis=0)
    first = _FIRST * at.first + (1.0 - _FIRST) * slope
    second = _SECOND * at.second + (1.0 - _SECOND) * slope**2
    mean, spread = first / (1.0 - _FIRST ** (number + 1)), second / (1.0 - _SECOND ** (number + 1))
    moved = at.weights - step * at.sigma * at.scale * mean / (np.sqrt(spread) + _TINY)
    harm = float(costs.mean()) - centre
    factor = _SHRINK if harm > MOST_HARM else _GROW if harm < MOST_HARM / 2.0 else 1.0
    return Searched(moved, at.scale, first, second, at.sigma * factor), centre, costs
