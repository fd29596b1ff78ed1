"""The table in the terminal: for reading; the file beside it is for keeping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

WIDE = 100
"""Terminal width, characters, from which the columns of `_EXTRA` are shown too."""

CAPTION = (
    "rel.: CO2, session-affinity = 1. saving: over faircarbon, with {interval}. "
    "quality: mean predicted. P95: of TTFT. viol.: % of turns that break the quality, TTFT and "
    "capacity bound."
)
CAPTION_EXTRA = (
    " mWh: recomputation per turn. moves: switches per session. gate: proposals / "
    "blocks per session. us: time of a decision."
)

_METHODS = {
    "paired-t-over-fleets": "the 95 % paired t interval over {fleets} fleets",
    "bootstrap-over-sessions": "a 95 % bootstrap interval over sessions (fleets: {fleets})",
}


def comparison_table(title: str, rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    """Table of the pooled rows of one scenario.

    Args:
        title: Above the table.
        rows: All rows of the scenario; those with ``fleet == "all"`` are shown.
        width: Characters at hand; narrow tables leave out some columns.
    """
    pooled = [row for row in rows if row["fleet"] == "all"]
    fleets = len({row["fleet"] for row in rows}) - 1
    methods = [
        row["saving_vs_faircarbon"]["method"] for row in pooled if row["saving_vs_faircarbon"]
    ]
    interval = _METHODS[methods[0]].format(fleets=fleets) if methods else "no interval"
    caption = CAPTION.format(interval=interval) + (CAPTION_EXTRA if width >= WIDE else "")
    table = Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("policy", no_wrap=True)
    columns = [*_COLUMNS, *(_EXTRA if width >= WIDE else ())]
    for name, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in pooled:
        table.add_row(row["policy"], *(shown(row) for _, shown in columns))
    return table


def _saving(interval: Mapping[str, Any] | None) -> str:
    if interval is None:
        return "–"
    digits = 0 if abs(interval["mean"]) >= 1 else 1
    mean, low, high = (f"{100 * interval[key]:.{digits}f}" for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _violations(row: Mapping[str, Any]) -> str:
    return "/".join(
        _percent(row[f"{kind}_violation_rate"]) for kind in ("quality", "ttft", "capacity")
    )


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _percent(share: float | None) -> str:
    if share is None:
        return "–"
    return "0" if share == 0 else f"{100 * share:.1f}"


def _gate(row: Mapping[str, Any]) -> str:
    """Proposed and blocked switches per session."""
    proposals, blocks = row["gate_proposals_per_session"], row["gate_blocks_per_session"]
    return f"{proposals:.2f}/{blocks:.2f}" if proposals else ""


def markdown_header() -> list[str]:
    """Head of a Markdown table with all columns."""
    names = ["policy", *(name for name, _ in (*_COLUMNS, *_EXTRA))]
    return [f"| {' | '.join(names)} |", f"|---|{'---:|' * (len(names) - 1)}"]


def markdown_row(row: Mapping[str, Any]) -> str:
    """A pooled row as a line of a Markdown table."""
    cells = [row["policy"], *(shown(row) for _, shown in (*_COLUMNS, *_EXTRA))]
    return f"| {' | '.join(cells)} |"


Shown = Callable[[Mapping[str, Any]], str]

_COLUMNS: tuple[tuple[str, Shown], ...] = (
    ("CO2 g", lambda row: _number(row["co2_g"], 0)),
    ("rel.", lambda row: _number(row["co2_relative"], 3)),
    ("saving %", lambda row: _saving(row["saving_vs_faircarbon"])),
    ("quality", lambda row: _number(row["quality_predicted"], 3)),
    ("P95 s", lambda row: _number(row["ttft_p95_s"], 2)),
    ("viol. %", _violations),
)
_EXTRA: tuple[tuple[str, Shown], ...] = (
    ("mWh", lambda row: _number(row["recompute_mwh_per_turn"], 1)),
    ("moves", lambda row: _number(row["switches_per_session"], 2)),
    ("gate", lambda row: _gate(row)),
    ("us", lambda row: _number(row["decision_us"], 1)),
)
