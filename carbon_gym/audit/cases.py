"""What an audit runs: the present rule beside one router, under some rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from carbon_gym.audit.assumptions import Assumption
from carbon_gym.scenario import Scenario, load_scenario

RULES = ("session-affinity", "session-hash", "least-ttft")
"""Present rules that need no log."""
VARIED = "ccar"
"""The router whose saving is given for every assumption."""


@dataclass(frozen=True, slots=True)
class Case:
    """The present rule and a router, both on all turns.

    Attributes:
        router: As tables call it.
        policy: What `carbon_gym.make_policy` knows it by.
        scenario: Rules.
        detailed: Whether the turns are also told apart by kinds.
    """

    router: str
    policy: str
    scenario: Scenario
    detailed: bool = False


def main_cases(scenario: Scenario) -> list[Case]:
    """The routers that are recommended: first those with quality filtered, then with a budget."""
    filtered = scenario.filtered()
    budget = load_scenario(scenario, bounds={"quality_constraint": "budget"})
    return [
        Case(VARIED, VARIED, filtered, detailed=True),
        Case("learned", "learned", filtered, detailed=True),
        Case("ccar-budget", "ccar-budget", budget, detailed=True),
        Case("learned-budget", "learned", budget, detailed=True),
    ]


def varied_cases(assumptions: Sequence[Assumption]) -> list[Case]:
    """A case for every setting of every assumption."""
    return [
        Case(VARIED, VARIED, setting.scenario)
        for assumption in assumptions
        for setting in assumption.settings
    ]
