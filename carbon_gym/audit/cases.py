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
SCALE = "faircarbon"
"""Its CO2 per turn is the unit in which a budget prices quality."""
SAME_QUALITY = "same-quality"
"""What `ccar-budget` is called where it aims at the realised quality of the present rule."""


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


def base_case(scenario: Scenario) -> Case:
    """CCAR under the fleet's rules, on which the targets of the others depend."""
    return Case(VARIED, VARIED, scenario.filtered(), detailed=True)


def scale_case(scenario: Scenario) -> Case:
    """What says how much CO2 a turn costs on a fleet on which nothing was tuned."""
    return Case(SCALE, SCALE, scenario.filtered())


def main_cases(scenario: Scenario, same_quality: float) -> list[Case]:
    """The routers that are recommended: first those with quality filtered, then with a budget.

    Args:
        scenario: Rules, with the knobs that the budgets use.
        same_quality: Mean predicted quality with which a router realises that of the present rule.
    """
    filtered = scenario.filtered()
    budget = load_scenario(scenario, bounds={"quality_constraint": "budget"})
    same = load_scenario(budget, bounds={"quality_target": same_quality})
    return [
        base_case(scenario),
        Case("learned", "learned", filtered, detailed=True),
        Case("ccar-budget", "ccar-budget", budget, detailed=True),
        Case("learned-budget", "learned", budget, detailed=True),
        Case(SAME_QUALITY, "ccar-budget", same, detailed=True),
    ]


def varied_cases(assumptions: Sequence[Assumption]) -> list[Case]:
    """A case for every setting of every assumption."""
    return [
        Case(VARIED, VARIED, setting.scenario)
        for assumption in assumptions
        for setting in assumption.settings
    ]
