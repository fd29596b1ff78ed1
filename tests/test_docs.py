"""What the documents say is so: their code runs, their commands, names and links exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import carbon_gym
from carbon_gym.benchmark import compare
from carbon_gym.cli.app import app
from carbon_gym.evaluation import evaluation_fleets

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
COMMAND = re.compile(r"(?:^    |`)(carbon-gym [^`\n]*)", re.MULTILINE)


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(document), re.DOTALL | re.MULTILINE)


def first_cells(document: Path) -> set[str]:
    """Names in backquotes in the first column of a document's tables."""
    rows = re.findall(r"^\| ([^|]*) \|", text_of(document), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]*)`", row)}


PYTHON = [(path, code) for path in DOCUMENTS for code in blocks(path, "python")]


@pytest.mark.parametrize(("path", "code"), PYTHON, ids=[path.name for path, _ in PYTHON])
def test_python_blocks_run(path: Path, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, str(path), "exec"), {"__name__": "document"})
    said = re.search(re.escape(code) + r"```\n\nprints `([^`]*)`", text_of(path))
    if said:
        assert capsys.readouterr().out.strip() == said[1]


def test_scenarios_in_the_documents_load(tmp_path: Path) -> None:
    scenarios = [code for path in DOCUMENTS for code in blocks(path, "yaml")]
    assert scenarios
    for number, code in enumerate(scenarios):
        file = tmp_path / f"{number}.yaml"
        file.write_text(code, encoding="utf-8")
        described = yaml.safe_load(code)["description"]
        assert carbon_gym.load_scenario(str(file)).description == described


def options_of(command: Any, words: list[str]) -> set[str]:
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    return {option for parameter in command.params for option in parameter.opts} | {"--help"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_have_the_options_that_are_shown(path: Path) -> None:
    for command in COMMAND.findall(text_of(path).replace("\\\n", " ")):
        words = shlex.split(re.split(r"[#|]", command)[0])[1:]
        known = options_of(get_command(app), words)
        shown = {word for word in words if word.startswith("--")}
        assert shown <= known, f"{path.name}: {command}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]*)(?:#[^)]*)?\)", text_of(path)):
        if target and "://" not in target:
            assert (path.parent / target).exists(), f"{path.name}: {target}"


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
