"""The Markdown of README and docs/ in pieces: code, commands, links, headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/examples/*.md")])
_PARSER = MarkdownIt("commonmark").enable("table")
_INDENTED = "command"


@dataclass(frozen=True)
class Block:
    """A piece of code.

    Attributes:
        kind: The language of a fenced block; "command" of one that is indented.
        code: Its lines.
        after: The text that follows.
    """

    kind: str
    code: str
    after: str

    @property
    def file(self) -> str | None:
        """The name of a file in the first line's comment: the block is that file."""
        found = re.match(r"# ([\w.-]+\.(?:py|yaml))\n", self.code)
        return found[1] if found else None


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def _tokens(document: Path) -> list[Token]:
    return _PARSER.parse(text_of(document))


def blocks_of(document: Path) -> list[Block]:
    """All code of a document, from top to bottom."""
    lines = text_of(document).split("\n")
    found = []
    for token in _tokens(document):
        if token.type in ("fence", "code_block") and token.map is not None:
            kind = token.info.strip() if token.type == "fence" else _INDENTED
            found.append(Block(kind, token.content, "\n".join(lines[token.map[1] :])))
    return found


def commands_in(code: str) -> Iterator[list[str]]:
    """Words of each ``carbon-gym`` line, the program's name left out."""
    for line in code.replace("\\\n", " ").split("\n"):
        said = line.strip().removeprefix("$ ")
        if said.startswith("carbon-gym "):
            words = shlex.split(said, comments=True)[1:]
            yield list(takewhile(lambda word: word not in (">", "|", "&&"), words))


def spans_of(document: Path) -> list[str]:
    """Contents of code spans."""
    inline = (token for token in _tokens(document) if token.type == "inline")
    return [child.content for token in inline for child in token.children or () if _is_span(child)]


def _is_span(token: Token) -> bool:
    return token.type == "code_inline"


def links_of(document: Path) -> list[str]:
    """Targets of links and pictures."""
    found = []
    for token in _tokens(document):
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if target:
                found.append(str(target))
    return found


def anchors_of(document: Path) -> set[str]:
    """What follows # in links to a document's headings, by GitHub's rule."""
    found: dict[str, int] = {}
    anchors = set()
    tokens = _tokens(document)
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        parts = inline.children or ()
        said = "".join(part.content for part in parts if part.type in ("text", "code_inline"))
        slug = re.sub(r"[^\w\- ]", "", said.lower()).replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        anchors.add(f"{slug}-{number}" if number else slug)
    return anchors
