"""The files of a document: Markdown, one HTML page, a CSV per table, PNG and SVG per figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path

from carbon_gym.files import make_writable_folder
from carbon_gym.report.document import Block, Document, Picture, Table
from carbon_gym.report.document_cells import table_csv
from carbon_gym.report.document_html import html_page
from carbon_gym.report.document_markdown import PICTURES, TABLES, markdown
from carbon_gym.report.style import HOVER, any_glyphs, save
from carbon_gym.report.work_file import write_text

MARKDOWN, PAGE = "report.md", "report.html"

# What `hover` of the style has put into an identifier is what a browser shows as a tip.
_HOVER = re.compile(rf'<g id="{HOVER}([^"]*)">')
_NAME = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")


def write_document(document: Document, folder: Path) -> list[Path]:
    """Write a document, each file whole or not at all; the same document gives the same bytes.

    Args:
        document: Its names are unique among sections, among tables and among pictures.
        folder: Made if it is missing; files of the same names are replaced, others stay.

    Returns:
        The files: `report.md`, `report.html`, ``tables/<name>.csv``, ``pictures/<name>.png`` and
        ``pictures/<name>.svg``.

    Raises:
        ValueError: A name is not made of letters, digits and single hyphens, or is there twice.
        InputError: The folder cannot be written to.
    """
    _check_names("section", (section.name for section in document.sections))
    _check_names("table", (table.name for table in _tables(document)))
    _check_names("picture", (picture.name for picture in _pictures(document)))
    # Everything is made before anything is written, and the pages, which name the rest, come last.
    drawings = {picture.name: _svg(picture) for picture in _pictures(document)}
    pages = {
        folder / MARKDOWN: markdown(document),
        folder / PAGE: html_page(document, drawings),
    }
    others = {
        **{folder / TABLES / f"{t.name}.csv": table_csv(t) for t in _tables(document)},
        **{folder / PICTURES / f"{name}.svg": text for name, text in drawings.items()},
    }
    for place in sorted({folder, *(path.parent for path in others)}):
        make_writable_folder(place, "--out")
    for path, text in others.items():
        write_text(path, text)
    images = {folder / PICTURES / f"{p.name}.png": p for p in _pictures(document)}
    for path, picture in images.items():
        save(picture.drawing, path)
    for path, text in pages.items():
        write_text(path, text)
    return [*pages, *others, *images]


def _blocks(document: Document) -> Iterator[Block]:
    yield from document.introduction
    for section in document.sections:
        yield from section.blocks


def _tables(document: Document) -> list[Table]:
    return [block for block in _blocks(document) if isinstance(block, Table)]


def _pictures(document: Document) -> list[Picture]:
    return [block for block in _blocks(document) if isinstance(block, Picture)]


def _check_names(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{kind} {name!r}: a name is letters, digits and single hyphens")
        # Some file systems do not tell capitals from small letters.
        if name.lower() in seen:
            raise ValueError(f"{kind} {name!r}: more than one has this name")
        seen.add(name.lower())


def _svg(picture: Picture) -> str:
    """A figure as text that can be searched, the same bytes each time."""
    from matplotlib import rc_context

    text = StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    # Laying out again moves things by a hair, so that a second file would differ from the first.
    with rc_context({"svg.hashsalt": picture.name, "svg.fonttype": "none"}), any_glyphs():
        picture.drawing.draw_without_rendering()
        picture.drawing.set_layout_engine("none")
        picture.drawing.savefig(text, format="svg", facecolor="white", metadata=nothing)
    return _HOVER.sub(r"<g><title>\1</title>", text.getvalue())
