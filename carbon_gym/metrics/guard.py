"""The guard for users: quality by category and by session, and beside what CCAR gives them.

Where quality is a budget (SPEC §8) a mean may hide that one group of users pays for it. So each
row says what every category and the lowest tenth of sessions got, and how that compares with CCAR
on the same fleets, turn for turn the same users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from carbon_gym.metrics.intervals import MIN_FLEETS_FOR_T, Interval, paired_t, savings
from carbon_gym.scenario.schema import CATEGORIES

KEPT_SHARE = 0.95
"""Share of CCAR's mean below which a session counts as served worse (ASSUMED: within 5 %)."""
LOW_SHARE = 10
"""The lowest sessions are one in this many, rounded up."""
_ROUNDING = 1e-9
"""Kept at exactly 95 %, a session is not below it: sums in another order differ by less."""
KINDS = ("realised", "predicted")
"""Order of the two qualities in `Served`."""

Floats = NDArray[np.float64]


class Estimate(TypedDict):
    """A mean with its 95 % interval; `low` and `high` are None where there are too few fleets."""

    mean: float | None
    low: float | None
    high: float | None
    method: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """What the users of one fleet got, reduced to sessions and categories.

    S sessions with at least one turn, C categories, two qualities in the order of `KINDS`.

    Attributes:
        co2_g: float64 (S,), gCO2eq of each session.
        session_quality: float64 (S, 2), mean over the session's turns, 0 to 1.
        category_turns: int64 (C,).
        category_quality: float64 (C, 2), sum over turns.
        ttft_p95_s: Seconds; None without turns.
    """

    co2_g: Floats
    session_quality: Floats
    category_turns: NDArray[np.int64]
    category_quality: Floats
    ttft_p95_s: float | None

    @classmethod
    def of(
        cls, ledger: NDArray[np.void], session: NDArray[np.int64], category: NDArray[np.int8]
    ) -> Self:
        """From a fleet's ledger.

        Args:
            ledger: Structured array (T,) of `carbon_gym.simulator.arrays.OUTCOME`.
            session: int64 (T,), session of each row.
            category: int8 (T,), index into `CATEGORIES`.
        """
        turns = np.bincount(session)
        served = turns > 0
        qualities = [ledger[f"quality_{kind}"] for kind in KINDS]
        by_session = [np.bincount(session, weights=quality) for quality in qualities]
        by_category = [
            np.bincount(category, weights=quality, minlength=len(CATEGORIES))
            for quality in qualities
        ]
        return cls(
            np.bincount(session, weights=ledger["co2_g"])[served].astype(np.float64),
            np.stack(by_session, axis=1)[served] / turns[served, None],
            np.bincount(category, minlength=len(CATEGORIES)).astype(np.int64),
            np.stack(by_category, axis=1).astype(np.float64),
            float(np.quantile(ledger["ttft_s"], 0.95)) if len(ledger) else None,
        )

    def quality(self) -> Floats:
        """Means over the fleet's turns, float64 (2,); not to be asked of a fleet without turns."""
        mean: Floats = self.category_quality.sum(axis=0) / self.category_turns.sum()
        return mean


def quality_by_category(fleets: Sequence[Served]) -> dict[str, dict[str, Any]]:
    """Turns and mean qualities of every category, pooled; means are None where none occurs."""
    turns = np.sum([fleet.category_turns for fleet in fleets], axis=0)
    sums = np.sum([fleet.category_quality for fleet in fleets], axis=0)
    return {
        name: {
            "turns": int(count),
            "quality_predicted": float(predicted / count) if count else None,
            "quality_realised": float(realised / count) if count else None,
        }
        for name, count, (realised, predicted) in zip(CATEGORIES, turns, sums, strict=True)
    }


def session_quality_low_decile(fleets: Sequence[Served]) -> float | None:
    """Mean realised quality of sessions, over the tenth of all sessions where it is lowest."""
    quality = np.concatenate([fleet.session_quality[:, 0] for fleet in fleets])
    return float(quality[lowest_tenth(quality)].mean()) if len(quality) else None


