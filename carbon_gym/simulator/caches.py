"""KV caches: what a deployment holds of a session, and who has to go (SPEC §3)."""

from __future__ import annotations

import numpy as np

from carbon_gym.simulator.arrays import NOWHERE, State, Static
from carbon_gym.simulator.jit import inlined, kernel

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
def hold(s: Static, state: State, b: int, slot: int, d: int, tokens: int, now_s: float) -> None:
    """Keep `tokens` of the session on deployment `d`, evicting the least recently used others."""
    if s.bounded_memory:
        _make_room(s, state, b, slot, d, tokens, now_s)
    else:
        kept = s.kv_bytes_per_token[d] * tokens <= s.kv_room_bytes[d]
        state.held_tokens[slot, d] = tokens if kept else 0
        state.last_use_s[slot, d] = now_s if kept else -np.inf


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
