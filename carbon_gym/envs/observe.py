"""Writing a lane's observation and mask: each entry once, in the order of `layout.FEATURES`."""

from __future__ import annotations

import numpy as np

from carbon_gym.envs.arrays import MASK_FEASIBLE, MASK_ROOM, Kit
from carbon_gym.simulator.arrays import NOWHERE
from carbon_gym.simulator.jit import inlined
from carbon_gym.simulator.kernels import FEASIBLE, cheapest_of_lane, quote_lane

_ONE, _ZERO, _TINY = np.float32(1.0), np.float32(0.0), np.float32(1e-30)
_LONGEST_S = 1e30  # of a bound that is none, so that single precision holds it


@inlined
def _observe_units(kit: Kit, k: int, b: int) -> None:
    s, q = kit.static, kit.scratch
    units, begin = s.unit_share.shape[0], kit.context.shape[1]
    load, places, available = q.unit_load[k], q.unit_places[k], q.unit_available[k]
    room = kit.lanes.observation[b, begin : begin + units]
    share = kit.lanes.observation[b, begin + units : begin + 2 * units]
    for u in range(units):
        room[u] = _ONE if available[u] else _ZERO
    if s.capacity_limit < 0.0:
        total = 0
        for u in range(units):
            total += load[u]
        part = _ONE / np.float32(max(total, 1))
        for u in range(units):
            share[u] = np.float32(load[u]) * part
    else:
        for u in range(units):
            most = places[u] if places[u] > 0 else 1
            some = np.float32(load[u]) / np.float32(most)
            share[u] = some if load[u] < places[u] else _ONE


@inlined
def _observe_deployments(kit: Kit, k: int, b: int, row: int) -> None:
    """Seven features of every deployment; short loops over views, which LLVM vectorises."""
    s, q, state = kit.static, kit.scratch, kit.state
    n = s.model.shape[0]
    begin = kit.context.shape[1] + 2 * s.unit_share.shape[0]
    whole = kit.lanes.observation[b]
    cached = whole[begin : begin + n]
    age = whole[begin + n : begin + 2 * n]
    margin = whole[begin + 2 * n : begin + 3 * n]
    co2 = whole[begin + 3 * n : begin + 4 * n]
    ttft = whole[begin + 4 * n : begin + 5 * n]
    inside = whole[begin + 5 * n : begin + 6 * n]
    current = whole[begin + 6 * n : begin + 7 * n]
    slot = b if s.one_session else kit.turns.turn[row]["slot"]
    now_s = q.time_s[k]
    tokens, last_use_s = q.cached_tokens[k], state.last_use_s[slot]
    prices_g, waits_s, feasible = q.co2_g[k], q.ttft_s[k], q.feasible[k]
    history = q.history_tokens[k]
    per_token = np.float32(1.0 / history) if history > 0 else _ZERO
    per_second = np.float32(1.0 / s.cache_ttl_s) if s.cache_ttl_s > 0.0 else _ZERO
    evicted_until_s = kit.turns.evicted_until_s[min(row, kit.turns.evicted_until_s.shape[0] - 1)]
    for d in range(n):
        cached[d] = _ZERO
        age[d] = _ONE
        margin[d] = _ZERO
    lone = s.one_session
    holders = state.holders[b if lone else 0]
    for i in range(state.holding[b] if lone else n):
        d = holders[i] if lone else i
        if tokens[d] > 0:
            until_s = evicted_until_s[d] if lone else state.pools[b, d]["evicted_until_s"]
            old = min(np.float32(now_s - last_use_s[d]) * per_second, _ONE)
            spare = np.float32(min(last_use_s[d] - until_s, s.cache_ttl_s)) * per_second
            cached[d] = min(np.float32(tokens[d]) * per_token, _ONE)
            age[d] = old
            margin[d] = min(_ONE - old, spare)
    forced = kit.lanes.forced[b]
    reference = np.float32(prices_g[forced])
    for d in range(n):
        price = np.float32(prices_g[d])
        co2[d] = (price - reference) / (price + reference + _TINY)
    bound = np.float32(min(s.ttft_bound_s, _LONGEST_S))
    for d in range(n):
        wait = np.float32(waits_s[d])
        ttft[d] = (wait - bound) / (wait + bound)
    for d in range(n):
        inside[d] = _ONE if feasible[d] else _ZERO
        current[d] = _ZERO
    if q.previous[k] != NOWHERE:
        current[q.previous[k]] = _ONE


@inlined
def _mask(kit: Kit, k: int, b: int, how: int) -> None:
    """The mask of the observed turn; exactly the forced deployment where it would be empty."""
    mask, q = kit.lanes.mask[b], kit.scratch
    forced = kit.lanes.forced[b]
    n = mask.shape[0]
    if kit.rules.mask == MASK_FEASIBLE:
        feasible = q.feasible[k]
        for d in range(n):
            mask[d] = feasible[d]
        if how != FEASIBLE:
            mask[forced] = 1
    elif kit.rules.mask == MASK_ROOM:
        available = q.available[k]
        some = False
        for d in range(n):
            mask[d] = available[d]
            some |= available[d]
        if not some:
            mask[forced] = 1


@inlined
def observe(kit: Kit, k: int, b: int) -> None:
    """Quote the current turn of lane `b` and write its observation and mask."""
    s, q = kit.static, kit.scratch
    row = kit.state.row[b]
    quote_lane(s, kit.turns, kit.state, kit.ledger, q, k, b, row)
    forced, how = cheapest_of_lane(
        s.name_rank, q.co2_g[k], q.ttft_s[k], q.feasible[k], q.available[k], q.admissible[k]
    )
    kit.lanes.forced[b] = forced
    kit.lanes.session[b] = q.slot[k]
    said, observation = kit.context[row], kit.lanes.observation[b]
    for i in range(said.shape[0]):
        observation[i] = said[i]
    _observe_units(kit, k, b)
    _observe_deployments(kit, k, b, row)
    _mask(kit, k, b, how)
