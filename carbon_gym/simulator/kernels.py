"""The physics: quote, choose, commit over preallocated arrays (SPEC §2, §3, §5, §10).

Everything compiled stands in this one module: numba's on-disk cache notices a change in the file
of the function that it caches, but not in the files of the functions that one calls.
``NUMBA_DISABLE_JIT=1`` runs the same code as plain Python.
How they are compiled, and what that forbids: `carbon_gym.simulator.jit`.
"""

from __future__ import annotations

import math

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
from carbon_gym.simulator.jit import inlined, kernel

FEASIBLE, LATE, OVERFULL = 0, 1, 2
"""How `cheapest` found its deployment: within all bounds; best effort against the TTFT bound;
outside capacity because no pool with room has an admissible model."""

_NEWER, _OLDER = 0, 1  # last axis of State.links
_STEPS_AN_HOUR = 12  # of the grid's 5-minute clock
_CEIL_SLACK = 1e-9  # SPEC §10: every ceil is taken of its argument less this


@inlined
def _fresh_tokens(history: float, cached: float, prompt: float) -> float:
    """Tokens to prefill, H − C + q."""
    return history - cached + prompt


@inlined
def _energy_kwh(s: Static, d: int, cached: float, fresh: float, output: float) -> float:
    """e_in·(ρ_c·C + (H − C) + q + ρ_o·o), kWh (SPEC §2)."""
    energy_kwh: float = s.energy_kwh_per_token[d] * (
        s.cached_input_ratio * cached + fresh + s.output_ratio * output
    )
    return energy_kwh


@inlined
def _ttft_s(s: Static, d: int, fresh: float) -> float:
    """(H − C + q) / prefill rate, plus the region's round trip, s (SPEC §2)."""
    ttft_s: float = fresh * s.prefill_s_per_token[d] + s.round_trip_s[d]
    return ttft_s


@inlined
def _facility_intensity(s: Static, published: Floats, r: int) -> float:
    """PUE_r · CI_r, gCO2eq/kWh (SPEC §2)."""
    intensity: float = s.pue[r] * published[r]
    return intensity


@inlined
def _usable_tokens(s: Static, held: float, idle_s: float, history: float) -> float:
    """C = min(held, H) while the cache is alive, else 0 (SPEC §3, §10)."""
    tokens = min(float(held), float(history))
    return tokens if idle_s <= s.cache_ttl_s else 0.0


@inlined
def _leave_behind(
    s: Static, turns: Turns, state: State, ledger: NDArray[np.void], b: int, now_s: float
) -> None:
    """Advance the trailing window of lane `b`: sessions gone idle, turns gone old."""
    w = state.window[b]
    row = state.row[b]
    horizon_s = s.slot_s if s.by_turns else s.residency_s
    while w < row and now_s - turns.turn[w]["arrival_s"] > horizon_s:
        if s.by_turns:
            state.served[b, s.unit[ledger[w]["deployment"]]] -= 1
            state.served_total[b] -= 1
        else:
            slot = turns.turn[w]["slot"]
            if state.sessions[slot]["last_row"] == w:
                state.active[b, state.sessions[slot]["active_unit"]] -= 1
                state.active_total[b] -= 1
                state.sessions[slot]["active_unit"] = NOWHERE
        w += 1
    state.window[b] = w


@inlined
def _room(s: Static, state: State, q: QuoteBuffers, b: int, slot: int) -> None:
    """Which capacity units have room for the current turn of lane `b` (SPEC §3)."""
    load, available, places = q.unit_load[b], q.unit_available[b], q.unit_places[b]
    served, active = state.served[b], state.active[b]
    units = s.unit_share.shape[0]
    here = NOWHERE
    if s.by_turns:
        total = state.served_total[b] + 1
        for u in range(units):
            load[u] = served[u]
    else:
        here = state.sessions[slot]["active_unit"]
        total = state.active_total[b] + (1 if here == NOWHERE else 0)
        for u in range(units):
            load[u] = active[u]
    if s.capacity_limit < 0.0:
        for u in range(units):
            available[u] = True
            places[u] = NOWHERE
    else:
        for u in range(units):
            places[u] = math.ceil(s.unit_share[u] * s.capacity_limit * total - _CEIL_SLACK)
            available[u] = load[u] < places[u]
    if here != NOWHERE:  # a session may always stay; the load is that of the others
        available[here] = True
        load[here] -= 1


