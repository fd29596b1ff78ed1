"""`carbon-gym benchmark`: compare policies on the same fleets."""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from carbon_gym.benchmark import ResultsFile, compare, turns_to_serve
from carbon_gym.doors import make_policy, policy_names
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.cli.console import output_console
from carbon_gym.report.table import comparison_table
from carbon_gym.scenario import Scenario, load_scenario

DEFAULT_SCENARIOS = ["sharegpt", "sharegpt-evict", "sharechat", "sharechat-evict"]
DEFAULT_SCENARIOS_FOR_FILES = ["sharegpt", "sharegpt-evict"]
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
    policies: Annotated[
        str, typer.Option(help="Names separated by commas, or all.")
    ] = "all",
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
        str | None, typer.Option(help="train, validation or test (default, unless files are given).")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: the cores.")
    ] = None,
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
        "split": _one_of("--split", split, ("train", "validation", "test")),
        "fleets": _fleet_count(days, fleets, quick),
        "start": _date("--start", start),
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
        task = progress.add_task(
            evaluation.scenario.name, total=turns_to_serve(evaluation, names)
        )
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
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError("--policies names no policy; give names separated by commas, or all")
    for name in names:
        make_policy(name)
    return list(dict.fromkeys(names))


def _fleet_count(days: int | None, fleets: int | None, quick: bool) -> int | None:
    if days is not None and fleets is not None and days != fleets:
        raise InputError(
            f"--days {days} and --fleets {fleets} disagree; a fleet is one day, give one of them"
        )
    return days or fleets or (QUICK_FLEETS if quick else None)


def _date(option: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text!r} is not a day; write it as 2023-05-08") from None


def _one_of(option: str, text: str | None, allowed: tuple[str, ...]) -> str | None:
    if text is None or text in allowed:
        return text
    raise InputError(f"{option} {text!r} is not known; use {', '.join(allowed)}")


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
        workload = {"source": "file", "path": str(conversations)}
        workload["format"] = _format(conversations, format)
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
        named = [zone.strip() for zone in zones.split(",") if zone.strip()]
        if not named:
            raise InputError("--zones names no zone; give zone codes separated by commas")
        changes["fleet"] = {"regions": named}
    if not changes:
        return scenario
    if used:
        changes["name"] = f"{scenario.name} on {' + '.join(used)}"
    return load_scenario(scenario, **changes)


def _format(conversations: Path, format: str | None) -> str:
    allowed = ("tokens", "sharegpt", "messages")
    if format is not None:
        return str(_one_of("--format", format, allowed))
    endings = {".csv": "tokens", ".json": "sharegpt", ".jsonl": "messages"}
    name = conversations.name.removesuffix(".gz")
    for ending, meant in endings.items():
        if name.endswith(ending):
            return meant
    raise InputError(
        f"--conversations {conversations}: the ending says no format; add --format with one of "
        f"{', '.join(allowed)}"
    )
