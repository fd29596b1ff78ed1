"""A document as one Markdown file, as GitHub shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from carbon_gym.report.document import Block, Cell, Column, Document, Picture, Section, Table
from carbon_gym.report.document_cells import encodable, head, one_line, shown

TABLES, PICTURES = "tables", "pictures"
"""Folders beside the file."""
FACTS = "How this report was made"

# An underscore inside a word and an ampersand that starts no entity mean themselves.
_SPECIAL = re.compile(r"[\\`*\[\]<|$~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")


def markdown(document: Document) -> str:
    """The text; tables and pictures are linked to the files of `write_document`."""
    parts = [f"# {escaped(document.title)}"]
    links = [f"- [{escaped(section.title)}](#{section.name})" for section in document.sections]
    if links:
        parts.append("\n".join(links))
    parts += _blocks(document.introduction)
    for section in document.sections:
        parts += _section(section)
    if document.facts:
        facts = [f"- {escaped(name)}: {_code(value)}" for name, value in document.facts.items()]
        parts += [f"## {FACTS}", "\n".join(facts)]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Plain text, such as a name from a user's file, as Markdown that shows it as it is."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", one_line(text))


def markdown_table(table: Table) -> str:
    """The table itself, without title and caption."""
    lines = [
        _line([escaped(head(column)) for column in table.columns]),
        f"|{''.join('---|' if column.kind == 'text' else '---:|' for column in table.columns)}",
    ]
    for number, row in enumerate(table.rows):
        cells = [_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        if number in table.emphasis:
            cells = [f"**{cell}**" if cell else cell for cell in cells]
        lines.append(_line(cells))
    return "\n".join(lines)


def _section(section: Section) -> list[str]:
    # GitHub makes anchors of its own from titles; this one is the same in every format.
    return [f'<a id="{section.name}"></a>\n\n## {escaped(section.title)}', *_blocks(section.blocks)]


def _blocks(blocks: Sequence[Block]) -> list[str]:
    parts: list[str] = []
    for block in blocks:
        if isinstance(block, Table):
            file = f"[CSV]({TABLES}/{block.name}.csv)"
            parts += [f"### {escaped(block.title)}", markdown_table(block)]
            parts.append(_caption(block.caption, file))
        elif isinstance(block, Picture):
            place = f"{PICTURES}/{block.name}"
            parts += [
                f"### {escaped(block.title)}",
                f"![{escaped(block.alternative)}]({place}.png)",
                _caption(block.caption, f"[SVG]({place}.svg)"),
            ]
        else:
            parts.append(encodable(block).strip())
    return parts


def _caption(caption: str, file: str) -> str:
    return f"{one_line(caption)} ({file})".strip()


def _cell(cell: Cell, column: Column) -> str:
    text = shown(cell, column)
    return escaped(text) if isinstance(cell, str) else text


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """A code span; its fence is longer than any run of backticks inside."""
    text = one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}" if text else ""
