"""Which capacity units have room (SPEC §3, §10)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import NOWHERE, Ints, QuoteBuffers, State, Static, Turns
from carbon_gym.simulator.jit import inlined

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
    served, active = state.served[b], state.active[b]
    units = s.unit_share.shape[0]
    here = NOWHERE
    if s.one_session:
        others = turns.others[min(row, turns.others.shape[0] - 1)]
        total = 1
        for u in range(units):
            load[u] = others[u]
            total += others[u]
        if s.by_turns:
            total += _own_turns(s, turns, state, load, b, row)
        elif q.previous[k] != NOWHERE and q.idle_s[k] <= s.residency_s:
            here = s.unit[q.previous[k]]
    elif s.by_turns:
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
        load[here] -= 0 if s.one_session else 1
