"""A document as one self-contained HTML page: nothing is fetched, everything is inside."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from urllib.parse import urlsplit

from markdown_it import MarkdownIt

from carbon_gym.report.document import Block, Cell, Column, Document, Picture, Section, Table
from carbon_gym.report.document_cells import (
    all_digits,
    encodable,
    exact,
    has_intervals,
    number_of,
    one_line,
    shown_parts,
    table_csv,
)
from carbon_gym.report.document_markdown import FACTS
from carbon_gym.report.document_svg import colour_rules, inline_svg

_ON_ONE_LINE = 32
"""Characters up to which texts of a column are not broken."""
_FACTS_ANCHOR = "report:facts"
"""Names have no colon, so that this one and ``table:<name>`` collide with none."""


def html_page(document: Document, drawings: Mapping[str, str]) -> str:
    """The whole page.

    Args:
        document: What it says.
        drawings: SVG files of its pictures by name, as matplotlib writes them.
    """
    renderer = _Renderer(drawings)
    body = renderer.blocks(document.introduction)
    body += "".join(renderer.section(section) for section in document.sections)
    body += _facts(document.facts)
    links = [(section.name, section.title) for section in document.sections]
    if document.facts:
        links.append((_FACTS_ANCHOR, FACTS))
    script, style = _packaged("document.js"), _packaged("document.css")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = _text(document.title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}{colour_rules(renderer.inlined)}</style>
</head>
<body{' class="one-page"' if document.one_page else ""}>
<a class="skip" href="#report:text">Skip to the text</a>
<header><h1>{title}</h1></header>
{_contents(links)}<main id="report:text">
{body}</main>
<script>{script}</script>
</body>
</html>
"""


class _Markdown(MarkdownIt):
    """Paragraphs, lists, code, emphasis and links; no raw HTML, headings or pictures."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False})
        self.disable(["heading", "lheading", "image"])

    def validateLink(self, url: str) -> bool:  # noqa: N802 - MarkdownIt's name
        """Whether a link leads to the web, into the page or to a file beside it."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        if parts.scheme:
            return parts.scheme in ("http", "https") and bool(parts.netloc)
        return not url.startswith(("/", "\\", "%5C"))


class _Renderer:
    """Turns blocks into HTML; keeps the figures that it has put in."""

    def __init__(self, drawings: Mapping[str, str]) -> None:
        self._drawings = drawings
        self._markdown = _Markdown()
        self.inlined: list[str] = []

    def section(self, section: Section) -> str:
        title = f"<h2>{_text(section.title)}{_anchor(section.name)}</h2>\n"
        blocks = self.blocks(section.blocks)
        if section.folded:
            blocks = f"<details>\n<summary>{title}</summary>\n{blocks}</details>\n"
            return f'<section id="{section.name}" class="folded">\n{blocks}</section>\n'
        return f'<section id="{section.name}">\n{title}{blocks}</section>\n'

    def blocks(self, blocks: Sequence[Block]) -> str:
        return "".join(self._block(block) for block in blocks)

    def _block(self, block: Block) -> str:
        if isinstance(block, Table):
            return self._table(block)
        if isinstance(block, Picture):
            return self._picture(block)
        paragraph: str = self._markdown.render(encodable(block))
        return paragraph

    def _table(self, table: Table) -> str:
        data = b64encode(table_csv(table).encode()).decode()
        return f"""<figure class="table" id="table:{table.name}">
<h3 id="title:{table.name}">{_text(table.title)}{_anchor(f"table:{table.name}")}</h3>
<div class="scroll" tabindex="0" role="region" aria-labelledby="title:{table.name}">
{_table(table)}</div>
<figcaption>{self._caption(table.caption)}
<a class="file" download="{table.name}.csv" href="data:text/csv;charset=utf-8;base64,{data}">CSV</a>
</figcaption>
</figure>
"""

    def _picture(self, picture: Picture) -> str:
        drawing = inline_svg(self._drawings[picture.name], picture.name, picture.alternative)
        self.inlined.append(drawing)
        name = f"figure:{picture.name}"
        return f"""<figure class="picture" id="{name}">
<h3>{_text(picture.title)}{_anchor(name)}</h3>
<div class="scroll" tabindex="0" role="group" aria-label="{_text(picture.title)}">
{drawing}</div>
<figcaption>{self._caption(picture.caption)}</figcaption>
</figure>
"""

    def _caption(self, caption: str) -> str:
        inline: str = self._markdown.renderInline(one_line(caption))
        return inline


