"""`carbon-gym benchmark`: compare policies on the same fleets."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from carbon_gym.benchmark import (
    compare,
    evaluation_key,
    policy_key,
    references_in,
    turns_to_serve,
)
from carbon_gym.cli.choices import (
    at_least_one,
    conversation_format,
    day,
    different,
    names_in,
    one_of,
)
from carbon_gym.cli.console import output_console, turns_bar
from carbon_gym.cli.front import FRONT_SCENARIOS, measure_fronts
from carbon_gym.doors import make_policy, our_package, policy_names
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.grid.series import check_zones
from carbon_gym.grid.statistics import load_statistics as load_grid_statistics
from carbon_gym.report.results import Results
from carbon_gym.report.table import comparison_table, guard_table
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.scenario.schema import Split
from carbon_gym.workload.statistics import load_statistics as load_workload_statistics

DEFAULT_SCENARIOS = ["sharegpt", "sharegpt-evict", "sharechat", "sharechat-evict"]
DEFAULT_SCENARIOS_FOR_FILES = ["sharegpt", "sharegpt-evict"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
QUICK_FLEETS = 5
QUICK_SESSIONS = 600
EXAMPLES = """\b
Examples:
  carbon-gym benchmark
  carbon-gym benchmark --quick --scenario sharegpt
  carbon-gym benchmark --conversations turns.csv.gz --grid grid.csv \\
      --zones GB,DE --start 2023-05-08 --days 8
