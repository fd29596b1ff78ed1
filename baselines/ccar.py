"""CCAR: cache-aware carbon routing with a gate (SPEC §5; PUBLISHED in kind, §3.7 of the paper)."""

from __future__ import annotations

import numpy as np

from baselines.gate import Gate
from baselines.narrowing import per_query
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.quotes import Quotes


class CCAR:
    """Propose the cheapest feasible quote; let the gate keep a session where it is cached.

    The gate is asked where the proposal leaves the deployment p of the previous turn, p is
    feasible, and p caches some of the history.

    Args:
        pricing: Price the caches. False blinds the estimates of CO2 and TTFT (C = 0); with both
            ablations CCAR equals FairCarbon turn by turn.
        gate: None: every proposal is taken.
        name: In tables.

    Attributes:
        gate_proposals: int64 (slots,), how often the gate was asked, by session.
        gate_blocks: int64 (slots,), how often it stayed.
    """

    def __init__(self, pricing: bool = True, gate: Gate | None = None, name: str = "ccar") -> None:
        self.pricing = pricing
        self.gate = gate
        self.name = name
        self.gate_proposals: Ints = np.zeros(0, dtype=np.int64)
        self.gate_blocks: Ints = np.zeros(0, dtype=np.int64)

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Forget the counts of the last run."""
        self.gate_proposals = np.zeros(slots, dtype=np.int64)
        self.gate_blocks = np.zeros(slots, dtype=np.int64)

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest feasible deployment, best effort included, unless the gate stays."""
        seen = quotes if self.pricing else quotes.cache_blind()
        choice = seen.cheapest()
        if self.gate is None:
            return choice
        lanes = switches_to_judge(seen, choice)
        if len(lanes):
            stay, slots = quotes.previous[lanes], quotes.slot[lanes]
            blocked = self.gate.stays(seen, lanes, stay, choice[lanes])
            self.gate_proposals[slots] += 1
            self.gate_blocks[slots[blocked]] += 1
            choice[lanes[blocked]] = stay[blocked]
        return choice


def switches_to_judge(quotes: Quotes, choice: Ints) -> Ints:
    """Lanes whose choice leaves a feasible deployment that caches some of the history (SPEC §5)."""
    lanes = np.arange(quotes.lanes)
    previous = np.maximum(quotes.previous, 0)
    asked = (quotes.previous != NOWHERE) & (quotes.row != NOWHERE) & (choice != quotes.previous)
    asked &= quotes.feasible[lanes, previous] & (quotes.cached_tokens[lanes, previous] > 0)
    return np.flatnonzero(asked)