def _table(table: Table) -> str:
    widths = _interval_widths(table)
    kinds = [_kind(table, place) for place in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col" class="{kind}">{_head(column)}</th>'
        for column, kind in zip(table.columns, kinds, strict=True)
    )
    lines = [f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n"]
    for number, row in enumerate(table.rows):
        cells = [
            _cell(cell, column, kind, width, head=place == 0 and column.kind == "text")
            for place, (cell, column, kind, width) in enumerate(
                zip(row, table.columns, kinds, widths, strict=True)
            )
        ]
        emphasis = ' class="emphasis"' if number in table.emphasis else ""
        lines.append(f"<tr{emphasis}>{''.join(cells)}</tr>\n")
    if not table.rows:
        lines.append(f'<tr><td colspan="{len(table.columns)}">No rows.</td></tr>\n')
    return "".join([*lines, "</tbody>\n</table>\n"])


def _head(column: Column) -> str:
    unit = f' <span class="unit">{_text(column.unit)}</span>' if column.unit else ""
    return f"{_text(column.title)}{unit}"


def _cell(cell: Cell, column: Column, kind: str, width: int, *, head: bool) -> str:
    value, interval = (_text(part) for part in shown_parts(cell, column))
    number = number_of(cell)
    attributes = f' class="{kind}"'
    if number is not None and math.isfinite(number):
        attributes += f' data-value="{all_digits(number)}"'
    elif not isinstance(cell, str):
        attributes += " data-nothing"
    hidden = exact(cell, column)
    if hidden:
        attributes += f' title="{_text(hidden)}"'
    if width and not isinstance(cell, str):
        # As wide in every row: the values before it stay below each other.
        value += f' <span class="interval" style="min-width: {width}ch">{interval}</span>'
    tag, scope = ("th", ' scope="row"') if head else ("td", "")
    return f"<{tag}{scope}{attributes}>{value}</{tag}>"


def _interval_widths(table: Table) -> list[int]:
    """Characters of the longest interval of each column; 0 for none."""
    return [
        max(len(shown_parts(row[place], column)[1]) for row in table.rows) if measured else 0
        for place, (column, measured) in enumerate(
            zip(table.columns, has_intervals(table), strict=True)
        )
    ]


def _kind(table: Table, place: int) -> str:
    """Class of a column's cells."""
    if table.columns[place].kind == "number":
        return "number"
    longest = max((len(str(row[place])) for row in table.rows), default=0)
    return "text" if longest <= _ON_ONE_LINE else "text long"


def _contents(links: Sequence[tuple[str, str]]) -> str:
    if not links:
        return ""
    entries = "".join(f'<li><a href="#{name}">{_text(title)}</a></li>\n' for name, title in links)
    return f'<nav aria-label="Contents">\n<ul>\n{entries}</ul>\n</nav>\n'


def _facts(facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    entries = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>\n"
        for name, value in facts.items()
    )
    title = f"<h2>{FACTS}</h2>"
    return (
        f'<section id="{_FACTS_ANCHOR}" class="facts">\n{title}\n<dl>\n{entries}</dl>\n</section>\n'
    )


def _anchor(name: str) -> str:
    return f' <a class="anchor" href="#{name}" aria-label="Link to this place">#</a>'


def _text(text: str) -> str:
    return escape(one_line(text))


def _packaged(name: str) -> str:
    return files("carbon_gym.report").joinpath(name).read_text(encoding="utf-8")
