"""What every command does alike: `--json`, `-q`, `-v`, and how it ends when it is stopped."""

from __future__ import annotations

import functools
import inspect
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Annotated, Any

import typer

from carbon_gym import __version__
from carbon_gym.cli.console import Session, begin_session, say, session, stopped
from carbon_gym.errors import InputError

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C and after SIGTERM, as shells have them: 128 + the signal's number."""

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the results as one JSON document instead.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print where the results are, and errors.")
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Say what is run, what was there already, how long steps take."
    ),
]
_HABITS = {"as_json": JsonOption, "quiet": QuietOption, "verbose": VerboseOption}


class Terminated(KeyboardInterrupt):
    """SIGTERM: the command ends as after Ctrl-C, with another exit code."""

    code = TERMINATED


def with_habits(command: Callable[..., None], name: str) -> Callable[..., None]:
    """The command with the options that all have, and an end that leaves finished work alone.

    Args:
        command: As Typer takes it. If it has a parameter ``json_file`` and a file is given, the
            document goes there instead: the command writes it.
        name: With which it is called, e.g. ``import grid``.

    Returns:
        What is registered in its place.
    """
    signature = inspect.signature(command, eval_str=True)
    extra = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for key, option in _HABITS.items()
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        flags = {key: given.pop(key) for key in _HABITS}
        asked = _session_of(name, **flags)
        asked.json = asked.json and given.get("json_file") is None
        begin_session(asked)
        say(f"carbon-gym {__version__}: {shlex.join(['carbon-gym', *asked.arguments])}")
        with _stops(), _document_alone(asked):
            command(**given)
        say(f"{name}: done")

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
    ]
    run.__signature__ = signature.replace(parameters=[*parameters, *extra])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*parameters, *extra)}
    return run


def _session_of(name: str, as_json: bool, quiet: bool, verbose: bool) -> Session:
    """The session of a command: its own options, and those that stand before its name."""
    before = session()
    asked = Session(
        as_json or before.json,
        quiet or before.quiet,
        verbose or before.verbose,
        name,
        before.arguments,
        stdout=sys.stdout,
    )
    if asked.quiet and asked.verbose:
        raise InputError("--quiet and --verbose are given both; leave one of them out")
    return asked


@contextmanager
def _document_alone(asked: Session) -> Iterator[None]:
    """Under ``--json`` whatever else is printed goes to stderr."""
    if not asked.json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def _stops() -> Iterator[None]:
    """End on Ctrl-C and SIGTERM with one sentence; end the processes that help, whatever ends."""
    try:
        yield
    except KeyboardInterrupt as stop:
        _end_processes()
        print(f"carbon-gym: {stopped()}", file=sys.stderr)
        sys.exit(exit_code(stop))
    except BaseException:
        _end_processes()  # the traceback would keep them alive, and they the interpreter
        raise


def exit_code(stop: KeyboardInterrupt) -> int:
    """Of what stopped a command."""
    return int(getattr(stop, "code", INTERRUPTED))


def _end_processes() -> None:
    parallel = sys.modules.get("carbon_gym.parallel")
    if parallel is not None:
        parallel.end_processes()


@contextmanager
def sigterm_stops() -> Iterator[None]:
    """SIGTERM raises `Terminated` in this block, where it can: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    came = False

    def stop(*_: Any) -> None:
        nonlocal came
        came = True
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except SystemExit as end:
        if came and end.code == INTERRUPTED:  # before the command began Typer takes it for Ctrl-C
            raise SystemExit(TERMINATED) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
