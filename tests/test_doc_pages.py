"""Pages are run from top to bottom, as a reader would: code, files and commands, in one folder.

Commands run as they are shown but for what makes them long; `APART` says which do not, and why.
"""

from __future__ import annotations

import doctest
import gzip
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import carbon_gym as command
from doc_pages import DOCUMENTS, ROOT, Block, blocks_of, commands_in
from inputs import turns_of, write_grid
from typer.main import get_command

from carbon_gym import load_scenario
from carbon_gym.cli.app import app
from carbon_gym.evaluation import evaluation_fleets

PAGES = [path for path in DOCUMENTS if blocks_of(path)]
GRID_ZONES = ("US-CAL-CISO", "GB", "US-TEX-ERCO", "DE", "AU-NSW", "US-NY-NYIS", "CL-SEN", "CA-ON")

QUICK: dict[str, dict[str, str]] = {
    "audit": {"--fleet": "tiny", "--days": "1", "--sessions": "20", "--jobs": "1"},
    "benchmark": {"--scenario": "tiny", "--fleets": "2", "--policies": "ccar", "--jobs": "1"},
    "evaluate": {"--scenario": "tiny", "--fleets": "2", "--jobs": "1"},
    "fleet": {},
    "record": {"--scenario": "tiny", "--fleets": "1"},
}
"""By command, the options that make it quick; what `KEPT` allows stays as it is shown."""
KEPT = {"--policies": "", "--scenario": ".yaml", "--fleet": ".yaml"}
"""Options whose value stays if it ends so."""
SAME = {"--fleets": "--days"}
"""Options that say the same: if the second is shown, it is the one that is set."""
APART = {
    "benchmark --front": "150 s; test_front.py",
    "calibrate": "on whole data sets; test_workload_statistics.py, test_grid_calibrate.py",
    "clairvoyant": "minutes; test_clairvoyant.py",
    "evaluate wide=a.npz": "as the commands beside it, with more routers",
    "export": "of a trained run; test_router_export.py",
    "fit-gate": "minutes; test_gate.py",
    "import": "of files that the page does not have, or over the network; test_import_*.py",
    "report": "of folders that other commands wrote; its own tests",
    "reproduce": "minutes; test_reproduce.py",
    "speed": "minutes; test_speed.py",
    "train": "minutes; test_train.py, test_policy_search.py",
    "tune-baselines": "minutes; test_tuning.py",
    "tune-lookahead": "minutes; test_lookahead.py",
}
"""Beginnings of commands that are parsed and not run, and why."""
_ran: set[tuple[str, ...]] = set()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with the files that pages take for granted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    packed(write_grid(tmp_path / "grid.csv", zones=GRID_ZONES, hours=24 * 9))
    rows = ["session,turn,prompt_tokens,output_tokens,served_by"]
    for session in range(40):
        for turn, (prompt, reply) in enumerate(turns_of(session)):
            served = "Llama-3.1-70B-Instruct@H100-80GB@GB"
            rows.append(f"s{session},{turn},{prompt},{reply},{served}")
    turns = tmp_path / "turns.csv"
    turns.write_text("\n".join(rows) + "\n", encoding="utf-8")
    packed(turns)
    shutil.copy(tmp_path / "turns.csv.gz", tmp_path / "sharegpt_turns.csv.gz")
    shutil.copy(tmp_path / "grid.csv.gz", tmp_path / "em_hourly_2021_2023_lca.csv.gz")
    for imported in ("mine", "gb"):  # what the commands of APART would have written
        (tmp_path / imported).mkdir()
        shutil.copy(tmp_path / "turns.csv.gz", tmp_path / imported / "conversations.csv.gz")
        shutil.copy(tmp_path / "grid.csv.gz", tmp_path / imported / "grid.csv.gz")
    for fleet in ("fleet.yaml", "my-fleet.yaml"):
        (tmp_path / fleet).write_text("extends: tiny\n", encoding="utf-8")
    routers = sorted((ROOT / "configs" / "routers").rglob("*.npz"))
    shutil.copy(routers[0], tmp_path / "router.npz")
    shutil.copy(ROOT / "docs" / "examples" / "own_policy.py", tmp_path)
    runs = ("mine", "congested__es__0__x", "congested__maskable-ppo__0__x")
    for run in runs:
        (tmp_path / "runs" / run).mkdir(parents=True)
        shutil.copy(routers[0], tmp_path / "runs" / run / "router.npz")
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def packed(path: Path) -> None:
    Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_runs_from_top_to_bottom(
    page: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "document"}
    blocks = blocks_of(page)
    for block in blocks:  # some pages show the command before the file
        if block.file:
            (folder / block.file).write_text(block.code, encoding="utf-8")
    for block in blocks:
        if block.kind == "python":
            capsys.readouterr()
            exec(compile(block.code, f"{page.name}: {block.file or 'python'}", "exec"), names)
            said = re.match(r"\s*prints `([^`]*)`", block.after)
            if said:
                assert capsys.readouterr().out.strip() == said[1]
        elif block.kind == "yaml":
            check_yaml(block, folder)
        elif block.kind == "json":
            check_conversations(block, folder)
        elif block.code.startswith(">>> "):
            for example in doctest.DocTestParser().get_examples(block.code):
                assert not example.want
                exec(compile(example.source, page.name, "exec"), names)
        else:
            for words in commands_in(block.code):
                check_command(words, folder)


