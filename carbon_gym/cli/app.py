"""The commands of `carbon-gym`."""

from __future__ import annotations

from typing import Annotated

import typer

from carbon_gym import __version__
from carbon_gym.cli.audit import EXAMPLES as AUDIT_EXAMPLES
from carbon_gym.cli.audit import audit
from carbon_gym.cli.benchmark import EXAMPLES, benchmark
from carbon_gym.cli.calibrate import calibrate
from carbon_gym.cli.clairvoyant import clairvoyant
from carbon_gym.cli.evaluate import EXAMPLES as EVALUATE_EXAMPLES
from carbon_gym.cli.evaluate import evaluate
from carbon_gym.cli.export import export
from carbon_gym.cli.fit_gate import fit_gate
from carbon_gym.cli.fleet import EXAMPLES as FLEET_EXAMPLES
from carbon_gym.cli.fleet import fleet
from carbon_gym.cli.import_files import import_files
from carbon_gym.cli.record import EXAMPLES as RECORD_EXAMPLES
from carbon_gym.cli.record import record
from carbon_gym.cli.reproduce import EXAMPLES as REPRODUCE_EXAMPLES
from carbon_gym.cli.reproduce import reproduce
from carbon_gym.cli.speed import speed
from carbon_gym.cli.train import EXAMPLES as TRAIN_EXAMPLES
from carbon_gym.cli.train import train
from carbon_gym.cli.tune_baselines import EXAMPLES as TUNE_EXAMPLES
from carbon_gym.cli.tune_baselines import tune_baselines
from carbon_gym.cli.tune_lookahead import EXAMPLES as LOOKAHEAD_EXAMPLES
from carbon_gym.cli.tune_lookahead import tune_lookahead

app = typer.Typer(
    name="carbon-gym",
    help="Route LLM conversations so that they emit less CO2.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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
) -> None:
    """Route LLM conversations so that they emit less CO2."""


app.command(short_help="Compare routing policies on the same fleets.", epilog=EXAMPLES)(benchmark)
app.command(short_help="Compare routers over training seeds.", epilog=EVALUATE_EXAMPLES)(evaluate)
app.command(short_help="Say what another router would save you.", epilog=AUDIT_EXAMPLES)(audit)
app.command(short_help="Make the paper's tables and figures anew.", epilog=REPRODUCE_EXAMPLES)(
    reproduce
)
app.command(short_help="Train and tune the gate of CCAR.")(fit_gate)
app.command(short_help="Tune the baselines' knobs on validation.", epilog=TUNE_EXAMPLES)(
    tune_baselines
)
app.command(
    short_help="Find the look-ahead rules' weights on training fleets.", epilog=LOOKAHEAD_EXAMPLES
)(tune_lookahead)
app.command(short_help="Train a router.", epilog=TRAIN_EXAMPLES)(train)
app.command(short_help="Record a policy's decisions.", epilog=RECORD_EXAMPLES)(record)
app.command(short_help="Write a trained router to a file without torch.")(export)
app.command(short_help="Find how wide the clairvoyant's search must be.")(clairvoyant)
app.command(short_help="Measure speed on this machine.")(speed)
app.command(short_help="Check a fleet and show its deployments.", epilog=FLEET_EXAMPLES)(fleet)
app.add_typer(calibrate, name="calibrate", short_help="Remake the generators' statistics.")
app.add_typer(import_files, name="import", short_help="Make files of others ours.")
