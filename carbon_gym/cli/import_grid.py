"""`carbon-gym import grid`: carbon intensity as its publishers hand it out, made a wide CSV."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from carbon_gym.cli.choices import names_in
from carbon_gym.cli.console import finish, out_folder, output_console
from carbon_gym.cli.tables import print_table
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing
from carbon_gym.grid.importing import (
    DEFAULT_HOLD_H,
    ImportedGrid,
    ZoneFound,
    import_grid,
    write_canonical,
)
from carbon_gym.grid.series import iso_utc
from carbon_gym.grid.sources import AUTO, FORMATS
from carbon_gym.report.grid_picture import draw_grid

FILE, PICTURE = "grid.csv.gz", "grid.png"
"""What is written, whatever the files of the user are called."""
MOST_SHOWN = 40
"""Zones that are printed."""
GRID_EXAMPLES = """\b
Examples:
  carbon-gym import grid DE_2023_hourly.csv GB_2023_hourly.csv
  carbon-gym import grid EIA930_BALANCE_2023_*.csv \\
      --zone CISO=US-CAL-CISO,ERCO=US-TEX-ERCO
  carbon-gym import grid intensity.csv --zone DE --hold 6
"""


def grid(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="CSV or JSON, plain or gzip.")
    ],
    format: Annotated[
        str, typer.Option(metavar="NAME", help=f"{AUTO}, or one of {', '.join(FORMATS)}.")
    ] = AUTO,
    zone: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Zones to take, separated by commas; OLD=NEW renames one; of a file that does "
            "not say its zone, its name. Default: all.",
        ),
    ] = None,
    hold: Annotated[
        float,
        typer.Option(metavar="HOURS", help="How long a value may be held until the next one."),
    ] = DEFAULT_HOLD_H,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"Folder for {FILE} and {PICTURE}; default runs/<time>-import-grid."
        ),
    ] = None,
) -> None:
    """Read carbon intensity in the formats of its publishers and write one wide CSV.

    Prints zones, period, step and holes. Use the result with --grid of the other commands, or with
    `grid: {source: file, paths: [FILE]}` in a scenario.
    """
    zones = None if zone is None else names_in("--zone", zone)
    folder = out_folder(out, "import-grid", goes_on=False)
    read = import_grid(files, format, zones, hold)
    made = make_writable_folder(folder, "--out")
    try:
        # Both files appear once both are written.
        with replacing(folder / FILE) as table, replacing(folder / PICTURE) as picture:
            step_s = write_canonical(read.series, table)
            draw_grid(picture, read.series)
    except BaseException:
        remove_if_empty(made)
        raise
    _show(read, folder, step_s)


def _show(read: ImportedGrid, folder: Path, step_s: int) -> None:
    console = output_console()
    for path, name in read.formats.items():
        console.print(f"{path}: {FORMATS[name].title} ({name})", soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("zone", no_wrap=True)
    for title in ("values", "mean", "from", "to", "step", "holes", "longest", "begins"):
        table.add_column(title, justify="right", no_wrap=True)
    for number, found in enumerate(read.zones[:MOST_SHOWN]):
        table.add_row(*_cells(found, float(read.series.values[:, number].mean())))
    print_table(console, table)
    if len(read.zones) > MOST_SHOWN:
        console.print(f"... and {len(read.zones) - MOST_SHOWN} more")
    series = read.series
    many = "s" if len(series.zones) > 1 else ""
    console.print(
        f"written: {len(series.zones)} zone{many}, {iso_utc(series.start_unix_s)} to "
        f"{iso_utc(series.stop_unix_s)}, every {step_s // 60} minutes; values held over holes in "
        f"{series.held_steps} of {len(series.values)} 5-minute steps "
        f"({100 * series.held_steps / len(series.values):.2f} %)",
    )
    for note in read.notes:
        console.print(f"- {note}", style="dim")
    written = [folder / name for name in (FILE, PICTURE)]
    zones = [asdict(found) for found in read.zones]
    finish({"zones": zones, "step_s": step_s, "notes": read.notes}, written, *written)


def _cells(found: ZoneFound, mean: float) -> list[str]:
    hole = ("-", "-")
    if found.holes:
        hole = (f"{found.longest_hole_s // 60} min", iso_utc(found.longest_hole_unix_s))
    return [
        found.zone,
        f"{found.values:,}",
        f"{mean:.1f}",
        iso_utc(found.start_unix_s),
        iso_utc(found.last_unix_s),
        f"{found.step_s // 60} min",
        f"{found.holes:,}",
        *hole,
    ]
