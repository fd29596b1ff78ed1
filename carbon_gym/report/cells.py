"""Numbers as the tables show them, and tables of columns that know what they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

Shown = Callable[[Mapping[str, Any]], str]
"""From a row to a cell."""
WIDE = 100
"""Terminal width, characters, from which further columns are shown."""


def figures_table(
    title: str,
    caption: str,
    columns: Sequence[tuple[str, Shown]],
    rows: Sequence[Mapping[str, Any]],
    *,
    head: str = "policy",
    fold: bool = False,
    collapse_padding: bool = False,
) -> Table:
    """A table for the terminal.

    Args:
        title: Above it.
        caption: Below it.
        columns: Their names and what they show of a row.
        rows: What is shown.
        head: Name and key of the first column.
        fold: Whether a long name may take several lines.
        collapse_padding: Less room between columns.
    """
    table = Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=None,
        pad_edge=False,
        collapse_padding=collapse_padding,
    )
    table.add_column(head, no_wrap=not fold, overflow="fold" if fold else "ellipsis")
    for name, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row[head], *(shown(row) for _, shown in columns))
    return table


def markdown_lines(
    columns: Sequence[tuple[str, Shown]],
    rows: Sequence[Mapping[str, Any]],
    *,
    head: str = "policy",
) -> list[str]:
    """The same in Markdown, a line each."""
    return [
        f"| {head} | {' | '.join(name for name, _ in columns)} |",
        f"|---|{'---:|' * len(columns)}",
        *(f"| {row[head]} | {' | '.join(s(row) for _, s in columns)} |" for row in rows),
    ]


def number(value: float | None, digits: int) -> str:
    """A number with so many digits behind the point."""
    return "–" if value is None else f"{value:,.{digits}f}"


def percent(share: float | None) -> str:
    """A share in percent, without the sign."""
    if share is None:
        return "–"
    return "0" if share == 0 else f"{100 * share:.1f}"


def signed(value: float | None, scale: float, digits: int) -> str:
    """A scaled difference with its sign."""
    return "–" if value is None else f"{scale * value:+.{digits}f}"


def plus_minus(estimate: Mapping[str, Any], scale: float, sign: str = "+") -> str:
    """A scaled mean, and half its interval where that is symmetric."""
    if estimate["mean"] is None:
        return "–"
    digits = 0 if abs(scale * estimate["mean"]) >= 100 else 1
    shown = f"{scale * estimate['mean']:{sign}.{digits}f}"
    if estimate["method"] != "paired-t-over-fleets":
        return shown
    return f"{shown} ±{scale * (estimate['high'] - estimate['low']) / 2:.{digits}f}"
