"""Which capacity units have room (SPEC §3, §10)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import NOWHERE, Ints, QuoteBuffers, State, Static, Turns
from carbon_gym.simulator.jit import inlined

_MOST_PLACES = 2.0**53  # a limit that is none must not overflow
_CEIL_SLACK = 1e-9  # SPEC §10: every ceil is taken of its argument less this


@inlined
def leave_behind(
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
def _own_turns(s: Static, turns: Turns, state: State, load: Ints, b: int, row: int) -> int:
    """Add a lone session's own turns of the trailing slot to `load`; how many there are."""
    path = state.path[b]
    now_s = turns.turn[row]["arrival_s"]
    begin = state.begin[b]
    w = row - 1
    while w >= begin and now_s - turns.turn[w]["arrival_s"] <= s.slot_s:
        load[s.unit[path[w - begin]]] += 1
        w -= 1
    return row - 1 - w


@inlined
def room(
    s: Static, turns: Turns, state: State, q: QuoteBuffers, k: int, b: int, row: int, slot: int
) -> None:
    """Which capacity units have room for the current turn of lane `b` (SPEC §3).

    Written to the quote `k`; `q.previous` and `q.idle_s` are there already.
    """
    load, available, places = q.unit_load[k], q.unit_available[k], q.unit_places[k]
    # The account keeps its own, so that a policy that writes into its quotes changes nothing.
    has_room = state.has_room[b]
    units = s.unit_share.shape[0]
    here = NOWHERE
    total = 1
    if s.one_session:
        others = turns.others[min(row, turns.others.shape[0] - 1)]
        for u in range(units):
            load[u] = others[u]
        for u in range(units):
            total += load[u]
        if s.by_turns:
            total += _own_turns(s, turns, state, load, b, row)
        elif q.previous[k] != NOWHERE and q.idle_s[k] <= s.residency_s:
            here = s.unit[q.previous[k]]
    elif s.by_turns:
        served = state.served[b]
        total += state.served_total[b]
        for u in range(units):
            load[u] = served[u]
    else:
        active = state.active[b]
        here = state.sessions[slot]["active_unit"]
        total = state.active_total[b] + (1 if here == NOWHERE else 0)
        for u in range(units):
            load[u] = active[u]
    if s.capacity_limit < 0.0:
        for u in range(units):
            places[u] = NOWHERE
        for u in range(units):
            available[u] = True
    else:
        for u in range(units):
            most = min(s.unit_share[u] * s.capacity_limit * total - _CEIL_SLACK, _MOST_PLACES)
            places[u] = math.ceil(most)
        for u in range(units):
            available[u] = load[u] < places[u]
    if here != NOWHERE:  # a session may always stay; the load is that of the others
        available[here] = True
        load[here] -= 0 if s.one_session else 1
    for u in range(units):
        has_room[u] = available[u]
