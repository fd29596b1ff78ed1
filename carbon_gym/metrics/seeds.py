"""How good a recipe is, not one training of it: scores of several training seeds on fleets.

Interquartile mean, stratified bootstrap and probability of improvement are those of Agarwal et al.,
"Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021, with fleets in
the place of tasks. There every run serves one task; here one router serves all fleets, so that what
is good or bad about a seed shows on all of them at once. The stratified bootstrap draws the seeds
of every fleet anew, cannot see that, and is too narrow where seeds differ. So there is a second
interval, for which a seed is drawn with all its fleets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from carbon_gym.metrics.intervals import CONFIDENCE, Floats

REPLICATES = 10_000
"""Bootstrap replicates (ASSUMED: ends of intervals repeat to about 2 % of their width)."""
TRIMMED = 4
"""The interquartile mean leaves out one score in this many at either end, rounded down."""
_SEED = 20266
_BLOCK_CELLS = 2_000_000

Draw = Literal["stratified-bootstrap-over-seeds", "bootstrap-over-whole-seeds"]
STRATIFIED: Draw = "stratified-bootstrap-over-seeds"
WHOLE: Draw = "bootstrap-over-whole-seeds"


class SeedInterval(TypedDict):
    """A figure with its 95 % percentile interval over training seeds.

    `low`, `high` and `method` are None with a single seed: it has no spread.
    """

    value: float
    low: float | None
    high: float | None
    method: Draw | None


def interquartile_mean(scores: ArrayLike) -> float:
    """Mean of the middle half of all scores: of seeds × fleets, not fleet by fleet.

    Args:
        scores: float64, any shape, at least one; of N scores the ⌊N/4⌋ lowest and highest are left
            out.
    """
    return float(_middle_means(np.asarray(scores, dtype=np.float64).reshape(1, -1))[0])


def interquartile_interval(
    scores: ArrayLike, draw: Draw = STRATIFIED, *, replicates: int = REPLICATES
) -> SeedInterval:
    """Interquartile mean with its interval.

    Args:
        scores: float64 (seeds, fleets), finite.
        draw: `STRATIFIED`: seeds are drawn with replacement on every fleet anew; `WHOLE`: once
            for all fleets.
        replicates: Draws. They come from a generator that is seeded with the shape alone, and the
            order of the seeds does not matter: the same scores have the same interval.

    Raises:
        ValueError: The scores have another shape, or are not finite.
    """
    ordered = _ordered(scores, draw)
    seeds, fleets = ordered.shape
    rng, columns = _generator(ordered), np.arange(fleets)
    found = [
        _middle_means(ordered[drawn, columns].reshape(len(drawn), -1))
        for drawn in _draws(rng, draw, replicates, seeds, fleets)
    ]
    return _interval(interquartile_mean(ordered), found, draw if seeds > 1 else None)


def probability_of_improvement(scores: ArrayLike, reference: ArrayLike) -> float:
    """Chance that a seed of a method scores below one of the reference on a fleet drawn at random.

    Args:
        scores: float64 (seeds, fleets), lower is better (CO2).
        reference: float64 (seeds of the reference, fleets).

    Returns:
        Mean over fleets of the share of pairs of seeds where the method is lower; equals count
        half.

    Raises:
        ValueError: Shapes that do not fit each other, or scores that are not finite.
    """
    return float(_wins(_checked(scores), _checked(reference)).mean())


def improvement_interval(
    scores: ArrayLike,
    reference: ArrayLike,
    draw: Draw = STRATIFIED,
    *,
    replicates: int = REPLICATES,
) -> SeedInterval:
    """Probability of improvement with its interval; seeds of both sides are drawn.

    Args:
        scores: As for `probability_of_improvement`.
        reference: Likewise.
        draw: As for `interquartile_interval`.
        replicates: Likewise.
    """
    mine, theirs = _ordered(scores, draw), _ordered(reference, draw)
    wins = _wins(mine, theirs)
    ours, others, fleets = wins.shape
    first, second = _generator(mine), _generator(theirs, 1)
    columns = np.arange(fleets)
    pairs = zip(
        _draws(first, draw, replicates, ours, fleets, others),
        _draws(second, draw, replicates, others, fleets, ours),
        strict=True,
    )
    found = [wins[a[:, :, None], b[:, None], columns].mean(axis=(1, 2, 3)) for a, b in pairs]
    return _interval(float(wins.mean()), found, draw if ours * others > 1 else None)


def _middle_means(scores: Floats) -> Floats:
    """Interquartile mean of each row, float64 (R, N) → (R,)."""
    count = scores.shape[1]
    cut = count // TRIMMED
    middle: Floats = np.sort(scores, axis=1)[:, cut : count - cut].mean(axis=1)
    return middle


def _wins(mine: Floats, theirs: Floats) -> Floats:
    """1 where mine is lower, ½ where equal, float64 (seeds, seeds of the reference, fleets)."""
    if mine.shape[1] != theirs.shape[1]:
        raise ValueError(f"{mine.shape[1]} fleets against {theirs.shape[1]}")
    a, b = mine[:, None], theirs[None]
    won: Floats = (a < b) + 0.5 * (a == b)
    return won


def _checked(scores: ArrayLike) -> Floats:
    found = np.asarray(scores, dtype=np.float64)
    if found.ndim != 2 or 0 in found.shape:
        raise ValueError(f"scores have shape {found.shape} where (seeds, fleets) belongs")
    if not np.isfinite(found).all():
        raise ValueError("scores are not finite")
    return found


def _ordered(scores: ArrayLike, draw: Draw) -> Floats:
    """The seeds in an order that is their scores' alone; within a stratum they have none."""
    found = _checked(scores)
    if draw == STRATIFIED:
        return np.sort(found, axis=0)
    return found[np.lexsort(found.T[::-1])]


def _generator(scores: Floats, side: int = 0) -> np.random.Generator:
    return np.random.default_rng((_SEED, side, *scores.shape))


def _draws(
    rng: np.random.Generator,
    draw: Draw,
    replicates: int,
    seeds: int,
    fleets: int,
    partners: int = 1,
) -> Iterator[NDArray[np.int64]]:
    """Seeds drawn with replacement, int64 (block, seeds, fleets), or (block, seeds, 1)."""
    block = max(1, min(replicates, _BLOCK_CELLS // (seeds * fleets * partners)))
    for first in range(0, replicates, block):
        size = min(block, replicates - first)
        yield rng.integers(0, seeds, (size, seeds, fleets if draw == STRATIFIED else 1))


def _interval(value: float, found: list[Floats], method: Draw | None) -> SeedInterval:
    if method is None:
        return SeedInterval(value=value, low=None, high=None, method=None)
    ends = np.quantile(np.concatenate(found), [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    return SeedInterval(value=value, low=float(ends[0]), high=float(ends[1]), method=method)
