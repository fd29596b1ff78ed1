"""Row arithmetic over sessions: which session a row belongs to, what it keeps, how to select."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.workload.trace import Conversations, Floats, Ints


def session_of_row(offsets: Ints) -> Ints:
    """Index of the session of every row, int64 (N,), from offsets int64 (S + 1,)."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def turn_of_row(offsets: Ints) -> Ints:
    """Turn index of every row within its session, from 0, int64 (N,)."""
    return np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))


def sum_before(values: Ints, offsets: Ints) -> Ints:
    """Sum of a session's earlier values at every row (exclusive running sum), int64 (N,)."""
    running = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=running[1:])
    return running[:-1] - np.repeat(running[offsets[:-1]], np.diff(offsets))


def rows_within_limit(conversations: Conversations, context_limit_tokens: int) -> NDArray[np.bool_]:
    """Rows that the context limit leaves, bool (N,) (SPEC §1).

    A session ends before its first turn with H + q + o above the limit.
    """
    over = (
        conversations.history_tokens + conversations.prompt_tokens + conversations.output_tokens
        > context_limit_tokens
    ).astype(np.int64)
    return np.asarray(sum_before(over, conversations.offsets) + over == 0, dtype=np.bool_)


def rows_per_session(rows: NDArray[np.bool_], offsets: Ints) -> Ints:
    """Number of true rows of every session, int64 (S,)."""
    running = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(rows, out=running[1:])
    return np.diff(running[offsets])


def session_category(category: NDArray[np.int8], session: Ints, sessions: int) -> NDArray[np.int8]:
    """Most frequent known category of every session, int8 (S,); -1 where no turn has one.

    Ties go to the category that comes first in `CATEGORIES` (SPEC §4).
    """
    known = category >= 0
    flat = session[known] * len(CATEGORIES) + category[known]
    counts = np.bincount(flat, minlength=sessions * len(CATEGORIES))
    counts = counts.reshape(sessions, len(CATEGORIES))
    return np.where(counts.any(axis=1), counts.argmax(axis=1), -1).astype(np.int8)


def offsets_of(turns: ArrayLike) -> Ints:
    """Offsets int64 (S + 1,) from the number of turns of every session."""
    counts = np.asarray(turns, dtype=np.int64)
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def select_sessions(conversations: Conversations, index: Ints) -> Conversations:
    """The sessions `index` (int64, ascending), with all their turns."""
    turns = np.diff(conversations.offsets)[index]
    offsets = offsets_of(turns)
    rows = np.repeat(conversations.offsets[index] - offsets[:-1], turns) + np.arange(offsets[-1])
    arrival: Floats | None = None
    if conversations.arrival_s is not None:
        arrival = conversations.arrival_s[rows]
    return dataclasses.replace(
        conversations,
        session_id=tuple(conversations.session_id[s] for s in index),
        session_key=conversations.session_key[index],
        offsets=offsets,
        prompt_tokens=conversations.prompt_tokens[rows],
        history_tokens=conversations.history_tokens[rows],
        output_tokens=conversations.output_tokens[rows],
        category=conversations.category[rows],
        arrival_s=arrival,
        log=None if conversations.log is None else conversations.log.at(rows),
    )
