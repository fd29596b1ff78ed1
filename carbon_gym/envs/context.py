"""The part of an observation that no action changes, computed once for every turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.envs.layout import (
    HISTORY_SCALE_TOKENS,
    INTENSITY_SCALE_G_PER_KWH,
    OUTPUT_SCALE_TOKENS,
    PROMPT_SCALE_TOKENS,
    TURN_SCALE,
)
from carbon_gym.envs.observe import unit_features
from carbon_gym.simulator.arrays import FloatTable, Static, Turns
from carbon_gym.simulator.jit import kernel
from carbon_gym.simulator.pricing import best_fitting

_HOUR_S, _DAY_S, _WEEK_S = 3_600, 86_400, 604_800
_MONDAY_UNIX_S = 4 * _DAY_S  # 1970-01-05
_STEPS_AN_HOUR = 12

Column = NDArray[np.float64]


def context_of(
    static: Static, turns: Turns, origin_unix_s: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The context block of every turn (SPEC §5: what a router knows at dispatch).

    Args:
        static: Fleet and rules.
        turns: N turns; those of a session stand together or lie in the order of events.
        origin_unix_s: int64 (N,), to which each turn's arrival is relative.

    Returns:
        float32 (N, 12 + 4·R + 3·M), in the order of `layout.CONTEXT_FEATURES`; for lone sessions
        under the rule `sessions` with room and load of the units amid the others, (N, … + 2·U).
    """
    turn = turns.turn
    unix_s = origin_unix_s + turn["arrival_s"]
    history = turn["history_tokens"].astype(np.float64)
    prompt = turn["prompt_tokens"].astype(np.float64)
    output = turn["predicted_output_tokens"]
    idle_s = _idle_s(turns)
    columns = [
        _saturated(prompt, PROMPT_SCALE_TOKENS),
        _saturated(history, HISTORY_SCALE_TOKENS),
        _saturated(output, OUTPUT_SCALE_TOKENS),
        _saturated(turn["turn"].astype(np.float64), TURN_SCALE),
        _saturated(idle_s, static.cache_ttl_s),
        np.zeros(len(turn)),  # the stake: `observe` writes it
        *_circle(unix_s % _DAY_S / _DAY_S),
        *_circle((unix_s - _MONDAY_UNIX_S) % _WEEK_S / _WEEK_S),
        *_circle(_share_of_year(unix_s)),
    ]
    step = turn["router_step"].astype(np.int64)
    now, hour_ago, day_ago = (
        turns.intensity[np.maximum(step - back * _STEPS_AN_HOUR, 0)] for back in (0, 1, 24)
    )
    blocks = [np.stack(columns, axis=1), _saturated(now, INTENSITY_SCALE_G_PER_KWH)]
    blocks += [_change(now, hour_ago), _change(now, day_ago), _rank(now)]
    ratio = np.zeros(turns.quality_predicted.shape)
    _fill_ratios(static, turns.quality_predicted, history + prompt + output, ratio)
    blocks += [turns.quality_predicted, ratio, turns.model_admissible.astype(np.float64)]
    if static.one_session and not static.by_turns:
        units = np.zeros((len(turn), 2 * len(static.unit_share)), dtype=np.float32)
        unit_features(static, turns.others, turns.unit_open, units)
        blocks.append(units)
    return np.ascontiguousarray(np.concatenate(blocks, axis=1, dtype=np.float32))


def _saturated(value: Column, scale: float) -> Column:
    """Bounded x / (x + scale); 1 for an infinite x, 0 for 0 / 0."""
    finite = np.isfinite(value)
    whole = np.where(finite, value, 1.0)
    share = whole / np.maximum(whole + scale, 1e-300)
    return np.asarray(np.where(finite, share, 1.0))


def _circle(share: Column) -> tuple[Column, Column]:
    return np.sin(2.0 * np.pi * share), np.cos(2.0 * np.pi * share)


def _share_of_year(unix_s: Column) -> Column:
    moment = unix_s.astype(np.int64).astype("datetime64[s]")
    year = moment.astype("datetime64[Y]")
    begin, end = year.astype("datetime64[s]"), (year + 1).astype("datetime64[s]")
    share = (moment - begin).astype(np.float64) / (end - begin).astype(np.float64)
    return np.asarray(share)


def _change(now: FloatTable, before: FloatTable) -> FloatTable:
    """(a − b) / (a + b), 0 where both are 0: bounded, and the same for any unit."""
    return np.asarray((now - before) / np.maximum(now + before, 1e-300))


def _rank(now: FloatTable) -> FloatTable:
    cleaner = (now[:, None, :] < now[:, :, None]).sum(axis=2)
    return np.asarray(cleaner / max(now.shape[1] - 1, 1))


def _idle_s(turns: Turns) -> Column:
    """Since the session's previous turn; inf on its first."""
    slot, arrival_s = turns.turn["slot"], turns.turn["arrival_s"]
    order = np.lexsort((turns.turn["turn"], slot))
    idle_s = np.full(len(order), np.inf)
    same = slot[order[1:]] == slot[order[:-1]]
    idle_s[order[1:][same]] = (arrival_s[order[1:]] - arrival_s[order[:-1]])[same]
    return idle_s


@kernel
def _fill_ratios(s: Static, quality: FloatTable, needed: Column, ratio: FloatTable) -> None:
    for row in range(quality.shape[0]):
        best = best_fitting(s, quality[row], needed[row])
        for m in range(quality.shape[1]):
            ratio[row, m] = min(quality[row, m] / best, 1.0) if best > 0.0 else 1.0
