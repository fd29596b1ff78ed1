"""The physics: quote, choose, commit over preallocated arrays (SPEC §2, §3, §5, §10).

The formulas stand in `pricing`, capacity in `capacity`, the KV caches in `caches`.
``NUMBA_DISABLE_JIT=1`` runs the same code as plain Python. How kernels are compiled, and what that
forbids: `carbon_gym.simulator.jit`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import (
    NOWHERE,
    Bools,
    Floats,
    Ints,
    PriceBuffers,
    QuoteBuffers,
    State,
    Static,
    Turns,
)
from carbon_gym.simulator.caches import drop, hold
from carbon_gym.simulator.capacity import leave_behind, room
from carbon_gym.simulator.jit import inlined, kernel
from carbon_gym.simulator.pricing import (
    energy_of,
    filter_models,
    fresh_tokens,
    intensity_with_pue,
    ttft_of,
    usable_tokens,
)

FEASIBLE, LATE, OVERFULL = 0, 1, 2
"""How `cheapest` found its deployment: within all bounds; best effort against the TTFT bound;
outside capacity because no pool with room has an admissible model."""

_STEPS_AN_HOUR = 12  # of the grid's 5-minute clock


@inlined
def _quote_lane(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    q: QuoteBuffers,
    b: int,
    row: int,
) -> None:
    """Price the turn `row` of lane `b` on every deployment, with ô and the router's intensity."""
    turn = turns.turn[row]
    slot = b if s.one_session else turn["slot"]
    now_s = turn["arrival_s"]
    history = turn["history_tokens"]
    prompt = turn["prompt_tokens"]
    output = turn["predicted_output_tokens"]
    q.row[b] = row
    q.slot[b] = slot
    q.session_key[b] = turns.session_key[slot]
    q.turn[b] = turn["turn"]
    q.time_s[b] = now_s
    q.prompt_tokens[b] = prompt
    q.history_tokens[b] = history
    q.predicted_output_tokens[b] = output
    session = state.sessions[slot]
    q.previous[b] = session["previous"]
    q.idle_s[b] = np.inf
    if session["last_row"] != NOWHERE:
        q.idle_s[b] = now_s - turns.turn[session["last_row"]]["arrival_s"]
    published = turns.intensity[turn["router_step"]]
    published_before = turns.intensity[max(turn["router_step"] - _STEPS_AN_HOUR, 0)]
    intensity, facility_intensity = q.intensity[b], q.facility_intensity[b]
    intensity_hour_ago = q.intensity_hour_ago[b]
    for r in range(s.pue.shape[0]):
        intensity[r] = published[r]
        intensity_hour_ago[r] = published_before[r]
        facility_intensity[r] = intensity_with_pue(s, published, r)
    if not s.one_session:
        leave_behind(s, turns, state, ledger, b, now_s)
    room(s, state, q, b, slot)
    said, quality = turns.quality_predicted[row], q.quality[b]
    for m in range(s.context_tokens.shape[0]):
        quality[m] = said[m]
    filter_models(s, quality, history + prompt + output, q.model_admissible[b])
    # Rows of the lane as local views, and several short loops: both let LLVM vectorise.
    held, last_use_s = state.held_tokens[slot], state.last_use_s[slot]
    cached, energy, co2, ttft = q.cached_tokens[b], q.energy_kwh[b], q.co2_g[b], q.ttft_s[b]
    available, admissible, feasible = q.available[b], q.admissible[b], q.feasible[b]
    unit_available, model_admissible = q.unit_available[b], q.model_admissible[b]
    # The account keeps its own, so that a policy that writes into its quotes changes nothing.
    has_room, passes = state.has_room[b], state.passes[b]
    for u in range(s.unit_share.shape[0]):
        has_room[u] = unit_available[u]
    for m in range(s.context_tokens.shape[0]):
        passes[m] = model_admissible[m]
    for d in range(s.model.shape[0]):
        tokens = usable_tokens(s, held[d], now_s - last_use_s[d], history)
        tokens = float(history) if s.full_cache else tokens
        fresh = fresh_tokens(history, tokens, prompt)
        cached[d] = np.int32(tokens)
        energy[d] = energy_of(s, d, tokens, fresh, output)
        ttft[d] = ttft_of(s, d, fresh)
    for d in range(s.model.shape[0]):
        co2[d] = facility_intensity[s.region[d]] * energy[d]
        available[d] = unit_available[s.unit[d]]
        admissible[d] = model_admissible[s.model[d]]
    for d in range(s.model.shape[0]):
        feasible[d] = available[d] & admissible[d] & (ttft[d] <= s.ttft_bound_s)


@kernel
def quote_cache_blind(s: Static, q: QuoteBuffers, out: PriceBuffers) -> None:
    """The prices of the quoted turns as if nothing were cached anywhere (C = 0)."""
    for b in range(q.row.shape[0]):
        if q.row[b] == NOWHERE:
            continue
        fresh = fresh_tokens(q.history_tokens[b], 0, q.prompt_tokens[b])
        for d in range(s.model.shape[0]):
            energy = energy_of(s, d, 0, fresh, q.predicted_output_tokens[b])
            ttft = ttft_of(s, d, fresh)
            out.energy_kwh[b, d] = energy
            out.co2_g[b, d] = q.facility_intensity[b, s.region[d]] * energy
            out.ttft_s[b, d] = ttft
            out.feasible[b, d] = q.available[b, d] and q.admissible[b, d] and ttft <= s.ttft_bound_s


