"""The page as a whole: an overview, runs side by side, and a section for each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from carbon_gym.errors import InputError
from carbon_gym.report.document import Block, Cell, Column, Document, Section, Table
from carbon_gym.report.document_cells import table_csv
from carbon_gym.report.runs.benchmark_blocks import benchmark_blocks
from carbon_gym.report.runs.beside_blocks import beside_sections
from carbon_gym.report.runs.evaluation_blocks import evaluation_blocks
from carbon_gym.report.runs.found import (
    AUDIT,
    BENCHMARK,
    EVALUATE,
    FRONT,
    REPRODUCE,
    TRAIN,
    Run,
)
from carbon_gym.report.runs.front_blocks import front_blocks
from carbon_gym.report.runs.training_blocks import training_blocks
from carbon_gym.report.runs.worlds_blocks import audit_blocks, reproduce_blocks
from carbon_gym.report.work_file import versions, what_is_wrong

_BLOCKS: Mapping[str, Callable[[Run], list[Block]]] = {
    BENCHMARK.command: benchmark_blocks,
    EVALUATE.command: evaluation_blocks,
    FRONT.command: front_blocks,
    REPRODUCE.command: reproduce_blocks,
    AUDIT.command: audit_blocks,
    TRAIN.command: training_blocks,
}
_HOW_TO_READ = (
    "Tables sort by a click, or the enter key, on their heads; all digits of a number, and what a "
    "point of a figure is, show where the pointer rests. Every table can be had as CSV."
)


def page_of(runs: Sequence[Run]) -> Document:
    """The document.

    Args:
        runs: At least one.

    Raises:
        InputError: A file lacks what its command writes.
    """
    beside = _checked(runs, lambda: beside_sections(runs))
    own = [
        section
        for run in runs
        for section in _checked([run], lambda run=run: [_section(run)])  # type: ignore[misc]
    ]
    what = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    files = {f"run {run.number}": str(run.path) for run in runs}
    return Document(
        f"Results of {what}",
        [_HOW_TO_READ, *([_overview(runs)] if len(runs) > 1 else [])],
        [*beside, *own],
        {"command": _command(runs), **files, **versions()},
    )


def _section(run: Run) -> Section:
    return Section(f"run-{run.number}", run.title, _BLOCKS[run.kind.command](run))


def _checked(runs: Sequence[Run], make: Callable[[], list[Section]]) -> list[Section]:
    """What is made, or a sentence that names the file in which something is missing."""
    try:
        sections = make()
        for table in [block for section in sections for block in section.blocks]:
            if isinstance(table, Table):
                table_csv(table)  # cells are cells, and columns have names of their own
        return sections
    except InputError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        StopIteration,
        ZeroDivisionError,
        OverflowError,
    ) as error:
        raise InputError(
            f"{', '.join(str(run.path) for run in runs)}: lacks what `carbon-gym "
            f"{runs[0].kind.command}` writes ({what_is_wrong(error)}); run the command again into "
            "a new folder"
        ) from error


def _overview(runs: Sequence[Run]) -> Table:
    rows: list[list[Cell]] = [
        [
            run.label,
            run.kind.command,
            ", ".join(run.scenarios) or f"{len(run.content.get('worlds', {}))} worlds",
            f"{run.written:%Y-%m-%d %H:%M}",
            run.version,
        ]
        for run in runs
    ]
    return Table(
        "runs",
        "What is on this page",
        [
            Column(title, kind="text")
            for title in ("run", "command", "of", "written, UTC", "version")
        ],
        rows,
    )


def _command(runs: Sequence[Run]) -> str:
    return " ".join(["carbon-gym report", *(run.path.parent.name or "." for run in runs)])
