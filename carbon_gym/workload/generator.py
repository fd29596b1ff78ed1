"""Sessions drawn from statistics: every number a pure function of (seed, session key, turn).

A Gaussian copula: the normal score of a turn's tokens is a sum of what the session's length
explains, a session effect, a slow drift (AR(1)) and the turn's own part; the token count is the
measured quantile at that score.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from carbon_gym import draws
from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import Split, Splits
from carbon_gym.workload.copula import score_grid, tokens_at
from carbon_gym.workload.sessions import offsets_of, session_of_row, sum_before, turn_of_row
from carbon_gym.workload.split import split_code, split_of
from carbon_gym.workload.statistics import TokenStatistics, TurnStatistics, WorkloadStatistics
from carbon_gym.workload.trace import Conversations, Floats, Ints

FLEET_BLOCK: Final = 1_000_000_000
"""Candidate session ids per fleet index: fleet 3 draws from g3000000000, g3000000001, ..."""


def session_keys(
    split: Split, fleet_index: int, n: int, splits: Splits, seed: int
) -> NDArray[np.uint64]:
    """Keys of the first `n` candidate sessions of a fleet that belong to a split.

    The candidates of two fleets are disjoint, and so are the splits of one fleet; a longer list
    begins with the shorter one.

    Args:
        split: Whose sessions.
        fleet_index: Not negative.
        n: Number of sessions.
        splits: Shares of the split hash.
        seed: `Seeds.split`.

    Returns:
        uint64 (n,), ascending; a key is the number in the session's id ``g<number>``.
    """
    shares = (
        splits.train_share,
        splits.validation_share,
        1 - splits.train_share - splits.validation_share,
    )
    wanted = split_code(split)
    base = fleet_index * FLEET_BLOCK
    found = np.empty(0, dtype=np.uint64)
    start = 0
    while len(found) < n:
        if start >= FLEET_BLOCK:
            raise InputError(
                f"{n} {split} sessions do not fit into one fleet; ask for fewer or raise the share "
                f"of {split} (now {shares[wanted]:g})"
            )
        size = int(1.1 * (n - len(found)) / shares[wanted]) + 64
        stop = min(start + size, FLEET_BLOCK)
        candidates = np.arange(base + start, base + stop, dtype=np.uint64)
        fitting = candidates[split_of(candidates, splits, seed) == wanted]
        found = np.concatenate([found, fitting])
        start = stop
    return found[:n]


def generate_sessions(
    statistics: WorkloadStatistics,
    keys: NDArray[np.uint64],
    seed: int,
    min_turns: int = 1,
) -> Conversations:
    """Draw whole sessions (no context limit), the same whatever else is drawn.

    Args:
        statistics: What to draw from.
        keys: uint64 (S,), see `session_keys`.
        seed: `Seeds.workload`.
        min_turns: The first min_turns - 1 continuations are certain.

    Returns:
        Sessions with H = everything before; category unknown, no arrivals.
    """
    pmf = turn_distribution(statistics.turns)
    turns = _draw_turns(pmf, keys, seed, min_turns)
    offsets = offsets_of(turns)
    prompt, reply = (
        _draw_tokens(statistics, kind, keys, offsets, pmf, seed) for kind in ("prompt", "reply")
    )
    return Conversations(
        session_id=tuple([f"g{key}" for key in keys.tolist()]),
        session_key=keys,
        offsets=offsets,
        prompt_tokens=prompt,
        history_tokens=sum_before(prompt + reply, offsets),
        output_tokens=reply,
        category=np.full(int(offsets[-1]), -1, dtype=np.int8),
        source=f"generated from the {statistics.name} statistics",
    )


def turn_distribution(turns: TurnStatistics) -> Floats:
    """P(turns = k) for k = 1..maximum, float64 (maximum,), from the hazard."""
    bins = np.searchsorted(turns.bin_start, np.arange(1, turns.maximum + 1), side="right") - 1
    proceed = np.asarray(turns.continuation)[bins]
    proceed[-1] = 0.0
    reach = np.concatenate([[1.0], np.cumprod(proceed[:-1])])
    return np.asarray(reach * (1.0 - proceed), dtype=np.float64)


def _draw_turns(pmf: Floats, keys: NDArray[np.uint64], seed: int, min_turns: int) -> Ints:
    """Turns per session, int64 (S,): inverse CDF given at least `min_turns`."""
    cdf = np.cumsum(pmf)
    cdf /= cdf[-1]
    least = min(min_turns, len(pmf))
    below = cdf[least - 2] if least > 1 else 0.0
    u = below + draws.uniform(seed, "turns", keys) * (1.0 - below)
    turns = np.searchsorted(cdf, u, side="left") + 1
    return np.clip(turns, least, len(pmf)).astype(np.int64)


def _draw_tokens(
    statistics: WorkloadStatistics,
    kind: str,
    keys: NDArray[np.uint64],
    offsets: Ints,
    pmf: Floats,
    seed: int,
) -> Ints:
    """Tokens of every turn, int64 (N,)."""
    tokens: TokenStatistics = getattr(statistics, kind)
    score = _scores(tokens, kind, keys, offsets, pmf, seed)
    grid = score_grid(statistics.probabilities)
    return np.where(
        turn_of_row(offsets) == 0,
        tokens_at(score, grid, tokens.first_tokens),
        tokens_at(score, grid, tokens.later_tokens),
    )


def _scores(
    tokens: TokenStatistics,
    kind: str,
    keys: NDArray[np.uint64],
    offsets: Ints,
    pmf: Floats,
    seed: int,
) -> Floats:
    """Standard normal score of every turn, float64 (N,), dependent within sessions."""
    session, turn = session_of_row(offsets), turn_of_row(offsets)
    row_key = keys[session]
    shared = draws.normal(seed, kind + "/session", keys)[session]
    drift = _drift(draws.normal(seed, kind + "/drift", row_key, turn), offsets, tokens.drift_lag1)
    own = draws.normal(seed, kind + "/turn", row_key, turn)
    common = np.sqrt(tokens.session_share) * shared + np.sqrt(tokens.drift_share) * drift
    first = turn == 0
    weight = np.where(first, tokens.first_loading, 1.0)
    common_share = tokens.session_share + tokens.drift_share
    score = weight * common + np.sqrt(np.maximum(1 - weight**2 * common_share, 0.0)) * own

    loading = np.where(first, tokens.first_turns_loading, tokens.later_turns_loading)
    length = np.where(
        first,
        _length_score(offsets, pmf, np.ones(len(pmf)))[session],
        _length_score(offsets, pmf, np.arange(float(len(pmf))))[session],
    )
    return np.asarray(loading * length + np.sqrt(1 - loading**2) * score, dtype=np.float64)


def _length_score(offsets: Ints, pmf: Floats, turns_counted: Floats) -> Floats:
    """Log turns of every session, standardised over the turns counted of sessions of k turns."""
    log_turns = np.log(np.arange(1, len(pmf) + 1))
    weight = pmf * turns_counted
    if weight.sum() == 0:
        return np.zeros(len(offsets) - 1)
    weight = weight / weight.sum()
    mean = weight @ log_turns
    spread = np.sqrt(weight @ (log_turns - mean) ** 2)
    return np.asarray((np.log(np.diff(offsets)) - mean) / max(spread, 1e-12), dtype=np.float64)


def _drift(noise: Floats, offsets: Ints, lag1: float) -> Floats:
    """Stationary AR(1) within sessions from standard normal noise, float64 (N,).

    Runs over turn indices, not sessions: at turn t all sessions that have one move together.
    """
    drift = noise.copy()
    fresh = np.sqrt(1.0 - lag1**2)
    turns = np.diff(offsets)
    longest_first = np.argsort(-turns, kind="stable")
    rows = offsets[:-1][longest_first]
    active = np.searchsorted(-turns[longest_first], -np.arange(1, turns.max(initial=0)), "left")
    for t, count in enumerate(active, start=1):
        current = rows[:count] + t
        drift[current] = lag1 * drift[current - 1] + fresh * noise[current]
    return drift
