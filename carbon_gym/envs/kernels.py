"""Serving, observing and beginning lanes: the environments' step, compiled.

Physics stands in `carbon_gym.simulator`; here are the reward, the mask and the observation.
Kernels take ``words``, a packed `Kit` (`carbon_gym.simulator.packed`), or as plain Python the kit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from carbon_gym.envs.arrays import (
    DRAW,
    MASK_FEASIBLE,
    MASK_ROOM,
    RESET_NEVER,
    RESET_SAME_STEP,
    Kit,
)
from carbon_gym.simulator.arrays import NOWHERE, Bools, Ints
from carbon_gym.simulator.jit import inlined, kernel
from carbon_gym.simulator.kernels import (
    FEASIBLE,
    account,
    account_of,
    cheapest_of_lane,
    move_on,
    quote_lane,
)
from carbon_gym.simulator.packed import prefetch, prefetch_wide, restorer
from carbon_gym.simulator.pricing import best_fitting

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_ONE, _ZERO, _TINY = np.float32(1.0), np.float32(0.0), np.float32(1e-30)

_LONGEST_S = 1e30  # of a bound that is none, so that single precision holds it
_AHEAD = 4  # lanes
_STEPS_AN_HOUR = 12  # of the grid

restore_kit: Any = restorer(Kit)


@inlined
def _reward(kit: Kit, b: int, d: int, at: int) -> None:
    """Terms of the reward for serving the current turn of lane `b` on `d`, before it moves on.

    A violation never pays: `refund` takes back the CO2 by which it undercuts the reference, the
    cheapest feasible deployment, and under a budget the priced quality by which it is better. If
    nothing is feasible the forced deployment is the reference, and its lateness counts likewise.
    """
    s, state, rules = kit.static, kit.state, kit.rules
    entry, step = kit.ledger[at], kit.lanes.step[b]
    turn = kit.turns.turn[state.row[b]]
    said = kit.turns.quality_predicted[state.row[b]]
    model = s.model[d]
    co2 = -entry["co2_g"] / rules.co2_scale_g
    late = -rules.ttft_weight * max(0.0, entry["ttft_s"] / s.ttft_bound_s - 1.0)
    quality = 0.0
    if rules.budget:
        quality = rules.quality_weight * (said[model] - rules.quality_target)
    refund, reached = 0.0, said[model]
    if entry["quality_violation"]:
        needed = turn["history_tokens"] + turn["prompt_tokens"] + turn["predicted_output_tokens"]
        best = best_fitting(s, said, needed)
        if s.context_tokens[model] >= min(s.largest_context_tokens, needed):
            shortfall = max(0.0, s.beta_q * best - reached)
        else:  # it cannot answer: its quality counts as 0, and that is short of any filter
            reached = 0.0
            shortfall = s.beta_q * best if s.beta_q > 0.0 else best
        if rules.budget:
            quality = rules.quality_weight * (reached - rules.quality_target)
        quality -= rules.quality_weight * shortfall
    forced = kit.lanes.forced[b]
    if d != forced and (entry["quality_violation"] or entry["ttft_violation"]):
        _, _, forced_co2_g, forced_ttft_s = account_of(s, kit.turns, state, b, forced)
        undercut = co2 + forced_co2_g / rules.co2_scale_g
        if rules.budget:
            # The shortfall, charged above, stays charged.
            undercut += rules.quality_weight * (reached - said[s.model[forced]])
        forced_late = -rules.ttft_weight * max(0.0, forced_ttft_s / s.ttft_bound_s - 1.0)
        refund = -max(0.0, undercut) - max(0.0, late - forced_late)
    step["reward_co2"] = co2
    step["reward_refund"] = refund
    step["reward_quality"] = quality
    step["reward_ttft"] = late
    step["recomputed_tokens"] = 0
    if turn["turn"] > 0:
        step["recomputed_tokens"] = turn["history_tokens"] - entry["cached_tokens"]
    violation = entry["quality_violation"] or entry["ttft_violation"] or entry["capacity_violation"]
    step["feasible"] = not violation


@inlined
def _serve(kit: Kit, b: int, action: int) -> None:
    """Execute an action on the current turn of lane `b`."""
    s, state, lanes = kit.static, kit.state, kit.lanes
    step = lanes.step[b]
    forced = lanes.forced[b]
    refused = (not state.has_room[b, s.unit[action]]) and action != forced
    d = forced if refused else action
    at = b if s.one_session else state.row[b]
    account(s, kit.turns, state, kit.ledger, at, b, d)
    _reward(kit, b, d, at)
    step["reward_capacity"] = -kit.rules.capacity_weight if refused else 0.0
    step["refused"] = refused
    step["masked"] = lanes.mask[b, action] == 0
    move_on(s, kit.turns, state, b, d)
    reward = (
        step["reward_co2"]
        + step["reward_refund"]
        + step["reward_quality"]
        + step["reward_ttft"]
        + step["reward_capacity"]
    )
    lanes.reward[b] = reward
    lanes.episode_return[b] += reward
    lanes.episode_co2_g[b] += kit.ledger[at]["co2_g"]
    lanes.steps[b] += 1
    lanes.acted[b] = True


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
def _observe(kit: Kit, k: int, b: int) -> None:
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


@kernel
def _observe_apart(words: Ints, k: int, b: int) -> None:
    """`_observe` as a call, where it is not worth compiling again."""
    _observe(restore_kit(words), k, b)


@inlined
def _draw(kit: Kit, b: int) -> int:
    """The next session of lane `b`: SplitMix64 in counter mode."""
    lanes = kit.lanes
    lanes.episode[b] += 1
    bits = lanes.stream[b] + np.uint64(lanes.episode[b]) * _GOLDEN
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_A
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_B
    bits = bits ^ (bits >> np.uint64(31))
    share = float(bits >> np.uint64(11)) * 2.0**-53
    return int(share * (kit.first.shape[0] - 1))


@inlined
def _begin(kit: Kit, b: int, session: int) -> None:
    """Begin an episode of one session in lane `b`, with nothing cached anywhere."""
    state, lanes = kit.state, kit.lanes
    if session == DRAW:
        # Drawn an episode ahead, so that its turns can be fetched in time.
        session = lanes.upcoming[b] if lanes.episode[b] > 0 else _draw(kit, b)
        lanes.upcoming[b] = _draw(kit, b)
    lanes.steps[b] = 0
    lanes.ended[b] = False
    lanes.known[b] = kit.first[session + 1]
    state.row[b] = kit.first[session]
    state.begin[b] = kit.first[session]
    state.stop[b] = kit.first[session + 1]
    state.sessions[b]["previous"] = NOWHERE
    state.sessions[b]["last_row"] = NOWHERE
    held, last_use_s, holders = state.held_tokens[b], state.last_use_s[b], state.holders[b]
    for i in range(state.holding[b]):
        held[holders[i]] = 0
        last_use_s[holders[i]] = -np.inf
    state.holding[b] = 0


@inlined
def _clear(kit: Kit, b: int) -> None:
    """Outputs of a lane that served no turn in this call."""
    lanes = kit.lanes
    lanes.acted[b] = False
    lanes.reward[b] = 0.0
    lanes.terminated[b] = False
    lanes.truncated[b] = False
    lanes.episode_return[b] = 0.0
    lanes.episode_co2_g[b] = 0.0


@inlined
def _fetch_ahead(kit: Kit, b: int, end: int) -> None:
    """Ask for what the step of lane `b` will read, while others are stepped: rows lie scattered."""
    if b + _AHEAD < end:
        row = _next_row(kit, b + _AHEAD)
        prefetch(kit.turns.turn, row)
        prefetch(kit.turns.quality_predicted, row)
        prefetch(kit.turns.quality_realised, row)
        prefetch(kit.turns.others, min(row, kit.turns.others.shape[0] - 1))
        prefetch_wide(kit.context, row)
    if b + 1 < end:
        turn = kit.turns.turn[_next_row(kit, b + 1)]
        prefetch(kit.turns.intensity, max(turn["router_step"] - _STEPS_AN_HOUR, 0))
        prefetch(kit.turns.intensity, turn["router_step"])


@inlined
def _next_row(kit: Kit, b: int) -> int:
    """The row that the next step of lane `b` will quote, most likely."""
    row = kit.state.row[b] + 1
    over = kit.lanes.ended[b] or row >= kit.state.stop[b]
    if over and kit.static.one_session:
        row = kit.first[kit.lanes.upcoming[b]]
    return int(row)


@inlined
def _flag(kit: Kit, b: int) -> bool:
    """Flags of lane `b` after a turn was served; whether there is a turn to observe."""
    state, lanes, rules = kit.state, kit.lanes, kit.rules
    over = state.row[b] >= state.stop[b]
    cut = rules.max_turns > 0 and lanes.steps[b] >= rules.max_turns
    terminated = over and kit.static.one_session
    truncated = (over or cut) and not terminated
    lanes.terminated[b] = terminated
    lanes.truncated[b] = truncated
    lanes.ended[b] = terminated or truncated
    return not terminated and state.row[b] < lanes.known[b]


@inlined
def _close_costs(kit: Kit, b: int) -> None:
    """The observation stays the last turn's; its costs are no longer there to be had."""
    observation = kit.lanes.observation[b]
    begin = kit.context.shape[1] + 2 * kit.static.unit_share.shape[0]
    for i in range(begin, observation.shape[0]):
        observation[i] = _ZERO


