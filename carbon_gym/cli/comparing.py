"""What the commands share that run policies on fleets: options, files of the user, resuming."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carbon_gym.cli.choices import conversation_format, different, names_in
from carbon_gym.cli.console import say, turns_bar
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError

if TYPE_CHECKING:
    from carbon_gym.evaluation import Evaluation
    from carbon_gym.report.rows_file import RowsFile
    from carbon_gym.scenario import Scenario
    from carbon_gym.scenario.own_files import OwnFiles
    from carbon_gym.scenario.schema import Split

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
ConversationsOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Your conversations; every session is evaluated."),
]
FormatOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of --conversations: tokens, sharegpt or messages."),
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A tokenizer.json to count tokens with; default: characters / 4."
    ),
]
GridOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Carbon intensity CSV; may be repeated (one zone a file)."),
]
ZonesOption = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Zones of the regions, separated by commas."),
]
StartOption = Annotated[
    str | None, typer.Option(metavar="DATE", help="First day, YYYY-MM-DD, UTC.")
]
SessionsOption = Annotated[
    int | None, typer.Option(metavar="N", help="Sessions that start on a day.")
]
SplitOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="train, validation or test (default, unless files are given)."
    ),
]
JobsOption = Annotated[int | None, typer.Option(metavar="N", help="Processes; default: the cores.")]


def check_before_the_work(scenarios: list[Scenario]) -> None:
    """Faults of a later scenario that would else be found after the earlier ones have run."""
    from carbon_gym.fleet import Deployments
    from carbon_gym.grid.series import check_zones
    from carbon_gym.grid.statistics import load_statistics as load_grid_statistics
    from carbon_gym.workload.statistics import load_statistics as load_workload_statistics

    names = [scenario.name for scenario in scenarios]
    for scenario in scenarios:
        if names.count(scenario.name) > 1:
            raise InputError(
                f"--scenario: two scenarios are called {scenario.name!r}, so that their results "
                "could not be told apart; give one of them another name"
            )
        Deployments.of(scenario)
        load_workload_statistics(scenario.workload.statistics)
        if scenario.grid.source == "generated":
            known = tuple(load_grid_statistics(scenario.grid.statistics).zones)
            zones = [region.zone for region in scenario.fleet.regions]
            check_zones(zones, known, scenario.grid.statistics)


def with_notes(evaluation: Evaluation, names: list[str]) -> Evaluation:
    """The evaluation with what the gates and knobs of its policies were made for."""
    from carbon_gym.benchmark import references_in

    baselines, scenario = our_package("baselines"), evaluation.scenario
    names = list(dict.fromkeys([*names, *references_in(scenario)]))
    notes = (*evaluation.notes, *baselines.notes_on(scenario, names))
    return replace(evaluation, notes=notes)


def compare_and_keep(
    evaluation: Evaluation, names: list[str], jobs: int, results: RowsFile
) -> list[dict[str, Any]]:
    """Run what the folder does not have yet, writing as it goes, with a progress bar."""
    from carbon_gym.benchmark import compare, evaluation_key, policy_key, turns_to_serve

    scenario = evaluation.scenario.name
    key = evaluation_key(evaluation)
    keys = {name: policy_key(name, evaluation) for name in names}
    done = results.done(scenario, key, keys)
    results.begin(evaluation, key)
    say_what_is_there(f"{scenario}: {len(names)} policies", list(done), results.path)
    began = time.perf_counter()

    def keep(name: str, made: list[dict[str, Any]]) -> None:
        results.add(scenario, name, keys[name], made)
        say(f"{scenario}: {name} is done after {time.perf_counter() - began:.1f} s")

    with turns_bar(scenario, turns_to_serve(evaluation, names, done)) as on_turns:
        return compare(evaluation, names, jobs=jobs, on_turns=on_turns, done=done, on_rows=keep)


def say_what_is_there(asked: str, done: list[str], path: Path) -> None:
    """With ``--verbose``: what an earlier run into the folder has left to take up."""
    there = f"{len(done)} are in {path} already: {', '.join(done)}" if done else "none is there yet"
    say(f"{asked}, {there}")


def pooled_rows(rows: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    """The row over all fleets of every policy."""
    return [row for row in rows if row["fleet"] == "all"]


def files_of(
    conversations: Path | None,
    format: str | None,
    tokenizer: Path | None,
    grid: list[Path] | None,
    zones: str | None,
) -> OwnFiles:
    """The user's own files, from the options of those names."""
    from carbon_gym.scenario.own_files import OwnFiles

    if conversations is None and (format is not None or tokenizer is not None):
        raise InputError("--format and --tokenizer say how to read --conversations; give that too")
    return OwnFiles(
        conversations,
        None if conversations is None else conversation_format(conversations, format),
        tokenizer,
        tuple(grid or ()),
        () if zones is None else tuple(different("--zones", names_in("--zones", zones))),
    )


def with_files(scenario: Scenario, files: OwnFiles) -> Scenario:
    """The scenario on the user's own files, under a name that says so."""
    from carbon_gym.scenario import load_scenario

    changes = files.changes(scenario)
    if files.names:
        changes["name"] = f"{scenario.name} on {' + '.join(files.names)}"
    return load_scenario(scenario, **changes) if changes else scenario
