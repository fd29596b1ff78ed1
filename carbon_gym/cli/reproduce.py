"""`carbon-gym reproduce`: every table and figure of the paper, beside the published values."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from carbon_gym.cli.choices import at_least_one, day, processes_of
from carbon_gym.cli.comparing import (
    ConversationsOption,
    FormatOption,
    GridOption,
    JobsOption,
    SessionsOption,
    StartOption,
    TokenizerOption,
    ZonesOption,
    check_before_the_work,
    files_of,
)
from carbon_gym.cli.console import (
    finish,
    out_folder,
    output_console,
    say,
    took,
    turns_bar,
)
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.report.document_files import write_document
from carbon_gym.reproduce.inputs import scenario_of
from carbon_gym.reproduce.parts import PARTS, parts_named
from carbon_gym.reproduce.plan import Plan
from carbon_gym.reproduce.rows_file import ReproduceFile
from carbon_gym.reproduce.run import Rows, Unit, document, run_units, units_of
from carbon_gym.scenario.own_files import OwnFiles

QUICK_FLEETS = 5
QUICK_SESSIONS = 600
EXAMPLES = """\b
Examples:
  carbon-gym reproduce --quick
  carbon-gym reproduce --only overall --only ablation --out runs/paper
  carbon-gym reproduce --conversations turns.csv.gz --grid grid.csv \\
      --zones GB,DE --start 2023-05-08 --fleets 8
"""


def _complete_part(incomplete: str) -> list[str]:
    return [part.name for part in PARTS if part.name.startswith(incomplete)]


def reproduce(
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help=f"{QUICK_FLEETS} fleets of {QUICK_SESSIONS} sessions, fewer settings."
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"A part of the report; may be repeated: {', '.join(p.name for p in PARTS)}.",
            autocompletion=_complete_part,
        ),
    ] = None,
    conversations: ConversationsOption = None,
    format: FormatOption = None,
    tokenizer: TokenizerOption = None,
    grid: GridOption = None,
    zones: ZonesOption = None,
    start: StartOption = None,
    fleets: Annotated[
        int | None, typer.Option(metavar="K", help="Fleets (days) of the main comparison.")
    ] = None,
    sessions: SessionsOption = None,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the report; default runs/<time>-reproduce."),
    ] = None,
) -> None:
    """Make the paper's tables and figures anew, each beside the published value.

    A rerun into the same folder takes up what is there and still right.
    """
    parts = parts_named(only or [])
    plan = _plan(
        files_of(conversations, format, tokenizer, grid, zones),
        None if start is None else day("--start", start),
        quick,
        at_least_one("--fleets", fleets),
        at_least_one("--sessions", sessions),
    )
    check_before_the_work([scenario_of(plan, dataset) for dataset in plan.datasets])
    processes = processes_of(jobs)
    folder = out_folder(out, "reproduce")
    with ReproduceFile(folder) as file:
        units, ids = units_of(plan, parts)
        with turns_bar(f"{len(units)} worlds", sum(unit.size for unit in units)) as on_served:
            run_units(plan, units, file, jobs=processes, on_served=on_served, on_unit=_say_unit)
        written = write_document(document(plan, Rows(file, ids), parts), folder)
    rows = [file.path] if file.path.is_file() else []  # some parts serve nothing
    results = {"parts": [part.name for part in parts], "worlds": len(units)}
    finish(results, [*written, *rows], *written[:2])
    output_console().print(took())


def _say_unit(unit: Unit, ran: int) -> None:
    known = len(unit.policies) - ran
    say(f"{unit.id}: {ran} policies served, {known} were there already")


def _plan(
    files: OwnFiles, start: date | None, quick: bool, fleets: int | None, sessions: int | None
) -> Plan:
    """Sizes: as asked for, else as many fleets as the user's files have days for."""
    usual = Plan()
    datasets = usual.datasets if files.conversations is None else usual.datasets[:1]
    sessions = sessions or (QUICK_SESSIONS if quick else None)
    most = QUICK_FLEETS if quick else usual.fleets
    if fleets is None and (files.conversations is not None or files.grid):
        at_hand = evaluation_fleets(
            scenario_of(Plan(files=files), datasets[0]), start=start, sessions=sessions
        )
        most = min(most, len(at_hand.traces))
    count = fleets or most
    # A file's sessions are dealt to the days there are: fewer days would be fuller ones.
    each = count if files.conversations is not None else min(count, usual.sensitivity_fleets)
    return Plan(files, start, datasets, count, each, sessions, quick)
