"""Files that `read_grid` takes as they are: wide and long CSV, the Electricity Maps export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from carbon_gym.grid.layouts import LONG_VALUE_COLUMNS, Published, layout_of
from carbon_gym.grid.sources.content import NAMELESS, Content
from carbon_gym.grid.times import time_columns


def is_export(content: Content) -> bool:
    """Whether this looks like an export of Electricity Maps."""
    return any(name.startswith("carbon intensity gco") for name in content.header)


def is_long(content: Content) -> bool:
    """Whether a column is called zone, and another by a name of intensities."""
    return "zone" in content.header and bool(LONG_VALUE_COLUMNS.intersection(content.header))


def is_wide(content: Content) -> bool:
    """Whether there is a column of times."""
    return content.table is not None and bool(time_columns(content.table.header))


def published(contents: Sequence[Content]) -> list[Published]:
    """Values of all zones; an empty cell is a row that is missing.

    A wide file whose only column is named by its unit is of a zone that it does not name.
    """
    parts: list[Published] = []
    for content in contents:
        layout = layout_of(content.sheet)
        found = layout.published(layout.zones, skip_empty=True)
        if len(found) == 1 and found[0].zone.lower() in LONG_VALUE_COLUMNS:
            found = [replace(found[0], zone=NAMELESS)]
        parts += found
    return parts
