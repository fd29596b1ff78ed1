"""Serving, observing and beginning lanes: the environments' step, compiled.

Physics stands in `carbon_gym.simulator`, the reward in `reward`, observation and mask in `observe`.
Kernels take ``words``, a packed `Kit` (`carbon_gym.simulator.packed`), or as plain Python the kit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from carbon_gym import draws
from carbon_gym.envs.arrays import DRAW, RESET_NEVER, RESET_SAME_STEP, Kit
from carbon_gym.envs.layout import DEPLOYMENT_WIDTH
from carbon_gym.envs.observe import observe
from carbon_gym.envs.reward import write_terms
from carbon_gym.simulator.accounting import account, move_on
from carbon_gym.simulator.arrays import NOWHERE, Bools, Ints
from carbon_gym.simulator.jit import inlined, kernel
from carbon_gym.simulator.packed import prefetch, prefetch_wide, restorer
from carbon_gym.simulator.quoting import quote_lane

_ZERO = np.float32(0.0)

_AHEAD = 2  # lanes

restore_kit: Any = restorer(Kit)
_mix: Any = inlined(draws.mix)


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
    write_terms(kit, b, d, at)
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
def _draw(kit: Kit, b: int) -> int:
    """The next session of lane `b`: SplitMix64 in counter mode."""
    lanes = kit.lanes
    lanes.episode[b] += 1
    bits = _mix(lanes.stream[b] + np.uint64(lanes.episode[b]) * draws.GOLDEN)
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
        served = min(kit.state.row[b + _AHEAD], kit.turns.turn.shape[0] - 1)
        prefetch(kit.turns.quality_predicted, served)
        prefetch(kit.turns.quality_realised, served)
        prefetch(kit.turns.model_admissible, row)
        prefetch(kit.turns.unit_open, min(row, kit.turns.unit_open.shape[0] - 1))
        prefetch_wide(kit.context, row)
    if b + 1 < end:
        turn = kit.turns.turn[_next_row(kit, b + 1)]
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
    begin = observation.shape[0] - DEPLOYMENT_WIDTH * kit.static.model.shape[0]
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


@inlined
def _step(kit: Kit, b: int, action: int, thread: int, autoreset: int, lone: bool) -> None:
    lanes = kit.lanes
    arrived = True
    if lone and lanes.ended[b]:
        _clear(kit, b)
        _begin(kit, b, DRAW)
    else:
        if lanes.steps[b] == 0:
            lanes.episode_return[b] = 0.0
            lanes.episode_co2_g[b] = 0.0
        _serve(kit, b, action)
        arrived = _flag(kit, b)
    while True:  # so that `observe` stands here, inlined, once
        if arrived:
            observe(kit, thread, b, lone)
        else:
            _close_costs(kit, b)
        if not (lone and lanes.ended[b] and autoreset == RESET_SAME_STEP):
            break
        _keep_final(kit, b)
        _begin(kit, b, DRAW)
        arrived = True


@kernel
def step_lanes(
    words: Ints, actions: Ints, begin: int, end: int, thread: int, autoreset: int
) -> None:
    """Step the conversations ``begin:end``; the actions were checked."""
    kit = restore_kit(words)
    for b in range(begin, end):
        _fetch_ahead(kit, b, end)
        _step(kit, b, actions[b], thread, autoreset, True)


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
            observe(kit, thread, b, True)


@kernel
def step_fleet(words: Ints, actions: Ints) -> None:
    """Step the fleet in lane 0; the action was checked."""
    _step(restore_kit(words), 0, actions[0], 0, RESET_NEVER, False)


@kernel
def step_fleets(words: Ints, actions: Ints) -> None:
    """Step every fleet that is not done; the actions were checked."""
    kit = restore_kit(words)
    for b in range(actions.shape[0]):
        if kit.state.row[b] < kit.state.stop[b]:
            _step(kit, b, actions[b], 0, RESET_NEVER, False)
        else:
            _clear(kit, b)


@kernel
def observe_fleets(words: Ints) -> None:
    """Quote and observe the current turn of every fleet that is not done."""
    kit = restore_kit(words)
    for b in range(kit.state.row.shape[0]):
        if kit.state.row[b] < kit.state.stop[b]:
            observe(kit, 0, b, False)


@kernel
def warm_fleet(words: Ints, served: Ints, until: int) -> None:
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
    observe(kit, 0, 0, False)
