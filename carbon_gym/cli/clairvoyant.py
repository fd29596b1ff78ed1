"""`carbon-gym clairvoyant`: how wide the clairvoyant's search must be."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from carbon_gym.cli.choices import at_least_one
from carbon_gym.cli.console import output_console
from carbon_gym.doors import our_package
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing
from carbon_gym.report.work_file import versions
from carbon_gym.scenario import load_scenario

DEFAULT_SCENARIOS = ["sharegpt", "sharegpt-evict", "sharechat", "sharechat-evict"]
SCHEMA = 1
"""Version of the layout of `clairvoyant.json`."""


def clairvoyant(
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Packaged scenario or YAML file; may be repeated. Default: sharegpt and "
            "sharechat, caches retained and evicted.",
        ),
    ] = None,
    fleets: Annotated[
        int, typer.Option(metavar="K", help="Validation fleets of each scenario.")
    ] = 8,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for clairvoyant.json and .md; default runs/<time>-clairvoyant.",
        ),
    ] = None,
) -> None:
    """Widen the clairvoyant's search until its total improves by less than 0.1 %."""
    our_package("baselines")
    from baselines.clairvoyant_study import converge, markdown

    at_least_one("--fleets", fleets)
    scenarios = [load_scenario(source) for source in dict.fromkeys(scenario or DEFAULT_SCENARIOS)]
    folder = out or Path("runs") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-clairvoyant"
    made = make_writable_folder(folder, "--out")
    console, status = output_console(), Console(stderr=True)
    studies = []
    try:
        for chosen in scenarios:
            evaluation = evaluation_fleets(chosen, split="validation", fleets=fleets)
            with status.status(chosen.name) as line:
                study = converge(
                    evaluation,
                    on_progress=lambda text, name=chosen.name: line.update(f"{name}: {text}"),  # type: ignore[misc]
                )
            studies.append(study)
            content = {"schema": SCHEMA, "versions": versions(), "scenarios": studies}
            with replacing(folder / "clairvoyant.json") as partial:
                partial.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
            text = "# Clairvoyant: total CO2 by width of the search\n\n"
            with replacing(folder / "clairvoyant.md") as partial:
                partial.write_text(text + "\n".join(markdown(each) for each in studies))
            last = study["rows"][-1]
            console.print(
                f"{study['scenario']}: width {study['width']}, {last['co2_g']:,.1f} g "
                f"(lower bound {study['lower_bound_co2_g']:,.1f} g, seeds "
                f"{study['seeds_co2_g']:,.1f} g), {last['proven_sessions_percent']:.1f} % of "
                f"sessions proven, {last['us_per_turn']:.1f} µs/turn"
            )
    finally:
        remove_if_empty(made)
    console.print(str(folder / "clairvoyant.md"), soft_wrap=True)
