"""Reports: Markdown, one page, CSV and pictures of a document."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from document_sample import POLICIES, sample
from markdown_it import MarkdownIt

from carbon_gym.errors import InputError
from carbon_gym.report.document import Cell, Column, Document, Measured, Picture, Section, Table
from carbon_gym.report.document_cells import exact, shown, table_csv
from carbon_gym.report.document_files import write_document
from carbon_gym.report.document_html import html_page
from carbon_gym.report.document_markdown import escaped, markdown, markdown_table
from carbon_gym.report.document_svg import DARK_PAPER, contrast, in_the_dark
from carbon_gym.report.style import colour, new_figure

NASTY = """<script>alert("1")</script> & &amp; 'a' | b_c *d* [e](javascript:f) `g` \\ $h$"""
VOID = {"meta", "link", "br", "hr", "img", "input"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    write_document(sample(), folder)
    return folder


class Page(HTMLParser):
    """A page's elements; every one but the void ones is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def values(self, attribute: str) -> list[str]:
        return [found[attribute] for _, found in self.elements if attribute in found]


def page_of(document: Document) -> Page:
    return Page(html_page(document, {}))


def of_table(table: Table) -> Document:
    return Document("A title", [table], [])


# --- cells ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "column", "expected"),
    [
        (Measured(12.13, 11.5, 12.84), Column("x", digits=1), "12.1 [11.5, 12.8]"),
        (Measured(-0.04, -0.2, 0.1), Column("x", digits=1, signed=True), "0.0 [−0.2, +0.1]"),
        (Measured(-1.3, -2.5, -0.03), Column("x", digits=1), "−1.3 [−2.5, −0.0]"),
        (Measured(3.0), Column("x", digits=1), "3.0"),
        (Measured(3.0, 1.0), Column("x", digits=0), "3"),
        (1234567, Column("x", digits=3), "1,234,567"),
        (np.int64(-5), Column("x"), "−5"),
        (np.float32(0.5), Column("x"), "0.50"),
        (7, Column("x", signed=True), "+7"),
        (0.0, Column("x", signed=True), "0.00"),
        (-0.0, Column("x"), "0.00"),
        (math.nan, Column("x"), "–"),
        (None, Column("x"), "–"),
        ("two\n lines", Column("x"), "two lines"),
    ],
)
def test_cells_read_as_in_other_reports(cell: object, column: Column, expected: str) -> None:
    assert shown(cell, column) == expected  # type: ignore[arg-type]


def test_hovering_shows_all_digits_only_where_some_are_hidden() -> None:
    column = Column("CO2", "g", 1)
    assert exact(2 / 3, column) == "0.6666666666666666 g"
    assert exact(Measured(1.25, 1.0, 1.5), column) == "1.25 g (95 % interval 1.0 to 1.5)"
    assert [exact(cell, column) for cell in ("a", 3, None)] == ["", "", ""]


def test_what_is_no_cell_is_refused() -> None:
    with pytest.raises(TypeError, match="not \\[1\\]"):
        table_csv(Table("t", "T", [Column("x")], [[[1]]]))  # type: ignore[list-item]


# --- CSV --------------------------------------------------------------------------------------


def test_csv_gives_pandas_every_number_unrounded(written: Path) -> None:
    read = pd.read_csv(written / "tables" / "policies.csv")
    table = next(b for b in sample().sections[0].blocks if isinstance(b, Table))
    assert list(read["policy"]) == list(POLICIES)
    assert "saved over faircarbon low (%)" in read
    for number, row in enumerate(table.rows):
        saved = row[3]
        line = read.iloc[number]
        assert line["relative"] == row[2]
        if isinstance(saved, Measured):
            ends = [line[f"saved over faircarbon{end} (%)"] for end in ("", " low", " high")]
            assert ends == [saved.value, saved.low, saved.high]
        else:
            assert math.isnan(line["saved over faircarbon (%)"])
    assert "recomputed low (mWh/turn)" not in read  # no interval in the whole column


def test_csv_keeps_text_as_it_is(tmp_path: Path) -> None:
    table = Table("t", "T", [Column(NASTY, kind="text"), Column("n")], [[NASTY, 1], ["a,b\nc", 2]])
    (tmp_path / "t.csv").write_text(table_csv(table), encoding="utf-8")
    read = pd.read_csv(tmp_path / "t.csv")
    assert list(read.columns) == [NASTY, "n"]
    assert list(read[NASTY]) == [NASTY, "a,b\nc"]


def test_csv_needs_columns_that_differ() -> None:
    with pytest.raises(ValueError, match="more than one column is 'x'"):
        table_csv(Table("t", "T", [Column("x"), Column("x")], []))
    assert table_csv(Table("t", "T", [Column("x", "s"), Column("x", "g")], [])) == "x (s),x (g)\n"


# --- Markdown ---------------------------------------------------------------------------------


def test_markdown_tables_align_and_emphasise() -> None:
    table = Table(
        "t",
        "T",
        [Column("a|b", kind="text"), Column("saved", "%", 1)],
        [["x|y", Measured(1.0, 0.5, 1.5)], ["z", None]],
        emphasis=frozenset({0}),
    )
    assert markdown_table(table).splitlines() == [
        "| a\\|b | saved, % |",
        "|---|---:|",
        "| **x\\|y** | **1.0 [0.5, 1.5]** |",
        "| z | – |",
    ]


