"""The command line: `carbon-gym`."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_LONGEST = 1_500
"""Characters of a message that is printed whole."""
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
"""Of a disk that takes no more; Windows knows no quota."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: user errors are one sentence on stderr and exit code 2.

    Args:
        arguments: Without the program's name; None: those of the process.
    """
    try:
        from carbon_gym.cli.app import app
        from carbon_gym.cli.console import Session, begin_session
        from carbon_gym.cli.habits import sigterm_stops
        from carbon_gym.errors import InputError, InstallationError

        given = sys.argv[1:] if arguments is None else list(arguments)
        _open_what_is_closed()
        _never_fail_to_print()
        begin_session(Session(arguments=tuple(given)))
        try:
            with sigterm_stops():
                try:
                    app(args=given, prog_name="carbon-gym")
                except SystemExit:  # it always ends so
                    sys.stdout.flush()  # at Python's own end a fault of this is a riddle
                    raise
        except (InputError, InstallationError) as error:
            print(f"carbon-gym: {_one_line(str(error))}", file=sys.stderr)
            sys.exit(2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # nobody reads on, as in `| head -1`
                _print_nowhere()
                sys.exit(1)
            if error.errno not in _FULL:
                raise
            _print_nowhere()
            print(
                f"carbon-gym: cannot write ({error.strerror}); make room, or send the output to "
                "another place",
                file=sys.stderr,
            )
            sys.exit(2)
    except KeyboardInterrupt as stop:  # before the command began, or after it ended
        sys.exit(getattr(stop, "code", 130))


def _open_what_is_closed() -> None:
    """Standard streams that the caller has closed (``>&-``, no console) lead nowhere.

    Python has None for them. Their numbers are taken too: a file of ours must not get them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 (it stays)
            setattr(sys, name, nowhere)


def _print_nowhere() -> None:
    """What stdout still holds is lost; else Python tries to print it once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _never_fail_to_print() -> None:
    """Characters that the encoding of a terminal or file lacks are printed as ``?``."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _one_line(message: str) -> str:
    """A message without the line breaks, control characters and mass that a file may bring."""
    whole = " ".join(message.splitlines())
    if len(whole) > _LONGEST:  # what was found stands in the middle, the fix at the end
        whole = f"{whole[: _LONGEST // 2]} ... {whole[-_LONGEST // 2 :]}"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in whole)
