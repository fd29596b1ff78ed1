"""Running the command line inside the test process."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from carbon_gym.cli import main
from carbon_gym.cli.app import app

POLICIES = (
    "session-affinity",
    "faircarbon",
    "ccar-no-gate",
    "ccar-no-pricing",
    "largest-model",
    "lower-bound",
)
"""Those that need no tuning and no training."""


@dataclass(frozen=True)
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str


def carbon_gym(*arguments: Any) -> Outcome:
    """Run a command; what is no `SystemExit` gets out, as it would with its traceback."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code or 0
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    assert isinstance(code, int)
    return Outcome(code, *texts)


def command_of(*words: str) -> Any:
    """Click's command of that name."""
    command: Any = get_command(app)
    for word in words:
        command = command.commands[word]
    return command


def every_command(command: Any = None, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command that does something."""
    inner = getattr(command or get_command(app), "commands", {})
    if not inner:
        return [before]
    return [found for name, each in inner.items() for found in every_command(each, (*before, name))]


def program(code: str) -> str:
    """What a Python program prints that is run by itself, with this checkout's packages."""
    import carbon_gym as package

    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_terminal(folder: Path, *arguments: Any, **environment: str) -> tuple[int, bytes]:
    """Exit code and what a terminal of 80 columns is sent, stdout and stderr together."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    ours, theirs = pty.openpty()
    inherited = {key: os.environ[key] for key in os.environ if key not in ("NO_COLOR", "TERM")}
    run = subprocess.Popen(
        [sys.executable, "-m", "carbon_gym", *map(str, arguments)],
        cwd=folder,
        env={**inherited, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return run.wait(), shown


def benchmark(*arguments: Any) -> Outcome:
    """`carbon-gym benchmark` in this process alone, of `POLICIES` unless others are named."""
    named = () if "--policies" in arguments else ("--policies", ",".join(POLICIES))
    return carbon_gym("benchmark", "--jobs", 1, *named, *arguments)
