"""Where the commands print."""

from __future__ import annotations

import sys

from rich.console import Console

PIPED_WIDTH = 120
"""Characters per line where the output is not a terminal."""


def output_console() -> Console:
    """Console for results: the terminal's width, or a fixed one when piped into a file.

    Text is printed as it is: a file called ``chat[1].csv`` is not taken for markup.
    """
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False)
