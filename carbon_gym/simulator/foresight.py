"""What a bound may see that no router can: every session to its end (SPEC §6, clairvoyant).

`carbon_gym.simulator.run.run_policy` hands the simulator to policies with a method `foresee`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from carbon_gym.simulator.allocate import empty_ledger, empty_state, quotes_of
from carbon_gym.simulator.arrays import Ints, Static, Turns
from carbon_gym.simulator.simulator import Simulator


@dataclass(frozen=True, slots=True, eq=False)
class Foresight:
    """The turns of a run, session by session. N turns, K session slots.

    Attributes:
        static: Fleet and rules.
        world: All turns, with their replies, qualities and carbon intensity.
        rows: int64 (N,), ledger rows by session, each session's in turn order.
        first: int64 (K + 1,), the session of slot k has ``rows[first[k]:first[k + 1]]``.
    """

    static: Static
    world: Turns
    rows: Ints
    first: Ints

    def rows_of(self, slots: Ints) -> Ints:
        """Ledger rows of some sessions, one session after the other, int64."""
        parts = [self.rows[self.first[k] : self.first[k + 1]] for k in slots]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def foresight(simulator: Simulator) -> Foresight:
    """Everything that a simulator will be asked to serve; the simulator is left as it is."""
    turn = simulator._turns.turn
    first = np.zeros(simulator.slots + 1, dtype=np.int64)
    np.cumsum(np.bincount(turn["slot"], minlength=simulator.slots), out=first[1:])
    return Foresight(
        static=simulator._static,
        world=simulator._turns,
        rows=np.lexsort((turn["turn"], turn["slot"])),
        first=first,
    )


def alone(simulator: Simulator, seen: Foresight, slots: Ints) -> Simulator:
    """A simulator of some sessions, each in a lane of its own, from their first turns on.

    There is no capacity and no memory pressure. It gives what it would give if it were made of
    traces of these sessions, at a fraction of the work.

    Args:
        simulator: Whose sessions; it is left as it is.
        seen: Its foresight.
        slots: int64 (B,), session slots; lane b serves that of ``slots[b]``.

    Returns:
        The simulator; its ledger's rows are ``seen.rows_of(slots)``.
    """
    rows = seen.rows_of(slots)
    lengths = np.diff(seen.first)[slots]
    turn = seen.world.turn[rows]
    turn["slot"] = np.repeat(np.arange(len(slots)), lengths)
    part = copy.copy(simulator)
    part._static = seen.static._replace(
        capacity_limit=-1.0,
        kv_room_bytes=np.full(len(simulator.fleet), np.inf),
        bounded_memory=False,
        one_session=True,
    )
    part._turns = seen.world.at(rows)._replace(turn=turn, session_key=seen.world.session_key[slots])
    part.quality_predicted = part._turns.quality_predicted
    part.quality_realised = part._turns.quality_realised
    part.bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    part._state = empty_state(part._static, part.fleet, part.bounds, len(slots))
    part.ledger = empty_ledger(len(rows))
    part._quotes = quotes_of(part._static, part.fleet, len(slots))
    part._quoted = False
    part._steps_left = part._longest_lane()
    return part
