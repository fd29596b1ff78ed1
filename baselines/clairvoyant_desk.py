"""What the search behind `clairvoyant` knows of a stretch, and the room that it works in.

A *stretch* is a run of a session's turns without a gap above the cache TTL; nothing stays cached
across such a gap, so stretches are planned alone. A turn is *forced* if no deployment keeps the
TTFT bound there without a cache: best effort may bind, and a plan with more cached has then other
choices, not only better ones.

How the functions are compiled, and what that forbids: `carbon_gym.simulator.jit`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carbon_gym.simulator.arrays import NOWHERE, Bools, Floats, Int32s, Ints, Static, Turns
from carbon_gym.simulator.jit import inlined, kernel
from carbon_gym.simulator.pricing import (
    energy_of,
    filter_models,
    fresh_tokens,
    intensity_with_pue,
    ttft_of,
    usable_tokens,
)


class Desk(NamedTuple):
    """Room to work in, for one stretch after another.

    T turns of the longest session, D deployments, M models, R regions, W width. Candidates are
    the deployments worth a thought in the stretch, k = 0, 1, ..., in the order of names.
    """

    model_admissible: Bools  # (T, M)
    facility_intensity: Floats  # (T, R) gCO2eq/kWh, the account's
    held_tokens: Floats  # (T,) where the turn was served
    shortest_s: Floats  # (T,) least TTFT of an admissible deployment without a cache
    candidate: Ints  # (D,) deployment of candidate k
    spare: Bools  # (D,) another candidate can replace k in every plan (but for forced turns)
    admissible: Bools  # (T, D) candidate k at the turn
    last: Int32s  # (2, W + 1, D) turn that candidate k served last, or NOWHERE
    used_spare: Bools  # (2, W + 1) the plan has used a spare candidate
    co2_g: Floats  # (2, W + 1) of the plan so far
    parent: Int32s  # (T, W + 1) the plan that this one goes on from
    pick: Int32s  # (T, W + 1) candidate of the plan's newest turn
    heap_g: Floats  # (W·D + 1,) CO2 of the plans that go on, a binary heap
    heap_id: Ints  # (W·D + 1,) parent · candidates + candidate


def desk(static: Static, turns: int, width: int) -> Desk:
    """An empty desk for sessions of at most `turns` turns."""
    deployments, models, regions = (
        len(static.model),
        len(static.context_tokens),
        len(static.pue),
    )
    return Desk(
        model_admissible=np.zeros((turns, models), dtype=np.bool_),
        facility_intensity=np.zeros((turns, regions)),
        held_tokens=np.zeros(turns),
        shortest_s=np.zeros(turns),
        candidate=np.zeros(deployments, dtype=np.int64),
        spare=np.zeros(deployments, dtype=np.bool_),
        admissible=np.zeros((turns, deployments), dtype=np.bool_),
        last=np.zeros((2, width + 1, deployments), dtype=np.int32),
        used_spare=np.zeros((2, width + 1), dtype=np.bool_),
        co2_g=np.zeros((2, width + 1)),
        parent=np.zeros((turns, width + 1), dtype=np.int32),
        pick=np.zeros((turns, width + 1), dtype=np.int32),
        heap_g=np.zeros(width * deployments + 1),
        heap_id=np.zeros(width * deployments + 1, dtype=np.int64),
    )


@inlined
def turn_co2_g(s: Static, turn: np.void, intensity: Floats, d: int, cached: float) -> float:
    """What the account will say of a turn, with its true reply, gCO2eq (SPEC §2)."""
    fresh = fresh_tokens(turn["history_tokens"], cached, turn["prompt_tokens"])
    energy = energy_of(s, d, cached, fresh, turn["output_tokens"])
    co2_g: float = intensity[s.region[d]] * energy
    return co2_g


@inlined
def turn_ttft_s(s: Static, turn: np.void, d: int, cached: float) -> float:
    """Time to first token of a turn, s."""
    fresh = fresh_tokens(turn["history_tokens"], cached, turn["prompt_tokens"])
    return ttft_of(s, d, fresh)


@inlined
def cached_tokens(turns: NDArray[np.void], s: Static, desk: Desk, last: int, t: int) -> float:
    """C at turn t of a deployment that served turn `last` of the stretch last."""
    cached = 0.0
    if last != NOWHERE:
        idle_s = turns[t]["arrival_s"] - turns[last]["arrival_s"]
        cached = usable_tokens(s, desk.held_tokens[last], idle_s, turns[t]["history_tokens"])
    return cached


@inlined
def read_turns(s: Static, world: Turns, turns: NDArray[np.void], rows: Ints, desk: Desk) -> int:
    """Put what is known of the stretch's turns on the desk; the last forced turn, or NOWHERE."""
    last_forced = NOWHERE
    for t in range(turns.shape[0]):
        turn = turns[t]
        asked = turn["history_tokens"] + turn["prompt_tokens"]
        filter_models(
            s,
            world.quality_predicted[rows[t]],
            asked + turn["predicted_output_tokens"],
            desk.model_admissible[t],
        )
        published = world.intensity[turn["account_step"]]
        for r in range(s.pue.shape[0]):
            desk.facility_intensity[t, r] = intensity_with_pue(s, published, r)
        desk.held_tokens[t] = asked + turn["output_tokens"]
        shortest_s = np.inf
        for d in range(s.model.shape[0]):
            ttft_s = turn_ttft_s(s, turn, d, 0.0)
            if desk.model_admissible[t, s.model[d]]:
                shortest_s = min(shortest_s, ttft_s)
        desk.shortest_s[t] = shortest_s
        if shortest_s > s.ttft_bound_s:
            last_forced = t
    return last_forced


