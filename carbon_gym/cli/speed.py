"""`carbon-gym speed`: how fast the simulator is on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from carbon_gym.cli.choices import at_least_one
from carbon_gym.cli.console import output_console
from carbon_gym.errors import InputError
from carbon_gym.files import check_writable_file, replacing
from carbon_gym.speed import measure_speed


def speed(
    repeats: Annotated[int, typer.Option(metavar="N", help="Counted repeats of each figure.")] = 5,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures there.")
    ] = None,
) -> None:
    """Measure the simulator, with gymnasium's CartPole-v1 in the same run beside it."""
    if json_file is not None:
        check_writable_file(json_file, "--json")
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise InputError("speed: NUMBA_DISABLE_JIT is set, so there is nothing to time; unset it")
    rows = measure_speed(at_least_one("--repeats", repeats) or 1)
    cartpole = rows[0].value
    if json_file is not None:
        with replacing(json_file) as partial:
            partial.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    table = Table(box=None, pad_edge=False)
    table.add_column("figure")
    for name in ("median", "low", "high"):
        table.add_column(name, justify="right")
    table.add_column("unit")
    table.add_column("x CartPole", justify="right")
    for row in rows:
        shown = (
            f"{value:,.0f}" if row.unit.endswith("/s") else f"{value:.2f}"
            for value in (row.value, row.low, row.high)
        )
        ratio = f"{row.value / cartpole:.1f}" if row.unit.endswith("/s") else ""
        table.add_row(row.name, *shown, row.unit, ratio)
    output_console().print(table)
