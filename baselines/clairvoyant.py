"""Clairvoyant: what could be saved by a router that knew each session to its end (SPEC §6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from baselines.clairvoyant_desk import desk
from baselines.clairvoyant_search import plan_sessions
from carbon_gym.doors import make_policy
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.policy import Policy
from carbon_gym.router.policy import RouterPolicy
from carbon_gym.simulator.arrays import NOWHERE, Bools, Floats, Int32s, Ints
from carbon_gym.simulator.foresight import Foresight, alone, foresight
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.shadow import shadow_of
from carbon_gym.simulator.simulator import Simulator

WIDTH = 32
"""Partial plans kept a turn. Converged (DERIVED, `carbon-gym clairvoyant`, 8 validation fleets): on
each of sharegpt, sharechat, their -evict and -long forms and congested, a doubling to this width or
one below gained less than 0.1 % of the total."""
OUTSIDE_THE_RULES = ("session-hash", "carbon-greedy", "largest-model", "smallest-model")
"""Policies that SPEC §6 frees from the quality filter or the TTFT bound: no seeds."""
_ROUNDING = 1e-12
_LANES = 256  # sessions that a seed serves side by side


class Clairvoyant:
    """Every session on its cheapest plan, with its future turns, replies and CI known.

    No capacity and no memory pressure: sessions do not meet, and each is planned alone by a beam
    search (`baselines.clairvoyant_search`). The quality filter is that of every router, with ô; so
    is the TTFT bound, with the caches of the plan. Where no deployment keeps it, best effort allows
    those of the shortest TTFT; which of several equally short ones is free.

    A session whose plan is not proven optimal also tries the plans of the online policies. One
    counts only if these rules allow each of its turns. Without capacity, hence, no policy emits
    less on a session on which it keeps the rules. (GAR-PD and cache-aware look at other sessions
    as well; as seeds they see one at a time.) A policy that is blind to caches, or that takes the
    bound for a price, may break the TTFT rule on a session and emit less there.

    Args:
        width: Most partial plans kept a turn.
        seeds: Policies to try; None: those of the registry that keep the rules and can be made
            for the scenario.

    Attributes:
        planned_co2_g: float64 (slots,), CO2 of each session's plan, gCO2eq.
        searched_co2_g: float64 (slots,), the same before the seeds.
        proven: bool (slots,), no plan of the session emits less.
        seeded: bool (slots,), the plan is that of a seed.
    """

    name = "clairvoyant"
    unbounded = True
    """The simulator gives it no capacity limit and no memory pressure."""

    def __init__(self, width: int = WIDTH, seeds: Sequence[Policy] | None = None) -> None:
        if width < 1:
            raise InputError(f"clairvoyant: width = {width} is not allowed; use 1 or more")
        self.width = width
        self.seeds = seeds
        self._plan: Int32s = np.zeros(0, dtype=np.int32)

    def foresee(self, simulator: Simulator) -> None:
        """Plan all sessions, under the filter in any scenario; the simulator is left as it is."""
        simulator = shadow_of(simulator)
        seen = foresight(simulator)
        s = seen.static
        if s.capacity_limit >= 0.0 or s.bounded_memory or s.full_cache:
            raise ValueError(
                "clairvoyant plans for a simulator without capacity limit and memory pressure; "
                "make it with unbounded=True"
            )
        self._plan = np.full(len(seen.rows), NOWHERE, dtype=np.int32)
        self.searched_co2_g = np.zeros(simulator.slots)
        self.proven: Bools = np.zeros(simulator.slots, dtype=np.bool_)
        plan_sessions(
            s,
            seen.world,
            seen.world.turn[seen.rows],
            seen.rows,
            seen.first,
            np.argsort(s.name_rank),
            self.width,
            desk(s, int(np.diff(seen.first).max(initial=0)), self.width),
            self._plan,
            self.searched_co2_g,
            self.proven,
        )
        self.planned_co2_g = self.searched_co2_g.copy()
        self.seeded: Bools = np.zeros(simulator.slots, dtype=np.bool_)
        open_slots = np.flatnonzero(~self.proven)
        if len(open_slots):
            seeds = registry_seeds(simulator) if self.seeds is None else self.seeds
            plan, co2_g = cheapest_seeds(simulator, seen, open_slots, seeds)
            # Sums of the same turns in another order differ in their last digits: no gain.
            better = co2_g < self.planned_co2_g[open_slots] * (1.0 - _ROUNDING)
            taken = open_slots[better]
            self.planned_co2_g[taken] = co2_g[better]
            self.seeded[taken] = True
            rows = seen.rows_of(taken)
            self._plan[rows] = plan[rows]

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Begin a run of the plan; there is nothing to forget."""

    def choose(self, quotes: Quotes) -> Ints:
        """What the plan says of these turns."""
        return self._plan[quotes.row].astype(np.int64)


