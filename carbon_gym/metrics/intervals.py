"""Confidence intervals: paired t over fleets, or a bootstrap over sessions where fleets are few.

Under a capacity the sessions of one fleet are not independent: totals of half of them swing by
several percent. So whole fleets are compared, paired, as soon as there are five of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

MIN_FLEETS_FOR_T = 5
"""With fewer fleets the interval is a bootstrap over sessions, and is labelled so."""
CONFIDENCE = 0.95
BOOTSTRAP_REPLICATES = 1000
_BOOTSTRAP_SEED = 20265
_BLOCK_CELLS = 4_000_000

Floats = NDArray[np.float64]


class Interval(TypedDict):
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    method: Literal["paired-t-over-fleets", "bootstrap-over-sessions"]


@lru_cache(maxsize=64)
def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t distribution, by bisection on the integrated density.

    Args:
        probability: In (0.5, 1).
        degrees: Degrees of freedom, at least 1.

    Returns:
        The quantile, accurate to about 1e-7.
    """
    log_norm = (
        math.lgamma((degrees + 1) / 2)
        - math.lgamma(degrees / 2)
        - 0.5 * math.log(degrees * math.pi)
    )

    def above_median(t: float) -> float:
        # Substituting t = sqrt(degrees)·tan(angle) makes the range finite and the integrand smooth.
        angles = np.linspace(0.0, math.atan(t / math.sqrt(degrees)), 2001)
        density = np.cos(angles) ** (degrees - 1)
        step = angles[1] - angles[0]
        simpson = density[0] + density[-1] + 4 * density[1:-1:2].sum() + 2 * density[2:-1:2].sum()
        return float(math.exp(log_norm) * math.sqrt(degrees) * simpson * step / 3)

    low, high = 0.0, 1.0
    while above_median(high) < probability - 0.5:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if above_median(middle) < probability - 0.5 else (low, middle)
    return (low + high) / 2


def paired_t(differences: Sequence[float] | Floats) -> Interval:
    """Mean of per-fleet differences with its t interval; at least two fleets are needed."""
    values = np.asarray(differences, dtype=np.float64)
    mean = float(values.mean())
    half = t_quantile(0.5 + CONFIDENCE / 2, len(values) - 1) * float(
        values.std(ddof=1) / math.sqrt(len(values))
    )
    return Interval(mean=mean, low=mean - half, high=mean + half, method="paired-t-over-fleets")


def savings(ours: Sequence[Floats], theirs: Sequence[Floats]) -> list[Interval | None]:
    """Savings 1 − Σ ours / Σ theirs of a policy over a reference, for K groups of sessions.

    Args:
        ours: Per fleet, float64 (S_f, K): gCO2eq of each session under the policy, 0 where the
            session is not in the group.
        theirs: The same sessions under the reference.

    Returns:
        Per group: where the reference emits something in five fleets or more, the mean of those
        fleets' savings and its paired t interval; else the pooled saving and a bootstrap over the
        sessions of all fleets. None where the reference emits in fewer than two sessions.
    """
    totals = np.stack([fleet.sum(axis=0) for fleet in ours])
    references = np.stack([fleet.sum(axis=0) for fleet in theirs])
    counted = references > 0
    few = counted.sum(axis=0) < MIN_FLEETS_FOR_T
    resampled = iter(
        _bootstrap(
            np.concatenate([fleet[:, few] for fleet in ours]),
            np.concatenate([fleet[:, few] for fleet in theirs]),
        )
        if few.any()
        else []
    )
    return [
        next(resampled)
        if few[k]
        else paired_t(1.0 - totals[counted[:, k], k] / references[counted[:, k], k])
        for k in range(len(few))
    ]


def reductions(ours: Sequence[Floats], theirs: Sequence[Floats]) -> list[Interval | None]:
    """What a policy takes away in all, Σ theirs − Σ ours, of K figures that add up over sessions.

    Args:
        ours: Per fleet, float64 (S_f, K): the figures of each session under the policy.
        theirs: The same sessions under the reference.

    Returns:
        Per figure the sum over all fleets. Its interval: with five fleets or more paired t, the
        number of fleets times that of their mean; else a bootstrap over the sessions of all
        fleets. None with fewer than two sessions.
    """
    if len(ours) >= MIN_FLEETS_FOR_T:
        totals = [b.sum(axis=0) - a.sum(axis=0) for a, b in zip(ours, theirs, strict=True)]
        return [_scaled(paired_t(figure), len(ours)) for figure in np.stack(totals).T]
    difference = np.concatenate(theirs) - np.concatenate(ours)
    if len(difference) < 2:
        return [None] * difference.shape[1]
    (resampled,) = _resampled(difference)
    ends = np.quantile(resampled, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2], axis=0)
    return [
        Interval(
            mean=float(total), low=float(low), high=float(high), method="bootstrap-over-sessions"
        )
        for total, low, high in zip(difference.sum(axis=0), *ends, strict=True)
    ]


def _scaled(interval: Interval, by: float) -> Interval:
    return Interval(
        mean=by * interval["mean"],
        low=by * interval["low"],
        high=by * interval["high"],
        method=interval["method"],
    )


def _resampled(*tables: Floats) -> list[Floats]:
    """Sums over resampled sessions, float64 (replicates, K), of tables (S, K) of the same S.

    Sessions are drawn with replacement by Poisson(1) weights, which for this many sessions is the
    ordinary bootstrap and lets all groups and policies share one set of draws.
    """
    sessions = len(tables[0])
    drawn: list[list[Floats]] = [[] for _ in tables]
    block = max(1, min(BOOTSTRAP_REPLICATES, _BLOCK_CELLS // max(sessions, 1)))
    for first in range(0, BOOTSTRAP_REPLICATES, block):
        weights = _poisson_weights(first, min(block, BOOTSTRAP_REPLICATES - first), sessions)
        for sums, table in zip(drawn, tables, strict=True):
            sums.append(weights @ table)
    return [np.concatenate(sums) for sums in drawn]


@lru_cache(maxsize=4)
def _poisson_weights(first: int, replicates: int, sessions: int) -> Floats:
    """Weights of some bootstrap replicates, kept for the next policy on the same fleet."""
    rng = np.random.default_rng((_BOOTSTRAP_SEED, first, sessions))
    weights = rng.poisson(1.0, (replicates, sessions)).astype(np.float64)
    weights.flags.writeable = False
    return weights


def _bootstrap(ours: Floats, theirs: Floats) -> list[Interval | None]:
    """Pooled savings of K groups with a percentile bootstrap, paired by session."""
    emits = (ours > 0).any(axis=1) | (theirs > 0).any(axis=1)
    ours, theirs = ours[emits], theirs[emits]
    resampled_ours, resampled_theirs = _resampled(ours, theirs)
    intervals: list[Interval | None] = []
    for k in range(ours.shape[1]):
        if np.count_nonzero(theirs[:, k] > 0) < 2:  # one session has no spread to draw from
            intervals.append(None)
            continue
        mean = 1.0 - float(ours[:, k].sum()) / float(theirs[:, k].sum())
        valid = resampled_theirs[:, k] > 0
        replicas = 1.0 - resampled_ours[valid, k] / resampled_theirs[valid, k]
        low, high = np.quantile(replicas, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
        intervals.append(
            Interval(mean=mean, low=float(low), high=float(high), method="bootstrap-over-sessions")
        )
    return intervals
