"""Tables as wide as there is room for: nothing of them is cut off."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

_ANY_WIDTH = 10_000
_KEYS_SHARE = 0.6
"""Of the width, at most, for the columns that say what a row is."""


def print_table(console: Console, table: Table, keys: int = 1) -> None:
    """Print a table; where it is too wide, its columns below each other.

    Args:
        console: Where.
        table: Any; columns that may wrap do so first.
        keys: Columns that say what a row is; they are repeated in every part.
    """
    if _least_width(console, table) > console.width:
        table.collapse_padding = True
    if _least_width(console, table) <= console.width:
        console.print(table)
        return
    key, others = table.columns[:keys], table.columns[keys:]
    room = int(_KEYS_SHARE * console.width)
    most = None if _measured(console, _part(table, key, keys)).maximum <= room else room // keys
    parts: list[list[Column]] = [[]]
    for column in others:
        wider = _part(table, [*key, *parts[-1], column], keys, most)
        if parts[-1] and _measured(console, wider).maximum > console.width:
            parts.append([])
        parts[-1].append(column)
    for number, columns in enumerate(parts):
        part = _part(table, [*key, *columns], keys, most)
        part.title = table.title if number == 0 else None
        part.caption = table.caption if number + 1 == len(parts) else None
        if number:
            console.print()
        console.print(part)


def _measured(console: Console, table: Table) -> Measurement:
    """Characters that a table takes at least, and if it has room."""
    return console.measure(table, options=console.options.update(width=_ANY_WIDTH))


def _least_width(console: Console, table: Table) -> int:
    """Characters without which something would be cut off: what may wrap does."""
    least = _measured(console, table).maximum
    for number, column in enumerate(table.columns):
        if not column.no_wrap:
            alone = _measured(console, _part(table, table.columns[number : number + 1], 0))
            least -= alone.maximum - alone.minimum
    return least


def _part(table: Table, columns: Sequence[Column], keys: int, most: int | None = None) -> Table:
    """The same rows with some of the columns; keys are folded beyond `most` characters."""
    part = Table(
        title_justify=table.title_justify,
        caption_justify=table.caption_justify,
        box=table.box,
        pad_edge=table.pad_edge,
        collapse_padding=table.collapse_padding,
        show_header=table.show_header,
    )
    for number, column in enumerate(columns):
        part.add_column(
            column.header,
            justify=column.justify,
            style=column.style,
            overflow="fold",
            no_wrap=False if number < keys else column.no_wrap,
            max_width=most if number < keys else None,
        )
    cells = zip(*(column.cells for column in columns), strict=True)
    for row, values in zip(table.rows, cells, strict=True):
        part.add_row(*values, style=row.style)
    return part
