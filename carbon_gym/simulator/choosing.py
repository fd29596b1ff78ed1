"""The one rule that most policies share: the cheapest feasible deployment (SPEC §3, §5)."""

from __future__ import annotations

import numpy as np

from carbon_gym.simulator.arrays import NOWHERE, Bools, Floats, Ints
from carbon_gym.simulator.jit import inlined

FEASIBLE, LATE, OVERFULL = 0, 1, 2
"""How `cheapest` found its deployment: within all bounds; best effort against the TTFT bound;
outside capacity because no pool with room has an admissible model."""


@inlined
def _before(
    first_a: float, second_a: float, rank_a: int, first_b: float, second_b: float, rank_b: int
) -> bool:
    """Whether key a sorts before key b."""
    if first_a != first_b:
        return first_a < first_b
    if second_a != second_b:
        return second_a < second_b
    return rank_a < rank_b


@inlined
def _least(co2_g: Floats, feasible: Bools) -> tuple[int, int]:
    """Where the least CO2 of the feasible deployments is, and how many have it."""
    low, where, many = np.inf, 0, 0
    for d in range(co2_g.shape[0]):
        low = min(low, co2_g[d] if feasible[d] else np.inf)
    for d in range(co2_g.shape[0]):
        found = feasible[d] & (co2_g[d] == low)
        where += d if found else 0
        many += 1 if found else 0
    return where, many


@inlined
def cheapest_of_lane(
    rank: Ints,
    co2_g: Floats,
    ttft_s: Floats,
    feasible: Bools,
    available: Bools,
    admissible: Bools,
) -> tuple[int, int]:
    """The cheapest feasible deployment of a lane, and how it was found; see `kernels.cheapest`."""
    where, many = _least(co2_g, feasible)
    if many == 1 and admissible[where]:
        return where, FEASIBLE
    best, found = NOWHERE, OVERFULL
    for d in range(rank.shape[0]):
        if not admissible[d]:
            continue
        kind = OVERFULL
        if available[d]:
            kind = FEASIBLE if feasible[d] else LATE
        if best == NOWHERE or kind < found:
            better = True
        elif kind > found:
            better = False
        elif kind == FEASIBLE:
            better = _before(co2_g[d], ttft_s[d], rank[d], co2_g[best], ttft_s[best], rank[best])
        else:
            better = _before(ttft_s[d], co2_g[d], rank[d], ttft_s[best], co2_g[best], rank[best])
        if better:
            best, found = d, kind
    return best, found