@pytest.mark.parametrize(
    "text", [NASTY, "__init__", "a_b_c", "x < y > z", "&lt;", "~~no~~", "![i](u)"]
)
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    shown_page = Page(MarkdownIt("gfm-like", {"linkify": False}).render(f"before {escaped(text)}"))
    assert shown_page.text == f"before {text}"
    assert [tag for tag, _ in shown_page.elements] == ["p"]


def test_markdown_links_lead_to_files_and_sections(written: Path) -> None:
    text = (written / "report.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]*)\)", text):
        if target.startswith("#"):
            assert f'<a id="{target[1:]}"></a>' in text
        elif not target.startswith("https://"):
            assert (written / target).is_file()
    assert "- [Honest differences](#differences)" in text
    assert "- Command: `carbon-gym reproduce --quick --jobs 2`" in text


# --- the page ---------------------------------------------------------------------------------


def test_a_folded_section_is_in_every_format(tmp_path: Path) -> None:
    shown, hidden = Section("a", "First", ["open"]), Section("b", "Rest", ["within"], folded=True)
    write_document(Document("Both", [], [shown, hidden], one_page=True), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<details>") == 1
    assert re.search(r'<section id="b" class="folded">\s*<details>\s*<summary><h2>Rest', page)
    assert '<body class="one-page">' in page
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## Rest\n\nwithin" in text


def test_the_page_fetches_nothing(written: Path) -> None:
    text = (written / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.values("src")
    assert not re.findall(r"@import|url\((?!#)", text)
    for tag, attributes in page.elements:
        href = attributes.get("href", attributes.get("xlink:href", ""))
        if tag == "a":
            assert href.startswith(("#", "https://arxiv.org/", "data:text/csv")), href
        else:
            assert href == "" or href.startswith(("#", "data:")), (tag, href)
    assert "default-src 'none'" in page.values("content")[0]


def test_the_page_is_well_formed_and_its_anchors_lead_somewhere(written: Path) -> None:
    page = Page((written / "report.html").read_text(encoding="utf-8"))
    names = page.values("id")
    assert len(names) == len(set(names))
    for attribute in ("href", "aria-labelledby"):
        targets = [value.removeprefix("#") for value in page.values(attribute) if value[:1] != "d"]
        assert {target for target in targets if not target.startswith("http")} <= set(names)
    for name in re.findall(r"url\(#([^)]*)\)", " ".join(page.values("clip-path"))):
        assert name in names
    drawings = [found for tag, found in page.elements if tag == "svg"]
    assert len(drawings) == 3
    assert all(found["role"] == "img" and found["aria-label"] for found in drawings)


def test_every_field_is_escaped(tmp_path: Path) -> None:
    label = '<b>"&" id="x" url(#y)'
    figure = new_figure(3, 2)
    figure.subplots().set_title(label)
    document = Document(
        NASTY,
        [NASTY],
        [
            Section(
                "s",
                NASTY,
                [
                    Table("t", NASTY, [Column(NASTY, NASTY, kind="text")], [[NASTY]], NASTY),
                    Table("u", NASTY, [Column("n", NASTY)], [[1.5]]),
                    Picture("p", NASTY, figure, NASTY, NASTY),
                ],
            )
        ],
        {NASTY: NASTY},
    )
    write_document(document, tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert text.count("alert(") == text.count("&lt;script&gt;alert(")
    assert not [value for value in page.values("href") if value.startswith("javascript")]
    plain = " ".join(NASTY.split())
    # Twice as title, in the contents and the section, 3 times above blocks, in heads with their
    # units, in a cell and twice in the facts; Markdown shows it in its own way.
    assert page.text.count(plain) == 13
    assert label in page.text
    assert "b" not in [tag for tag, _ in page.elements]
    assert page.values("aria-label").count(plain) == 2
    assert f"1.5 {plain}" in page.values("title")


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("[a](https://x.org/b?c=1&d)", True),
        ("[a](#policies)", True),
        ("[a](tables/policies.csv)", True),
        ("<https://x.org>", True),
        ("[a](javascript:alert)", False),
        ("[a](data:text/html,x)", False),
        ("[a](file:///x)", False),
        ("[a](//x.org/y)", False),
        ("[a](/\\x.org)", False),
        ("[a](https:x)", False),
        ("<a@b.org>", False),
    ],
)
def test_links_lead_to_the_web_or_beside_the_page(source: str, kept: bool) -> None:
    page = page_of(Document("T", [f"See {source}"], []))
    links = [found for tag, found in page.elements if tag == "a" and "class" not in found]
    assert bool(links) is kept


def test_paragraphs_hold_no_headings_pictures_or_html() -> None:
    source = "# a\n\nb\n===\n\n![c](d.png)\n\n<b>e</b>\n\n- **f** `g`"
    tags = [tag for tag, _ in page_of(Document("T", [source], [])).elements]
    assert tags.count("h1") == 1  # the document's own
    assert not {"img", "b"} & set(tags)
    assert {"li", "strong", "code"} <= set(tags)


def test_cells_carry_the_numbers_that_they_sort_by() -> None:
    rows: list[list[Cell]] = [
        [12],
        [1234.5678],
        [Measured(-3.25, -4.0, -1.0)],
        ["text"],
        [None],
        [math.nan],
    ]
    page = page_of(of_table(Table("t", "T", [Column("x")], rows)))
    cells = [found for tag, found in page.elements if tag == "td"]
    assert [cell.get("data-value") for cell in cells] == [
        "12",
        "1234.5678",
        "-3.25",
        None,
        None,
        None,
    ]
    assert ["data-nothing" in cell for cell in cells] == [False, False, False, False, True, True]


def test_tables_without_rows_and_with_long_names() -> None:
    empty = page_of(of_table(Table("t", "T", [Column("a"), Column("b")], [])))
    assert ("td", {"colspan": "2"}) in empty.elements
    name = "n" * 400
    table = Table("t", name, [Column("a", kind="text")], [[name]], emphasis=frozenset({0}))
    page = page_of(of_table(table))
    assert ("th", {"scope": "row", "class": "text long"}) in page.elements
    assert "emphasis" in page.values("class")
    assert page_of(Document("T", [], [])).values("id") == ["report:text"]


def test_bytes_that_are_no_characters_are_no_obstacle(tmp_path: Path) -> None:
    odd = b"day-\xff.csv".decode("utf-8", "surrogateescape")
    table = Table("t", odd, [Column(odd, kind="text")], [[odd]])
    write_document(Document(odd, [f"From {odd}", table], [], {"Input": odd}), tmp_path)
    assert "day-?.csv" in (tmp_path / "report.md").read_text(encoding="utf-8")


# --- figures ----------------------------------------------------------------------------------


def test_colours_of_policies_are_seen_on_the_dark_page() -> None:
    for policy in (*POLICIES, "unheard-of"):
        found = in_the_dark(colour(policy))
        red, green, blue = bytes.fromhex(found[1:])
        assert contrast((red, green, blue), DARK_PAPER) > 1.5, policy
    assert in_the_dark("#ffffff") == "#15191c"
    assert in_the_dark(colour("ccar")) == colour("ccar").lower()
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)


