"""The scenarios and fleets of a plan: packaged ones, or those on the user's own files."""

from __future__ import annotations

from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.reproduce.plan import Plan
from carbon_gym.scenario import Scenario, load_scenario


def scenario_of(plan: Plan, dataset: str) -> Scenario:
    """One of the plan's data sets, on the user's own files where there are any."""
    scenario = load_scenario(dataset)
    return load_scenario(scenario, **plan.files.changes(scenario))


def evaluation_of(plan: Plan, dataset: str) -> Evaluation:
    """The fleets on which the plan's policies are compared.

    Raises:
        InputError: As `evaluation_fleets`.
    """
    return evaluation_fleets(
        scenario_of(plan, dataset),
        fleets=plan.fleets,
        start=plan.start,
        sessions=plan.sessions,
    )
