"""What every command does alike: help with examples, -q, -v, progress, completion, its page."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import (
    POLICIES,
    Outcome,
    benchmark,
    carbon_gym,
    command_of,
    every_command,
    in_terminal,
    program,
)
from inputs import write_grid
from rich.console import Console
from rich.table import Table

from carbon_gym import policy_names, scenario_names
from carbon_gym.cli import console
from carbon_gym.cli.app import COMMANDS
from carbon_gym.cli.choices import POLICY_NAMES
from carbon_gym.cli.tables import print_table

DOCS = Path(__file__).resolve().parents[1] / "docs"
EVERY = every_command()
SMALL = ("--scenario", "tiny", "--fleets", 1, "--sessions", 8)


def named(words: tuple[str, ...]) -> str:
    return " ".join(words)


# --- help -------------------------------------------------------------------------------------


def test_the_list_of_commands_is_of_those_that_there_are() -> None:
    assert [words[0] for words in EVERY if len(words) == 1] == [
        name for name in COMMANDS if name not in ("calibrate", "import")
    ]
    lines = carbon_gym("--help").out.splitlines()
    for name, (_, does) in COMMANDS.items():
        assert any(line.split() == [name, *does.split()] for line in lines)


@pytest.mark.parametrize("words", EVERY, ids=named)
def test_help_says_in_a_sentence_what_a_command_does(words: tuple[str, ...]) -> None:
    text = carbon_gym(*words, "--help").out
    first = " ".join(text.split("\n\n")[1].split())
    assert re.fullmatch(r"[A-Z][^.]*(?:\.(?!\s)[^.]*)*\.", first), first
    for option in ("--json", "-q, --quiet", "-v, --verbose", "--help"):
        assert f"  {option} " in text


@pytest.mark.parametrize("words", EVERY, ids=named)
def test_options_and_arguments_are_said_in_words(words: tuple[str, ...]) -> None:
    for parameter in command_of(*words).params:
        assert parameter.help, parameter.name
        if not getattr(parameter, "is_flag", False):
            assert parameter.metavar, parameter.name
            assert parameter.metavar.isupper(), parameter.metavar


def examples(words: tuple[str, ...]) -> list[list[str]]:
    """The examples in a command's help, as a shell takes them apart."""
    lines = (command_of(*words).epilog or "").replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("  carbon-gym ")]


def rest_of(context: Any) -> list[str]:
    """Words that are left for a command of the group; Click's name for some of them varies."""
    known = vars(context)
    return [*known.get("_protected_args", known.get("protected_args", [])), *context.args]


@pytest.mark.parametrize("words", [(), *EVERY], ids=named)
def test_examples_are_commands_that_would_run(words: tuple[str, ...]) -> None:
    found = examples(words)
    assert any(tuple(example[: len(words)]) == words for example in found)
    for example in found:
        context = command_of().make_context("carbon-gym", list(example))
        while rest := rest_of(context):
            name, command, words_after = context.command.resolve_command(context, rest)
            context = command.make_context(name, words_after, parent=context)


# --- quiet, verbose ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["before", "after"])
def test_quiet_is_the_place_of_the_results_alone(place: str, tmp_path: Path) -> None:
    line = ["benchmark", *SMALL, "--jobs", 1, "--policies", "faircarbon", "--out", tmp_path / "o"]
    done = carbon_gym(*(["-q", *line] if place == "before" else [*line, "--quiet"]))
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(rf"{re.escape(str(tmp_path))}/o/results.json  \(\d+ s\)\n", done.out)


def test_quiet_still_says_errors() -> None:
    done = carbon_gym("benchmark", "--scenario", "tinny", "-q")
    assert (done.code, done.out) == (2, "")
    assert "'tinny'" in done.err


def test_verbose_says_what_is_run_and_what_was_there(tmp_path: Path) -> None:
    out = ("--out", tmp_path / "o")
    done = benchmark(*SMALL, "--policies", "faircarbon", "-v", *out)
    assert "tiny: 1 policies, none is there yet" in done.err
    assert re.search(r"^tiny: faircarbon is done after \d+\.\d s$", done.err, re.MULTILINE)
    assert "faircarbon" in done.out
    done = benchmark(*SMALL, "--policies", "faircarbon,lower-bound", "-v", *out)
    there = f"tiny: 2 policies, 1 are in {tmp_path}/o/results.json already: faircarbon"
    assert there in done.err.splitlines()
    assert "lower-bound is done" in done.err
    assert "faircarbon is done" not in done.err
    quiet = benchmark(*SMALL, "--policies", "faircarbon,lower-bound", *out)
    assert quiet.err == ""


def test_quiet_and_verbose_exclude_each_other() -> None:
    done = carbon_gym("-q", "fleet", "tiny", "-v")
    assert (done.code, done.out) == (2, "")
    assert "leave one of them out" in done.err


