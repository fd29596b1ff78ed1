"""From conversations to the statistics that the generator draws from (training sessions only).

All token statistics are taken from whole sessions: the context limit is applied to generated
sessions afterwards, exactly as to measured ones.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from statistics import NormalDist
from typing import Final

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import CATEGORIES, CategoryShares, Splits
from carbon_gym.workload.copula import score_correlation, score_grid
from carbon_gym.workload.hours import hour_shape_of
from carbon_gym.workload.measure import (
    correlation,
    lagged_correlation,
    log_tokens,
    measure,
    significant,
)
from carbon_gym.workload.sessions import (
    rows_within_limit,
    select_sessions,
    session_category,
    session_of_row,
    turn_of_row,
)
from carbon_gym.workload.split import split_of
from carbon_gym.workload.statistics import (
    MAX_TURNS,
    Targets,
    TokenStatistics,
    TurnStatistics,
    WorkloadStatistics,
)
from carbon_gym.workload.trace import Conversations, Floats, Ints

PROBABILITIES: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4,
    0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.965, 0.98, 0.985, 0.99,
    0.993, 0.995, 0.997, 0.998, 0.999, 0.9995, 0.9998,
)  # fmt: skip
"""Where the token quantiles are taken; the generator is flat beyond the ends (ASSUMED)."""

ENDINGS_PER_BIN: Final = 50
"""Turn counts are pooled until this many sessions end in the bin, so that a bin's hazard is known
to about 14 %; fewer for small files (ASSUMED)."""

MIN_SESSIONS: Final = 50
"""Fewest training sessions to calibrate from (ASSUMED)."""

LAGS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
"""Distances in turns at which the dependence within sessions is fitted (ASSUMED)."""

MIN_PAIRS: Final = 200
"""Fewest pairs of turns for a correlation to be used in the fit (ASSUMED)."""

LONG_TURNS: Final = 6
"""Sessions of the paper's kind of load: at least so many turns (SPEC §7, 40.3 % >= 4K)."""


def calibrate_workload(
    conversations: Conversations,
    splits: Splits,
    seed: int,
    context_limit_tokens: int,
    hour_shape_path: str | Path | None = None,
    *,
    name: str = "custom",
    source: str | None = None,
    license: str = "not stated",
) -> WorkloadStatistics:
    """Statistics of the training sessions of `conversations`.

    Args:
        conversations: All sessions; those of validation and test are not looked at.
        splits: Shares of the split hash.
        seed: `Seeds.split`.
        context_limit_tokens: For the measured targets under the limit only, tokens.
        hour_shape_path: CSV with an hour column and session counts; None: from calendar arrivals
            if there are any, else that of the packaged ``sharegpt`` statistics.
        name: Name of the resource.
        source: Where the conversations come from; None: the file's name.
        license: License of the numbers.

    Returns:
        The statistics; every number rounded to six significant digits. DERIVED from the file.

    Raises:
        InputError: If fewer than `MIN_SESSIONS` training sessions are there, or the hour shape
            cannot be read.
    """
    chosen = np.flatnonzero(split_of(conversations.session_key, splits, seed) == 0)
    if len(chosen) < MIN_SESSIONS:
        raise InputError(
            f"{conversations.source}: only {len(chosen)} of {conversations.sessions} sessions "
            f"fall into the training split; at least {MIN_SESSIONS} are needed to calibrate, "
            "give a larger file"
        )
    training = select_sessions(conversations, chosen)
    turns = np.diff(training.offsets)
    session = session_of_row(training.offsets)
    turn = turn_of_row(training.offsets)
    shape, shape_source = hour_shape_of(training, hour_shape_path)
    identity = "\n".join(sorted(training.session_id)).encode()
    return WorkloadStatistics(
        name=name,
        label="DERIVED from the training sessions of the source; hour_shape as its own source says",
        source=source or conversations.source,
        license=license,
        notes=conversations.notes,
        training_sessions=training.sessions,
        training_queries=training.turns,
        training_ids_sha256=hashlib.sha256(identity).hexdigest(),
        split_seed=seed,
        train_share=splits.train_share,
        validation_share=splits.validation_share,
        probabilities=PROBABILITIES,
        turns=continuation_hazard(turns),
        prompt=token_statistics(training.prompt_tokens, session, turn, turns),
        reply=token_statistics(training.output_tokens, session, turn, turns),
        reply_mean_tokens=significant(max(float(np.mean(training.output_tokens)), 1e-9)),
        category_shares=_category_shares(training, context_limit_tokens),
        hour_shape=shape,
        hour_shape_source=shape_source,
        targets=Targets(
            context_limit_tokens=context_limit_tokens,
            unlimited=measure(training),
            limited=measure(training, context_limit_tokens),
            long_unlimited=measure(training, None, LONG_TURNS),
            long_limited=measure(training, context_limit_tokens, LONG_TURNS),
        ),
    )


