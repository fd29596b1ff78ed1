"""Which pools have room for a turn (SPEC §3, §10), recounted from the whole history each time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from carbon_gym.scenario.schema import Capacity

Unit = tuple[str, ...]
"""What a capacity bounds: (GPU, region) with scope pool, (region,) with scope region."""


@dataclass
class Served:
    """One turn of the past."""

    session: int
    arrival_s: float
    unit: Unit


def unit_of(gpu: str, region: str, capacity: Capacity) -> Unit:
    """The unit whose capacity a deployment uses."""
    if capacity.scope == "pool":
        return (gpu, region)
    return (region,)


def limit_of(share: float, limit: float, count: int) -> int:
    """ceil(share · c · count - 1e-9) (SPEC §3, §10)."""
    return math.ceil(share * limit * count - 1e-9)


def active_units(history: Sequence[Served], now_s: float, residency_s: float) -> dict[int, Unit]:
    """Unit of every active session: the one that served its last turn, if recent enough."""
    last: dict[int, Served] = {}
    for turn in history:
        last[turn.session] = turn
    active: dict[int, Unit] = {}
    for session, turn in last.items():
        if now_s - turn.arrival_s <= residency_s:
            active[session] = turn.unit
    return active


def units_with_room(
    shares: dict[Unit, float],
    history: Sequence[Served],
    session: int,
    now_s: float,
    capacity: Capacity,
) -> dict[Unit, bool]:
    """Whether each unit may serve a turn of `session` that arrives now."""
    if capacity.limit is None:
        return dict.fromkeys(shares, True)
    if capacity.rule == "sessions":
        return _room_by_sessions(
            shares, history, session, now_s, capacity.limit, capacity.residency_s
        )
    return _room_by_turns(shares, history, now_s, capacity.limit, capacity.slot_s)


def _room_by_sessions(
    shares: dict[Unit, float],
    history: Sequence[Served],
    session: int,
    now_s: float,
    limit: float,
    residency_s: float,
) -> dict[Unit, bool]:
    active = active_units(history, now_s, residency_s)
    fleet_sessions = len(set(active) | {session})
    room: dict[Unit, bool] = {}
    for unit, share in shares.items():
        here = [other for other, place in active.items() if place == unit]
        if session in here:
            room[unit] = True
        else:
            room[unit] = len(here) < limit_of(share, limit, fleet_sessions)
    return room


def _room_by_turns(
    shares: dict[Unit, float],
    history: Sequence[Served],
    now_s: float,
    limit: float,
    slot_s: float,
) -> dict[Unit, bool]:
    window = [turn for turn in history if now_s - turn.arrival_s <= slot_s]
    arrived = len(window) + 1
    room: dict[Unit, bool] = {}
    for unit, share in shares.items():
        served_here = len([turn for turn in window if turn.unit == unit])
        room[unit] = served_here + 1 <= limit_of(share, limit, arrived)
    return room
