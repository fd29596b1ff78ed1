"""The worlds that several parts look at: the data sets, with caches retained and evicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from carbon_gym.reproduce.plan import Plan, World
from carbon_gym.scenario import scenario_names

ON_LEAVE = ("retain", "evict")
"""What a backend does with the cache of a session that it lost: the paper allows both readings."""
CACHES = {"retain": "retained", "evict": "evicted"}
"""The same in tables."""
DASHES = {"retain": "-", "evict": "--"}
"""The same in pictures, as line styles of matplotlib."""
BASELINES = ("session-affinity", "gar-eps", "cedar", "faircarbon")
"""The four that stand for the paper's (ASSUMED: the summary does not list them)."""
BOUNDS = ("clairvoyant", "lower-bound")
LEARNED = ("lookahead", "lookahead-places", "learned")
LONG = 30
"""Turns above which the paper gives results apart."""

Changes = Mapping[str, Mapping[str, Any]]


def dataset_world(plan: Plan, dataset: str, leave: str, policies: Sequence[str]) -> World:
    """A data set as the main comparison has it."""
    return changed_world(dataset, leave, policies, plan.fleets)


def dataset_worlds(plan: Plan, policies: Sequence[str]) -> list[World]:
    """All data sets, caches retained and evicted."""
    pairs = product(plan.datasets, ON_LEAVE)
    return [dataset_world(plan, dataset, leave, policies) for dataset, leave in pairs]


def changed_world(
    dataset: str, leave: str, policies: Sequence[str], fleets: int, changes: Changes | None = None
) -> World:
    """A data set under changed rules.

    Args:
        dataset: A packaged scenario.
        leave: Of `ON_LEAVE`.
        policies: Names.
        fleets: Days.
        changes: By section of a scenario, what is changed.
    """
    name: str = dataset
    own: Changes = {}
    if leave == "evict":
        name, own = variant(dataset, "evict", {"cache": {"on_leave": "evict"}})
    return World.of(name, policies, fleets, **merged(own, changes or {}))


def budget_world(
    dataset: str, policies: Sequence[str], fleets: int, changes: Changes | None = None
) -> World:
    """A data set with quality as a budget, caches retained; arguments as of `changed_world`."""
    budget = {"bounds": {"quality_constraint": "budget"}}
    name, own = variant(dataset, "budget", budget)
    return World.of(name, policies, fleets, **merged(own, changes or {}))


def variant(dataset: str, suffix: str, changes: Changes) -> tuple[str, Changes]:
    """A packaged variant of a scenario, which has a gate and knobs of its own, or the changes."""
    name = f"{dataset}-{suffix}"
    return (name, {}) if name in scenario_names() else (dataset, changes)


def merged(*changes: Changes) -> dict[str, dict[str, Any]]:
    """Changes laid over one another, key by key of each section."""
    found: dict[str, dict[str, Any]] = {}
    for change in changes:
        for section, keys in change.items():
            found[section] = {**found.get(section, {}), **keys}
    return found
