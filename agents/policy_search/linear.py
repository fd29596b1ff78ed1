"""Finding the weights of the look-ahead rule on training fleets, by the cross-entropy method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.policy_search.fleets import Fleets
from baselines.lookahead import PLACES, PRICE, VALUES, Lookahead
from baselines.settings import setting_of
from baselines.tuned import budget_of, scale_co2_g
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.metrics.figures import Figures
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.simulator.run import run_policy

Floats = NDArray[np.float64]
Measure = Callable[[int, Floats], Floats]
_SPREAD = 0.15
"""Standard deviation of every weight at the beginning (ASSUMED)."""
_LEAST_SPREAD = 0.004
_KEPT, _KEPT_SPREAD = 0.3, 0.5
"""Shares of the mean and of the spread that a generation keeps of the one before (all ASSUMED)."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Where the search is: mean and standard deviation of every weight, float64 (n,)."""

    mean: Floats
    deviation: Floats


class LinearSearch:
    """The search for one set of weights for all scenarios of some fleets.

    Args:
        fleets: Training fleets.
        seed: Of the draws.
        population: Candidates of a generation.
        places: Whether places in pools are priced.
        margin: As of `Fleets.cost`.
    """

    def __init__(
        self,
        fleets: Fleets,
        seed: int = 0,
        population: int = 1,
        places: bool = True,
        margin: float = 0.0,
    ) -> None:
        self._fleets, self._seed, self._population = fleets, seed, population
        self._margin = margin
        first = fleets.scenarios[0]
        self._sizes = np.unique(Deployments.of(first).params_billion)
        budget = setting_of(first) == "budget"
        self.names = (*VALUES, *(PLACES if places else ()), *((PRICE,) if budget else ()))

    def begin(self) -> Spread:
        """Every weight around 0: the reference without its gate."""
        count = len(self._sizes) + len(self.names)
        return Spread(np.zeros(count), np.full(count, _SPREAD))

    def generation(
        self, number: int, at: Spread, measure: Measure | None = None
    ) -> tuple[Spread, float]:
        """One generation on the group of its number; its mean's cost is returned beside.

        Args:
            number: Which, counted from 0.
            at: Where the search is.
            measure: Gives costs as `costs` does; None: that.
        """
        rng = np.random.default_rng([self._seed, 0, number])
        drawn = at.mean + at.deviation * rng.standard_normal((self._population, len(at.mean)))
        drawn[0] = at.mean
        costs = (measure or self.costs)(number, drawn)
        elite = drawn[np.argsort(costs, kind="stable")[: max(2, self._population // 4)]]
        ranks = np.log(len(elite) + 0.5) - np.log(np.arange(1, len(elite) + 1))
        share = (ranks / ranks.sum())[:, None]
        mean = _KEPT * at.mean + (1.0 - _KEPT) * (share * elite).sum(axis=0)
        found = np.sqrt((share * (elite - at.mean) ** 2).sum(axis=0))
        deviation = np.maximum(
            _KEPT_SPREAD * at.deviation + (1.0 - _KEPT_SPREAD) * found, _LEAST_SPREAD
        )
        return Spread(mean, deviation), float(costs[0])

    def policy(self, scenario: Scenario, weights: Floats) -> Lookahead:
        """The rule of one set of weights (n,), or of one per lane (n, B)."""
        caches, others = weights[: len(self._sizes)], weights[len(self._sizes) :]
        return lookahead(
            scenario,
            dict(zip(self.names, others, strict=True)),
            tuple(zip(self._sizes.tolist(), caches, strict=True)),
        )

    def content(self, weights: Floats) -> dict[str, Any]:
        """The weights as a file has them."""
        rounded = [float(f"{value:.5g}") for value in weights]
        sizes = self._sizes.tolist()
        return {
            "caches": [[size, w] for size, w in zip(sizes, rounded, strict=False)],
            "weights": dict(zip(self.names, rounded[len(sizes) :], strict=True)),
        }

    def costs(self, number: int, drawn: Floats) -> Floats:
        """Cost of every candidate (k, n) on a group; all are served side by side, as lanes."""
        by_scenario: list[list[Figures]] = []
        for group in self._fleets.group(number):
            laid = group.laid
            fleets = len(laid.traces)
            policy = self.policy(laid.scenario, np.repeat(drawn, fleets, axis=0).T)
            traces = laid.traces * len(drawn)
            run = run_policy(laid.scenario, policy, traces, laid.grid)
            edges = run.bounds[::fleets].tolist()
            by_scenario.append([Figures.of(run.ledger[a:b]) for a, b in pairwise(edges)])
        both: Sequence[tuple[Figures, ...]] = list(zip(*by_scenario, strict=True))
        return np.array([self._fleets.cost(number, figures, self._margin) for figures in both])


def lookahead(
    scenario: Scenario,
    weights: dict[str, Any],
    caches: tuple[tuple[float, Any], ...],
    name: str = "lookahead",
) -> Lookahead:
    """The rule with these weights in a scenario, its scale and price those of validation."""
    budget = budget_of(scenario) if setting_of(scenario) == "budget" else {}
    return Lookahead(scale_co2_g(scenario), weights, caches, name=name, **budget)
