"""Steps that rules share which rank deployments by something other than their CO2."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import numpy as np

from carbon_gym.simulator.arrays import Bools, Floats, Ints
from carbon_gym.simulator.quotes import Quotes

Rule = TypeVar("Rule")


def per_query(choose: Callable[[Rule, Quotes], Ints]) -> Callable[[Rule, Quotes], Ints]:
    """Decorator of a rule whose quality is filtered query by query, whatever the scenario asks.

    The paper and the baselines know no budget (SPEC §8); in a scenario with one they keep to the
    filter β_Q, and are what the budget is compared with.
    """

    @wraps(choose)
    def of_filtered(self: Rule, quotes: Quotes) -> Ints:
        return choose(self, quotes.filtered())

    return of_filtered


def least(among: Bools, cost: Floats | Ints) -> Bools:
    """Of the deployments `among`, those of least cost in their lane.

    Args:
        among: bool (B, D).
        cost: float64 or int64 (B, D), finite.

    Returns:
        bool (B, D); nothing in lanes where `among` holds nothing.
    """
    of_them = np.where(among, cost, np.inf)
    return np.asarray(among & (of_them == of_them.min(axis=1)[:, None]), dtype=np.bool_)


def best_quality(quotes: Quotes) -> Floats:
    """Highest predicted quality of the models whose context fits, float64 (B,).

    It is that of an admissible model, whatever β_Q.
    """
    return np.asarray(np.where(quotes.model_admissible, quotes.quality, 0.0).max(axis=1))


def or_all(among: Bools) -> Bools:
    """`among`, bool (B, n), but everything in lanes where it holds nothing."""
    return np.asarray(among | ~among.any(axis=1, keepdims=True), dtype=np.bool_)


def pick(quotes: Quotes, among: Bools, feasible: Bools | None = None) -> Ints:
    """The cheapest of the deployments `among`; best effort in lanes where it holds nothing.

    Ties: lower CO2 as these quotes have it, then lower TTFT, then name (SPEC §3).

    Args:
        quotes: As the rule sees them.
        among: bool (B, D), a part of what is feasible.
        feasible: bool (B, D), what the rule takes as feasible; None: ``quotes.feasible``.

    Returns:
        int64 (B,), a fresh array.
    """
    return quotes.cheapest(or_all(among), feasible)
