"""Arrival times over one day: when sessions start, and the gaps between their turns.

Session starts are a Cox process: the hour-of-day shape times a gamma modulation per minute, drawn
from (seed, fleet index), given the number of sessions. A session's start is the inverse of the
cumulated rate at its own uniform draw, and its gaps are its own draws, so that no session or later
turn moves another start or an earlier gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from carbon_gym import draws
from carbon_gym.scenario.schema import Workload
from carbon_gym.workload.sessions import session_of_row, sum_before, turn_of_row
from carbon_gym.workload.trace import Floats, Ints

DAY_S: Final = 86_400
MINUTES: Final = 1440
MAX_GAP_S: Final = 30.0 * DAY_S
"""Longest gap that is drawn, s (ASSUMED)."""

_GAMMA_ATTEMPTS: Final = 64


def draw_arrivals(
    keys: NDArray[np.uint64],
    offsets: Ints,
    workload: Workload,
    hour_shape: Sequence[float],
    fleet_index: int,
    seed: int,
) -> Floats:
    """Arrival of every turn, seconds since the start of the day, in whole milliseconds.

    Args:
        keys: uint64 (S,), session keys.
        offsets: int64 (S + 1,), rows of the sessions.
        workload: Gap and dispersion parameters.
        hour_shape: 24 relative rates by hour of the UTC day.
        fleet_index: Which day; the same session has other times on another day.
        seed: `Seeds.arrivals`.

    Returns:
        float64 (N,). Starts lie in [0, 86400); sessions may run past midnight.
    """
    weights = minute_weights(hour_shape, len(keys), workload.dispersion, seed, fleet_index)
    start = start_times_ms(keys, weights, seed, fleet_index)
    session, turn = session_of_row(offsets), turn_of_row(offsets)
    log_gap = workload.gap_log_mean + workload.gap_log_sd * draws.normal(
        seed, "gap", keys[session], turn, fleet_index
    )
    gap_s = np.exp(np.minimum(log_gap, np.log(MAX_GAP_S)))
    gap_ms = np.maximum(np.rint(1000.0 * gap_s), 1.0).astype(np.int64)
    return (start[session] + sum_before(gap_ms, offsets)) / 1000.0


def start_times_ms(keys: NDArray[np.uint64], weights: Floats, seed: int, fleet_index: int) -> Ints:
    """Start of every session, ms since the start of the day, int64 (S,).

    Args:
        keys: uint64 (S,).
        weights: float64 (1440,), relative rate per minute.
        seed: `Seeds.arrivals`.
        fleet_index: Which day.
    """
    cumulated = np.concatenate([[0.0], np.cumsum(weights)])
    position = draws.uniform(seed, "start", keys, 0, fleet_index) * cumulated[-1]
    minute = np.interp(position, cumulated, np.arange(MINUTES + 1, dtype=np.float64))
    last = DAY_S * 1000.0 - 1.0
    return np.asarray(np.minimum(np.rint(minute * 60_000.0), last), dtype=np.int64)


def minute_weights(
    hour_shape: Sequence[float], sessions: int, dispersion: float, seed: int, fleet_index: int
) -> Floats:
    """Expected session starts per minute, modulated, float64 (1440,).

    A minute with mean m gets a gamma rate of mean m and variance m · (dispersion - 1), so that
    counts have the index of dispersion wanted in every minute, quiet or busy.

    Args:
        hour_shape: 24 relative rates.
        sessions: Sessions of the day.
        dispersion: Variance over mean of the starts per minute; 1 is Poisson.
        seed: `Seeds.arrivals`.
        fleet_index: Which day.
    """
    shape = np.repeat(np.asarray(hour_shape, dtype=np.float64), 60)
    mean = np.asarray(shape * (max(sessions, 1) / shape.sum()), dtype=np.float64)
    excess = dispersion - 1.0
    if excess < 1e-9:
        return mean
    modulated = excess * keyed_gamma(mean / excess, seed, "modulation", fleet_index)
    return modulated if modulated.sum() > 0 else mean


def keyed_gamma(shape: Floats, seed: int, stream: str, key: int) -> Floats:
    """Gamma draws of scale 1, keyed by (seed, stream, key, position), float64 (n,).

    Marsaglia and Tsang's method (2000) with keyed attempts; shapes below 1 by their boost. Zero
    shape gives zero.
    """
    position = np.arange(len(shape))
    lifted = np.where(shape < 1.0, shape + 1.0, shape)
    d = lifted - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    result = d.copy()  # 64 refusals in a row have probability below 1e-80
    open_ = np.ones(len(shape), dtype=np.bool_)
    for attempt in range(_GAMMA_ATTEMPTS):
        at = position[open_]
        if len(at) == 0:
            break
        x = draws.normal(seed, stream, key, at, attempt)
        u = draws.uniform(seed, stream + "/accept", key, at, attempt)
        v = (1.0 + c[at] * x) ** 3
        safe = np.maximum(v, 1e-300)
        accept = (v > 0) & (np.log(u) < 0.5 * x**2 + d[at] * (1.0 - v + np.log(safe)))
        result[at[accept]] = (d[at] * v)[accept]
        open_[at[accept]] = False
    boost = draws.uniform(seed, stream + "/boost", key, position)
    with np.errstate(divide="ignore"):
        return np.where(shape < 1.0, result * boost ** (1.0 / shape), result)
