"""What several sections say alike: inputs in words, cells and columns of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carbon_gym.report.document import Cell, Column, Measured
from carbon_gym.report.document_cells import measured
from carbon_gym.report.document_markdown import escaped
from carbon_gym.report.runs.found import Run
from carbon_gym.report.work_file import dict_of

Row = Mapping[str, Any]

PERCENT = 100.0
POLICY = Column("policy", kind="text")
KINDS = ("quality", "ttft", "capacity")
"""Of violations, as rows name them."""
RATES = (
    Column("quality bound broken", "% of turns", 1),
    Column("TTFT bound broken", "% of turns", 1),
    Column("no room", "% of turns", 1),
)
"""Columns of `rates`."""


def rates(row: Row, ending: str = "") -> list[Cell]:
    """Violations of the bounds, % of turns; `ending` as in ``quality_violation_rate<ending>``."""
    found = [row[f"{kind}_violation_rate{ending}"] for kind in KINDS]
    return [None if rate is None else PERCENT * rate for rate in found]


def percent(estimate: Row | None) -> Measured | None:
    """A share with its interval, %."""
    return measured(estimate, PERCENT)


def pooled_rows(rows: Sequence[Row]) -> list[Row]:
    """Those of all fleets."""
    return [row for row in rows if row["fleet"] == "all"]


def inputs_text(run: Run, scenario: str, rows: Sequence[Row]) -> str:
    """What was served in a scenario, and what was drawn for it, in Markdown.

    Args:
        run: With this scenario.
        scenario: Its name.
        rows: Its rows, with the sessions and turns of all fleets; none: it was interrupted.
    """
    inputs = run.content["inputs"][scenario]
    described = str(dict_of(run.content["scenario"].get(scenario)).get("description") or "")
    said = [f"{described.rstrip('.')}."] if described else []
    if rows:
        pooled = pooled_rows(rows)[0]
        sessions = f"{pooled['sessions']:,} sessions, " if "sessions" in pooled else ""
        said.append(f"{days_words(inputs['days'])}: {sessions}{pooled['turns']:,} turns.")
    else:
        said.append("The run was interrupted before a result was there; the same command goes on.")
    said.append(f"Grid: {inputs['grid']}.")
    notes = "".join(f"\n- {escaped(note)}" for note in inputs["notes"])
    return f"Scenario **{escaped(scenario)}**: {escaped(' '.join(said))}\n{notes}"


def days_words(days: Sequence[str]) -> str:
    """Number and span of the fleets' days."""
    if len(days) == 1:
        return f"1 fleet, the day {days[0]}"
    return f"{len(days)} fleets, days from {min(days)} to {max(days)}"
