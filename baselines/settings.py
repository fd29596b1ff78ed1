"""Which of three settings a scenario is in: what routers are learned for, and picked by."""

from __future__ import annotations

from typing import Literal, get_args

from carbon_gym.scenario.scenario import Scenario

Setting = Literal["filter", "congested", "budget"]
"""Quality filtered per query and capacity by sessions; capacity by turns; quality as a budget."""
SETTINGS: tuple[Setting, ...] = get_args(Setting)
LEARNED_ON: dict[Setting, tuple[str, ...]] = {
    "filter": ("sharegpt", "sharechat"),
    "congested": ("congested",),
    "budget": ("sharegpt-budget", "sharechat-budget"),
}
"""Packaged scenarios on whose training fleets the look-ahead rules of a setting were found; routers
may have learned from more (`baselines.learned.learned_on`)."""


def setting_of(scenario: Scenario | None) -> Setting:
    """The setting of a scenario; None: that of the packaged `sharegpt`."""
    if scenario is None:
        return "filter"
    if scenario.bounds.quality_constraint == "budget":
        return "budget"
    return "congested" if scenario.capacity.rule == "turns" else "filter"


def reference_of(scenario: Scenario) -> str:
    """The rule-based router that a learned one has to beat there, at its quality and latency."""
    return "ccar-budget" if setting_of(scenario) == "budget" else "ccar"
