"""Where the commands print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PIPED_WIDTH = 120
"""Characters per line where the output is not a terminal."""


def output_console() -> Console:
    """Console for results: the terminal's width, or a fixed one when piped into a file.

    Text is printed as it is: a file called ``chat[1].csv`` is not taken for markup.
    """
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    return Console(width=width, markup=False, emoji=False, highlight=False)


@contextmanager
def turns_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr; nothing at all where that is not a terminal.

    Args:
        what: Shown before the bar.
        total: Turns to serve, or another measure of the work.

    Yields:
        To be called with what was done of it since its last call.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda turns: progress.advance(task, turns)
