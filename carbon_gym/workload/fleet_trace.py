"""From conversations to the trace of one fleet: limit, times, predicted lengths, difficulty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from carbon_gym import draws
from carbon_gym.quality.irt import draw_difficulty
from carbon_gym.scenario.schema import CATEGORIES, Quality, Seeds, Workload
from carbon_gym.workload.arrivals import DAY_S, draw_arrivals
from carbon_gym.workload.sessions import (
    offsets_of,
    rows_per_session,
    rows_within_limit,
    session_category,
    session_of_row,
    sum_before,
    turn_of_row,
)
from carbon_gym.workload.trace import Conversations, Floats, Ints, Trace


def build_trace(
    conversations: Conversations,
    origin_unix_s: int,
    fleet_index: int,
    workload: Workload,
    quality: Quality,
    seeds: Seeds,
    prior_tokens: float,
    hour_shape: Sequence[float],
    category_shares: Sequence[float] | None = None,
) -> Trace:
    """Lay sessions over one day.

    Sessions end before their first turn above the context limit (SPEC §1); those that keep fewer
    than `workload.min_turns` turns are left out. Missing arrivals are drawn (`seeds.arrivals`),
    unknown categories, all difficulties and the error of ô too (`seeds.quality`).

    Args:
        conversations: Sessions of one day. Arrivals, where given, keep their time of day: the
            first session's day (UTC, or since the start of the trace) falls on the fleet's day.
        origin_unix_s: Start of the fleet's day, seconds since 1970-01-01 UTC.
        fleet_index: Key of the drawn arrivals.
        workload: Limits and arrival parameters.
        quality: Spreads of the difficulty.
        seeds: Named seeds.
        prior_tokens: Training mean of the reply tokens, the prior of ô.
        hour_shape: 24 relative rates of session starts, where arrivals are drawn.
        category_shares: Five shares for sessions without a known category; None: equal.

    Returns:
        The trace, sorted by arrival, ties by session, then turn.
    """
    offsets = conversations.offsets
    within = rows_within_limit(conversations, workload.context_limit_tokens)
    turns_kept = rows_per_session(within, offsets)
    stays = turns_kept >= max(1, workload.min_turns)
    rows = within & stays[session_of_row(offsets)]
    kept = np.flatnonzero(stays)
    session_turns = turns_kept[kept]
    kept_offsets = offsets_of(session_turns)
    session = session_of_row(kept_offsets)
    turn = turn_of_row(kept_offsets)
    key = conversations.session_key[kept]

    output = conversations.output_tokens[rows]
    arrival = _arrivals(conversations, rows, workload, hour_shape, fleet_index, seeds.arrivals)
    category = _categories(
        conversations.category[rows], session, key, category_shares, seeds.quality
    )
    predicted = predicted_output(output, kept_offsets, prior_tokens)
    if workload.predicted_output_log_sd:
        error = draws.normal(seeds.quality, "predicted-output", key[session], turn)
        predicted = predicted * np.exp(workload.predicted_output_log_sd * error)
    order = np.argsort(arrival, kind="stable")  # rows are in session and turn order already
    return Trace(
        origin_unix_s=origin_unix_s,
        session=session[order],
        turn=turn[order],
        arrival_s=arrival[order],
        prompt_tokens=conversations.prompt_tokens[rows][order],
        history_tokens=conversations.history_tokens[rows][order],
        output_tokens=output[order],
        predicted_output_tokens=predicted[order],
        category=category[session][order],
        difficulty=draw_difficulty(key[session], turn, quality, seeds.quality)[order],
        session_id=tuple(conversations.session_id[s] for s in kept.tolist()),
        session_key=key,
        session_turns=session_turns,
        dropped_turns=int(len(within) - np.count_nonzero(within)),
        dropped_sessions=int(len(stays) - len(kept)),
        log=None if conversations.log is None else conversations.log.at(rows).at(order),
    )


def predicted_output(output_tokens: Ints, offsets: Ints, prior_tokens: float) -> Floats:
    """ô of every turn: (sum of the replies so far + prior) / (their number + 1) (SPEC §5).

    Args:
        output_tokens: int64 (N,), grouped by session in turn order.
        offsets: int64 (S + 1,).
        prior_tokens: Training mean of the reply tokens.

    Returns:
        float64 (N,), from earlier turns only.
    """
    return (sum_before(output_tokens, offsets) + prior_tokens) / (turn_of_row(offsets) + 1.0)


def _arrivals(
    conversations: Conversations,
    rows: NDArray[np.bool_],
    workload: Workload,
    hour_shape: Sequence[float],
    fleet_index: int,
    seed: int,
) -> Floats:
    """Arrival of the kept rows, seconds since the start of the fleet's day, to 1 ms."""
    given = conversations.arrival_s
    if given is None:
        drawn = draw_arrivals(
            conversations.session_key,
            conversations.offsets,
            workload,
            hour_shape,
            fleet_index,
            seed,
        )
        return drawn[rows]
    day = np.floor(given.min() / DAY_S) * DAY_S if len(given) else 0.0
    return np.asarray(np.rint((given[rows] - day) * 1000.0) / 1000.0, dtype=np.float64)


def _categories(
    category: NDArray[np.int8],
    session: Ints,
    key: NDArray[np.uint64],
    shares: Sequence[float] | None,
    seed: int,
) -> NDArray[np.int8]:
    """Category of every session, int8 (S,): the mode over its turns, else a keyed draw."""
    known = session_category(category, session, len(key))
    cumulated = np.cumsum(np.ones(len(CATEGORIES)) if shares is None else np.asarray(shares))
    position = draws.uniform(seed, "category", key) * cumulated[-1]
    drawn = np.minimum(np.searchsorted(cumulated, position, side="right"), len(CATEGORIES) - 1)
    return np.where(known >= 0, known, drawn).astype(np.int8)