def lowest_tenth(quality: Floats) -> NDArray[np.intp]:
    """Indices of the lowest tenth, rounded up; of equal ones the first."""
    return np.argsort(quality, kind="stable")[: -(-len(quality) // LOW_SHARE)]


def versus_ccar(mine: Sequence[Served], ccar: Sequence[Served]) -> dict[str, Any]:
    """A policy beside CCAR on the same fleets, paired.

    Args:
        mine: The policy's fleets.
        ccar: The same fleets under CCAR.

    Returns:
        ``versus_ccar`` of a row, documented key by key in docs/data.md. Differences are the
        policy's value minus CCAR's, means over the fleets that have turns (of a category: of it).
    """
    pairs = [(a, b) for a, b in zip(mine, ccar, strict=True) if a.category_turns.sum()]
    quality = np.array([a.quality() - b.quality() for a, b in pairs]).reshape(-1, 2)
    low = [
        (
            _mean_difference(a, b, lowest_tenth(b.session_quality[:, 0])),
            _mean_difference(a, b, lowest_tenth(a.session_quality[:, 0])),
        )
        for a, b in pairs
    ]
    return {
        "saving": _saving(mine, ccar),
        "quality_realised_difference": over_fleets(quality[:, 0]),
        "quality_predicted_difference": over_fleets(quality[:, 1]),
        "ttft_p95_difference_s": over_fleets(
            [
                a.ttft_p95_s - b.ttft_p95_s
                for a, b in pairs
                if a.ttft_p95_s is not None and b.ttft_p95_s is not None
            ]
        ),
        "quality_realised_difference_by_category": {
            name: over_fleets(
                [
                    float((a.category_quality[k, 0] - b.category_quality[k, 0]) / turns)
                    for a, b in pairs
                    if (turns := a.category_turns[k])
                ]
            )
            for k, name in enumerate(CATEGORIES)
        },
        "session_quality_ratio": {
            kind: _ratios(mine, ccar, column) for column, kind in enumerate(KINDS)
        },
        "low_decile_difference": {
            "of_ccar": over_fleets([of_ccar for of_ccar, _ in low]),
            "own": over_fleets([own for _, own in low]),
        },
    }


def over_fleets(differences: Sequence[float] | Floats) -> Estimate:
    """Mean of per-fleet differences; from five fleets on with its paired t interval."""
    if len(differences) >= MIN_FLEETS_FOR_T:
        return _estimate(paired_t(differences))
    mean = float(np.mean(differences)) if len(differences) else None
    return Estimate(mean=mean, low=None, high=None, method=None)


def _estimate(interval: Interval) -> Estimate:
    return Estimate(
        mean=interval["mean"],
        low=interval["low"],
        high=interval["high"],
        method=interval["method"],
    )


def _saving(mine: Sequence[Served], ccar: Sequence[Served]) -> Estimate:
    """As `savings`, but a lone session without a spread still has its saving."""
    (interval,) = savings(
        [fleet.co2_g[:, None] for fleet in mine], [fleet.co2_g[:, None] for fleet in ccar]
    )
    if interval is not None:
        return _estimate(interval)
    theirs = float(sum(fleet.co2_g.sum() for fleet in ccar))
    ours = float(sum(fleet.co2_g.sum() for fleet in mine))
    return over_fleets([1.0 - ours / theirs] if theirs else [])


def _mean_difference(mine: Served, ccar: Served, sessions: NDArray[np.intp]) -> float:
    """Mean realised quality of some sessions minus CCAR's of the same ones."""
    difference = mine.session_quality[sessions, 0] - ccar.session_quality[sessions, 0]
    return float(difference.mean())


def _ratios(mine: Sequence[Served], ccar: Sequence[Served], column: int) -> dict[str, float | None]:
    """Session means over CCAR's means of the same sessions: how many are low, and how low."""
    ours = np.concatenate([fleet.session_quality[:, column] for fleet in mine])
    theirs = np.concatenate([fleet.session_quality[:, column] for fleet in ccar])
    ratio = ours[theirs > 0] / theirs[theirs > 0]
    if not len(ratio):
        return dict.fromkeys(("below_95_percent", "p01", "p10", "smallest"))
    p01, p10 = np.quantile(ratio, [0.01, 0.10])
    return {
        "below_95_percent": float((ratio < KEPT_SHARE - _ROUNDING).mean()),
        "p01": float(p01),
        "p10": float(p10),
        "smallest": float(ratio.min()),
    }
