"""`carbon-gym benchmark`: compare policies on the same fleets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carbon_gym.cli.choices import (
    at_least_one,
    complete_policies,
    complete_scenario,
    day,
    names_in,
    one_of,
    processes_of,
)
from carbon_gym.cli.comparing import (
    SPLITS,
    ConversationsOption,
    FormatOption,
    GridOption,
    JobsOption,
    SessionsOption,
    SplitOption,
    StartOption,
    TokenizerOption,
    ZonesOption,
    check_before_the_work,
    compare_and_keep,
    files_of,
    pooled_rows,
    with_files,
    with_notes,
)
from carbon_gym.cli.console import finish, out_folder, output_console, took
from carbon_gym.cli.front import FRONT_SCENARIOS, measure_fronts
from carbon_gym.cli.tables import print_table
from carbon_gym.doors import make_policy, policy_names
from carbon_gym.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from carbon_gym.evaluation import Evaluation
    from carbon_gym.scenario import Scenario

DEFAULT_SCENARIOS = ["sharegpt", "sharegpt-evict", "sharechat", "sharechat-evict"]
DEFAULT_SCENARIOS_FOR_FILES = ["sharegpt", "sharegpt-evict"]
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
            autocompletion=complete_scenario,
        ),
    ] = None,
    policies: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Separated by commas, or all.",
            autocompletion=complete_policies,
        ),
    ] = "all",
    conversations: ConversationsOption = None,
    format: FormatOption = None,
    tokenizer: TokenizerOption = None,
    grid: GridOption = None,
    zones: ZonesOption = None,
    start: StartOption = None,
    days: Annotated[
        int | None, typer.Option(metavar="N", help="Number of days; each is a fleet.")
    ] = None,
    sessions: SessionsOption = None,
    fleets: Annotated[
        int | None, typer.Option(metavar="K", help="Number of fleets; the same as --days.")
    ] = None,
    split: SplitOption = None,
    jobs: JobsOption = None,
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
    from carbon_gym.evaluation import evaluation_fleets
    from carbon_gym.report.results import Results
    from carbon_gym.scenario import load_scenario

    size = {
        "split": None if split is None else one_of("--split", split, SPLITS),
        "fleets": _fleet_count(days, fleets, quick),
        "start": None if start is None else day("--start", start),
        "sessions": at_least_one("--sessions", sessions) or (QUICK_SESSIONS if quick else None),
    }
    processes = processes_of(jobs)
    files = files_of(conversations, format, tokenizer, grid, zones)
    sources = scenario or _default_scenarios(bool(files.names), front)
    scenarios = [with_files(load_scenario(source), files) for source in dict.fromkeys(sources)]
    check_before_the_work(scenarios)
    if front:
        chosen_names = None if policies == "all" else names_in("--policies", policies)
        return measure_fronts(scenarios, chosen_names, size, processes, out)
    named = [_policy_names(policies, scenario) for scenario in scenarios]
    console = output_console()
    found: dict[str, Any] = {}
    written: list[Path] = []
    with Results(out_folder(out, "benchmark")) as results:
        for chosen, names in zip(scenarios, named, strict=True):
            evaluation = evaluation_fleets(chosen, **size)  # type: ignore[arg-type]
            evaluation = with_notes(evaluation, names)
            rows = compare_and_keep(evaluation, names, processes, results)
            written += results.finish(chosen.name, names)
            _show(console, evaluation, rows)
            found[chosen.name] = {"rows": pooled_rows(rows), "notes": evaluation.notes}
    finish(found, written, f"{results.path}  ({took()})")


def _default_scenarios(files: bool, front: bool) -> list[str]:
    if front:
        return FRONT_SCENARIOS[:1] if files else FRONT_SCENARIOS
    return DEFAULT_SCENARIOS_FOR_FILES if files else DEFAULT_SCENARIOS


def _show(console: Console, evaluation: Evaluation, rows: list[dict[str, Any]]) -> None:
    from carbon_gym.report.table import comparison_table, guard_table

    pooled = next(row for row in rows if row["fleet"] == "all")
    title = (
        f"{evaluation.scenario.name}: {len(evaluation.traces)} fleets, "
        f"{pooled['sessions']:,} sessions, {pooled['turns']:,} turns, "
        f"{min(evaluation.days)} to {max(evaluation.days)}"
    )
    console.print()
    print_table(console, comparison_table(title, rows, console.width))
    guard = guard_table(rows, console.width)
    if guard is not None:
        console.print()
        print_table(console, guard)
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