@inlined
def _replaces(s: Static, desk: Desk, turns: int, e: int, d: int, earlier: bool) -> bool:
    """Whether serving on e whatever a plan serves on d makes no plan worse.

    It does if e is admissible wherever d is, and emits no more per token and is no slower there:
    e then has the caches of both. Of two that replace each other the `earlier` one does.
    """
    if s.prefill_s_per_token[e] > s.prefill_s_per_token[d] or s.round_trip_s[e] > s.round_trip_s[d]:
        return False
    better = (
        earlier
        or s.prefill_s_per_token[e] < s.prefill_s_per_token[d]
        or s.round_trip_s[e] < s.round_trip_s[d]
    )
    for t in range(turns):
        if desk.model_admissible[t, s.model[d]]:
            if not desk.model_admissible[t, s.model[e]]:
                return False
            of_e = desk.facility_intensity[t, s.region[e]] * s.energy_kwh_per_token[e]
            of_d = desk.facility_intensity[t, s.region[d]] * s.energy_kwh_per_token[d]
            if of_e > of_d:
                return False
            better |= of_e < of_d
        else:
            better |= desk.model_admissible[t, s.model[e]]
    return better


@kernel
def choose_candidates(
    s: Static, desk: Desk, turns: int, by_name: Ints, growing: bool, forced: bool
) -> int:
    """The deployments that a plan of the stretch may need; their number.

    Those that another one can replace are left out, or marked as spare if the stretch is forced.
    The argument needs caches that only grow (a client may trim the history that it sends back).
    """
    count = 0
    for i in range(by_name.shape[0]):
        d = by_name[i]
        for t in range(turns):
            if desk.model_admissible[t, s.model[d]]:
                desk.candidate[count] = d
                desk.spare[count] = False
                count += 1
                break
    if growing:
        for k in range(count):
            for i in range(count):
                e, d = desk.candidate[i], desk.candidate[k]
                if i != k and _replaces(s, desk, turns, e, d, i < k):
                    desk.spare[k] = True
                    break
        if not forced:
            kept = 0
            for k in range(count):
                if not desk.spare[k]:
                    desk.candidate[kept] = desk.candidate[k]
                    desk.spare[kept] = False
                    kept += 1
            count = kept
    for t in range(turns):
        for k in range(count):
            desk.admissible[t, k] = desk.model_admissible[t, s.model[desk.candidate[k]]]
    return count
