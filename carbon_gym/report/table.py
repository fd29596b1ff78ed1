"""The table in the terminal: for reading; the file beside it is for keeping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from carbon_gym.report.cells import (
    WIDE,
    Shown,
    figures_table,
    markdown_lines,
    number,
    percent,
    plus_minus,
    signed,
)

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

GUARD_TITLE = "against ccar, on the same turns"
GUARD_CAPTION = (
    "q, low, worst: realised quality minus ccar's, in 0.001: mean; of the tenth of sessions that "
    "ccar serves worst; of the category that fares worst. P95: of TTFT. <95 %: % of sessions below "
    "95 % of their mean under ccar, realised/predicted. ±: half the 95 % paired t interval over "
    "fleets, from five on."
)
_GUARD_CAPTION_EXTRA = (
    " predicted: as q. own low: of the tenth of sessions that the policy itself serves worst. "
    "least: smallest session mean over ccar's, realised."
)


def comparison_table(title: str, rows: Sequence[Mapping[str, Any]], width: int) -> Table:
    """Table of the pooled rows of one scenario.

    Args:
        title: Above the table.
        rows: All rows of the scenario; those with ``fleet == "all"`` are shown.
        width: Characters at hand; narrow tables leave out some columns.
    """
    pooled = [row for row in rows if row["fleet"] == "all"]
    caption = CAPTION.format(interval=interval_words(rows)) + (
        CAPTION_EXTRA if width >= WIDE else ""
    )
    return figures_table(title, caption, [*_COLUMNS, *(_EXTRA if width >= WIDE else ())], pooled)


def interval_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the intervals of the savings over faircarbon are.

    Args:
        rows: All rows of one scenario.
    """
    fleets = len({row["fleet"] for row in rows}) - 1
    savings = [row["saving_vs_faircarbon"] for row in rows if row["fleet"] == "all"]
    methods = [saving["method"] for saving in savings if saving]
    return _METHODS[methods[0]].format(fleets=fleets) if methods else "no interval"


def guard_table(rows: Sequence[Mapping[str, Any]], width: int) -> Table | None:
    """What the users of each policy lose or gain against CCAR's; None where nothing says so.

    Args:
        rows: As for `comparison_table`.
        width: Characters at hand.
    """
    shown = guarded(rows)
    if not shown:
        return None
    extra = width >= WIDE
    caption = GUARD_CAPTION + (_GUARD_CAPTION_EXTRA if extra else "")
    columns = _GUARD_WIDE if extra else _GUARD_NARROW
    return figures_table(GUARD_TITLE, caption, columns, shown, collapse_padding=True)


def guarded(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The pooled rows that stand beside CCAR's, without CCAR itself."""
    return [
        row
        for row in rows
        if row["fleet"] == "all" and row["policy"] != "ccar" and row.get("versus_ccar")
    ]


def _saving(interval: Mapping[str, Any] | None) -> str:
    if interval is None:
        return "–"
    digits = 0 if abs(interval["mean"]) >= 1 else 1
    mean, low, high = (f"{100 * interval[key]:.{digits}f}" for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _violations(row: Mapping[str, Any]) -> str:
    return "/".join(
        percent(row[f"{kind}_violation_rate"]) for kind in ("quality", "ttft", "capacity")
    )


def _gate(row: Mapping[str, Any]) -> str:
    """Proposed and blocked switches per session."""
    proposals, blocks = row["gate_proposals_per_session"], row["gate_blocks_per_session"]
    return f"{proposals:.2f}/{blocks:.2f}" if proposals else ""


def _below(row: Mapping[str, Any]) -> str:
    """Share of sessions below 95 % of CCAR's, realised and predicted."""
    ratio = row["versus_ccar"]["session_quality_ratio"]
    return "/".join(percent(ratio[kind]["below_95_percent"]) for kind in ("realised", "predicted"))


def _worst_category(row: Mapping[str, Any], letters: int | None = None) -> str:
    by_category = row["versus_ccar"]["quality_realised_difference_by_category"]
    means = {
        name: found["mean"] for name, found in by_category.items() if found["mean"] is not None
    }
    if not means:
        return "–"
    worst = min(means, key=lambda name: means[name])
    return f"{signed(means[worst], 1000, 1)} {worst[:letters]}"


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The pooled rows as a Markdown table with all columns."""
    return markdown_lines((*_COLUMNS, *_EXTRA), rows)


def markdown_guard(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The guard's table of pooled rows in Markdown, with all columns and a caption."""
    table = markdown_lines(_GUARD_WIDE, rows)
    return [*table, "", GUARD_CAPTION + _GUARD_CAPTION_EXTRA]


_COLUMNS: tuple[tuple[str, Shown], ...] = (
    ("CO2 g", lambda row: number(row["co2_g"], 0 if row["co2_g"] >= 100 else 2)),
    ("rel.", lambda row: number(row["co2_relative"], 3)),
    ("saving %", lambda row: _saving(row["saving_vs_faircarbon"])),
    ("quality", lambda row: number(row["quality_predicted"], 3)),
    ("P95 s", lambda row: number(row["ttft_p95_s"], 2)),
    ("viol. %", _violations),
)
_EXTRA: tuple[tuple[str, Shown], ...] = (
    ("mWh", lambda row: number(row["recompute_mwh_per_turn"], 1)),
    ("moves", lambda row: number(row["switches_per_session"], 2)),
    ("gate", lambda row: _gate(row)),
    ("us", lambda row: number(row["decision_us"], 1)),
)
_GUARD: tuple[tuple[str, Shown], ...] = (
    ("saving %", lambda row: plus_minus(row["versus_ccar"]["saving"], 100, "-")),
    (
        "q",
        lambda row: plus_minus(row["versus_ccar"]["quality_realised_difference"], 1000),
    ),
    ("P95 s", lambda row: signed(row["versus_ccar"]["ttft_p95_difference_s"]["mean"], 1, 2)),
    ("<95 %", _below),
    (
        "low",
        lambda row: signed(row["versus_ccar"]["low_decile_difference"]["of_ccar"]["mean"], 1000, 1),
    ),
)
_GUARD_NARROW = (*_GUARD, ("worst", lambda row: _worst_category(row, letters=6)))
_GUARD_WIDE: tuple[tuple[str, Shown], ...] = (
    *_GUARD,
    ("worst", _worst_category),
    (
        "predicted",
        lambda row: plus_minus(row["versus_ccar"]["quality_predicted_difference"], 1000),
    ),
    (
        "own low",
        lambda row: signed(row["versus_ccar"]["low_decile_difference"]["own"]["mean"], 1000, 1),
    ),
    (
        "least",
        lambda row: number(row["versus_ccar"]["session_quality_ratio"]["realised"]["smallest"], 2),
    ),
)
