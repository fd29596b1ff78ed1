"""Which sessions of a conversation file are evaluated on which day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from carbon_gym import draws
from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import Seeds, Split, Splits
from carbon_gym.workload.arrivals import DAY_S
from carbon_gym.workload.split import split_code, split_of
from carbon_gym.workload.trace import Conversations, Ints

DEFAULT_SESSIONS: Final = 3000
"""Sessions per day where none are asked for (ASSUMED, as `Workload.sessions_per_fleet`)."""


@dataclass(frozen=True, slots=True)
class Days:
    """Sessions of every evaluation day.

    Attributes:
        sessions: Per day, indices into the conversations, int64, ascending.
        notes: What was repeated or left out.
    """

    sessions: tuple[Ints, ...]
    notes: tuple[str, ...] = ()


def evaluation_days(
    conversations: Conversations,
    days: int,
    splits: Splits,
    seeds: Seeds,
    split: Split | None = None,
    sessions_per_fleet: int | None = None,
    min_turns: int = 1,
    once: bool = False,
) -> Days:
    """Deal the sessions of a file to N days.

    Without arrivals, sessions are shuffled by a keyed draw and dealt to the days in turn, going
    round, so that none repeats within a day; every one is evaluated at least once unless
    `sessions_per_fleet` asks for too few. A day takes `sessions_per_fleet` sessions, or
    max(min(S, 3000), ceil(S / N)); with `once` the file is cut into N days, so that every session
    is evaluated exactly once.

    With arrivals, a session belongs to the day (UTC, or since the start of the trace) of its
    first turn; the first N days count. `sessions_per_fleet` then only thins a day, by a keyed draw.

    Args:
        conversations: The file.
        days: N, at least 1.
        splits: Shares of the split hash.
        seeds: `split` for the hash, `arrivals` for the dealing.
        split: Only sessions of this split; None: all.
        sessions_per_fleet: Sessions per day; None: see above.
        min_turns: Only sessions with at least so many turns in the file.
        once: Where `sessions_per_fleet` is None and there are no arrivals, no session repeats.

    Raises:
        InputError: If no session is left, or days or sessions are not positive.
    """
    if days < 1:
        raise InputError(f"days: {days} given; at least 1 is needed")
    if sessions_per_fleet is not None and sessions_per_fleet < 1:
        raise InputError(f"sessions: {sessions_per_fleet} given; at least 1 is needed")
    chosen = eligible_sessions(conversations, splits, seeds, split, min_turns)
    notes = []
    if len(chosen) < conversations.sessions:
        notes.append(
            f"{len(chosen)} of {conversations.sessions} sessions are "
            f"{split or 'taken'}{f' with at least {min_turns} turns' if min_turns > 1 else ''}"
        )
    if conversations.arrival_s is None:
        dealt, more = _deal(conversations, chosen, days, sessions_per_fleet, seeds, once)
    else:
        dealt, more = _by_arrival(conversations, chosen, days, sessions_per_fleet, seeds)
    return Days(dealt, (*notes, *more))


def eligible_sessions(
    conversations: Conversations, splits: Splits, seeds: Seeds, split: Split | None, min_turns: int
) -> Ints:
    """Indices of the sessions of a split with at least `min_turns` turns in the file, int64.

    Raises:
        InputError: If there is none.
    """
    fits = np.diff(conversations.offsets) >= min_turns
    if split is not None:
        fits &= split_of(conversations.session_key, splits, seeds.split) == split_code(split)
    chosen = np.flatnonzero(fits)
    if len(chosen) == 0:
        raise InputError(
            f"{conversations.source}: none of {conversations.sessions} sessions is "
            f"{f'in the {split} split and ' if split else ''}at least {min_turns} turns long; "
            "take another split, a smaller min_turns or a larger file"
        )
    return chosen


def day_of_sessions(conversations: Conversations) -> Ints:
    """Day of every session's first turn, counted from the first day of the file, int64 (S,).

    Days are UTC days for calendar arrivals, else days since the start of the trace.
    """
    assert conversations.arrival_s is not None
    starts = conversations.arrival_s[conversations.offsets[:-1]]
    day = np.floor(starts / DAY_S).astype(np.int64)
    if conversations.absolute_time and len(day):
        day -= day.min()
    return day


def keyed_order(keys: NDArray[np.uint64], seed: int, stream: str, component: int = 0) -> Ints:
    """A shuffle in which the order of two sessions depends on their keys only, int64 (S,)."""
    return np.argsort(draws.bits(seed, stream, keys, 0, component), kind="stable")


def _deal(
    conversations: Conversations,
    chosen: Ints,
    days: int,
    wanted: int | None,
    seeds: Seeds,
    once: bool,
) -> tuple[tuple[Ints, ...], tuple[str, ...]]:
    total = len(chosen)
    order = keyed_order(conversations.session_key[chosen], seeds.arrivals, "deal")
    shuffled = chosen[order]
    if wanted is None and once:
        parts = np.split(shuffled, np.linspace(0, total, days + 1).astype(np.int64)[1:-1])
        note = (
            f"{total} sessions dealt to {days} days, each once, by a keyed draw (seeds.arrivals = "
            f"{seeds.arrivals})"
        )
        return tuple(np.sort(part) for part in parts), (note,)
    if wanted is None:
        size = max(min(total, DEFAULT_SESSIONS), -(-total // days))
    else:
        size = min(wanted, total)
    dealt = tuple(np.sort(shuffled[(np.arange(size) + day * size) % total]) for day in range(days))
    note = (
        f"{total} sessions dealt to {days} days of {size} by a keyed draw (seeds.arrivals = "
        f"{seeds.arrivals})"
    )
    if days * size < total:
        note += f"; {total - days * size} sessions are not evaluated"
    elif days * size > total:
        note += f"; each is evaluated {days * size / total:.2f} times on average"
    return dealt, (note,)


def _by_arrival(
    conversations: Conversations, chosen: Ints, days: int, wanted: int | None, seeds: Seeds
) -> tuple[tuple[Ints, ...], tuple[str, ...]]:
    day = day_of_sessions(conversations)[chosen]
    late = int(np.count_nonzero(day >= days))
    if late == len(chosen):
        raise InputError(
            f"{conversations.source}: all {late} sessions start after the first {days} days "
            f"(the earliest on day {int(day.min()) + 1}); ask for more days"
        )
    notes = []
    if late:
        notes.append(f"{late} sessions start after the first {days} days and are left out")
    dealt = []
    thinned = 0
    for number in range(days):
        today = chosen[day == number]
        if wanted is not None and len(today) > wanted:
            thinned += len(today) - wanted
            order = keyed_order(conversations.session_key[today], seeds.arrivals, "deal", number)
            today = np.sort(today[order[:wanted]])
        dealt.append(today)
    if thinned:
        notes.append(
            f"{thinned} sessions left out by a keyed draw to keep {wanted} a day (seeds.arrivals "
            f"= {seeds.arrivals})"
        )
    return tuple(dealt), tuple(notes)
