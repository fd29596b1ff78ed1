"""The other traffic that a lone conversation meets: taken from a run of whole fleets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carbon_gym.doors import make_policy
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.policy import Policy
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.simulator.arrays import (
    NOWHERE,
    FloatTable,
    Int32Table,
    Ints,
    Turns,
)
from carbon_gym.simulator.jit import kernel
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.simulator import Simulator

REFERENCE = "reference"
"""Name of the scenario's own background: every turn goes to its cheapest feasible quote; under a
quality budget to the best by the price of quality that validation found, `ccar-budget-fixed`."""
UNDER_BUDGET = "ccar-budget-fixed"


class Reference:
    """Every turn to its cheapest feasible quote, best effort included (SPEC §5)."""

    name = REFERENCE

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Nothing is kept."""

    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest feasible deployment."""
        return quotes.cheapest()


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """What a run of whole fleets left behind, by ledger row of the fleets (N turns).

    Attributes:
        deployment: int64 (N,), where each turn was served.
        others: int32 (N, U), at each turn, the active sessions of others, or under the rule
            `turns` the turns of others in the trailing slot.
        evicted_until_s: float64 (N, D), by the time of each turn: the latest last use of a cache
            that memory pressure evicted there, -inf for none. Caches go in the order of their last
            use, so that one used later has survived. (1, D) where no memory pressure occurred.
        co2_g: float64 (N,), of each turn.
    """

    deployment: Ints
    others: Int32Table
    evicted_until_s: FloatTable
    co2_g: NDArray[np.float64]


def background_policy(name: str, scenario: Scenario) -> Policy:
    """The policy that makes a background.

    Raises:
        InputError: Unknown, or one that knows the future and so can serve no fleet.
    """
    policy: Policy
    if name == REFERENCE and scenario.bounds.quality_constraint == "filter":
        policy = Reference()
    else:
        policy = make_policy(UNDER_BUDGET if name == REFERENCE else name, scenario)
    if any(hasattr(policy, it) for it in ("foresee", "full_cache", "unbounded")):
        raise InputError(
            f"background = {name!r} is a bound, not a router; name a policy, or 'reference'"
        )
    return policy


def run_background(simulator: Simulator, name: str) -> Background:
    """Serve all fleets by the policy `name` and note what each turn meets.

    Args:
        simulator: Its lanes are fleets; left finished.
        name: Of the policy, or "reference".
    """
    background = _run(simulator, name, pressure=False)
    if np.isneginf(simulator._state.pools["evicted_until_s"]).all():
        return background
    simulator.reset()
    return _run(simulator, name, pressure=True)


def _run(simulator: Simulator, name: str, pressure: bool) -> Background:
    static, turns = simulator._static, simulator._turns
    rows, deployments = len(simulator.ledger), len(simulator.fleet)
    others = np.zeros((rows, len(simulator.fleet.unit_share)), dtype=np.int32)
    evicted_until_s = np.full((rows if pressure else 1, deployments), -np.inf)
    policy = background_policy(name, simulator.scenario)
    if hasattr(policy, "accompany"):
        policy.accompany(simulator)
    policy.reset(simulator.fleet, simulator.slots)
    quotes = simulator.quote()
    while not simulator.done:
        _note(quotes.row, quotes.unit_load, simulator._state.pools, others, evicted_until_s)
        quotes = simulator.step(policy.choose(quotes))
    deployment = simulator.ledger["deployment"].astype(np.int64)
    if static.by_turns:
        _without_own(
            turns.turn, deployment, static.unit, static.slot_s, _rows_before(turns), others
        )
    return Background(deployment, others, evicted_until_s, simulator.ledger["co2_g"].copy())


def _rows_before(turns: Turns) -> Ints:
    """Row of the session's previous turn, or NOWHERE."""
    order = np.lexsort((turns.turn["turn"], turns.turn["slot"]))
    slot = turns.turn["slot"][order]
    before = np.full(len(order), NOWHERE, dtype=np.int64)
    same = slot[1:] == slot[:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


@kernel
def _note(
    row: Ints,
    unit_load: NDArray[np.int64],
    pools: NDArray[np.void],
    others: Int32Table,
    evicted_until_s: FloatTable,
) -> None:
    """Write what the quoted turn of every lane meets."""
    for b in range(row.shape[0]):
        if row[b] == NOWHERE:
            continue
        for u in range(others.shape[1]):
            others[row[b], u] = unit_load[b, u]
        if evicted_until_s.shape[0] > 1:
            for d in range(evicted_until_s.shape[1]):
                evicted_until_s[row[b], d] = pools[b, d]["evicted_until_s"]


@kernel
def _without_own(
    turn: NDArray[np.void],
    deployment: Ints,
    unit: NDArray[np.uint32],
    slot_s: float,
    before: Ints,
    others: Int32Table,
) -> None:
    """Take a session's own turns out of the trailing slot of each of its turns."""
    for row in range(turn.shape[0]):
        own = before[row]
        while own != NOWHERE and turn[row]["arrival_s"] - turn[own]["arrival_s"] <= slot_s:
            others[row, unit[deployment[own]]] -= 1
            own = before[own]
