"""The compiled search behind `clairvoyant`: the cheapest plan of sessions known to their end.

A *partial plan* serves the first turns of a stretch (`baselines.clairvoyant_desk`); of its past,
only its CO2 and the turn that each deployment served last matter later. The search keeps up to
`width` partial plans a turn, cheapest first, and drops a plan that another one beats whatever comes
(`_beaten`). If it never had to drop one for want of room, what it found is the optimum, and the
stretch is *proven*.

How the functions are compiled, and what that forbids: `carbon_gym.simulator.jit`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from baselines.clairvoyant_desk import (
    Desk,
    cached_tokens,
    choose_candidates,
    read_turns,
    turn_co2_g,
    turn_ttft_s,
)
from carbon_gym.simulator.arrays import NOWHERE, Bools, Floats, Int32s, Ints, Static, Turns
from carbon_gym.simulator.jit import inlined, kernel


@inlined
def _sorts_before(desk: Desk, co2_g: float, plan: int, i: int) -> bool:
    """Whether a plan sorts before entry i of the heap; ties by number, hence by name."""
    other_g = desk.heap_g[i]
    before: bool = co2_g < other_g or (co2_g == other_g and plan < desk.heap_id[i])
    return before


@inlined
def _push(desk: Desk, size: int, co2_g: float, plan: int) -> int:
    """Add a plan to the heap; its new size."""
    i = size
    while i > 0 and _sorts_before(desk, co2_g, plan, (i - 1) >> 1):
        up = (i - 1) >> 1
        desk.heap_g[i] = desk.heap_g[up]
        desk.heap_id[i] = desk.heap_id[up]
        i = up
    desk.heap_g[i] = co2_g
    desk.heap_id[i] = plan
    return size + 1


@inlined
def _pop(desk: Desk, size: int) -> int:
    """Remove the first plan of the heap; its new size."""
    size -= 1
    co2_g, plan = desk.heap_g[size], desk.heap_id[size]
    i, down = 0, 1
    while down < size:
        if down + 1 < size and _sorts_before(
            desk, desk.heap_g[down + 1], desk.heap_id[down + 1], down
        ):
            down += 1
        if _sorts_before(desk, co2_g, plan, down):
            break
        desk.heap_g[i] = desk.heap_g[down]
        desk.heap_id[i] = desk.heap_id[down]
        i, down = down, 2 * down + 1
    desk.heap_g[i] = co2_g
    desk.heap_id[i] = plan
    return size


@inlined
def _go_on(
    s: Static, turns: NDArray[np.void], desk: Desk, t: int, candidates: int, side: int, kept: int
) -> int:
    """Put every way to serve turn t after every kept plan on the heap; the heap's size.

    Allowed are the admissible deployments within the TTFT bound, with the plan's own caches; if
    there is none, those of the shortest TTFT (SPEC §5). Which of several equally short ones is
    free: it is a tie, and this router knows what each will emit.
    """
    turn, intensity = turns[t], desk.facility_intensity[t]
    size = 0
    for w in range(kept):
        bound_s = s.ttft_bound_s
        shortest_s = np.inf
        if desk.shortest_s[t] > bound_s:
            for k in range(candidates):
                if desk.admissible[t, k]:
                    cached = cached_tokens(turns, s, desk, desk.last[side, w, k], t)
                    ttft_s = turn_ttft_s(s, turn, desk.candidate[k], cached)
                    shortest_s = min(shortest_s, ttft_s)
            bound_s = max(bound_s, shortest_s)
        for k in range(candidates):
            if desk.admissible[t, k]:
                d = desk.candidate[k]
                cached = cached_tokens(turns, s, desk, desk.last[side, w, k], t)
                if turn_ttft_s(s, turn, d, cached) <= bound_s:
                    co2_g = desk.co2_g[side, w] + turn_co2_g(s, turn, intensity, d, cached)
                    size = _push(desk, size, co2_g, w * candidates + k)
    return size


@kernel
def _beaten(
    s: Static,
    turns: NDArray[np.void],
    desk: Desk,
    t: int,
    candidates: int,
    side: int,
    best: int,
    plan: int,
    growing: bool,
    by_the_rules: bool,
) -> bool:
    """Whether plan `best` makes plan `plan` needless: neither can follow a future more cheaply.

    Both have served turn t. Let `best` do from now on whatever `plan` does. At the first use of a
    candidate it may find less cached and lose; afterwards the two hold the same there. So it loses
    at most, per candidate, its dearest first use. What it loses must not exceed what it leads by,
    and it must be allowed to follow: within the TTFT bound, and, if `by_the_rules`, at forced
    turns, where something more cached might forbid the best effort that the other makes.
    """
    lead_g = desk.co2_g[side, plan] - desk.co2_g[side, best]
    stop = turns.shape[0]
    if s.evict_on_leave:
        stop = min(stop, t + 2)  # after the next turn both hold the same
    loss_g = 0.0
    for k in range(candidates):
        i, j = desk.last[side, best, k], desk.last[side, plan, k]
        if i == j or (not by_the_rules and (j == NOWHERE or (growing and i > j))):
            continue
        d = desk.candidate[k]
        newest_s = turns[max(i, j)]["arrival_s"]
        most_g = 0.0
        for u in range(t + 1, stop):
            turn = turns[u]
            if turn["arrival_s"] - newest_s > s.cache_ttl_s:
                break
            if not desk.admissible[u, k]:
                continue
            ours = cached_tokens(turns, s, desk, i, u)
            theirs = cached_tokens(turns, s, desk, j, u)
            if ours == theirs:
                continue
            ttft_s = turn_ttft_s(s, turn, d, ours)
            if ours > theirs:
                forced = desk.shortest_s[u] > s.ttft_bound_s
                if by_the_rules and forced and ttft_s <= desk.shortest_s[u]:
                    return False
                continue
            if ttft_s > s.ttft_bound_s:
                return False
            intensity = desk.facility_intensity[u]
            of_ours = turn_co2_g(s, turn, intensity, d, ours)
            most_g = max(most_g, of_ours - turn_co2_g(s, turn, intensity, d, theirs))
        loss_g += most_g
        if loss_g > lead_g:
            return False
    return True


@inlined
def _write(s: Static, desk: Desk, t: int, candidates: int, side: int, w: int, plan: int) -> None:
    """Write plan number `plan` as the w-th of the other side."""
    parent, k = plan // candidates, plan % candidates
    other = 1 - side
    for i in range(candidates):
        desk.last[other, w, i] = NOWHERE if s.evict_on_leave else desk.last[side, parent, i]
    desk.last[other, w, k] = t
    desk.used_spare[other, w] = desk.used_spare[side, parent] or desk.spare[k]
    desk.parent[t, w] = parent
    desk.pick[t, w] = k


@inlined
def _is_beaten(
    s: Static,
    turns: NDArray[np.void],
    desk: Desk,
    t: int,
    candidates: int,
    side: int,
    plan: int,
    others: int,
    growing: bool,
    by_the_rules: bool,
) -> bool:
    """Whether one of the first `others` plans beats plan `plan`."""
    for best in range(others):
        if _beaten(s, turns, desk, t, candidates, side, best, plan, growing, by_the_rules):
            return True
    return False


@inlined
def _keep(
    s: Static,
    turns: NDArray[np.void],
    desk: Desk,
    t: int,
    candidates: int,
    side: int,
    size: int,
    width: int,
    growing: bool,
    forced: bool,
) -> tuple[int, bool]:
    """Keep the cheapest plans of the heap that are not beaten.

    Where a forced turn is to come, plans that only it could save take what room is left.

    Returns:
        Their number, and whether none was left out for want of room.
    """
    other, kept, put_aside, total = 1 - side, 0, 0, size
    while size > 0:
        co2_g, plan = desk.heap_g[0], desk.heap_id[0]
        size = _pop(desk, size)
        _write(s, desk, t, candidates, side, kept, plan)
        desk.co2_g[other, kept] = co2_g
        if (forced and desk.used_spare[other, kept]) or _is_beaten(
            s, turns, desk, t, candidates, other, kept, kept, growing, False
        ):
            if forced:  # put aside where the heap, now shorter, has left room
                put_aside += 1
                desk.heap_g[total - put_aside] = co2_g
                desk.heap_id[total - put_aside] = plan
        elif kept == width:
            return kept, False
        else:
            kept += 1
    for i in range(put_aside):
        _write(s, desk, t, candidates, side, kept, desk.heap_id[total - 1 - i])
        desk.co2_g[other, kept] = desk.heap_g[total - 1 - i]
        if not _is_beaten(s, turns, desk, t, candidates, other, kept, kept, growing, True):
            if kept == width:
                return kept, False
            kept += 1
    return kept, True


@kernel
def _plan_stretch(
    s: Static,
    world: Turns,
    turns: NDArray[np.void],
    rows: Ints,
    by_name: Ints,
    width: int,
    desk: Desk,
    plan: Int32s,
) -> tuple[float, bool]:
    """Plan one stretch; its CO2 in g, and whether it is proven."""
    last_forced = read_turns(s, world, turns, rows, desk)
    growing = True
    for t in range(1, turns.shape[0]):
        growing &= desk.held_tokens[t] >= desk.held_tokens[t - 1]
    candidates = choose_candidates(
        s, desk, turns.shape[0], by_name, growing, last_forced != NOWHERE
    )
    side, kept, proven = 0, 1, True
    desk.co2_g[0, 0] = 0.0
    desk.used_spare[0, 0] = False
    for k in range(candidates):
        desk.last[0, 0, k] = NOWHERE
    for t in range(turns.shape[0]):
        size = _go_on(s, turns, desk, t, candidates, side, kept)
        kept, complete = _keep(
            s, turns, desk, t, candidates, side, size, width, growing, t < last_forced
        )
        proven &= complete
        side = 1 - side
    best = 0
    for w in range(kept):
        if desk.co2_g[side, w] < desk.co2_g[side, best]:
            best = w
    co2_g = desk.co2_g[side, best]
    for back in range(turns.shape[0]):
        t = turns.shape[0] - 1 - back
        plan[rows[t]] = desk.candidate[desk.pick[t, best]]
        best = desk.parent[t, best]
    return co2_g, proven


@kernel
def plan_sessions(
    s: Static,
    world: Turns,
    turns: NDArray[np.void],
    rows: Ints,
    first: Ints,
    by_name: Ints,
    width: int,
    desk: Desk,
    plan: Int32s,
    co2_g: Floats,
    proven: Bools,
) -> None:
    """Plan every session as if it were alone.

    Args:
        s: Fleet and rules.
        world: All turns.
        turns: (N,) of TURN, those of `world` session after session, in turn order.
        rows: int64 (N,), their places in `world`.
        first: int64 (K + 1,), session i has ``turns[first[i]:first[i + 1]]``.
        by_name: int64 (D,), the deployments in the order of names.
        width: Most partial plans kept a turn.
        desk: Of this width, for sessions of this length.
        plan: int32 (N,), out: the deployment of each turn, by row of `world`.
        co2_g: float64 (K,), out: of each session, gCO2eq.
        proven: bool (K,), out: no plan of the session emits less.
    """
    for i in range(first.shape[0] - 1):
        co2_g[i] = 0.0
        proven[i] = True
        start = first[i]
        while start < first[i + 1]:
            stop = start + 1
            while (
                stop < first[i + 1]
                and turns[stop]["arrival_s"] - turns[stop - 1]["arrival_s"] <= s.cache_ttl_s
            ):
                stop += 1
            stretch_g, complete = _plan_stretch(
                s, world, turns[start:stop], rows[start:stop], by_name, width, desk, plan
            )
            co2_g[i] += stretch_g
            proven[i] &= complete
            start = stop
