"""Measuring works in turn, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from statistics import median

Work = Callable[[], tuple[float, float]]
"""Does something and returns how much it did and in how many seconds."""
Bar = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Shows progress: called with a title and the total, it yields what counts up to it."""

clock_s: Callable[[], float] = time.perf_counter
"""The clock of every measurement, s."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure.

    Attributes:
        name: What was measured.
        value: Median of the repeats.
        low: Smallest.
        high: Largest.
        unit: Of the three.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str


def measurement(name: str, values: Sequence[float], unit: str) -> Measurement:
    """Median and spread of the repeats."""
    return Measurement(name, median(values), min(values), max(values), unit)


@contextmanager
def no_bar(_title: str, _total: int) -> Iterator[Callable[[int], None]]:
    """A `Bar` that shows nothing."""
    yield lambda _: None


def in_turn(
    works: Mapping[str, Work], repeats: int, done: Callable[[int], None]
) -> dict[str, list[float]]:
    """Rates of every work, in units/s: all works once, then all a second time, and so on.

    Args:
        works: By name; whatever must be warm is.
        repeats: Rounds.
        done: Called with 1 after every work.

    Returns:
        For each work its rate in each round.
    """
    rates: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            units, seconds = work()
            rates[name].append(units / seconds)
            done(1)
    return rates


def ratio(rates: Sequence[float], others: Sequence[float]) -> float:
    """Median over the rounds of the rate over the other's in the same round.

    A machine that is slow for a while is slow for both, so this varies less than the quotient of
    the two medians, from which it differs a little.
    """
    return median(one / other for one, other in zip(rates, others, strict=True))