# --- progress, colours ------------------------------------------------------------------------


def test_piped_progress_is_a_plain_line_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "EVERY_S", 0.0)
    done = benchmark(*SMALL, "--out", tmp_path / "a")
    assert done.code == 0
    lines = done.err.splitlines()
    assert len(lines) >= len(POLICIES)
    assert all(re.fullmatch(r"tiny: \d+%, \d+ s(, \d+ s to go)?", line) for line in lines)
    assert lines[-1].startswith("tiny: 100%, ")
    assert benchmark(*SMALL, "--out", tmp_path / "b", "-q").err == ""
    monkeypatch.setattr(console, "EVERY_S", 30.0)
    assert benchmark(*SMALL, "--out", tmp_path / "c").err == ""


def test_piped_steps_of_unknown_length_are_lines_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "EVERY_S", 0.0)
    with console.status_line("tiny") as on_progress:
        on_progress("width 4")
    assert capsys.readouterr().err == "tiny: width 4, 0 s\n"


def test_shares_and_times_of_progress() -> None:
    assert console._share(1, 4, 10.0) == "25%, 10 s, 30 s to go"
    assert console._share(1, 100, 60.0) == "1%, 60 s"
    assert console._share(4, 4, 200.0) == "100%, 3 min"
    assert console._share(5, 4, 1.0) == console._share(0, 0, 1.0) == "100%, 1 s"
    assert console._share(0, 4, 1.0) == "0%, 1 s"


RUN = ("benchmark", *SMALL, "--jobs", 1, "--policies", "lower-bound", "--out", "o")


def test_a_terminal_has_styles_and_a_bar(tmp_path: Path) -> None:
    code, shown = in_terminal(tmp_path, *RUN)
    assert code == 0
    assert "━".encode() in shown
    assert b"\x1b[2m" in shown  # notes are dim


@pytest.mark.parametrize("wish", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=["dumb", "no colour"])
def test_nothing_is_styled_where_it_is_not_wanted(wish: dict[str, str], tmp_path: Path) -> None:
    """NO_COLOR leaves the bar, which moves the cursor; TERM=dumb leaves nothing."""
    code, shown = in_terminal(tmp_path, *RUN, **wish)
    assert code == 0
    assert b"lower-bound" in shown
    assert not re.search(rb"\x1b\[[\d;]*m", shown)
    if "TERM" in wish:
        assert b"\x1b" not in shown
    for arguments in (("--help",), ("benchmark", "--bogus"), ("fleet", "tinny")):
        assert b"\x1b" not in in_terminal(tmp_path, *arguments, **wish)[1]


