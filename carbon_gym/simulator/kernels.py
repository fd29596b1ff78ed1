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
    BoolTable,
    Floats,
    FloatTable,
    Ints,
    PriceBuffers,
    QuoteBuffers,
    State,
    Static,
    Turns,
)
from carbon_gym.simulator.caches import drop, forget_expired, hold
from carbon_gym.simulator.capacity import leave_behind, room, room_amid_others
from carbon_gym.simulator.jit import inlined, kernel, kernel_without_nan
from carbon_gym.simulator.pricing import (
    energy_of,
    fresh_tokens,
    idle_of,
    intensity_with_pue,
    ttft_of,
    usable_tokens,
)

FEASIBLE, LATE, OVERFULL = 0, 1, 2
"""How `cheapest` found its deployment: within all bounds; best effort against the TTFT bound;
outside capacity because no pool with room has an admissible model."""

_STEPS_AN_HOUR = 12  # of the grid's 5-minute clock


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
    q.idle_s[k] = np.inf
    if session["last_row"] != NOWHERE:
        q.idle_s[k] = now_s - turns.turn[session["last_row"]]["arrival_s"]
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
    available, admissible, feasible = q.available[k], q.admissible[k], q.feasible[k]
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
    per_model = s.model.shape[0] // s.context_tokens.shape[0]  # models are outermost
    for m in range(s.context_tokens.shape[0]):
        passed, of_model = passes[m], admissible[m * per_model : (m + 1) * per_model]
        for j in range(per_model):
            of_model[j] = passed
    for d in range(s.model.shape[0]):
        feasible[d] = available[d] & admissible[d] & (ttft[d] <= s.ttft_bound_s)


@inlined
def glance_lane(
    s: Static, turns: Turns, state: State, q: QuoteBuffers, k: int, b: int, row: int
) -> None:
    """`quote_lane` of a lone session, without what only policies read: a third of the time.

    Writes slot, time, history, previous, idle time, facility intensity, CO2, TTFT, cached tokens
    where there are any, available and admissible; `find_feasible` then the rest. The same numbers.
    """
    turn = turns.turn[row]
    now_s = turn["arrival_s"]
    history, prompt = turn["history_tokens"], turn["prompt_tokens"]
    output = turn["predicted_output_tokens"]
    session = state.sessions[b]
    idle_s = np.inf
    if session["last_row"] != NOWHERE:
        idle_s = now_s - turns.turn[session["last_row"]]["arrival_s"]
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
    per_model = s.model.shape[0] // s.context_tokens.shape[0]  # models are outermost
    for m in range(s.context_tokens.shape[0]):
        passed, of_model = passes[m], admissible[m * per_model : (m + 1) * per_model]
        for j in range(per_model):
            of_model[j] = passed
    forget_expired(s, state, b, b, now_s, evicted_until_s)
    holders = state.holders[b]
    for i in range(state.holding[b]):
        d = holders[i]
        found = usable_tokens(s, held[d], now_s - last_use_s[d], history)
        fresh = fresh_tokens(history, found, prompt)
        cached[d] = np.int32(found)
        co2[d] = facility_intensity[s.region[d]] * energy_of(s, d, found, fresh, output)
        ttft[d] = ttft_of(s, d, fresh)


@inlined
def find_feasible(s: Static, q: QuoteBuffers, k: int) -> None:
    """The set F of SPEC §5 from what `glance_lane` found."""
    available, admissible, ttft, feasible = (
        q.available[k],
        q.admissible[k],
        q.ttft_s[k],
        q.feasible[k],
    )
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


@kernel_without_nan
def _least(co2_g: Floats, feasible: Bools) -> tuple[int, int]:
    """Where the least CO2 of the feasible deployments is, and how many have it."""
    low, where, many = np.inf, 0, 0
    for d in range(co2_g.shape[0]):
        low = min(low, co2_g[d] if feasible[d] else np.inf)
    for d in range(co2_g.shape[0]):
        found = feasible[d] & (co2_g[d] == low)
        where += d if found else 0
        many += 1 if found else 0
    return where, many


@kernel
def cheapest_of_lane(
    rank: Ints,
    co2_g: Floats,
    ttft_s: Floats,
    feasible: Bools,
    available: Bools,
    admissible: Bools,
) -> tuple[int, int]:
    """The cheapest feasible deployment of one lane, and how it was found; see `cheapest`."""
    where, many = _least(co2_g, feasible)
    if many == 1 and admissible[where]:
        return where, FEASIBLE
    best, found = NOWHERE, OVERFULL
    for d in range(rank.shape[0]):
        if not admissible[d]:
            continue
        kind = OVERFULL
        if available[d]:
            kind = FEASIBLE if feasible[d] else LATE
        if best == NOWHERE or kind < found:
            better = True
        elif kind > found:
            better = False
        elif kind == FEASIBLE:
            better = _before(co2_g[d], ttft_s[d], rank[d], co2_g[best], ttft_s[best], rank[best])
        else:
            better = _before(ttft_s[d], co2_g[d], rank[d], ttft_s[best], co2_g[best], rank[best])
        if better:
            best, found = d, kind
    return best, found


@kernel
def cheapest(
    rank: Ints,
    row: Ints,
    co2_g: FloatTable,
    ttft_s: FloatTable,
    feasible: BoolTable,
    available: BoolTable,
    admissible: BoolTable,
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
        if row[b] != NOWHERE:
            choice[b], how[b] = cheapest_of_lane(
                rank, co2_g[b], ttft_s[b], feasible[b], available[b], admissible[b]
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
    account(s, turns, state, ledger, state.row[b], b, d)
    move_on(s, turns, state, b, d)


@kernel
def quote(s: Static, turns: Turns, state: State, ledger: NDArray[np.void], q: QuoteBuffers) -> None:
    """Quote the current turn of every lane; lanes that are done get row NOWHERE."""
    for b in range(state.row.shape[0]):
        q.row[b] = NOWHERE
        if state.row[b] < state.stop[b]:
            quote_lane(s, turns, state, ledger, q, b, b, state.row[b])


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
                quote_lane(s, turns, state, ledger, q, b, b, state.row[b])


@kernel
def valid(row: Ints, stop: Ints, actions: Ints, deployments: int) -> bool:
    """Whether every lane that is not done has an action in 0..deployments - 1."""
    for b in range(row.shape[0]):
        if row[b] < stop[b] and (actions[b] < 0 or actions[b] >= deployments):
            return False
    return True
