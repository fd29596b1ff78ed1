"""What a report is made of: sections of text, tables and figures, before any format.

`carbon_gym.report.document_files.write_document` turns it into files: Markdown, one self-contained
HTML page, a CSV for each table, PNG and SVG for each figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, slots=True)
class Measured:
    """A number, with its interval where there is one.

    Attributes:
        value: In the unit of its column.
        low: Lower end of the 95 % interval; None: there is none.
        high: Upper end.
    """

    value: float
    low: float | None = None
    high: float | None = None


Cell = str | int | float | Measured | None
"""Text, a count, a number, a number with an interval; None: there is nothing to say."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: Its head, plain text.
        unit: Of its numbers; shown beside the title, "" for none.
        digits: After the point, of floats and `Measured`.
        signed: Whether positive numbers carry a plus.
        kind: "text" stands at the left, "number" at the right.
    """

    title: str
    unit: str = ""
    digits: int = 2
    signed: bool = False
    kind: Literal["text", "number"] = "number"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells.

    Attributes:
        name: Unique in a document; letters, digits and hyphens: the file `<name>.csv`.
        title: Above it, plain text.
        columns: At least one.
        rows: As many cells as columns each.
        caption: Below it, Markdown of one paragraph: what the columns mean.
        emphasis: Numbers of the rows that are to be seen first.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    emphasis: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.name}: row {number} has {len(row)} cells, not {len(self.columns)}"
                )


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure.

    Attributes:
        name: Unique in a document; letters, digits and hyphens: `<name>.png`, `<name>.svg`.
        title: Above it, plain text.
        drawing: Made by `carbon_gym.report.style.new_figure`.
        alternative: What it shows, in words, for those who do not see it.
        caption: Below it, Markdown of one paragraph.
    """

    name: str
    title: str
    drawing: Drawing
    alternative: str
    caption: str = ""


Block = str | Table | Picture
"""A paragraph or list in Markdown (no headings, no raw HTML), a table, a figure."""


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter.

    Attributes:
        name: Unique in a document; letters, digits and hyphens: the anchor.
        title: Plain text.
        blocks: In order.
        folded: Whether the page shows only the title until one opens it; it is not printed then.
    """

    name: str
    title: str
    blocks: Sequence[Block]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report.

    Attributes:
        title: Plain text.
        introduction: Blocks before the first section.
        sections: In order.
        facts: Name to value, shown small at the end: versions, commands, inputs, seeds.
        one_page: Whether it is printed small, to fit on one sheet of A4.
    """

    title: str
    introduction: Sequence[Block]
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)
    one_page: bool = False
