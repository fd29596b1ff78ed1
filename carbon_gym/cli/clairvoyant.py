"""`carbon-gym clairvoyant`: how wide the clairvoyant's search must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from carbon_gym.cli.choices import at_least_one, complete_scenario
from carbon_gym.cli.console import finish, out_folder, output_console, status_line
from carbon_gym.doors import our_package
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing

DEFAULT_SCENARIOS = ["sharegpt", "sharegpt-evict", "sharechat", "sharechat-evict"]
SCHEMA = 1
"""Version of the layout of `clairvoyant.json`."""
EXAMPLES = """\b
Examples:
  carbon-gym clairvoyant --scenario tiny --fleets 2
  carbon-gym clairvoyant --scenario sharegpt --out runs/clairvoyant
"""


def clairvoyant(
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Packaged scenario or YAML file; may be repeated. Default: sharegpt and "
            "sharechat, caches retained and evicted.",
            autocompletion=complete_scenario,
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
    from carbon_gym.evaluation import evaluation_fleets
    from carbon_gym.report.work_file import versions
    from carbon_gym.scenario import load_scenario

    at_least_one("--fleets", fleets)
    scenarios = [load_scenario(source) for source in dict.fromkeys(scenario or DEFAULT_SCENARIOS)]
    folder = out_folder(out, "clairvoyant", goes_on=False)
    made = make_writable_folder(folder, "--out")
    console = output_console()
    studies = []
    try:
        for chosen in scenarios:
            evaluation = evaluation_fleets(chosen, split="validation", fleets=fleets)
            with status_line(chosen.name) as on_progress:
                study = converge(evaluation, on_progress=on_progress)
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
    written = [folder / "clairvoyant.json", folder / "clairvoyant.md"]
    finish(studies, written, written[1])
