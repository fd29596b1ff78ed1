"""The page of `carbon-gym report` in a browser: text, sorting, tips, colours, widths, print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, program
from commandline import carbon_gym
from matplotlib.image import imread
from report_runs import SHOWN, renamed, write_runs

SAVED = "document.getElementById('table:beside-tiny-saving')"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    runs = write_runs(folder, "first", "second", "trained")
    nasty = renamed(runs["first"] / "results.json", folder / "<i>nasty</i>")
    outcome = carbon_gym("report", *runs.values(), nasty, "--out", folder / "page")
    assert outcome.code == 0, outcome.err
    return folder / "page" / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(program(), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_text_is_there_and_nothing_of_it_runs(browser: Browser, page: Path) -> None:
    browser.open(page)
    text = browser.evaluate("document.body.innerText")
    for said in (
        "Results of 4 runs",
        "Side by side: tiny",
        "1: first: benchmark, 20",
        "ccar-no-gate",
    ):
        assert said in text
    titles = browser.evaluate("[...document.querySelectorAll('h3')].map((h) => h.textContent)")
    assert any(" ".join(SHOWN.split()) in title for title in titles)
    assert browser.evaluate("document.querySelectorAll('main img, main script, i').length") == 0
    wrong = ("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
    assert [event for event in browser.events if event["method"] in wrong] == []
    asked = [e["params"]["request"] for e in browser.events if e["method"].endswith("WillBeSent")]
    urls = {request["url"] for request in asked if not request["url"].startswith("data:")}
    assert urls == {page.resolve().as_uri()}


def test_savings_sort_as_numbers_by_click_and_key(browser: Browser, page: Path) -> None:
    browser.open(page)
    head = f"{SAVED}.querySelectorAll('thead th')[1]"
    cells = f"[...{SAVED}.querySelectorAll('tbody tr')].map((row) => row.cells[1].dataset.value)"
    browser.evaluate(f"{head}.querySelector('button').focus()")
    for order in ("ascending", "descending"):
        browser.press("Enter", "\r")
        assert browser.evaluate(f"{head}.getAttribute('aria-sort')") == order
        found = browser.evaluate(cells)
        values = [float(value) for value in found if value is not None]
        assert found[-1] is None  # faircarbon has none over itself
        assert values == sorted(values, reverse=order == "descending")
        assert min(values) < 0 < max(values)
    browser.evaluate(f"{head}.querySelector('button').click()")
    assert browser.evaluate(f"{head}.getAttribute('aria-sort')") == "none"


def test_what_rests_under_the_pointer_shows_all_digits(browser: Browser, page: Path) -> None:
    browser.open(page)
    cell = f"{SAVED}.querySelector('td[title]')"
    assert browser.evaluate(f"{cell}.title.startsWith({cell}.dataset.value)")
    assert "95 % interval" in browser.evaluate(f"{cell}.title")
    for name in ("beside-tiny-saving", "run-1-tiny-co2", "run-1-tiny-trade", "run-3-validations"):
        found = browser.evaluate(
            f"[...document.getElementById('figure:{name}').querySelectorAll('g > title')]"
            ".map((title) => title.textContent)"
        )
        assert len(found) > 1, name
        assert all(any(letter.isdigit() for letter in text) for text in found)


@pytest.mark.parametrize("width_px", [390, 1280])
def test_the_page_fits_and_wide_tables_scroll_in_their_box(
    browser: Browser, page: Path, width_px: int
) -> None:
    browser.open(page, width_px)
    assert browser.evaluate("document.documentElement.scrollWidth") == width_px
    box = "document.getElementById('table:run-1-tiny-policies').querySelector('.scroll')"
    assert browser.evaluate(f"{box}.scrollWidth > {box}.clientWidth")
    assert browser.evaluate(f"{box}.tabIndex") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width_px", [390, 1280])
def test_the_screenshot_has_paper_and_ink_of_the_scheme(
    browser: Browser, page: Path, scheme: str, width_px: int, tmp_path: Path
) -> None:
    browser.prefer(scheme)
    browser.open(page, width_px)
    browser.evaluate("document.getElementById('figure:run-1-tiny-co2').scrollIntoView()")
    browser.screenshot(tmp_path / "page.png")
    browser.prefer("light")
    grey = imread(tmp_path / "page.png")[..., :3].mean(axis=2)
    paper = float(np.median(grey))
    assert paper > 0.95 if scheme == "light" else paper < 0.15
    # Text and lines stand out from the paper, but most of the page is paper.
    assert 0.01 < float((np.abs(grey - paper) > 0.4).mean()) < 0.5


def test_figures_have_words_and_labels_that_are_read_on_the_dark_page(
    browser: Browser, page: Path
) -> None:
    browser.prefer("dark")
    browser.open(page)
    unnamed = "[...document.querySelectorAll('svg')].filter((s) => !s.getAttribute('aria-label'))"
    assert browser.evaluate(f"{unnamed}.length") == 0
    inks = browser.evaluate(
        "[...document.querySelectorAll('svg.drawn text')].map((t) => getComputedStyle(t).fill)"
    )
    assert len(inks) > 50
    for ink in set(inks):
        red, green, blue = (int(part) for part in ink[4:-1].split(","))
        assert min(red, green, blue) > 120, ink
    browser.prefer("light")


def test_wide_tables_keep_to_the_paper_in_print(browser: Browser, page: Path) -> None:
    browser.send("Emulation.setEmulatedMedia", media="print")
    browser.open(page, 794)  # A4 at 96 pixels an inch
    table = "document.getElementById('table:run-1-tiny-policies').querySelector('table')"
    assert browser.evaluate(f"{table}.getBoundingClientRect().width") <= 794
    assert (
        browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    browser.send("Emulation.setEmulatedMedia", media="")
