"""The command line: `carbon-gym`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_LONGEST = 1_500
"""Characters of a message that is printed whole."""


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
        _never_fail_to_print()
        begin_session(Session(arguments=tuple(given)))
        try:
            with sigterm_stops():
                app(args=given, prog_name="carbon-gym")
        except (InputError, InstallationError) as error:
            print(f"carbon-gym: {_one_line(str(error))}", file=sys.stderr)
            sys.exit(2)
    except KeyboardInterrupt:  # before the command began, or after it ended
        sys.exit(130)


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
