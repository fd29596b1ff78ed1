"""What a file's arrivals say: gaps between turns and how bursty session starts are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from carbon_gym.scenario.schema import Splits
from carbon_gym.workload.split import split_of
from carbon_gym.workload.trace import Conversations, Floats

MIN_SAMPLES = 30
"""Fewer gaps, or hours with several starts, say nothing (ASSUMED)."""


@dataclass(frozen=True, slots=True)
class ArrivalStatistics:
    """Values for the workload section of a scenario; None where the file is too small.

    Attributes:
        gap_log_mean: Mean of the log gap between turns, log s.
        gap_log_sd: Its standard deviation.
        dispersion: Variance over mean of the session starts per minute, within hours; at least 1,
            the smallest that a scenario takes.
    """

    gap_log_mean: float | None
    gap_log_sd: float | None
    dispersion: float | None


def measure_arrivals(
    conversations: Conversations, splits: Splits, seed: int
) -> ArrivalStatistics | None:
    """Measure the arrivals of the training sessions; None for a file without arrivals.

    Args:
        conversations: The file.
        splits: Shares of the split hash.
        seed: Key of the split hash.
    """
    if conversations.arrival_s is None:
        return None
    training = split_of(conversations.session_key, splits, seed) == 0
    of_row = np.repeat(np.arange(conversations.sessions), np.diff(conversations.offsets))
    pair = (of_row[1:] == of_row[:-1]) & training[of_row[1:]]
    gaps_s = np.diff(conversations.arrival_s)[pair]
    logs = np.log(gaps_s[gaps_s > 0])
    enough = len(logs) >= MIN_SAMPLES
    starts_s = conversations.arrival_s[conversations.offsets[:-1]][training]
    return ArrivalStatistics(
        gap_log_mean=float(logs.mean()) if enough else None,
        gap_log_sd=float(logs.std()) if enough else None,
        dispersion=_dispersion(starts_s),
    )


def _dispersion(starts_s: Floats) -> float | None:
    """Mean over whole hours of variance / mean of the starts per minute."""
    if len(starts_s) == 0:
        return None
    minute = np.floor(starts_s / 60.0).astype(np.int64)
    first_hour = -(-int(minute.min()) // 60)
    hours = int(minute.max()) // 60 - first_hour
    if hours < 1:
        return None
    inside = (minute >= 60 * first_hour) & (minute < 60 * (first_hour + hours))
    counts = np.bincount(minute[inside] - 60 * first_hour, minlength=60 * hours).reshape(hours, 60)
    busy = counts.sum(axis=1) >= MIN_SAMPLES
    if not busy.any():
        return None
    measured = (counts[busy].var(axis=1, ddof=1) / counts[busy].mean(axis=1)).mean()
    return max(float(measured), 1.0)
