"""`carbon-gym report`: one page from the results of other commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carbon_gym.cli.console import finish, out_folder
from carbon_gym.errors import InputError

if TYPE_CHECKING:
    from carbon_gym.report.runs.found import Run

EXAMPLES = """\b
Examples:
  carbon-gym report runs/20230508-101500-benchmark
  carbon-gym report runs/*-benchmark runs/*-evaluation --out runs/page
  carbon-gym report before/results.json after/results.json
"""


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Folders that benchmark, evaluate, reproduce, audit or train wrote, or the JSON "
            "files in them. Benchmarks of the same scenario are put side by side.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the page; default runs/<time>-report."),
    ] = None,
) -> None:
    """Make one page of results: report.html, which needs no network, report.md, CSV, pictures."""
    from carbon_gym.report.document_files import write_document
    from carbon_gym.report.runs.found import runs_of
    from carbon_gym.report.runs.page import page_of

    found = runs_of(runs)
    folder = out_folder(out, "report", goes_on=False)
    _check_other_report(folder, found)
    written = write_document(page_of(found), folder)
    said = [
        {
            "run": run.name,
            "file": run.path,
            "command": run.kind.command,
            "scenarios": run.scenarios,
            "written": f"{run.written:%Y-%m-%dT%H:%M:%SZ}",
            "version": run.version or None,
        }
        for run in found
    ]
    finish({"runs": said}, written, *written[:2])


def _check_other_report(folder: Path, runs: list[Run]) -> None:
    """Refuse to write over the report of the run itself."""
    for run in runs:
        if run.kind.has_report and run.path.parent.resolve() == folder.resolve():
            raise InputError(
                f"--out {folder}: holds the report of `carbon-gym {run.kind.command}`, which would "
                "be written over; name another folder"
            )
