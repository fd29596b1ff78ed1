"""The page of a report in a browser: sorting, colours, widths, and that it fetches nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, program
from document_sample import POLICIES, sample

from carbon_gym.report.document_files import write_document


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_document(sample(), folder)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(program(), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def first_column(browser: Browser) -> list[str]:
    found = browser.evaluate(
        "[...document.getElementById('table:policies').querySelectorAll('tbody th')]"
        ".map((cell) => cell.textContent)"
    )
    return list(found)


def test_tables_sort_by_click_and_key(browser: Browser, written: Path) -> None:
    browser.open(written / "report.html")
    saved = "document.getElementById('table:policies').querySelectorAll('thead th')[3]"
    assert first_column(browser) == list(POLICIES)
    browser.evaluate(f"{saved}.querySelector('button').click()")
    assert browser.evaluate(f"{saved}.getAttribute('aria-sort')") == "ascending"
    assert first_column(browser)[0] == "session-affinity"
    assert first_column(browser)[-1] == "faircarbon"  # nothing to say: last in both directions
    browser.evaluate(f"{saved}.querySelector('button').focus()")
    browser.press("Enter", "\r")
    assert browser.evaluate(f"{saved}.getAttribute('aria-sort')") == "descending"
    assert first_column(browser)[0] == "lower-bound"
    assert first_column(browser)[-1] == "faircarbon"
    browser.press("Enter", "\r")
    assert first_column(browser) == list(POLICIES)
    browser.evaluate(f"{saved}.parentElement.cells[0].querySelector('button').click()")
    assert first_column(browser) == sorted(POLICIES)
    assert browser.evaluate(f"{saved}.getAttribute('aria-sort')") == "none"


def test_asks_for_nothing_and_reports_nothing(browser: Browser, written: Path) -> None:
    page = written / "report.html"
    browser.open(page)
    assert browser.evaluate("document.querySelectorAll('.theme').length") == 1  # the script ran
    asked = [e["params"]["request"] for e in browser.events if e["method"].endswith("WillBeSent")]
    assert {request["url"] for request in asked if not request["url"].startswith("data:")} == {
        page.resolve().as_uri()
    }
    wrong = ("Runtime.exceptionThrown", "Log.entryAdded")
    assert [event for event in browser.events if event["method"] in wrong] == []


@pytest.mark.parametrize("width_px", [320, 390, 768, 1280])
def test_page_fits_the_window(browser: Browser, written: Path, width_px: int) -> None:
    browser.open(written / "report.html", width_px)
    assert browser.evaluate("document.documentElement.scrollWidth") == width_px
    beside = "document.querySelector('nav').getBoundingClientRect().right <= "
    beside += "document.querySelector('main').getBoundingClientRect().left"
    assert browser.evaluate(beside) is (width_px == 1280)


def test_colours_follow_the_system_and_the_button(browser: Browser, written: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    drawn = "getComputedStyle(document.querySelector('svg.drawn path')).fill"
    light, dark = "rgb(255, 255, 255)", "rgb(21, 25, 28)"
    browser.prefer("light")
    browser.open(written / "report.html")
    assert (browser.evaluate(paper), browser.evaluate(drawn)) == (light, light)
    browser.prefer("dark")
    assert (browser.evaluate(paper), browser.evaluate(drawn)) == (dark, dark)
    browser.evaluate("document.querySelector('.theme').click()")
    assert (browser.evaluate(paper), browser.evaluate(drawn)) == (light, light)
    browser.open(written / "report.html")
    assert browser.evaluate(paper) == light  # the choice is kept
    browser.evaluate("localStorage.clear()")


def test_offers_the_table_as_csv(browser: Browser, written: Path) -> None:
    browser.open(written / "report.html")
    link = "document.getElementById('table:zones').querySelector('a.file')"
    data = browser.evaluate(f"{link}.href").partition("base64,")[2]
    assert base64.b64decode(data) == (written / "tables" / "zones.csv").read_bytes()
    assert browser.evaluate(f"{link}.download") == "zones.csv"