"""


def benchmark(
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Packaged scenario or YAML file; may be repeated. Default: sharegpt and "
            "sharechat (files given: sharegpt only), caches retained and evicted.",
        ),
    ] = None,
    policies: Annotated[
        str, typer.Option(metavar="NAMES", help="Separated by commas, or all.")
    ] = "all",
    conversations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your conversations; every session is evaluated."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of --conversations: tokens, sharegpt or messages."),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A tokenizer.json to count tokens with; default: characters / 4."
        ),
    ] = None,
    grid: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Carbon intensity CSV; may be repeated (one zone a file)."
        ),
    ] = None,
    zones: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Zones of the regions, separated by commas."),
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="DATE", help="First day, YYYY-MM-DD, UTC.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(metavar="N", help="Number of days; each is a fleet.")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(metavar="N", help="Sessions that start on a day.")
    ] = None,
    fleets: Annotated[
        int | None, typer.Option(metavar="K", help="Number of fleets; the same as --days.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="train, validation or test (default, unless files are given)."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; default: the cores.")
    ] = None,
    front: Annotated[
        bool,
        typer.Option(
            "--front",
            help="CO2 against realised quality instead: every family of policies along its own "
            f"knob. Default scenarios: {' and '.join(FRONT_SCENARIOS)}.",
        ),
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"{QUICK_FLEETS} fleets of {QUICK_SESSIONS} sessions.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for results.json or front.json; default runs/<time>-benchmark or -front.",
        ),
    ] = None,
) -> None:
    """Compare routing policies: CO2, quality and latency on the same fleets."""
    size = {
        "split": None if split is None else one_of("--split", split, SPLITS),
        "fleets": _fleet_count(days, fleets, quick),
        "start": None if start is None else day("--start", start),
        "sessions": at_least_one("--sessions", sessions) or (QUICK_SESSIONS if quick else None),
    }
    processes = at_least_one("--jobs", jobs) or os.cpu_count() or 1
    files = conversations is not None or bool(grid)
    sources = scenario or _default_scenarios(files, front)
    scenarios = [
        _with_files(load_scenario(source), conversations, format, tokenizer, grid, zones)
        for source in dict.fromkeys(sources)
    ]
    _check_before_the_work(scenarios)
    if front:
        chosen_names = None if policies == "all" else names_in("--policies", policies)
        return measure_fronts(scenarios, chosen_names, size, processes, out)
    named = [_policy_names(policies, scenario) for scenario in scenarios]
    folder = out or Path("runs") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-benchmark"
    console = output_console()
    began = time.perf_counter()
    with Results(folder) as results:
        for chosen, names in zip(scenarios, named, strict=True):
            evaluation = evaluation_fleets(chosen, **size)  # type: ignore[arg-type]
            evaluation = _with_notes(evaluation, names)
            rows = _compare_and_keep(evaluation, names, processes, results)
            _show(console, evaluation, rows)
    console.print(f"{results.path}  ({time.perf_counter() - began:.0f} s)", soft_wrap=True)


def _default_scenarios(files: bool, front: bool) -> list[str]:
    if front:
        return FRONT_SCENARIOS[:1] if files else FRONT_SCENARIOS
    return DEFAULT_SCENARIOS_FOR_FILES if files else DEFAULT_SCENARIOS


def _check_before_the_work(scenarios: list[Scenario]) -> None:
    """Faults of a later scenario that would else be found after the earlier ones have run."""
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


def _with_notes(evaluation: Evaluation, names: list[str]) -> Evaluation:
    """The evaluation with what the gates and knobs of its policies were made for."""
    baselines, scenario = our_package("baselines"), evaluation.scenario
    names = list(dict.fromkeys([*names, *references_in(scenario)]))
    notes = (*evaluation.notes, *baselines.notes_on(scenario, names))
    return replace(evaluation, notes=notes)


def _compare_and_keep(
    evaluation: Evaluation, names: list[str], jobs: int, results: Results
) -> list[dict[str, Any]]:
    """Run what the folder does not have yet, writing as it goes, with a progress bar."""
    scenario = evaluation.scenario.name
    key = evaluation_key(evaluation)
    keys = {name: policy_key(name, evaluation) for name in names}
    done = results.done(scenario, key, keys)
    results.begin(evaluation, key)
    with turns_bar(scenario, turns_to_serve(evaluation, names, done)) as on_turns:
        rows = compare(
            evaluation,
            names,
            jobs=jobs,
            on_turns=on_turns,
            done=done,
            on_rows=lambda name, made: results.add(scenario, name, keys[name], made),
        )
    results.finish(scenario, names)
    return rows


def _show(console: Console, evaluation: Evaluation, rows: list[dict[str, Any]]) -> None:
    pooled = next(row for row in rows if row["fleet"] == "all")
    title = (
        f"{evaluation.scenario.name}: {len(evaluation.traces)} fleets, "
        f"{pooled['sessions']:,} sessions, {pooled['turns']:,} turns, "
        f"{min(evaluation.days)} to {max(evaluation.days)}"
    )
    console.print()
    console.print(comparison_table(title, rows, console.width))
    guard = guard_table(rows, console.width)
    if guard is not None:
        console.print()
        console.print(guard)
    for note in evaluation.notes:
        console.print(f"- {note}", style="dim")
    share = max(row["largest_sessions_co2_share"] or 0.0 for row in rows if row["fleet"] == "all")
    console.print(
        f"- the ten largest sessions emit at most {100 * share:.1f} % of a policy's CO2",
        style="dim",
    )


def _policy_names(text: str, scenario: Scenario) -> list[str]:
    if text == "all":
        return policy_names(scenario)
    names = names_in("--policies", text)
    for name in names:
        make_policy(name, scenario)
    return names


def _fleet_count(days: int | None, fleets: int | None, quick: bool) -> int | None:
    at_least_one("--days", days)
    at_least_one("--fleets", fleets)
    if days is not None and fleets is not None and days != fleets:
        raise InputError(
            f"--days {days} and --fleets {fleets} disagree; a fleet is one day, give one of them"
        )
    return days or fleets or (QUICK_FLEETS if quick else None)


def _with_files(
    scenario: Scenario,
    conversations: Path | None,
    format: str | None,
    tokenizer: Path | None,
    grid: list[Path] | None,
    zones: str | None,
) -> Scenario:
    """The scenario on the user's own files, under a name that says so."""
    changes: dict[str, Any] = {}
    used = []
    if conversations is not None:
        workload = {
            "source": "file",
            "path": str(conversations),
            "format": conversation_format(conversations, format),
        }
        if tokenizer is not None:
            workload["tokenizer"] = str(tokenizer)
        changes["workload"] = workload
        used.append(conversations.name)
    elif format is not None or tokenizer is not None:
        raise InputError("--format and --tokenizer say how to read --conversations; give that too")
    if grid:
        changes["grid"] = {"source": "file", "paths": [str(path) for path in grid]}
        used += [path.name for path in grid]
    if zones is not None:
        changes["fleet"] = {"regions": different("--zones", names_in("--zones", zones))}
    if not changes:
        return scenario
    if used:
        changes["name"] = f"{scenario.name} on {' + '.join(used)}"
    return load_scenario(scenario, **changes)
