"""`carbon-gym benchmark --front`: every family of policies along its own knob."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from carbon_gym.cli.console import output_console, turns_bar
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.front import Point, front_points, policy_at, run_points, turns_to_serve
from carbon_gym.report.front import front_table
from carbon_gym.report.front_file import FrontFile
from carbon_gym.scenario import Scenario

FRONT_SCENARIOS = ["sharegpt-budget", "sharechat-budget"]


def measure_fronts(
    scenarios: Sequence[Scenario],
    policies: Sequence[str] | None,
    size: dict[str, Any],
    jobs: int,
    out: Path | None,
) -> None:
    """Measure the front of each scenario and write its folder, with a progress bar.

    Args:
        scenarios: What to measure on.
        policies: Names; None: every family.
        size: Arguments of `evaluation_fleets`.
        jobs: Processes.
        out: Folder; None: a new one in `runs`.
    """
    points = {scenario.name: front_points(scenario, policies) for scenario in scenarios}
    for scenario in scenarios:
        for point in points[scenario.name]:
            policy_at(scenario, point)
    folder = out or Path("runs") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-front"
    console = output_console()
    began = time.perf_counter()
    with FrontFile(folder) as file:
        for scenario in scenarios:
            evaluation = _with_notes(evaluation_fleets(scenario, **size), points[scenario.name])
            _measure(evaluation, points[scenario.name], jobs, file)
            _show(console, evaluation, file)
    console.print(f"{file.path}  ({time.perf_counter() - began:.0f} s)", soft_wrap=True)


def _with_notes(evaluation: Evaluation, points: Sequence[Point]) -> Evaluation:
    """The evaluation with what the gates and knobs of its policies were made for."""
    baselines, scenario = our_package("baselines"), evaluation.scenario
    names = list(dict.fromkeys(point.policy for point in points))
    notes = (*evaluation.notes, *baselines.notes_on(scenario, names))
    return replace(evaluation, notes=notes)


def _measure(evaluation: Evaluation, points: list[Point], jobs: int, file: FrontFile) -> None:
    """Run what the folder does not have yet, writing as it goes."""
    name = evaluation.scenario.name
    if not any(trace.turns for trace in evaluation.traces):
        raise InputError(
            f"{name}: no fleet has a turn, so that there is no front; give more sessions"
        )
    missing = file.begin(evaluation, points)
    total = turns_to_serve(evaluation, missing)
    with turns_bar(f"{name}, {len(missing)} points", total) as on_turns:
        for point, figures in run_points(evaluation, missing, jobs=jobs, on_turns=on_turns):
            file.add(name, point, figures)
    file.finish(name)


def _show(console: Console, evaluation: Evaluation, file: FrontFile) -> None:
    name = evaluation.scenario.name
    reference = file.reference(name)
    title = (
        f"{name}: front of {len(evaluation.traces)} fleets, {reference['all']['turns']:,} turns, "
        f"{min(evaluation.days)} to {max(evaluation.days)}"
    )
    console.print()
    console.print(front_table(title, file.families(name), reference))
    for note in evaluation.notes:
        console.print(f"- {note}", style="dim")
