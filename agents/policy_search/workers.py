"""Who measures the candidates of a search: this process, or some others beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agents.policy_search.fleets import Fleets
from agents.policy_search.linear import LinearSearch
from carbon_gym.parallel import processes
from carbon_gym.router.rollout import unflat

Floats = NDArray[np.float64]


class Workers(Protocol):
    """Measures candidates; the costs do not depend on who measured."""

    def costs(self, number: int, tried: Sequence[Floats]) -> list[float]:
        """Cost of every vector of a scorer's weights on a group of the training fleets."""

    def costs_of_rules(self, number: int, tried: Floats, places: bool = True) -> Floats:
        """Cost of every vector (k, n) of the linear rule's weights, likewise."""


class _Measure:
    """Fleets, widths and margin: all but the weights that a measurement needs."""

    def __init__(self, fleets: Fleets, width: int, turn_width: int, margin: float) -> None:
        self._fleets, self._widths, self._margin = fleets, (width, turn_width), margin

    def __call__(self, number: int, vector: Floats) -> float:
        figures = self._fleets.serve(number, unflat(vector, *self._widths))
        return self._fleets.cost(number, figures, self._margin)

    def costs(self, number: int, tried: Sequence[Floats]) -> list[float]:
        return [self(number, vector) for vector in tried]

    def costs_of_rules(self, number: int, tried: Floats, places: bool = True) -> Floats:
        search = LinearSearch(self._fleets, places=places, margin=self._margin)
        return search.costs(number, tried)


class _Others:
    def __init__(self, pool: Executor, jobs: int) -> None:
        self._pool, self._jobs = pool, jobs

    def costs(self, number: int, tried: Sequence[Floats]) -> list[float]:
        numbers = [number] * len(tried)
        chunk = max(1, len(tried) // (4 * self._jobs))
        return list(self._pool.map(_measure_here, numbers, tried, chunksize=chunk))

    def costs_of_rules(self, number: int, tried: Floats, places: bool = True) -> Floats:
        parts = np.array_split(tried, min(self._jobs, len(tried)))
        found = self._pool.map(
            _measure_rules_here, [number] * len(parts), parts, [places] * len(parts)
        )
        return np.concatenate(list(found))


@contextmanager
def measured_by(
    fleets: Fleets, width: int, turn_width: int, margin: float, jobs: int
) -> Iterator[Workers]:
    """Workers in `jobs` processes; with 1 it is this one.

    Args:
        fleets: Training fleets.
        width: Units of the scorer's layer of each deployment.
        turn_width: Units of its turn's layer.
        margin: As of `Fleets.cost`.
        jobs: Processes.
    """
    if jobs <= 1:
        yield _Measure(fleets, width, turn_width, margin)
        return
    recipe = (fleets.scenarios, fleets.split, fleets.groups, fleets.each)
    with processes(jobs, _set_up, (recipe, width, turn_width, margin)) as pool:
        yield _Others(pool, jobs)


_HERE: list[_Measure] = []  # of a worker process


def _set_up(recipe: tuple[object, ...], width: int, turn_width: int, margin: float) -> None:
    _HERE[:] = [_Measure(Fleets(*recipe), width, turn_width, margin)]  # type: ignore[arg-type]


def _measure_rules_here(number: int, tried: Floats, places: bool) -> Floats:
    return _HERE[0].costs_of_rules(number, tried, places)


def _measure_here(number: int, vector: Floats) -> float:
    return _HERE[0](number, vector)