def test_maps_keep_their_paper_and_lines_take_the_page_s_colours(written: Path) -> None:
    page = Page((written / "report.html").read_text(encoding="utf-8"))
    kinds = [found["class"] for tag, found in page.elements if tag == "svg"]
    assert kinds == ["drawn", "drawn", "coloured"]
    assert "turns of the session" in page.text  # text stays text


# --- files ------------------------------------------------------------------------------------


def test_files_are_named_by_what_they_hold(tmp_path: Path) -> None:
    paths = write_document(sample(), tmp_path)
    found = {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
    }
    assert {path.relative_to(tmp_path).as_posix() for path in paths} == found
    pictures = {
        f"pictures/{n}.{e}" for n in ("saving-by-length", "week", "map") for e in ("png", "svg")
    }
    tables = {f"tables/{n}.csv" for n in ("savings", "policies", "zones", "settings", "reasons")}
    assert found == {"report.md", "report.html", *pictures, *tables}
    for name in pictures:
        if name.endswith("svg"):
            ElementTree.parse(tmp_path / name)
        else:
            assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_the_same_document_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    document = sample()
    for folder in ("first", "second"):
        for path in write_document(document, tmp_path / folder):
            name = path.relative_to(tmp_path / folder)
            assert path.read_bytes() == (written / name).read_bytes(), name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../a", "a--b", "-a", "ä", "a.csv"])
def test_names_are_letters_digits_and_hyphens(name: str, tmp_path: Path) -> None:
    table = Table(name, "T", [Column("x")], [])
    with pytest.raises(ValueError, match="letters, digits"):
        write_document(of_table(table), tmp_path)
    assert not list(tmp_path.iterdir())


def test_names_differ_by_more_than_capitals(tmp_path: Path) -> None:
    tables = [Table(name, "T", [Column("x")], []) for name in ("co2", "CO2")]
    with pytest.raises(ValueError, match="'CO2': more than one"):
        write_document(Document("T", [tables[0]], [Section("co2", "T", tables[1:])]), tmp_path)
    # A section and a table may share a name.
    assert write_document(Document("T", [], [Section("co2", "T", tables[1:])]), tmp_path)


def test_a_document_that_fails_leaves_nothing(tmp_path: Path) -> None:
    wrong = Table("t", "T", [Column("x"), Column("x")], [])
    document = replace(sample(), introduction=[wrong])
    with pytest.raises(ValueError, match="more than one column"):
        write_document(document, tmp_path / "out")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        write_document(sample(), tmp_path / "file")


def test_markdown_and_page_say_the_same(written: Path) -> None:
    page = Page((written / "report.html").read_text(encoding="utf-8"))
    text = markdown(sample())
    for cell in ("12.1 [11.5, 12.8]", "gCO2eq/kWh", "How this report was made"):
        assert cell in page.text
        assert cell in text
