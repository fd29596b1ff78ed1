"""Writing a lane's observation and mask: each entry once, in the order of `layout.FEATURES`."""

from __future__ import annotations

import numpy as np

from carbon_gym.envs.arrays import MASK_FEASIBLE, MASK_ROOM, Kit
from carbon_gym.envs.layout import DEPLOYMENT_WIDTH, STAKE
from carbon_gym.simulator.arrays import NOWHERE, BoolTable, Float32Table, Int32Table, Static
from carbon_gym.simulator.capacity import places_of
from carbon_gym.simulator.choosing import FEASIBLE, cheapest_of_lane
from carbon_gym.simulator.jit import inlined, kernel
from carbon_gym.simulator.quoting import find_feasible, glance_lane, quote_lane

_ONE, _ZERO, _TINY = np.float32(1.0), np.float32(0.0), np.float32(1e-30)
_LONGEST_S = 1e30  # of a bound that is none, so that single precision holds it


@inlined
def load_share(load: int, places: int, total: int) -> np.float32:
    """Load over places, at most 1; over the `total` load where there is no limit."""
    if places == NOWHERE:
        return np.float32(load) / np.float32(max(total, 1))
    if load >= places:
        return _ONE
    return np.float32(load) / np.float32(places)


@kernel
def unit_features(
    s: Static, others: Int32Table, unit_open: BoolTable, features: Float32Table
) -> None:
    """Room and load of every unit amid the others, float32 (N, 2·U), under the rule `sessions`."""
    units = others.shape[1]
    for row in range(others.shape[0]):
        total = 0
        for u in range(units):
            total += others[row, u]
        for u in range(units):
            places = places_of(s, u, total + 1)
            features[row, u] = _ONE if unit_open[row, u] else _ZERO
            features[row, units + u] = load_share(others[row, u], places, total)


@inlined
def _observe_units(kit: Kit, k: int, b: int, begin: int) -> None:
    s, q = kit.static, kit.scratch
    units = s.unit_share.shape[0]
    load, places, available = q.unit_load[k], q.unit_places[k], q.unit_available[k]
    observation = kit.lanes.observation[b]
    total = 0
    for u in range(units):
        total += load[u]
    for u in range(units):
        observation[begin + u] = _ONE if available[u] else _ZERO
        observation[begin + units + u] = load_share(load[u], places[u], total)


@inlined
def _observe_caches(kit: Kit, k: int, b: int, row: int, begin: int, lone: bool) -> None:
    """Cached share, age and margin of every deployment."""
    s, q, state = kit.static, kit.scratch, kit.state
    n = s.model.shape[0]
    whole = kit.lanes.observation[b]
    cached = whole[begin : begin + n]
    age = whole[begin + n : begin + 2 * n]
    margin = whole[begin + 2 * n : begin + 3 * n]
    slot = b if lone else kit.turns.turn[row]["slot"]
    now_s = q.time_s[k]
    tokens, last_use_s = q.cached_tokens[k], state.last_use_s[slot]
    history = q.history_tokens[k]
    per_token = np.float32(1.0 / history) if history > 0 else _ZERO
    per_second = np.float32(1.0 / s.cache_ttl_s) if s.cache_ttl_s > 0.0 else _ZERO
    evicted_until_s = kit.turns.evicted_until_s[min(row, kit.turns.evicted_until_s.shape[0] - 1)]
    for d in range(n):
        cached[d] = _ZERO
    for d in range(n):
        age[d] = _ONE
    for d in range(n):
        margin[d] = _ZERO
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


@inlined
def _observe_waits(kit: Kit, k: int, b: int, begin: int) -> None:
    """TTFT relative to the bound, feasible, and where the session is."""
    s, q = kit.static, kit.scratch
    n = s.model.shape[0]
    whole = kit.lanes.observation[b]
    ttft = whole[begin + 4 * n : begin + 5 * n]
    inside = whole[begin + 5 * n : begin + 6 * n]
    current = whole[begin + 6 * n : begin + 7 * n]
    waits_s, feasible = q.ttft_s[k], q.feasible[k]
    bound = np.float32(min(s.ttft_bound_s, _LONGEST_S))
    for d in range(n):
        wait = np.float32(waits_s[d])
        ttft[d] = (wait - bound) / (wait + bound)
    for d in range(n):
        inside[d] = _ONE if feasible[d] else _ZERO
    for d in range(n):
        current[d] = _ZERO
    if q.previous[k] != NOWHERE:
        current[q.previous[k]] = _ONE


@inlined
def _observe_prices(kit: Kit, k: int, b: int, begin: int, forced: int) -> None:
    """CO2 relative to the cheapest feasible deployment, or the forced one; and what is at stake."""
    n = kit.static.model.shape[0]
    prices_g, co2 = kit.scratch.co2_g[k], kit.lanes.observation[b, begin + 3 * n : begin + 4 * n]
    reference = np.float32(prices_g[forced])
    stake = reference / (reference + np.float32(kit.rules.stake_g))
    kit.lanes.observation[b, STAKE] = stake
    for d in range(n):
        price = np.float32(prices_g[d])
        co2[d] = (price - reference) / (price + reference + _TINY)


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
def observe(kit: Kit, k: int, b: int, lone: bool) -> None:
    """Quote the current turn of lane `b` and write its observation and mask."""
    s, q = kit.static, kit.scratch
    row = kit.state.row[b]
    if lone:
        glance_lane(s, kit.turns, kit.state, q, k, b, row)
    else:
        quote_lane(s, kit.turns, kit.state, kit.ledger, q, k, b, row)
    kit.lanes.session[b] = q.slot[k]
    said, observation = kit.context[row], kit.lanes.observation[b]
    for i in range(said.shape[0]):
        observation[i] = said[i]
    deployments = observation.shape[0] - DEPLOYMENT_WIDTH * s.model.shape[0]
    units = deployments - 2 * s.unit_share.shape[0]
    if not lone or s.by_turns:
        _observe_units(kit, k, b, units)
    elif q.previous[k] != NOWHERE and q.idle_s[k] <= s.residency_s:
        observation[units + s.unit[q.previous[k]]] = _ONE  # a session may always stay
    _observe_caches(kit, k, b, row, deployments, lone)
    if lone:
        find_feasible(s, q, k)
    _observe_waits(kit, k, b, deployments)
    forced, how = cheapest_of_lane(
        s.name_rank, q.co2_g[k], q.ttft_s[k], q.feasible[k], q.available[k], q.admissible[k]
    )
    kit.lanes.forced[b] = forced
    _observe_prices(kit, k, b, deployments, forced)
    _mask(kit, k, b, how)
