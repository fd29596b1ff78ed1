"""What a second thread gains, beside what the machine's second core gives."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from carbon_gym.simulator.jit import kernel
from carbon_gym.speed import rounds
from carbon_gym.speed.cores import pinned, usable_cores
from carbon_gym.speed.environments import REPEAT_S
from carbon_gym.speed.players import carbon_player
from carbon_gym.speed.rounds import Bar, Work, in_turn, no_bar, ratio

LANES = 8192
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ODD = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)


@dataclass(frozen=True, slots=True)
class Threads:
    """What `measure_threads` found; each figure is the median over the rounds.

    Attributes:
        speedup: Rate of the vector environment with two threads over that with one.
        arithmetic_speedup: Rate of two copies of an arithmetic loop, a thread each, over one's.
        ratio: The first over the second, in the same round.
    """

    speedup: float
    arithmetic_speedup: float
    ratio: float


def measure_threads(repeats: int = 5, bar: Bar = no_bar, **options: Any) -> Threads | None:
    """Speed-up of two threads at `LANES` lanes, ``copy=False``, on two cores.

    The arithmetic loop touches no memory: its speed-up is what the cores give, which on virtual
    machines may be less than 2.

    Args:
        repeats: Rounds, after a warm-up.
        bar: Shows progress.
        **options: Arguments of CarbonRouting-v0.

    Returns:
        None where this process may use only one core.
    """
    if usable_cores() < 2:
        return None
    with pinned(2), bar("threads", 4 * (repeats + 1)) as done, _arithmetic() as (alone, both):
        players = [
            carbon_player(LANES, copy=False, threads=threads, **options) for threads in (1, 2)
        ]
        for player in players:
            player.warm_up(REPEAT_S)
            done(1)
        done(2)
        works: dict[str, Work] = {
            "one": players[0],
            "two": players[1],
            "alone": alone,
            "both": both,
        }
        rates = in_turn(works, repeats, done)
        for player in players:
            player.close()
    gained = [two / one for one, two in zip(rates["one"], rates["two"], strict=True)]
    given = [two / one for one, two in zip(rates["alone"], rates["both"], strict=True)]
    return Threads(median(gained), median(given), ratio(gained, given))


@contextmanager
def _arithmetic() -> Iterator[tuple[Work, Work]]:
    """The loop in one thread, and in two at once."""
    with ThreadPoolExecutor(2) as pool:

        def run(copies: int, turns: int) -> tuple[float, float]:
            began_s = rounds.clock_s()
            jobs = [pool.submit(_mix, turns) for _ in range(copies)]
            for job in jobs:
                job.result()
            return float(copies * turns), rounds.clock_s() - began_s

        run(2, 1)  # compiles, and starts both threads
        tried = 1 << 20
        _, took_s = run(1, tried)
        turns = max(1, int(tried * REPEAT_S / took_s))
        yield lambda: run(1, turns), lambda: run(2, turns)


@kernel
def _mix(turns: int) -> int:
    """Mix the bits of a counter: multiplications without memory, many of them in flight."""
    mixed = np.uint64(0)
    for i in range(turns):
        z = np.uint64(i) * _GOLDEN
        z = (z ^ (z >> _SHIFT)) * _ODD
        mixed ^= z ^ (z >> _SHIFT)
    return int(mixed & np.uint64(1))
