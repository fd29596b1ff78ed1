"""`carbon-gym fleet`: check a fleet and show what its deployments cost and hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from carbon_gym.cli.comparing import check_before_the_work
from carbon_gym.cli.console import finish, output_console
from carbon_gym.cli.tables import print_table
from carbon_gym.files import make_writable_folder
from carbon_gym.fleet.plausible import doubts_of
from carbon_gym.fleet.summary import deployment_rows, write_deployments
from carbon_gym.grid.readers import read_grid
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.scenario.measured import MEASURES

FILE = "deployments.csv"
EXAMPLES = """\b
Examples:
  carbon-gym fleet sharegpt
  carbon-gym fleet my-fleet.yaml --out runs/my-fleet
"""
HISTORY_TOKENS = 8000
"""History whose recomputation is tried against the bound on the first token, tokens (ASSUMED)."""
_KWH_TO_MWH = 1e6


def fleet(
    scenario: Annotated[
        str, typer.Argument(metavar="FILE|NAME", help="YAML file, or packaged scenario.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help=f"Folder for {FILE}, a row a deployment.")
    ] = None,
) -> None:
    """Check a fleet (models, GPU types, regions, measured profiles) and print its deployments.

    How to write one: docs/fleet.md. Zones must be there in the scenario's grid.
    """
    loaded = load_scenario(scenario)
    check_before_the_work([loaded])
    if loaded.grid.source == "file":
        read_grid(loaded.grid.paths, [region.zone for region in loaded.fleet.regions])
    rows = deployment_rows(loaded)
    if out is not None:
        make_writable_folder(out, "--out")
        write_deployments(rows, out / FILE)
    console = output_console()
    console.print(_sizes(loaded, len(rows)))
    print_table(console, _profiles(rows, loaded.fleet.regions[0].zone), keys=2)
    console.print()
    console.print(_regions(loaded))
    _notes(console, loaded, rows)
    written = [] if out is None else [out / FILE]
    finish({"scenario": loaded.name, "deployments": rows}, written, *written, out=out)


def _sizes(scenario: Scenario, deployments: int) -> str:
    f = scenario.fleet
    sizes = f"{len(f.models)} x {len(f.gpus)} x {len(f.regions)}"
    return (
        f"{scenario.name}: {deployments} deployment{'' if deployments == 1 else 's'} (models x GPU "
        f"types x regions: {sizes}), replicas of each: {f.replicas}, KV room that of all of them"
    )


def _profiles(rows: list[dict[str, Any]], region: str) -> Table:
    """Models on GPU types, which are alike in every region."""
    table = _table("model", "GPU", "GPUs")
    for title in ("input", "cached", "output", "prefill", "decode", "KV room", "KV room", ""):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    units = ("mWh/1k", "mWh/1k", "mWh/1k", "tokens/s", "tokens/s", "GB", "tokens", "")
    table.add_row("", "", "", *units, style="dim")
    for row in rows:
        if row["region"] != region:
            continue
        table.add_row(
            row["model"],
            row["gpu"],
            str(row["gpus_per_replica"]),
            *(
                f"{1000 * _KWH_TO_MWH * row[f'kwh_per_{kind}_token']:.3g}"
                for kind in ("input", "cached", "output")
            ),
            f"{row['prefill_tokens_per_s']:,.0f}",
            f"{row['decode_tokens_per_s']:,.0f}",
            f"{row['kv_room_gb']:,.1f}",
            f"{row['kv_room_tokens']:,}",
            "measured" if row["measured"] else "",
        )
    return table


def _regions(scenario: Scenario) -> Table:
    table = _table("region", "PUE", "round trip, ms")
    for region in scenario.fleet.regions:
        table.add_row(region.zone, f"{region.pue:.2f}", f"{1000 * region.round_trip_s:.0f}")
    return table


def _table(text: str, *numbers: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(text, no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="left" if title == "GPU" else "right", no_wrap=True)
    return table


def _notes(console: Console, scenario: Scenario, rows: list[dict[str, Any]]) -> None:
    slow = [row for row in rows if _seconds_of_history(row) > scenario.bounds.ttft_s]
    if slow:
        names = dict.fromkeys(f"{row['model']} on {row['gpu']}" for row in slow)
        console.print(
            f"- the first token of {HISTORY_TOKENS:,} tokens that are not cached takes longer than "
            f"bounds.ttft_s = {scenario.bounds.ttft_s:g} s on {len(slow)} deployments: "
            f"{', '.join(names)}",
            style="dim",
        )
    for doubt in doubts_of(scenario):
        console.print(f"- check: {doubt}", style="yellow")
    for entry in scenario.fleet.measured:
        given = [name for name in MEASURES if getattr(entry, name) is not None]
        console.print(
            f"- measured of {entry.model} on {entry.gpu}: {', '.join(given)}; the rest is computed",
            style="dim",
        )


def _seconds_of_history(row: dict[str, Any]) -> float:
    seconds: float = HISTORY_TOKENS / row["prefill_tokens_per_s"] + row["round_trip_s"]
    return seconds
