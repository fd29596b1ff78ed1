"""What the commands print, and where: results on stdout, everything else on stderr.

All of it follows the options that every command has, `--json`, `--quiet` and `--verbose`.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from carbon_gym import __version__

PIPED_WIDTH = 120
"""Characters per line where the output is not a terminal and COLUMNS is not set."""
EVERY_S = 30.0
"""Seconds between lines of progress where stderr is not a terminal."""


@dataclass
class Session:
    """The command that this process runs.

    Attributes:
        json: Whether one JSON document takes the place of what is printed for reading.
        quiet: Whether only the place of the result is printed, and errors.
        verbose: Whether it is said what is run, what was there already, and how long steps take.
        command: Its name, e.g. ``import grid``.
        arguments: As typed, with those before the name.
        folder: Where finished work is kept; None: nothing of it is.
        goes_on: Whether the same command with that folder goes on where it was stopped.
        stdout: Where the JSON document goes.
        began: Of `time.perf_counter`.
    """

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    command: str = ""
    arguments: tuple[str, ...] = ()
    folder: Path | None = None
    goes_on: bool = True
    stdout: TextIO | None = None
    began: float = field(default_factory=time.perf_counter)


_session = Session()


def session() -> Session:
    """The command that this process runs."""
    return _session


def begin_session(of: Session) -> None:
    """Everything that is printed from now on is of another command."""
    global _session
    _session = of


# --- places -------------------------------------------------------------------------------------


def out_folder(out: Path | None, kind: str, *, goes_on: bool = True) -> Path:
    """The folder of a command: as named by ``--out``, else a new one, ``runs/<time>-<kind>``.

    Args:
        out: As given.
        kind: End of the usual name.
        goes_on: Whether a rerun into it goes on where the command was stopped; Ctrl-C says so.
    """
    folder = out or Path("runs") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{kind}"
    _session.folder, _session.goes_on = folder, goes_on
    return folder


def took() -> str:
    """Seconds since the command began, for its last line."""
    return f"{time.perf_counter() - _session.began:.0f} s"


def stopped() -> str:
    """What is said when a command is stopped: what there is of it, and how it goes on."""
    folder = _session.folder
    if folder is None or not folder.is_dir() or not any(folder.iterdir()):
        return "stopped; nothing was finished"
    if not _session.goes_on:
        return f"stopped; what was finished is in {folder}"
    words = list(_session.arguments)
    if "--out" not in words and not any(word.startswith("--out=") for word in words):
        words += ["--out", str(folder)]
    command = shlex.join(["carbon-gym", *words])
    return f"stopped; what was finished is in {folder}; go on with: {command}"


# --- results ------------------------------------------------------------------------------------


def output_console() -> Console:
    """Console for what a person reads; silent with ``--quiet`` and ``--json``.

    It is as wide as the terminal or COLUMNS says, else `PIPED_WIDTH`. Text is printed as it is: a
    file called ``chat[1].csv`` is not taken for markup.
    """
    narrow = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return Console(
        width=None if narrow else PIPED_WIDTH,
        quiet=_session.quiet or _session.json,
        markup=False,
        emoji=False,
        highlight=False,
        **_colours(),
    )


def finish(
    results: Any, files: Iterable[Path] = (), *lines: object, out: Path | None = None
) -> None:
    """End a command: say where its results are, or print them as the JSON document.

    Args:
        results: What the document has of them; numbers that are not finite become null.
        files: Those that were written.
        lines: What is printed without ``--json``, with ``--quiet`` too: where the results are.
        out: The folder; None: that of `out_folder`, if there is one.
    """
    if not _session.json:
        for line in lines:
            print(line)
        return
    folder = out or _session.folder
    document = {
        "command": _session.command,
        "arguments": list(_session.arguments),
        "version": __version__,
        "out": None if folder is None else str(folder),
        "files": list(dict.fromkeys(str(path) for path in files)),
        "seconds": round(time.perf_counter() - _session.began, 3),
        "results": as_json(results),
    }
    print(json.dumps(document, indent=1, allow_nan=False), file=_session.stdout or sys.stdout)


def as_json(value: Any) -> Any:
    """A value made of what JSON has: keys are text, numbers are Python's and finite, or null."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers
        return as_json(value.tolist())
    if is_dataclass(value) and not isinstance(value, type):
        return as_json(asdict(value))
    if isinstance(value, Iterable):
        return [as_json(item) for item in value]
    number = float(value)
    return number if math.isfinite(number) else None


# --- progress -----------------------------------------------------------------------------------


def say(text: str) -> None:
    """A line on stderr, with ``--verbose`` alone."""
    if _session.verbose:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def turns_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr; a plain line now and then where that is not a terminal.

    Args:
        what: Shown before the bar.
        total: Turns to serve, or another measure of the work.

    Yields:
        To be called with what was done of it since its last call.
    """
    began = time.perf_counter()
    say(f"{what}: begins")
    console = _progress_console()
    if console is not None:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
        with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda turns: progress.advance(task, turns)
    else:
        line, done = _Line(), 0

        def advance(turns: int) -> None:
            nonlocal done
            done += turns
            line.show(lambda passed_s: f"{what}: {_share(done, total, passed_s)}")

        yield advance
    say(f"{what}: {time.perf_counter() - began:.1f} s")


@contextmanager
def status_line(what: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is done; a new one now and then if that is no terminal.

    Args:
        what: Stands before it.

    Yields:
        To be called with what is done now.
    """
    began = time.perf_counter()
    say(f"{what}: begins")
    console = _progress_console()
    if console is not None:
        with console.status(what) as status:
            yield lambda text: status.update(f"{what}: {text}")
    else:
        line = _Line()
        yield lambda text: line.show(lambda passed_s: f"{what}: {text}, {_duration(passed_s)}")
    say(f"{what}: {time.perf_counter() - began:.1f} s")


class _Line:
    """Lines on stderr, one every `EVERY_S` at most; none with ``--quiet``."""

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()

    def show(self, text_after: Callable[[float], str]) -> None:
        now = time.perf_counter()
        if not _session.quiet and now - self._last >= EVERY_S:
            self._last = now
            print(text_after(now - self._began), file=sys.stderr, flush=True)


_TELLING = 0.05
"""Share of the work from which on an estimate of the rest is given (ASSUMED)."""


def _share(done: int, total: int, passed_s: float) -> str:
    """How much is done, for how long, and how long the rest takes at that rate.

    The first share says nothing of the rest: kernels are compiled then.
    """
    share = min(done / total, 1.0) if total > 0 else 1.0
    left = f", {_duration(passed_s * (1 / share - 1))} to go" if _TELLING <= share < 1 else ""
    return f"{share:.0%}, {_duration(passed_s)}{left}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _progress_console() -> Console | None:
    """Where bars move; None where they cannot, or must not."""
    console = Console(stderr=True, **_colours())
    moves = console.is_terminal and not console.is_dumb_terminal
    return console if moves and not _session.quiet else None


def _colours() -> dict[str, Any]:
    """Without colours, and bold and italic text, where the user wants none of it."""
    return {"color_system": None} if os.environ.get("NO_COLOR") else {}