@inlined
def _before(
    first_a: float, second_a: float, rank_a: int, first_b: float, second_b: float, rank_b: int
) -> bool:
    """Whether key a sorts before key b."""
    if first_a != first_b:
        return first_a < first_b
    if second_a != second_b:
        return second_a < second_b
    return rank_a < rank_b


@kernel
def cheapest(
    rank: Ints,
    row: Ints,
    co2_g: Floats,
    ttft_s: Floats,
    feasible: Bools,
    available: Bools,
    admissible: Bools,
    choice: Ints,
    how: Ints,
) -> None:
    """The cheapest feasible quote of every lane, with the best-effort rules of SPEC §5.

    Ties: lower CO2, then lower TTFT, then name. If only the TTFT bound leaves nothing: the
    shortest TTFT among available and admissible; if no available deployment is admissible: the
    shortest TTFT among admissible ones anywhere (ties: lower CO2, then name). A lane without any
    admissible deployment, or that is done, gets NOWHERE.
    """
    for b in range(row.shape[0]):
        choice[b] = NOWHERE
        how[b] = OVERFULL
        if row[b] == NOWHERE:
            continue
        for d in range(rank.shape[0]):
            if not admissible[b, d]:
                continue
            kind = OVERFULL
            if available[b, d]:
                kind = FEASIBLE if feasible[b, d] else LATE
            best = choice[b]
            if best == NOWHERE or kind < how[b]:
                better = True
            elif kind > how[b]:
                better = False
            elif kind == FEASIBLE:
                better = _before(
                    co2_g[b, d], ttft_s[b, d], rank[d], co2_g[b, best], ttft_s[b, best], rank[best]
                )
            else:
                better = _before(
                    ttft_s[b, d], co2_g[b, d], rank[d], ttft_s[b, best], co2_g[b, best], rank[best]
                )
            if better:
                choice[b] = d
                how[b] = kind


@inlined
def _account(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    b: int,
    row: int,
    slot: int,
    d: int,
) -> None:
    """Write what the current turn of lane `b` emits on deployment `d` into the ledger.

    With the true reply length, the account's intensity and the true caches.
    """
    turn, entry = turns.turn[row], ledger[row]
    history = turn["history_tokens"]
    idle_s = turn["arrival_s"] - state.last_use_s[slot, d]
    cached = usable_tokens(s, state.held_tokens[slot, d], idle_s, history)
    cached = float(history) if s.full_cache else cached
    fresh = fresh_tokens(history, cached, turn["prompt_tokens"])
    energy = energy_of(s, d, cached, fresh, turn["output_tokens"])
    ttft = ttft_of(s, d, fresh)
    region, model = s.region[d], s.model[d]
    previous = state.sessions[slot]["previous"]
    entry["deployment"] = d
    entry["cached_tokens"] = np.int32(cached)
    entry["energy_kwh"] = energy
    entry["co2_g"] = intensity_with_pue(s, turns.intensity[turn["account_step"]], region) * energy
    entry["ttft_s"] = ttft
    entry["recompute_kwh"] = 0.0
    if turn["turn"] > 0:
        entry["recompute_kwh"] = s.energy_kwh_per_token[d] * (history - cached)
    entry["quality_predicted"] = turns.quality_predicted[row, model]
    entry["quality_realised"] = turns.quality_realised[row, model]
    entry["quality_violation"] = not state.passes[b, model]
    entry["ttft_violation"] = ttft > s.ttft_bound_s
    entry["capacity_violation"] = not state.has_room[b, s.unit[d]]
    entry["switched"] = previous != NOWHERE and previous != d


@inlined
def _commit_lane(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    b: int,
    d: int,
) -> None:
    """Serve the quoted turn of lane `b` on deployment `d` and move the lane on."""
    row = state.row[b]
    turn = turns.turn[row]
    slot = b if s.one_session else turn["slot"]
    session = state.sessions[slot]
    _account(s, turns, state, ledger, b, row, slot, d)
    previous = session["previous"]
    if s.evict_on_leave and previous != NOWHERE and previous != d:
        drop(s, state, b, slot, previous)
    tokens = turn["history_tokens"] + turn["prompt_tokens"] + turn["output_tokens"]
    hold(s, state, b, slot, d, tokens, turn["arrival_s"])
    if not s.one_session:
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


@kernel
def quote(s: Static, turns: Turns, state: State, ledger: NDArray[np.void], q: QuoteBuffers) -> None:
    """Quote the current turn of every lane; lanes that are done get row NOWHERE."""
    for b in range(state.row.shape[0]):
        q.row[b] = NOWHERE
        if state.row[b] < state.stop[b]:
            _quote_lane(s, turns, state, ledger, q, b, state.row[b])


@kernel
def commit(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    actions: Ints,
) -> None:
    """Commit the quoted turn of every lane."""
    for b in range(state.row.shape[0]):
        if state.row[b] < state.stop[b]:
            _commit_lane(s, turns, state, ledger, b, actions[b])


@kernel
def commit_and_quote(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    q: QuoteBuffers,
    actions: Ints,
) -> None:
    """`commit`, then `quote`, lane by lane: a lane's data are touched while they are at hand."""
    for b in range(state.row.shape[0]):
        q.row[b] = NOWHERE
        if state.row[b] < state.stop[b]:
            _commit_lane(s, turns, state, ledger, b, actions[b])
            if state.row[b] < state.stop[b]:
                _quote_lane(s, turns, state, ledger, q, b, state.row[b])


@kernel
def valid(row: Ints, stop: Ints, actions: Ints, deployments: int) -> bool:
    """Whether every lane that is not done has an action in 0..deployments - 1."""
    for b in range(row.shape[0]):
        if row[b] < stop[b] and (actions[b] < 0 or actions[b] >= deployments):
            return False
    return True
