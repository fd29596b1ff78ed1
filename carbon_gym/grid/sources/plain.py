"""Files that `read_grid` takes as they are: wide and long CSV, the Electricity Maps export."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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


def published(
    contents: Sequence[Content], wanted: Collection[str] | None = None
) -> list[Published]:
    """Values of the zones wanted, or of all; an empty cell is a row that is missing.

    A wide file whose only column is named by its unit is of a zone that it does not name.
    """
    parts: list[Published] = []
    for content in contents:
        layout = layout_of(content.sheet)
        nameless = len(layout.zones) == 1 and layout.zones[0].lower() in LONG_VALUE_COLUMNS
        zones = layout.zones if wanted is None or nameless else wanted
        found = layout.published(zones, skip_empty=True)
        parts += [replace(part, zone=NAMELESS) for part in found] if nameless else found
    return parts
