"""`carbon-gym audit`: what your present rule emits, and what others would on the same turns."""

from __future__ import annotations

from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from carbon_gym.audit.cases import RULES
from carbon_gym.audit.findings import Findings
from carbon_gym.audit.report import Notes, report_of
from carbon_gym.audit.rows_file import AuditFile
from carbon_gym.audit.stages import audit_fleet, number_of_cases
from carbon_gym.audit.tables import savings_table
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
    with_files,
)
from carbon_gym.cli.console import finish, out_folder, output_console, took, turns_bar
from carbon_gym.cli.tables import print_table
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.fleet.plausible import doubts_of
from carbon_gym.report.cells import figures_table
from carbon_gym.report.document_cells import head, shown
from carbon_gym.report.document_files import write_document
from carbon_gym.report.work_file import versions
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.simulator.logged import logged_deployments

DEFAULT_FLEET = "sharegpt"
USUAL_DAYS = 7
"""Days where neither --days nor the file's arrivals say: a week."""
_SHOWN = 4
"""Columns of savings that fit on a terminal."""
LOGGED = "replay"
"""The policy that follows a log."""
EXAMPLES = """\b
Examples:
  carbon-gym audit
  carbon-gym audit --rule session-hash --days 5 --sessions 600
  carbon-gym audit --conversations turns.csv.gz --rule served_by \\
      --grid grid.csv --fleet fleet.yaml --start 2023-05-08
"""


def audit(
    conversations: ConversationsOption = None,
    format: FormatOption = None,
    tokenizer: TokenizerOption = None,
    grid: GridOption = None,
    zones: ZonesOption = None,
    fleet: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Scenario with your fleet: a YAML file, or a packaged one.",
        ),
    ] = DEFAULT_FLEET,
    rule: Annotated[
        str,
        typer.Option(
            metavar="NAME|COLUMN",
            help=f"How turns are routed now: {', '.join(RULES)}, or the column of --conversations "
            "that holds model@GPU@region for every turn.",
        ),
    ] = RULES[0],
    start: StartOption = None,
    days: Annotated[
        int | None,
        typer.Option(
            metavar="N", help=f"Days; default: those of the file's arrivals, else {USUAL_DAYS}."
        ),
    ] = None,
    sessions: SessionsOption = None,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the report; default runs/<time>-audit."),
    ] = None,
) -> None:
    """Say what your present rule emits, and what CCAR and the learned routers would.

    A rerun into the same folder takes up what is there and still right.
    """
    size = {
        "fleets": at_least_one("--days", days),
        "start": None if start is None else day("--start", start),
        "sessions": at_least_one("--sessions", sessions),
    }
    processes = processes_of(jobs)
    files = files_of(conversations, format, tokenizer, grid, zones)
    scenario = with_files(load_scenario(fleet), files)
    scenario = _with_rule(scenario, rule)
    check_before_the_work([scenario])
    folder = out_folder(out, "audit")
    with AuditFile(folder) as file:
        evaluation = evaluation_fleets(scenario, usual_fleets=USUAL_DAYS, once=True, **size)  # type: ignore[arg-type]
        _check_turns(evaluation)
        findings = _run(evaluation, rule, processes, file)
        notes = _notes(evaluation, findings)
        document = report_of(
            findings,
            [day.isoformat() for day in evaluation.days],
            notes,
            _facts(evaluation, rule, scenario),
        )
        written = write_document(document, folder)
    console = output_console()
    _show(console, findings)
    table = savings_table(findings)
    saved = [dict(zip(map(head, table.columns), row, strict=True)) for row in table.rows]
    results = {"savings": saved, "notes": asdict(notes)}
    finish(results, [*written, file.path], *written[:2])
    console.print(took())


def _with_rule(scenario: Scenario, rule: str) -> Scenario:
    """The scenario with the log's column, if that is what the rule is."""
    if rule in RULES:
        return scenario
    if scenario.workload.format != "tokens":
        raise InputError(
            f"--rule {rule!r} is not known; {did_you_mean(rule, RULES)}use one of "
            f"{', '.join(RULES)}, or with --conversations in the format tokens the name of the "
            "column that says where each turn was served"
        )
    return load_scenario(scenario, workload={"log_column": rule})


def _check_turns(evaluation: Evaluation) -> None:
    """Refuse what could not be compared, before the work."""
    if not any(trace.turns for trace in evaluation.traces):
        raise InputError(
            f"{evaluation.scenario.name}: no day has a turn, so that there is nothing to compare; "
            "give more sessions or other days"
        )
    if evaluation.scenario.workload.log_column is not None:
        logged_deployments(evaluation.traces[0].log, Deployments.of(evaluation.scenario))


def _run(evaluation: Evaluation, rule: str, jobs: int, file: AuditFile) -> Findings:
    """Run what the folder does not have yet."""
    file.say_inputs(evaluation)
    present, label = (rule, rule) if rule in RULES else (LOGGED, f"your log ({rule})")
    number = number_of_cases(evaluation.scenario)
    with turns_bar(f"{number} comparisons", number) as on_cases:
        return audit_fleet(evaluation, present, file, label=label, jobs=jobs, on_cases=on_cases)


def _notes(evaluation: Evaluation, findings: Findings) -> Notes:
    """What was drawn or dropped, and what gates, knobs and routers were made for."""
    baselines = our_package("baselines")
    borrowed = [
        note for case in findings.cases for note in baselines.notes_on(case.scenario, [case.policy])
    ]
    own = any(case.scenario.knobs != evaluation.scenario.knobs for case in findings.cases)
    doubts = tuple(doubts_of(evaluation.scenario))
    return Notes(evaluation.notes, tuple(dict.fromkeys(borrowed)), own, doubts)


def _facts(evaluation: Evaluation, rule: str, asked: Scenario) -> dict[str, str]:
    workload = evaluation.scenario.workload
    source = "generated" if workload.path is None else f"{Path(workload.path).name}"
    return {
        "fleet": f"{asked.name}: {len(Deployments.of(evaluation.scenario))} deployments",
        "present rule": rule,
        "conversations": source,
        "grid": evaluation.grid.source,
        "days": ", ".join(day.isoformat() for day in evaluation.days),
        **versions(),
    }


def _show(console: Console, findings: Findings) -> None:
    """The table of savings on the terminal."""
    table = savings_table(findings)
    router, *others = table.columns[:_SHOWN]
    rows = [
        {head(c): shown(cell, c) for c, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]
    columns = [(head(column), itemgetter(head(column))) for column in others]
    shown_table = figures_table(table.title, table.caption, columns, rows, head=router.title)
    print_table(console, shown_table)