def test_a_pipe_that_is_closed_early_is_no_fault(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "carbon_gym", "fleet", "sharegpt"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    said = run.stderr.read()
    run.stderr.close()
    run.wait()
    assert b"Traceback" not in said


def test_characters_that_a_file_cannot_hold_stop_nothing(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "carbon_gym", *map(str, RUN)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert b"lower-bound" in run.stdout


# --- tables -----------------------------------------------------------------------------------


def printed(table: Table, width: int, keys: int = 1) -> list[str]:
    screen = Console(width=width, record=True, file=io.StringIO())
    print_table(screen, table, keys)
    return screen.export_text().splitlines()


def test_a_table_that_is_too_wide_goes_on_below() -> None:
    table = Table(title="Title", caption="Caption", box=None, pad_edge=False)
    table.add_column("key")
    for number in range(6):
        table.add_column(f"column {number}", justify="right", no_wrap=True)
    table.add_row("a", *(f"{number}234567.89" for number in range(6)))
    assert len(printed(table, 200)) == 4
    lines = printed(table, 40)
    assert max(map(len, lines)) <= 40
    text = "\n".join(lines)
    assert "…" not in text
    assert (text.count("Title"), text.count("Caption")) == (1, 1)
    for number in range(6):
        assert text.count(f"column {number}") == text.count(f"{number}234567.89") == 1
    assert sum(line.startswith("a ") for line in lines) == 2


def test_a_long_name_takes_several_lines_instead_of_being_cut() -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("policy", no_wrap=True)
    table.add_column("CO2", no_wrap=True)
    name = "runs/" + "a" * 60 + "/router.npz"
    table.add_row(name, "123456")
    lines = printed(table, 40)
    assert "".join(line[:24].strip() for line in lines[1:]) == name
    assert sum("123456" in line for line in lines) == 1


WIDE_RUNS: dict[str, tuple[Any, ...]] = {
    "benchmark": ("--policies", "ccar-budget-sessions,ccar,largest-model", "--fleets", 5),
    "front": ("--front", "--policies", "ccar,session-affinity", "--fleets", 1),
}


@pytest.mark.parametrize("run", WIDE_RUNS)
def test_comparisons_fit_80_columns_whole(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    size = ("--scenario", "sharegpt-budget", "--sessions", 6, "--jobs", 1)
    done = carbon_gym("benchmark", *size, *WIDE_RUNS[run], "--out", tmp_path / "o")
    assert done.code == 0, done.err
    fits_whole(done, tmp_path)


def fits_whole(done: Outcome, folder: Path) -> None:
    assert "…" not in done.out
    lines = [line for line in done.out.splitlines() if str(folder) not in line]
    assert max(map(len, lines)) <= 80


def test_fleets_and_grids_fit_80_columns_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = carbon_gym("fleet", "sharegpt")
    fits_whole(done, tmp_path)
    assert done.out.count("Mistral-Nemo-12B-Instruct A100-40GB") == 2
    assert " 3,570,963" in done.out
    done = carbon_gym(
        *("import", "grid", write_grid(tmp_path / "g.csv"), "--out", tmp_path / "o"),
    )
    fits_whole(done, tmp_path)
    assert done.out.count("2023-05-08T00:00Z") >= 2


# --- completion -------------------------------------------------------------------------------


def completed(monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """What bash is offered at the end of a line."""
    monkeypatch.setenv("_CARBON_GYM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (0 if line.endswith(" ") else 1)))
    return carbon_gym().out.split()


def test_names_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(line: str) -> list[str]:
        return completed(monkeypatch, f"carbon-gym {line}")

    assert offered("tune-") == ["tune-baselines", "tune-lookahead"]
    assert offered("import ") == ["conversations", "grid"]
    assert offered("benchmark --scenario tin") == ["tiny"]
    assert set(offered("evaluate learned --scenario ")) == set(scenario_names())
    assert offered("benchmark --policies ccar,ccar-no-p") == ["ccar,ccar-no-pricing"]
    assert offered("record fairc") == ["faircarbon", "faircarbon-budget"]
    assert offered("evaluate lookahead-") == ["lookahead-places"]
    assert "learned-congested" in offered("train --config ")
    assert offered("train --algo mask") == ["maskable-ppo"]
    assert "--conversations" in offered("audit --c")
    assert "ablation" in offered("reproduce --only ")
    assert offered("speed --only sim") == ["simulator"]


def test_policies_that_are_completed_are_those_that_there_are() -> None:
    assert list(POLICY_NAMES) == policy_names()


@pytest.mark.parametrize("line", ["benchmark --scenario ti", "train --config l", "evaluate lea"])
def test_completion_loads_nothing_heavy(line: str) -> None:
    words = f"carbon-gym {line}"
    loaded = program(
        "import os, sys\n"
        "os.environ.update(_CARBON_GYM_COMPLETE='complete_bash', COMP_CWORD="
        f"'{len(words.split()) - 1}', COMP_WORDS={words!r})\n"
        "from carbon_gym.cli import main\n"
        "try:\n    main([])\n"
        "finally:\n"
        "    heavy = ('numba', 'pandas', 'torch', 'matplotlib', 'baselines', 'agents')\n"
        "    print([name for name in heavy if name in sys.modules])\n"
    )
    assert loaded.splitlines()[-1] == "[]"
    assert len(loaded.splitlines()) > 1


def test_help_and_version_load_no_command() -> None:
    loaded = program(
        "import sys\nfrom carbon_gym.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    print([n for n in sys.modules if n in ('numba', 'carbon_gym.cli.train')])\n"
    )
    assert loaded.splitlines()[-1] == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_shown(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    done = carbon_gym("--show-completion", shell)
    assert done.code == 0
    assert "_CARBON_GYM_COMPLETE" in done.out


def test_completion_is_installed_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    done = carbon_gym("--install-completion", "bash")
    assert done.code == 0
    (script,) = tmp_path.rglob("carbon-gym.sh")
    assert "_CARBON_GYM_COMPLETE" in script.read_text(encoding="utf-8")
    assert str(script) in (tmp_path / ".bashrc").read_text(encoding="utf-8")


# --- the page ---------------------------------------------------------------------------------


def test_the_page_has_every_command_option_and_exit_code() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `carbon-gym ([a-z -]+)` \| (.*) \|$", text, re.MULTILINE)
    assert [name for name, _ in rows] == [" ".join(words) for words in EVERY]
    for name, said in rows:
        words = tuple(name.split())
        assert said.startswith(f"{command_of(*words).short_help}"), name
    for code in (0, 1, 2, 130, 143):
        assert f"| {code} |" in text
    for option in ("--json", "--quiet", "--verbose", "--install-completion", "--show-completion"):
        assert option in text
    for variable in ("NO_COLOR", "TERM", "COLUMNS"):
        assert f"`{variable}" in text


def test_the_page_has_the_keys_of_the_document(tmp_path: Path) -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    document = json.loads(carbon_gym("--json", "fleet", "tiny", "--out", tmp_path / "o").out)
    listed = re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)
    assert list(document) == listed
