"""`carbon-gym benchmark`: compare policies on the same fleets."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from carbon_gym.benchmark import ResultsFile, compare, turns_to_serve
from carbon_gym.cli.choices import conversation_format, day, names_in, one_of
from carbon_gym.cli.console import output_console
from carbon_gym.doors import make_policy, policy_names
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.report.table import comparison_table
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.scenario.schema import Split

DEFAULT_SCENARIOS = ["sharegpt", "sharegpt-evict", "sharechat", "sharechat-evict"]
DEFAULT_SCENARIOS_FOR_FILES = ["sharegpt", "sharegpt-evict"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
QUICK_FLEETS = 5
QUICK_SESSIONS = 600


def benchmark(
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="Packaged scenario or YAML file; may be repeated. Default: sharegpt and "
            "sharechat, caches retained and evicted.",
        ),
    ] = None,
    policies: Annotated[str, typer.Option(help="Names separated by commas, or all.")] = "all",
    conversations: Annotated[
        Path | None, typer.Option(help="Your conversations; every session is evaluated.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Of --conversations: tokens, sharegpt or messages.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="A tokenizer.json to count tokens with; default: characters / 4."),
    ] = None,
    grid: Annotated[
        list[Path] | None,
        typer.Option(help="Carbon intensity CSV; may be repeated (one zone a file)."),
    ] = None,
    zones: Annotated[
        str | None, typer.Option(help="Zones of the regions, separated by commas.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="First day, YYYY-MM-DD, UTC.")] = None,
    days: Annotated[
        int | None, typer.Option(min=1, help="Number of days; each is a fleet.")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, help="Sessions that start on a day.")
    ] = None,
    fleets: Annotated[
        int | None, typer.Option(min=1, help="Number of fleets; the same as --days.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="train, validation or test (default, unless files are given)."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: the cores.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"{QUICK_FLEETS} fleets of {QUICK_SESSIONS} sessions.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json; default runs/<time>-benchmark.")
    ] = None,
) -> None:
    """Compare routing policies: CO2, quality and latency on the same fleets.

    Examples:
      carbon-gym benchmark

      carbon-gym benchmark --quick --scenario sharegpt

      carbon-gym benchmark --conversations turns.csv.gz --grid grid.csv --zones GB,DE
      --start 2023-05-08 --days 8
    """
    names = _policy_names(policies)
    size = {
        "split": None if split is None else one_of("--split", split, SPLITS),
        "fleets": _fleet_count(days, fleets, quick),
        "start": None if start is None else day("--start", start),
        "sessions": sessions or (QUICK_SESSIONS if quick else None),
    }
    files = conversations is not None or grid is not None
    sources = scenario or (DEFAULT_SCENARIOS_FOR_FILES if files else DEFAULT_SCENARIOS)
    scenarios = [
        _with_files(load_scenario(source), conversations, format, tokenizer, grid, zones)
        for source in dict.fromkeys(sources)
    ]
    folder = out or Path("runs") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-benchmark"
    results = ResultsFile(folder)
    console = output_console()
    began = time.perf_counter()
    for chosen in scenarios:
        evaluation = evaluation_fleets(chosen, **size)  # type: ignore[arg-type]
        rows = _compare_with_progress(evaluation, names, jobs or os.cpu_count() or 1)
        results.add(evaluation, rows)
        _show(console, evaluation, rows)
    console.print(
        f"{results.path}  ({time.perf_counter() - began:.0f} s)", soft_wrap=True, highlight=False
    )


def _compare_with_progress(
    evaluation: Evaluation, names: list[str], jobs: int
) -> list[dict[str, Any]]:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with progress:
        task = progress.add_task(evaluation.scenario.name, total=turns_to_serve(evaluation, names))
        return compare(
            evaluation, names, jobs=jobs, on_turns=lambda turns: progress.advance(task, turns)
        )


def _show(console: Console, evaluation: Evaluation, rows: list[dict[str, Any]]) -> None:
    pooled = next(row for row in rows if row["fleet"] == "all")
    title = (
        f"{evaluation.scenario.name}: {len(evaluation.traces)} fleets, "
        f"{pooled['sessions']:,} sessions, {pooled['turns']:,} turns, "
        f"{min(evaluation.days)} to {max(evaluation.days)}"
    )
    console.print()
    console.print(comparison_table(title, rows, console.width))
    for note in evaluation.notes:
        console.print(f"- {note}", style="dim", highlight=False)
    share = max(row["largest_sessions_co2_share"] or 0.0 for row in rows if row["fleet"] == "all")
    console.print(
        f"- the ten largest sessions emit at most {100 * share:.1f} % of a policy's CO2",
        style="dim",
        highlight=False,
    )


def _policy_names(text: str) -> list[str]:
    if text == "all":
        return policy_names()
    names = names_in("--policies", text)
    for name in names:
        make_policy(name)
    return names


def _fleet_count(days: int | None, fleets: int | None, quick: bool) -> int | None:
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
        changes["fleet"] = {"regions": names_in("--zones", zones)}
    if not changes:
        return scenario
    if used:
        changes["name"] = f"{scenario.name} on {' + '.join(used)}"
    return load_scenario(scenario, **changes)
