"""Summary statistics of sessions, measured or generated: the same function for both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.workload.sessions import (
    rows_per_session,
    rows_within_limit,
    session_of_row,
    turn_of_row,
)
from carbon_gym.workload.statistics import Measured
from carbon_gym.workload.trace import Conversations, Floats, Ints


def log_tokens(tokens: Ints) -> Floats:
    """Natural log of tokens, float64; 0 tokens count as 1."""
    return np.asarray(np.log(np.maximum(tokens, 1)), dtype=np.float64)


def lagged_correlation(values: Floats, session: Ints, turn: Ints, lag: int, first: int) -> float:
    """Correlation of values `lag` turns apart within sessions, turns from `first` on.

    Rows must be grouped by session in turn order. 0 where there are fewer than three pairs.
    """
    if len(values) <= lag:
        return 0.0
    pair = (session[lag:] == session[:-lag]) & (turn[:-lag] >= first)
    return correlation(values[lag:][pair], values[:-lag][pair])


def correlation(a: Floats, b: Floats) -> float:
    """Pearson correlation; 0 where it is not defined (too few values or no spread)."""
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def between_share(values: Floats, session: Ints) -> float:
    """Share of the variance of values that lies between the sessions' means."""
    if len(values) == 0 or np.ptp(values) == 0:
        return 0.0
    counts = np.bincount(session)
    means = np.bincount(session, weights=values) / np.maximum(counts, 1)
    return float(np.var(means[session]) / np.var(values))


def measure(
    conversations: Conversations, context_limit_tokens: int | None = None, min_turns: int = 1
) -> Measured:
    """Summarise sessions.

    Args:
        conversations: Sessions, measured or generated.
        context_limit_tokens: Cut sessions as SPEC §1 says; None: leave them whole.
        min_turns: Only sessions that keep at least this many turns.

    Returns:
        Tokens, shares and turns, rounded to six significant digits.
    """
    offsets = conversations.offsets
    rows = np.ones(conversations.turns, dtype=np.bool_)
    if context_limit_tokens is not None:
        rows = rows_within_limit(conversations, context_limit_tokens)
    turns = rows_per_session(rows, offsets)
    kept = turns >= max(1, min_turns)
    rows &= kept[session_of_row(offsets)]
    return _summary(conversations, rows, turns[kept])


def _summary(conversations: Conversations, rows: NDArray[np.bool_], turns: Ints) -> Measured:
    session = session_of_row(conversations.offsets)[rows]
    turn = turn_of_row(conversations.offsets)[rows]
    prompt = conversations.prompt_tokens[rows]
    reply = conversations.output_tokens[rows]
    history = conversations.history_tokens[rows]
    first = turn == 0
    log_prompt, log_reply = log_tokens(prompt), log_tokens(reply)
    gap = _log_gaps(conversations, rows, session)
    quantile = np.quantile(turns, [0.5, 0.75, 0.9, 0.99]) if len(turns) else np.zeros(4)
    values = {
        "turns_mean": _mean(turns),
        "turns_p50": quantile[0],
        "turns_p75": quantile[1],
        "turns_p90": quantile[2],
        "turns_p99": quantile[3],
        "one_turn_share": _mean(turns == 1),
        "over_5_turns_share": _mean(turns > 5),
        "over_10_turns_share": _mean(turns > 10),
        "over_30_turns_share": _mean(turns > 30),
        "prompt_mean_tokens": _mean(prompt),
        "first_prompt_median_tokens": _median(prompt[first]),
        "later_prompt_median_tokens": _median(prompt[~first]),
        "reply_mean_tokens": _mean(reply),
        "first_reply_median_tokens": _median(reply[first]),
        "later_reply_median_tokens": _median(reply[~first]),
        "history_2000_share": _mean(history >= 2000),
        "history_4000_share": _mean(history >= 4000),
        "history_8000_share": _mean(history >= 8000),
        "prompt_log_correlation": lagged_correlation(log_prompt, session, turn, 1, 0),
        "reply_log_correlation": lagged_correlation(log_reply, session, turn, 1, 0),
        "prompt_between_share": between_share(log_prompt, session),
        "reply_between_share": between_share(log_reply, session),
    }
    rounded = {name: significant(float(value)) for name, value in values.items()}
    return Measured(
        sessions=len(turns),
        queries=len(prompt),
        gap_log_mean=significant(float(np.mean(gap))) if len(gap) else None,
        gap_log_sd=significant(float(np.std(gap))) if len(gap) else None,
        **rounded,
    )


def _log_gaps(conversations: Conversations, rows: NDArray[np.bool_], session: Ints) -> Floats:
    """Log of the positive gaps between successive turns, log s; empty without arrivals."""
    if conversations.arrival_s is None:
        return np.empty(0)
    arrival = conversations.arrival_s[rows]
    gap = np.diff(arrival)[session[1:] == session[:-1]]
    return np.asarray(np.log(gap[gap > 0]), dtype=np.float64)


def _mean(values: NDArray[np.int64] | NDArray[np.bool_]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _median(values: Ints) -> float:
    return float(np.median(values)) if len(values) else 0.0


def significant(value: float, digits: int = 6) -> float:
    """Round to significant digits, so that files do not depend on the last bits of a sum."""
    return float(f"{value:.{digits}g}")
