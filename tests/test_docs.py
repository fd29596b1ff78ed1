"""What the documents say is so: their names, options and links exist (test_doc_pages runs them)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from doc_pages import (
    DOCUMENTS,
    ROOT,
    anchors_of,
    blocks_of,
    commands_in,
    links_of,
    spans_of,
    text_of,
)
from typer.main import get_command

import carbon_gym
from carbon_gym.benchmark import compare
from carbon_gym.cli.app import app
from carbon_gym.evaluation import evaluation_fleets

KINDS = {
    "python": "run, a page from top to bottom",
    "yaml": "loaded as a scenario, or as the configuration of a training",
    "json": "read as conversations",
    "command": "lines of carbon-gym are parsed, and run where that is quick",
    "sh": "likewise",
    "text": "formulas and output; no code",
    "{eval-rst}": "built into the site",
    "{toctree}": "likewise",
}
"""What becomes of a block of code."""


def first_cells(document: Path) -> set[str]:
    """Names in backquotes in the first column of a document's tables."""
    rows = re.findall(r"^\| ([^|]*) \|", text_of(document), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]*)`", row)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_is_of_a_kind_that_is_tested(path: Path) -> None:
    assert {block.kind for block in blocks_of(path)} <= KINDS.keys()


def options_of(command: Any, words: list[str]) -> set[str]:
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


def commands_of(document: Path) -> list[list[str]]:
    """Commands in blocks and in code spans, of which some are only named."""
    found = [words for block in blocks_of(document) for words in commands_in(block.code)]
    spans = [re.split(r"[#|]", span)[0] for span in spans_of(document)]
    return [*found, *(shlex.split(it)[1:] for it in spans if it.startswith("carbon-gym "))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_have_the_options_that_are_shown(path: Path) -> None:
    for words in commands_of(path):
        said = " ".join(words)
        shown = {word.partition("=")[0] for word in words if word.startswith("--")}
        known: Any = get_command(app)
        named = re.match(r"-|COMMAND", words[0]) is None
        assert not named or words[0] in known.commands, f"{path.name}: {said}"
        assert shown <= options_of(known, words), f"{path.name}: {said}"


def test_commands_are_found() -> None:
    assert sum(len(commands_of(path)) for path in DOCUMENTS) > 60


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in links_of(path):
        target, _, anchor = unquote(link).partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        place = path.parent / target if target else path
        assert place.exists(), f"{path.name}: {link}"
        assert place.resolve().is_relative_to(ROOT), f"{path.name}: {link} leaves the repository"
        if anchor:
            assert anchor in anchors_of(place), f"{path.name}: {link}"


def test_links_are_found() -> None:
    readme = links_of(ROOT / "README.md")
    assert any(link.startswith("docs/") for link in readme)
    assert "the-clairvoyant-plan" in anchors_of(ROOT / "docs" / "datasets.md")
    assert "datasets.md#the-clairvoyant-plan" in links_of(ROOT / "docs" / "training.md")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_programs_that_are_named_exist(path: Path) -> None:
    code = "\n".join([*(block.code for block in blocks_of(path)), *spans_of(path)])
    for program in re.findall(r"\bpython ((?:docs|tests)/[\w/.-]+\.py)", code):
        assert (ROOT / program).is_file(), f"{path.name}: {program}"


def test_pages_are_in_the_table_of_contents() -> None:
    """Sphinx warns of it too, where it is installed."""
    entries = {
        line
        for block in blocks_of(ROOT / "docs" / "index.md")
        if block.kind == "{toctree}"
        for line in block.code.split("\n")
    }
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    parts = {name for name in pages if name.endswith("_conclusions")}
    assert pages - parts - {"index"} <= entries


def test_every_example_program_is_listed() -> None:
    listed = set(links_of(ROOT / "docs" / "examples" / "README.md"))
    assert {path.name for path in ROOT.glob("docs/examples/*.py")} <= listed


def test_model_page_lists_every_scenario_and_policy() -> None:
    listed = first_cells(ROOT / "docs" / "model.md")
    missing = {*carbon_gym.scenario_names(), *carbon_gym.policy_names()} - listed
    assert not missing, f"docs/model.md has no row for {', '.join(sorted(missing))}"


def test_data_page_lists_every_key_of_a_row() -> None:
    world = evaluation_fleets(carbon_gym.load_scenario("tiny"), fleets=1)
    row = compare(world, ["faircarbon"])[0]
    listed = first_cells(ROOT / "docs" / "data.md")
    assert set(row) <= listed
    text = text_of(ROOT / "docs" / "data.md")
    inner = {*row["by_session_turns"][">5"], *row["saving_vs_faircarbon"]}
    assert all(f"`{key}`" in text for key in inner)


def test_citation_names_this_version() -> None:
    citation = yaml.safe_load(text_of(ROOT / "CITATION.cff"))
    assert citation["version"] == carbon_gym.__version__