def continuation_hazard(turns: Ints) -> TurnStatistics:
    """P(turns > k | turns >= k), pooled over neighbouring k.

    A bin takes in turn counts until `ENDINGS_PER_BIN` sessions (a fiftieth of all where that is
    less, but at least 10) end in it. Its probability is 1 - endings / sessions at risk, summed
    over its k: the maximum-likelihood estimate of a hazard that is constant there. An unfinished
    last bin joins the one before. Sessions beyond `MAX_TURNS` count as lasting to it.

    Args:
        turns: int64 (S,), turns per session, each at least 1.
    """
    clipped = np.minimum(turns, MAX_TURNS)
    ending = np.bincount(clipped, minlength=MAX_TURNS + 1)[1:]
    at_risk = len(clipped) - np.cumsum(ending) + ending
    last = int(clipped.max())
    enough = max(10, min(ENDINGS_PER_BIN, len(turns) // 50))
    bins: list[tuple[int, int, int]] = []
    start, ends, risk = 1, 0, 0
    for k in range(1, last + 1):
        ends += int(ending[k - 1])
        risk += int(at_risk[k - 1])
        if ends >= enough:
            bins.append((start, ends, risk))
            start, ends, risk = k + 1, 0, 0
    if risk and bins:
        first, more_ends, more_risk = bins.pop()
        bins.append((first, ends + more_ends, risk + more_risk))
    elif risk:
        bins.append((start, ends, risk))
    return TurnStatistics(
        bin_start=tuple(b[0] for b in bins),
        continuation=tuple(significant(1.0 - b[1] / b[2]) for b in bins),
        maximum=MAX_TURNS,
    )


def token_statistics(tokens: Ints, session: Ints, turn: Ints, turns: Ints) -> TokenStatistics:
    """Quantiles and dependence of one kind of tokens.

    The measured correlations of log tokens over later turns are turned into those of the normal
    scores behind them (`copula.score_correlation`), less what the length of the session explains,
    and matched by ``session_share + drift_share · drift_lag1^L`` (least squares over `LAGS`).

    Args:
        tokens: int64 (N,), grouped by session in turn order.
        session: int64 (N,).
        turn: int64 (N,).
        turns: int64 (S,), turns per session.
    """
    first = turn == 0
    grid = score_grid(PROBABILITIES)
    opening = _quantiles(tokens[first])
    later = _quantiles(tokens[~first]) if (~first).any() else opening
    logs = log_tokens(tokens)
    log_turns = np.log(turns)[session]
    length_first, length_later = (
        float(np.clip(correlation(normal_scores(tokens[rows]), log_turns[rows]), -0.999, 0.999))
        for rows in (first, ~first)
    )

    lags, curve = [], []
    for lag in LAGS:
        if int(np.maximum(turns - 1 - lag, 0).sum()) >= MIN_PAIRS:
            measured = lagged_correlation(logs, session, turn, lag, 1)
            scores = score_correlation(measured, grid, later, later)
            lags.append(lag)
            curve.append((scores - length_later**2) / (1 - length_later**2))
    share, drift, lag1 = fit_dependence(np.asarray(lags, dtype=np.float64), np.asarray(curve))

    start = np.flatnonzero(first)[turns > 1]
    scores = score_correlation(correlation(logs[start], logs[start + 1]), grid, opening, later)
    own = np.sqrt((1 - length_first**2) * (1 - length_later**2))
    common = share + drift * lag1
    share, drift, loading = significant(share, 4), significant(drift, 4), 0.0
    if common > 0:
        loading = (scores - length_first * length_later) / (own * common)
        # Rounded down where it binds, so that the printed digits keep the bound as well.
        largest = math.floor(1e3 * (share + drift) ** -0.5) / 1e3
        loading = float(np.clip(significant(loading, 4), 0.0, largest))
    return TokenStatistics(
        first_tokens=opening,
        later_tokens=later,
        session_share=share,
        drift_share=drift,
        drift_lag1=significant(lag1, 4),
        first_loading=loading,
        first_turns_loading=significant(length_first, 4),
        later_turns_loading=significant(length_later, 4),
    )


def fit_dependence(lags: Floats, curve: Floats) -> tuple[float, float, float]:
    """Shares (session, drift) and lag-1 correlation of the drift that best match a curve.

    Args:
        lags: float64 (L,), turns.
        curve: float64 (L,), correlation at those lags.

    Returns:
        session_share, drift_share, drift_lag1; non-negative, the shares adding up to at most 1.
    """
    if len(lags) < 3:
        return (float(np.clip(curve[0], 0.0, 1.0)) if len(lags) else 0.0), 0.0, 0.0
    best, best_error = (0.0, 0.0, 0.0), np.inf
    for lag1 in np.arange(0.30, 0.96, 0.01):
        power = lag1**lags
        design = np.stack([np.ones_like(power), power], axis=1)
        share, drift = np.linalg.lstsq(design, curve, rcond=None)[0]
        if share < 0:
            share, drift = 0.0, float(power @ curve / (power @ power))
        if drift < 0:
            share, drift = float(np.mean(curve)), 0.0
        share, drift = max(share, 0.0), max(drift, 0.0)
        scale = min(1.0, 0.999 / max(share + drift, 1e-12))
        share, drift = share * scale, drift * scale
        error = float(np.sum((share + drift * power - curve) ** 2))
        if error < best_error - 1e-12:
            best, best_error = (float(share), float(drift), float(lag1)), error
    return best


def normal_scores(values: Ints) -> Floats:
    """Standard normal quantile of every value's mid-rank, float64, same length."""
    if len(values) == 0:
        return np.empty(0)
    unique, code, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / len(values)
    normal = NormalDist()
    scores = np.fromiter((normal.inv_cdf(p) for p in middle), np.float64, count=len(unique))
    return scores[code]


def _quantiles(tokens: Ints) -> tuple[float, ...]:
    return tuple(significant(float(q)) for q in np.quantile(tokens, PROBABILITIES))


def _category_shares(training: Conversations, context_limit_tokens: int) -> CategoryShares:
    """Share of sessions per category over the turns they keep; equal shares where unknown."""
    kept = rows_within_limit(training, context_limit_tokens)
    session = session_of_row(training.offsets)[kept]
    category = session_category(training.category[kept], session, training.sessions)
    counts = np.bincount(category[category >= 0], minlength=len(CATEGORIES)).astype(np.float64)
    if counts.sum() == 0:
        counts[:] = 1.0
    shares = counts / counts.sum()
    return CategoryShares(**dict(zip(CATEGORIES, map(significant, shares.tolist()), strict=True)))
