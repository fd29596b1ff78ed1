"""The commands of `carbon-gym`."""

from __future__ import annotations

from typing import Annotated

import typer

from carbon_gym import __version__
from carbon_gym.cli.console import session
from carbon_gym.cli.habits import JsonOption, QuietOption, VerboseOption
from carbon_gym.cli.loading import QUIET_APP, later_group

_HERE = "carbon_gym.cli"
COMMANDS = {
    "benchmark": (f"{_HERE}.benchmark", "Compare routing policies on the same fleets."),
    "evaluate": (f"{_HERE}.evaluate", "Compare routers over training seeds."),
    "audit": (f"{_HERE}.audit", "Say what another router would save you."),
    "reproduce": (f"{_HERE}.reproduce", "Make the paper's tables and figures anew."),
    "report": (f"{_HERE}.report", "Make one page of results."),
    "fit-gate": (f"{_HERE}.fit_gate", "Train and tune the gate of CCAR."),
    "tune-baselines": (f"{_HERE}.tune_baselines", "Tune the baselines' knobs on validation."),
    "tune-lookahead": (
        f"{_HERE}.tune_lookahead",
        "Find the look-ahead rules' weights on training fleets.",
    ),
    "train": (f"{_HERE}.train", "Train a router."),
    "record": (f"{_HERE}.record", "Record a policy's decisions."),
    "export": (f"{_HERE}.export", "Write a trained router to a file without torch."),
    "clairvoyant": (f"{_HERE}.clairvoyant", "Find how wide the clairvoyant's search must be."),
    "speed": (f"{_HERE}.speed", "Measure speed on this machine."),
    "fleet": (f"{_HERE}.fleet", "Check a fleet and show its deployments."),
    "calibrate": (f"{_HERE}.calibrate", "Remake the generators' statistics."),
    "import": (f"{_HERE}.import_files", "Turn logs and grids of other formats into ours."),
}
"""By name: module, which has a function or `Typer` of its own last name, and the list's words."""
EXAMPLES = """\b
Examples:
  carbon-gym benchmark --quick --scenario sharegpt
  carbon-gym --json benchmark --quick --scenario tiny
  carbon-gym train --config learned-congested
  carbon-gym evaluate learned --scenario congested

Every command has --help with examples. It exits with 0; with 1 after a fault
of its own, 2 after one of its input, 130 after Ctrl-C, 143 after SIGTERM.
"""

app = typer.Typer(
    name="carbon-gym",
    cls=later_group(COMMANDS),
    help="Route LLM conversations so that they emit less CO2.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    **{**QUIET_APP, "add_completion": True},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"carbon-gym {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Route LLM conversations so that they emit less CO2."""
    now = session()
    now.json, now.quiet, now.verbose = as_json, quiet, verbose