def registry_seeds(simulator: Simulator) -> list[Policy]:
    """The online policies that keep quality filter and TTFT rule, with the scenario's knobs."""
    from baselines import POLICIES

    seeds: list[Policy] = []
    for name in POLICIES:
        if name in OUTSIDE_THE_RULES:
            continue
        try:
            policy = make_policy(name, simulator.scenario)
        except InputError:  # its knobs were tuned for no such scenario
            continue
        bound = getattr(policy, "full_cache", False) or getattr(policy, "unbounded", False)
        bound = bound or hasattr(policy, "foresee")  # such as a log that is replayed
        if not (bound or isinstance(policy, RouterPolicy)):  # that one sees whole fleets
            seeds.append(policy)
    return seeds


def cheapest_seeds(
    simulator: Simulator, seen: Foresight, slots: Ints, seeds: Sequence[Policy]
) -> tuple[Int32s, Floats]:
    """Serve some sessions by each seed, alone, and keep the cheapest of what the rules allow.

    Args:
        simulator: Whose sessions.
        seen: Its foresight.
        slots: int64 (n,), session slots.
        seeds: The policies.

    Returns:
        int32 (N,), deployments by ledger row (-1 where no seed has a plan), and float64 (n,), the
        CO2 of each session, gCO2eq (inf where no seed has a plan).
    """
    plan = np.full(len(seen.rows), NOWHERE, dtype=np.int32)
    best_g = np.full(len(slots), np.inf)
    for part in _of_like_length(np.diff(seen.first)[slots]):
        lanes = alone(simulator, seen, slots[part])
        rows = seen.rows_of(slots[part])
        length = np.diff(lanes.bounds)
        for seed in seeds:
            lanes.reset()
            allowed = _serve(lanes, seed)
            co2_g = np.add.reduceat(lanes.ledger["co2_g"], lanes.bounds[:-1])
            better = allowed & (co2_g < best_g[part])
            best_g[part[better]] = co2_g[better]
            taken = np.repeat(better, length)
            plan[rows[taken]] = lanes.ledger["deployment"][taken]
    return plan, best_g


def _of_like_length(turns: Ints) -> Iterator[Ints]:
    """Places of the sessions in groups of similar length: lanes end together, little idles."""
    order = np.argsort(turns, kind="stable")
    order = order[turns[order] > 0]
    for start in range(0, len(order), _LANES):
        yield order[start : start + _LANES]


def _serve(lanes: Simulator, policy: Policy) -> Bools:
    """Run a policy; bool (B,), the rules allow each turn of the lane's session."""
    policy.reset(lanes.fleet, lanes.slots)
    every = np.arange(lanes.lanes)
    allowed = np.ones(lanes.lanes, dtype=np.bool_)
    quotes = lanes.quote()
    while not lanes.done:
        actions = policy.choose(quotes)
        ttft_s = np.where(quotes.admissible, quotes.ttft_s, np.inf)
        bound_s = np.maximum(quotes.ttft_bound_s, ttft_s.min(axis=1))
        chosen_s = ttft_s[every, np.maximum(actions, 0)]
        allowed &= (chosen_s <= bound_s) | (quotes.row == NOWHERE)
        quotes = lanes.step(actions)
    return allowed
