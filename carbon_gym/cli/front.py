"""`carbon-gym benchmark --front`: every family of policies along its own knob."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carbon_gym.cli.comparing import say_what_is_there
from carbon_gym.cli.console import finish, out_folder, output_console, say, took, turns_bar
from carbon_gym.cli.tables import print_table
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from carbon_gym.evaluation import Evaluation
    from carbon_gym.front import Point
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
    from carbon_gym.evaluation import evaluation_fleets
    from carbon_gym.front import front_points, policy_at
    from carbon_gym.report.front_file import FrontFile

    points = {scenario.name: front_points(scenario, policies) for scenario in scenarios}
    for scenario in scenarios:
        for point in points[scenario.name]:
            policy_at(scenario, point)
    console = output_console()
    found: dict[str, Any] = {}
    written: list[Path] = []
    with FrontFile(out_folder(out, "front")) as file:
        for scenario in scenarios:
            evaluation = _with_notes(evaluation_fleets(scenario, **size), points[scenario.name])
            written += _measure(evaluation, points[scenario.name], jobs, file)
            _show(console, evaluation, file)
            found[scenario.name] = {
                "families": file.families(scenario.name),
                "reference": file.reference(scenario.name),
                "notes": evaluation.notes,
            }
    finish(found, written, f"{file.path}  ({took()})")


def _with_notes(evaluation: Evaluation, points: Sequence[Point]) -> Evaluation:
    """The evaluation with what the gates and knobs of its policies were made for."""
    baselines, scenario = our_package("baselines"), evaluation.scenario
    names = list(dict.fromkeys(point.policy for point in points))
    notes = (*evaluation.notes, *baselines.notes_on(scenario, names))
    return replace(evaluation, notes=notes)


def _measure(evaluation: Evaluation, points: list[Point], jobs: int, file: FrontFile) -> list[Path]:
    """Run what the folder does not have yet, writing as it goes; returns the files written."""
    from carbon_gym.front import run_points, turns_to_serve

    name = evaluation.scenario.name
    if not any(trace.turns for trace in evaluation.traces):
        raise InputError(
            f"{name}: no fleet has a turn, so that there is no front; give more sessions"
        )
    missing = file.begin(evaluation, points)
    there = [point.id for point in points if point not in missing]
    say_what_is_there(f"{name}: {len(points)} points", there, file.path)
    total, began = turns_to_serve(evaluation, missing), time.perf_counter()
    with turns_bar(f"{name}, {len(missing)} points", total) as on_turns:
        for point, figures in run_points(evaluation, missing, jobs=jobs, on_turns=on_turns):
            file.add(name, point, figures)
            say(f"{name}: {point.id} is done after {time.perf_counter() - began:.1f} s")
    return file.finish(name)


def _show(console: Console, evaluation: Evaluation, file: FrontFile) -> None:
    from carbon_gym.report.front import front_table

    name = evaluation.scenario.name
    reference = file.reference(name)
    title = (
        f"{name}: front of {len(evaluation.traces)} fleets, {reference['all']['turns']:,} turns, "
        f"{min(evaluation.days)} to {max(evaluation.days)}"
    )
    console.print()
    print_table(console, front_table(title, file.families(name), reference))
    for note in evaluation.notes:
        console.print(f"- {note}", style="dim")
