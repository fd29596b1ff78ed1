"""The scenarios and fleets of a plan: packaged ones, or those on the user's own files."""

from __future__ import annotations

from typing import Any

from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.reproduce.plan import Files, Plan
from carbon_gym.scenario import Scenario, load_scenario


def changes_of(files: Files) -> dict[str, Any]:
    """Keyword arguments of `load_scenario` that put a scenario on the user's own files."""
    changes: dict[str, Any] = {}
    if files.conversations is not None:
        changes["workload"] = {
            "source": "file",
            "path": str(files.conversations),
            "format": files.format,
            "tokenizer": None if files.tokenizer is None else str(files.tokenizer),
        }
    if files.grid:
        changes["grid"] = {"source": "file", "paths": [str(path) for path in files.grid]}
    if files.zones is not None:
        changes["fleet"] = {"regions": [zone.strip() for zone in files.zones.split(",")]}
    return changes


def scenario_of(plan: Plan, dataset: str) -> Scenario:
    """One of the plan's data sets, on the user's own files where there are any."""
    return load_scenario(dataset, **changes_of(plan.files))


def evaluation_of(plan: Plan, dataset: str) -> Evaluation:
    """The fleets on which the plan's policies are compared.

    Raises:
        InputError: As `evaluation_fleets`.
    """
    return evaluation_fleets(
        scenario_of(plan, dataset),
        fleets=plan.fleets,
        start=plan.files.start,
        sessions=plan.sessions,
    )