@inlined
def _filter_models(s: Static, quality: Floats, needed: float, admissible: Bools) -> None:
    """Admissible models: q̂_m ≥ β_Q · max over the models whose context fits (SPEC §1, §4)."""
    # If none fits, those with the largest context count as fitting.
    fits_from = min(s.largest_context_tokens, needed)
    best = 0.0
    for m in range(s.context_tokens.shape[0]):
        best = max(best, quality[m] if s.context_tokens[m] >= fits_from else 0.0)
    for m in range(s.context_tokens.shape[0]):
        admissible[m] = (s.context_tokens[m] >= fits_from) & (quality[m] >= s.beta_q * best)


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
        facility_intensity[r] = _facility_intensity(s, published, r)
    if not s.one_session:
        _leave_behind(s, turns, state, ledger, b, now_s)
    _room(s, state, q, b, slot)
    said, quality = turns.quality_predicted[row], q.quality[b]
    for m in range(s.context_tokens.shape[0]):
        quality[m] = said[m]
    _filter_models(s, quality, history + prompt + output, q.model_admissible[b])
    # Rows of the lane as local views, and several short loops: both let LLVM vectorise.
    held, last_use_s = state.held_tokens[slot], state.last_use_s[slot]
    cached, energy, co2, ttft = q.cached_tokens[b], q.energy_kwh[b], q.co2_g[b], q.ttft_s[b]
    available, admissible, feasible = q.available[b], q.admissible[b], q.feasible[b]
    unit_available, model_admissible = q.unit_available[b], q.model_admissible[b]
    for d in range(s.model.shape[0]):
        tokens = _usable_tokens(s, held[d], now_s - last_use_s[d], history)
        tokens = float(history) if s.full_cache else tokens
        fresh = _fresh_tokens(history, tokens, prompt)
        cached[d] = np.int32(tokens)
        energy[d] = _energy_kwh(s, d, tokens, fresh, output)
        ttft[d] = _ttft_s(s, d, fresh)
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
        fresh = _fresh_tokens(q.history_tokens[b], 0, q.prompt_tokens[b])
        for d in range(s.model.shape[0]):
            energy = _energy_kwh(s, d, 0, fresh, q.predicted_output_tokens[b])
            ttft = _ttft_s(s, d, fresh)
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


@kernel
def _drop(s: Static, state: State, b: int, slot: int, d: int) -> None:
    """Remove the session's cache from deployment `d` and its room from the account."""
    if state.held_tokens[slot, d] == 0:
        return
    if s.bounded_memory:
        state.pools[b, d]["used_bytes"] -= s.kv_bytes_per_token[d] * state.held_tokens[slot, d]
    state.held_tokens[slot, d] = 0
    state.last_use_s[slot, d] = -np.inf
    if not s.bounded_memory:
        return
    newer, older = state.links[slot, d, _NEWER], state.links[slot, d, _OLDER]
    if newer == NOWHERE:
        state.pools[b, d]["newest"] = older
    else:
        state.links[newer, d, _OLDER] = older
    if older == NOWHERE:
        state.pools[b, d]["oldest"] = newer
    else:
        state.links[older, d, _NEWER] = newer


@inlined
def _hold(s: Static, state: State, b: int, slot: int, d: int, tokens: int, now_s: float) -> None:
    """Keep `tokens` of the session on deployment `d`, evicting the least recently used others."""
    if s.bounded_memory:
        _make_room(s, state, b, slot, d, tokens, now_s)
    else:
        state.held_tokens[slot, d] = tokens
        state.last_use_s[slot, d] = now_s


