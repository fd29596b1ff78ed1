"""What the current turn of a lane emits, and what serving it changes (SPEC §2, §3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import NOWHERE, State, Static, Turns
from carbon_gym.simulator.caches import drop, hold
from carbon_gym.simulator.jit import inlined
from carbon_gym.simulator.pricing import (
    energy_of,
    fresh_tokens,
    idle_of,
    intensity_with_pue,
    ttft_of,
    usable_tokens,
)


@inlined
def account_of(
    s: Static, turns: Turns, state: State, b: int, d: int
) -> tuple[float, float, float, float]:
    """Cached tokens, kWh, gCO2eq and TTFT s of the current turn of lane `b` on deployment `d`.

    With the true reply length, the account's intensity and the true caches.
    """
    row = state.row[b]
    turn = turns.turn[row]
    slot = b if s.one_session else turn["slot"]
    history = turn["history_tokens"]
    evicted_until_s = turns.evicted_until_s[min(row, turns.evicted_until_s.shape[0] - 1), d]
    idle_s = idle_of(turn["arrival_s"], state.last_use_s[slot, d], evicted_until_s)
    cached = usable_tokens(s, state.held_tokens[slot, d], idle_s, history)
    cached = float(history) if s.full_cache else cached
    fresh = fresh_tokens(history, cached, turn["prompt_tokens"])
    energy_kwh = energy_of(s, d, cached, fresh, turn["output_tokens"])
    published = turns.intensity[turn["account_step"]]
    co2_g = intensity_with_pue(s, published, s.region[d]) * energy_kwh
    return cached, energy_kwh, co2_g, ttft_of(s, d, fresh)


@inlined
def account(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    at: int,
    b: int,
    d: int,
) -> None:
    """Write what the current turn of lane `b` emits on deployment `d` to ``ledger[at]``."""
    row = state.row[b]
    turn, entry = turns.turn[row], ledger[at]
    cached, energy_kwh, co2_g, ttft_s = account_of(s, turns, state, b, d)
    model = s.model[d]
    previous = state.sessions[b if s.one_session else turn["slot"]]["previous"]
    entry["deployment"] = d
    entry["cached_tokens"] = np.int32(cached)
    entry["energy_kwh"] = energy_kwh
    entry["co2_g"] = co2_g
    entry["ttft_s"] = ttft_s
    entry["recompute_kwh"] = 0.0
    if turn["turn"] > 0:
        entry["recompute_kwh"] = s.energy_kwh_per_token[d] * (turn["history_tokens"] - cached)
    entry["quality_predicted"] = turns.quality_predicted[row, model]
    entry["quality_realised"] = turns.quality_realised[row, model]
    entry["quality_violation"] = not turns.model_admissible[row, model]
    entry["ttft_violation"] = ttft_s > s.ttft_bound_s
    entry["capacity_violation"] = not state.has_room[b, s.unit[d]]
    entry["switched"] = previous != NOWHERE and previous != d


@inlined
def move_on(s: Static, turns: Turns, state: State, b: int, d: int) -> None:
    """Caches, loads and clock of lane `b` after its current turn was served on `d`."""
    row = state.row[b]
    turn = turns.turn[row]
    slot = b if s.one_session else turn["slot"]
    session = state.sessions[slot]
    previous = session["previous"]
    if s.evict_on_leave and previous != NOWHERE and previous != d:
        drop(s, state, b, slot, previous)
    tokens = turn["history_tokens"] + turn["prompt_tokens"] + turn["output_tokens"]
    hold(s, state, b, slot, d, tokens, turn["arrival_s"])
    if s.one_session:
        if s.by_turns:
            state.path[b, row - state.begin[b]] = d
    else:
        unit = s.unit[d]
        if s.by_turns:
            state.served[b, unit] += 1
            state.served_total[b] += 1
        else:
            before = session["active_unit"]
            if before == NOWHERE:
                state.active_total[b] += 1
            else:
                state.active[b, before] -= 1
            state.active[b, unit] += 1
            session["active_unit"] = unit
    session["previous"] = d
    session["last_row"] = row
    state.row[b] = row + 1
