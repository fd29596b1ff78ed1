"""KV caches: what a deployment holds of a session, and who has to go (SPEC §3)."""

from __future__ import annotations

import numpy as np

from carbon_gym.simulator.arrays import NOWHERE, Floats, State, Static
from carbon_gym.simulator.jit import inlined, kernel
from carbon_gym.simulator.pricing import idle_of

_NEWER, _OLDER = 0, 1  # last axis of State.links


@kernel
def drop(s: Static, state: State, b: int, slot: int, d: int) -> None:
    """Remove the session's cache from deployment `d` and its room from the account."""
    if state.held_tokens[slot, d] == 0:
        return
    if s.bounded_memory:
        state.pools[b, d]["used_bytes"] -= s.kv_bytes_per_token[d] * state.held_tokens[slot, d]
    state.held_tokens[slot, d] = 0
    state.last_use_s[slot, d] = -np.inf
    if s.one_session:
        _strike_off(state, b, d)
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
def _strike_off(state: State, b: int, d: int) -> None:
    """Take `d` off the list of where a lone session's caches lie."""
    holders = state.holders[b]
    last = state.holding[b] - 1
    for i in range(last):
        if holders[i] == d:
            holders[i] = holders[last]
            break
    state.holding[b] = last


@inlined
def forget_expired(
    s: Static, state: State, b: int, slot: int, now_s: float, evicted_until_s: Floats
) -> None:
    """Strike off what a lone session can no longer use; that never comes back."""
    held, last_use_s, holders = state.held_tokens[slot], state.last_use_s[slot], state.holders[b]
    kept = 0
    for i in range(state.holding[b]):
        d = holders[i]
        if idle_of(now_s, last_use_s[d], evicted_until_s[d]) <= s.cache_ttl_s:
            holders[kept] = d
            kept += 1
        else:
            held[d] = 0
            last_use_s[d] = -np.inf
    state.holding[b] = kept


@inlined
def hold(s: Static, state: State, b: int, slot: int, d: int, tokens: int, now_s: float) -> None:
    """Keep `tokens` of the session on deployment `d`, evicting the least recently used others."""
    if s.bounded_memory:
        _make_room(s, state, b, slot, d, tokens, now_s)
    elif tokens == 0 or s.kv_bytes_per_token[d] * tokens > s.kv_room_bytes[d]:
        drop(s, state, b, slot, d)
    else:
        if s.one_session and state.held_tokens[slot, d] == 0:
            state.holders[b, state.holding[b]] = d
            state.holding[b] += 1
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
        drop(s, state, b, oldest, d)
    drop(s, state, b, slot, d)
    needed_bytes = s.kv_bytes_per_token[d] * tokens
    if tokens == 0 or needed_bytes > s.kv_room_bytes[d]:
        return
    while state.pools[b, d]["used_bytes"] + needed_bytes > s.kv_room_bytes[d]:
        oldest = state.pools[b, d]["oldest"]
        until_s = max(state.pools[b, d]["evicted_until_s"], state.last_use_s[oldest, d])
        state.pools[b, d]["evicted_until_s"] = until_s
        drop(s, state, b, oldest, d)
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