@kernel
def _make_room(
    s: Static, state: State, b: int, slot: int, d: int, tokens: int, now_s: float
) -> None:
    """`_hold` where the KV room is bounded: the list of slots by last use is kept, O(1) a turn."""
    while state.pools[b, d]["oldest"] != NOWHERE:
        oldest = state.pools[b, d]["oldest"]
        if now_s - state.last_use_s[oldest, d] <= s.cache_ttl_s:
            break
        _drop(s, state, b, oldest, d)
    _drop(s, state, b, slot, d)
    needed_bytes = s.kv_bytes_per_token[d] * tokens
    if tokens == 0 or needed_bytes > s.kv_room_bytes[d]:
        return
    while state.pools[b, d]["used_bytes"] + needed_bytes > s.kv_room_bytes[d]:
        _drop(s, state, b, state.pools[b, d]["oldest"], d)
    newest = state.pools[b, d]["newest"]
    state.held_tokens[slot, d] = tokens
    state.last_use_s[slot, d] = now_s
    state.links[slot, d, _NEWER] = NOWHERE
    state.links[slot, d, _OLDER] = newest
    if newest == NOWHERE:
        state.pools[b, d]["oldest"] = slot
    else:
        state.links[newest, d, _NEWER] = slot
    state.pools[b, d]["newest"] = slot
    state.pools[b, d]["used_bytes"] += needed_bytes


@inlined
def _account(
    s: Static, turns: Turns, q: QuoteBuffers, ledger: NDArray[np.void], b: int, d: int
) -> None:
    """Write what the current turn of lane `b` emits on deployment `d` into the ledger.

    With the true reply length, the account's intensity and the true caches.
    """
    row = q.row[b]
    turn, entry = turns.turn[row], ledger[row]
    cached = q.cached_tokens[b, d]
    history = turn["history_tokens"]
    fresh = _fresh_tokens(history, cached, turn["prompt_tokens"])
    energy = _energy_kwh(s, d, cached, fresh, turn["output_tokens"])
    region, model = s.region[d], s.model[d]
    entry["deployment"] = d
    entry["cached_tokens"] = cached
    entry["energy_kwh"] = energy
    entry["co2_g"] = _facility_intensity(s, turns.intensity[turn["account_step"]], region) * energy
    entry["ttft_s"] = q.ttft_s[b, d]
    entry["recompute_kwh"] = 0.0
    if turn["turn"] > 0:
        entry["recompute_kwh"] = s.energy_kwh_per_token[d] * (history - cached)
    entry["quality_predicted"] = turns.quality_predicted[row, model]
    entry["quality_realised"] = turns.quality_realised[row, model]
    entry["quality_violation"] = not q.admissible[b, d]
    entry["ttft_violation"] = q.ttft_s[b, d] > s.ttft_bound_s
    entry["capacity_violation"] = not q.available[b, d]
    entry["switched"] = q.previous[b] != NOWHERE and q.previous[b] != d


@inlined
def _commit_lane(
    s: Static,
    turns: Turns,
    state: State,
    ledger: NDArray[np.void],
    q: QuoteBuffers,
    b: int,
    row: int,
    d: int,
) -> None:
    """Serve the quoted turn of lane `b` on deployment `d` and move the lane on."""
    turn = turns.turn[row]
    session = state.sessions[q.slot[b]]
    _account(s, turns, q, ledger, b, d)
    previous = session["previous"]
    if s.evict_on_leave and previous != NOWHERE and previous != d:
        _drop(s, state, b, q.slot[b], previous)
    tokens = turn["history_tokens"] + turn["prompt_tokens"] + turn["output_tokens"]
    _hold(s, state, b, q.slot[b], d, tokens, turn["arrival_s"])
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
    q: QuoteBuffers,
    actions: Ints,
) -> None:
    """Commit the quoted turn of every lane."""
    for b in range(state.row.shape[0]):
        if q.row[b] != NOWHERE:
            _commit_lane(s, turns, state, ledger, q, b, q.row[b], actions[b])


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
        if q.row[b] != NOWHERE:
            _commit_lane(s, turns, state, ledger, q, b, q.row[b], actions[b])
            q.row[b] = NOWHERE
            if state.row[b] < state.stop[b]:
                _quote_lane(s, turns, state, ledger, q, b, state.row[b])


@kernel
def valid(row: Ints, actions: Ints, deployments: int) -> bool:
    """Whether every lane that is not done has an action in 0..deployments - 1."""
    for b in range(row.shape[0]):
        if row[b] != NOWHERE and (actions[b] < 0 or actions[b] >= deployments):
            return False
    return True