def check_yaml(block: Block, folder: Path) -> None:
    """It is a scenario, or a configuration of a training."""
    content = yaml.safe_load(block.code)
    file = folder / (block.file or "block.yaml")
    file.write_text(block.code, encoding="utf-8")
    if "description" in content:
        assert load_scenario(str(file)).description == content["description"]
    else:
        pytest.importorskip("stable_baselines3")
        from agents.training.config import load_config

        config = load_config(content.get("algo", "maskable-ppo"), file)
        for key, value in content.items():
            set_to = getattr(config, key)
            if not isinstance(value, dict):
                assert set_to == (tuple(value) if isinstance(value, list) else value)


def check_conversations(block: Block, folder: Path) -> None:
    """It is a file of conversations, or a log that becomes one."""
    if '"usage"' in block.code:
        (folder / "log.jsonl").write_text(block.code, encoding="utf-8")
        outcome = command("import", "conversations", "log.jsonl", "--out", "imported")
        assert (outcome.code, outcome.err) == (0, ""), outcome.err
        return
    kind, ending = ("sharegpt", "json") if block.code.startswith("[") else ("messages", "jsonl")
    file = folder / f"conversations.{ending}"
    file.write_text(block.code, encoding="utf-8")
    workload = {"source": "file", "path": str(file), "format": kind}
    (trace,) = evaluation_fleets(load_scenario("tiny", workload=workload), fleets=1).traces
    assert trace.turns == (1 if kind == "messages" else len(json.loads(block.code)))


def check_command(words: list[str], folder: Path) -> None:
    """Parse a command; run it, made quick, unless it is apart or has run already."""
    placeholder = any(re.fullmatch(r"[A-Z]{3,}(\.\.\.)?", word) for word in words)
    words = [one for word in words for one in expanded(word, folder)]
    if words[0].startswith("-"):
        return  # of the program itself: it would be done at once, as --install-completion
    parsed(words)
    if placeholder or any(" ".join(words).startswith(beginning) for beginning in APART):
        return
    assert words[0] in QUICK, (
        f"`carbon-gym {words[0]}`: say in QUICK how it is made quick, or in APART why it is not run"
    )
    quick = made_quick(words)
    if (*quick,) in _ran:
        return
    _ran.add((*quick,))
    if "--out" not in quick:
        quick += ["--out", f"out-{len(_ran)}"]
    outcome = command(*quick)
    assert (outcome.code, outcome.err) == (0, ""), f"{' '.join(quick)}\n{outcome.err}"


def expanded(word: str, folder: Path) -> list[str]:
    """As a shell expands it."""
    if "*" not in word:
        return [word]
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) or [word]


def parsed(words: list[str]) -> None:
    """Every option and argument is one that the command takes."""
    found: Any = get_command(app)
    rest = list(words)
    while rest and rest[0] in getattr(found, "commands", {}):
        found = found.commands[rest.pop(0)]
    found.make_context("carbon-gym", rest)


def made_quick(words: list[str]) -> list[str]:
    quick = list(words)
    for option, value in QUICK[words[0]].items():
        name = SAME[option] if SAME.get(option) in quick else option
        if name not in quick:
            quick += [name, value]
        else:
            place = quick.index(name) + 1
            if name not in KEPT or not quick[place].endswith(KEPT[name]):
                quick[place] = value
    return quick


def test_what_is_kept_and_what_is_set() -> None:
    shown = "benchmark --scenario sharegpt --days 8 --policies a,b"
    quick = "benchmark --scenario tiny --days 2 --policies a,b --jobs 1"
    assert made_quick(shown.split()) == quick.split()
    own = made_quick(["benchmark", "--scenario", "mine.yaml"])
    assert own[1:3] == ["--scenario", "mine.yaml"]
    assert own[3:5] == ["--fleets", "2"]


def test_every_command_that_is_apart_exists() -> None:
    known = get_command(app).commands  # type: ignore[attr-defined]
    assert {beginning.split()[0] for beginning in [*APART, *QUICK]} <= known.keys()
