"""The leaderboard: validates the entries of `docs/leaderboard/` and writes `docs/leaderboard.md`.

    python docs/leaderboard.py                       # check the entries, write the page
    python docs/leaderboard.py --check               # check both, write nothing
    python docs/leaderboard.py --add mine runs/mine  # take results over into an entry

The page says what an entry is and how to submit one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from leaderboard_entries import SCENARIOS, collect, read_board
from leaderboard_models import shown
from leaderboard_page import page

from carbon_gym.errors import InputError
from carbon_gym.report.work_file import write_text

HERE = Path(__file__).resolve().parent
ENTRIES, PAGE = HERE / "leaderboard", HERE / "leaderboard.md"


def main(arguments: list[str] | None = None) -> None:
    """The command line: what a user got wrong is one sentence and exit code 2."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing")
    what.add_argument(
        "--add", nargs="+", metavar=("NAME", "RUN"), help="entry, and folders of the benchmark"
    )
    parser.add_argument("--entries", type=Path, default=ENTRIES, help="folder of the entries")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page's file")
    parser.add_argument(
        "--scenario", action="append", metavar="NAME", help="of the board, to try it on another"
    )
    options = parser.parse_args(arguments)
    scenarios = options.scenario or SCENARIOS
    if options.add is not None and len(options.add) == 1:
        parser.error("--add needs the name of an entry and a folder of the benchmark")
    try:
        if options.add is not None:
            name, *runs = options.add
            path = collect(options.entries / name, [Path(run) for run in runs], scenarios)
            print(f"{shown(path)}  ({path.stat().st_size:,} bytes)")
            return
        board = read_board(options.entries, scenarios)
        text = page(board, scenarios)
        if not options.check:
            write_text(options.page, text)
        elif not options.page.is_file() or options.page.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{shown(options.page)}: is not what the entries make; run "
                "`python docs/leaderboard.py` and keep the page that it writes"
            )
    except InputError as error:
        print(f"leaderboard: {error}", file=sys.stderr)
        sys.exit(2)
    methods = sum(len(submission.entry.methods) for submission in board)
    print(
        f"{shown(options.page)}: {len(board)} entr{'y' if len(board) == 1 else 'ies'}, "
        f"{methods} method{'' if methods == 1 else 's'}"
    )


if __name__ == "__main__":
    main()
