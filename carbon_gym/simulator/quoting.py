"""Pricing the current turn of a lane on every deployment (SPEC §2-§5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import NOWHERE, Bools, QuoteBuffers, State, Static, Turns
from carbon_gym.simulator.caches import forget_expired
from carbon_gym.simulator.capacity import leave_behind, room, room_amid_others
from carbon_gym.simulator.jit import inlined
from carbon_gym.simulator.pricing import (
    energy_of,
    fresh_tokens,
    idle_of,
    intensity_with_pue,
    ttft_of,
    usable_tokens,
)

_STEPS_AN_HOUR = 12  # of the grid's 5-minute clock


@inlined
def _idle_s(turns: Turns, last_row: int, now_s: float) -> float:
    """Since the session's previous turn, s; inf on its first."""
    return np.inf if last_row == NOWHERE else now_s - turns.turn[last_row]["arrival_s"]


@inlined
def admit(s: Static, passes: Bools, admissible: Bools) -> None:
    """What models are admissible, by deployment: models are outermost."""
    per_model = s.model.shape[0] // s.context_tokens.shape[0]
    for m in range(s.context_tokens.shape[0]):
        passed, of_model = passes[m], admissible[m * per_model : (m + 1) * per_model]
        for j in range(per_model):
            of_model[j] = passed


@inlined
def find_feasible(s: Static, q: QuoteBuffers, k: int) -> None:
    """The set F of SPEC §5: available, admissible, and TTFT at most τ."""
    available, admissible = q.available[k], q.admissible[k]
    ttft, feasible = q.ttft_s[k], q.feasible[k]
    for d in range(s.model.shape[0]):
        feasible[d] = available[d] & admissible[d] & (ttft[d] <= s.ttft_bound_s)


@inlined
def quote_lane(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    q: QuoteBuffers,
    k: int,
    b: int,
    row: int,
) -> None:
    """Price the turn `row` of lane `b` on every deployment, with ô and the router's intensity.

    Written to the quote `k` of the buffers.
    """
    turn = turns.turn[row]
    slot = b if s.one_session else turn["slot"]
    now_s = turn["arrival_s"]
    history = turn["history_tokens"]
    prompt = turn["prompt_tokens"]
    output = turn["predicted_output_tokens"]
    q.row[k] = row
    q.slot[k] = turn["slot"]
    q.session_key[k] = turns.session_key[turn["slot"]]
    q.turn[k] = turn["turn"]
    q.time_s[k] = now_s
    q.prompt_tokens[k] = prompt
    q.history_tokens[k] = history
    q.predicted_output_tokens[k] = output
    session = state.sessions[slot]
    q.previous[k] = session["previous"]
    q.idle_s[k] = _idle_s(turns, session["last_row"], now_s)
    published = turns.intensity[turn["router_step"]]
    published_before = turns.intensity[max(turn["router_step"] - _STEPS_AN_HOUR, 0)]
    intensity, facility_intensity = q.intensity[k], q.facility_intensity[k]
    intensity_hour_ago = q.intensity_hour_ago[k]
    for r in range(s.pue.shape[0]):
        intensity[r] = published[r]
        intensity_hour_ago[r] = published_before[r]
        facility_intensity[r] = intensity_with_pue(s, published, r)
    if not s.one_session:
        leave_behind(s, turns, state, ledger, b, now_s)
    room(s, turns, state, q, k, b, row, slot)
    said, quality = turns.quality_predicted[row], q.quality[k]
    passes, model_admissible = turns.model_admissible[row], q.model_admissible[k]
    for m in range(s.context_tokens.shape[0]):
        quality[m] = said[m]
        model_admissible[m] = passes[m]
    # Rows of the lane as local views, and loops that each write one array: LLVM vectorises only
    # where few pairs of arrays could overlap.
    held, last_use_s = state.held_tokens[slot], state.last_use_s[slot]
    evicted_until_s = turns.evicted_until_s[min(row, turns.evicted_until_s.shape[0] - 1)]
    cached, energy, co2, ttft = q.cached_tokens[k], q.energy_kwh[k], q.co2_g[k], q.ttft_s[k]
    available, admissible = q.available[k], q.admissible[k]
    unit_available = q.unit_available[k]
    for d in range(s.model.shape[0]):
        available[d] = unit_available[s.unit[d]]
    for d in range(s.model.shape[0]):
        idle_s = idle_of(now_s, last_use_s[d], evicted_until_s[d])
        found = usable_tokens(s, held[d], idle_s, history)
        cached[d] = np.int32(float(history) if s.full_cache else found)
    for d in range(s.model.shape[0]):
        energy[d] = energy_of(s, d, cached[d], fresh_tokens(history, cached[d], prompt), output)
    for d in range(s.model.shape[0]):
        ttft[d] = ttft_of(s, d, fresh_tokens(history, cached[d], prompt))
    for d in range(s.model.shape[0]):
        co2[d] = facility_intensity[s.region[d]] * energy[d]
    admit(s, passes, admissible)
    find_feasible(s, q, k)


@inlined
def glance_lane(
    s: Static, turns: Turns, state: State, q: QuoteBuffers, k: int, b: int, row: int
) -> None:
    """`quote_lane` of a lone session, without what only policies read.

    Writes slot, time, history, previous, idle time, facility intensity, CO2, TTFT, cached tokens
    where there are any, available and admissible; `find_feasible` then the rest. The same numbers.
    """
    turn = turns.turn[row]
    now_s = turn["arrival_s"]
    history, prompt = turn["history_tokens"], turn["prompt_tokens"]
    output = turn["predicted_output_tokens"]
    session = state.sessions[b]
    idle_s = _idle_s(turns, session["last_row"], now_s)
    q.slot[k] = turn["slot"]
    q.time_s[k] = now_s
    q.history_tokens[k] = history
    q.previous[k] = session["previous"]
    q.idle_s[k] = idle_s
    if s.by_turns:
        room(s, turns, state, q, k, b, row, b)
    else:
        room_amid_others(s, turns, state, b, row, idle_s)
    published, facility_intensity = turns.intensity[turn["router_step"]], q.facility_intensity[k]
    for r in range(s.pue.shape[0]):
        facility_intensity[r] = intensity_with_pue(s, published, r)
    held, last_use_s = state.held_tokens[b], state.last_use_s[b]
    evicted_until_s = turns.evicted_until_s[min(row, turns.evicted_until_s.shape[0] - 1)]
    cached, co2, ttft = q.cached_tokens[k], q.co2_g[k], q.ttft_s[k]
    available, admissible = q.available[k], q.admissible[k]
    has_room, passes = state.has_room[b], turns.model_admissible[row]
    fresh = fresh_tokens(history, 0, prompt)
    # First the two loops that do not vectorise: whoever reads their many small stores by whole
    # vectors waits until the last is done.
    for d in range(s.model.shape[0]):
        available[d] = has_room[s.unit[d]]
        co2[d] = facility_intensity[s.region[d]] * energy_of(s, d, 0, fresh, output)
    for d in range(s.model.shape[0]):
        ttft[d] = ttft_of(s, d, fresh)
    admit(s, passes, admissible)
    forget_expired(s, state, b, b, now_s, evicted_until_s)
    holders = state.holders[b]
    for i in range(state.holding[b]):
        d = holders[i]
        found = usable_tokens(s, held[d], now_s - last_use_s[d], history)
        fresh = fresh_tokens(history, found, prompt)
        cached[d] = np.int32(found)
        co2[d] = facility_intensity[s.region[d]] * energy_of(s, d, found, fresh, output)
        ttft[d] = ttft_of(s, d, fresh)
