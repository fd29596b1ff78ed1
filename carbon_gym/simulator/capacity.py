"""Which capacity units have room (SPEC §3, §10)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import (
    NOWHERE,
    BoolTable,
    Int32Table,
    Ints,
    QuoteBuffers,
    State,
    Static,
    Turns,
)
from carbon_gym.simulator.jit import inlined, kernel

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
def places_of(s: Static, u: int, total: int) -> int:
    """How many of the fleet's `total` a unit takes; NOWHERE without a limit (SPEC §3, §10)."""
    most = min(s.unit_share[u] * s.capacity_limit * total - _CEIL_SLACK, _MOST_PLACES)
    return NOWHERE if s.capacity_limit < 0.0 else math.ceil(most)


@inlined
def room_amid_others(
    s: Static, turns: Turns, state: State, b: int, row: int, idle_s: float
) -> None:
    """`room` of a lone session under the rule `sessions`, from what the others leave (SPEC §3)."""
    has_room, unit_open = state.has_room[b], turns.unit_open[min(row, turns.unit_open.shape[0] - 1)]
    for u in range(has_room.shape[0]):
        has_room[u] = unit_open[u]
    previous = state.sessions[b]["previous"]
    if previous != NOWHERE and idle_s <= s.residency_s:
        has_room[s.unit[previous]] = True


@kernel
def open_units(s: Static, others: Int32Table, unit_open: BoolTable) -> None:
    """Which units take a newcomer amid the others at each turn (SPEC §3, rule `sessions`)."""
    for row in range(others.shape[0]):
        total = 1
        for u in range(others.shape[1]):
            total += others[row, u]
        for u in range(others.shape[1]):
            places = places_of(s, u, total)
            unit_open[row, u] = (places == NOWHERE) or (others[row, u] < places)


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
    for u in range(units):
        places[u] = places_of(s, u, total)
    for u in range(units):
        available[u] = (places[u] == NOWHERE) | (load[u] < places[u])
    if here != NOWHERE:  # a session may always stay; the load is that of the others
        available[here] = True
        load[here] -= 0 if s.one_session else 1
    for u in range(units):
        has_room[u] = available[u]