@inlined
def _keep_final(kit: Kit, b: int) -> None:
    lanes = kit.lanes
    observation, last = lanes.observation[b], lanes.final_observation[b]
    for i in range(observation.shape[0]):
        last[i] = observation[i]
    mask, last_mask = lanes.mask[b], lanes.final_mask[b]
    for d in range(mask.shape[0]):
        last_mask[d] = mask[d]


@kernel
def refused_lane(words: Ints, actions: Ints, autoreset: int) -> int:
    """The first lane whose action is out of range or that ended and is not reset; or NOWHERE."""
    lanes = restore_kit(words).lanes
    for b in range(actions.shape[0]):
        out_of_range = actions[b] < 0 or actions[b] >= lanes.mask.shape[1]
        if autoreset == RESET_NEVER if lanes.ended[b] else out_of_range:
            return b
    return NOWHERE


@kernel
def step_lanes(
    words: Ints, actions: Ints, begin: int, end: int, thread: int, autoreset: int
) -> None:
    """Step lanes ``begin:end``; the actions were checked."""
    kit = restore_kit(words)
    lanes = kit.lanes
    for b in range(begin, end):
        _fetch_ahead(kit, b, end)
        arrived = True
        if lanes.ended[b]:
            _clear(kit, b)
            _begin(kit, b, DRAW)
        else:
            if lanes.steps[b] == 0:
                lanes.episode_return[b] = 0.0
                lanes.episode_co2_g[b] = 0.0
            _serve(kit, b, actions[b])
            arrived = _flag(kit, b)
        while True:  # so that `_observe` stands here, inlined, once
            if arrived:
                _observe(kit, thread, b)
            else:
                _close_costs(kit, b)
            if not lanes.ended[b] or autoreset != RESET_SAME_STEP:
                break
            _keep_final(kit, b)
            _begin(kit, b, DRAW)
            arrived = True


@kernel
def begin_lanes(
    words: Ints, sessions: Ints, chosen: Bools, begin: int, end: int, thread: int
) -> None:
    """Begin an episode in the chosen lanes: of the session named, or of one drawn."""
    kit = restore_kit(words)
    for b in range(begin, end):
        if chosen[b]:
            _clear(kit, b)
            _begin(kit, b, sessions[b])
            _observe_apart(words, thread, b)


@kernel
def warm_lane(words: Ints, served: Ints, until: int) -> None:
    """Serve the turns of lane 0 before row `until` where they were `served`, then observe it."""
    kit = restore_kit(words)
    state = kit.state
    while state.row[0] < until:
        row = state.row[0]
        quote_lane(kit.static, kit.turns, state, kit.ledger, kit.scratch, 0, 0, row)
        account(kit.static, kit.turns, state, kit.ledger, row, 0, served[row])
        move_on(kit.static, kit.turns, state, 0, served[row])
    state.begin[0] = until
    _clear(kit, 0)
    _observe_apart(words, 0, 0)
