"""The commands of `carbon-gym`."""

from __future__ import annotations

from typing import Annotated

import typer

from carbon_gym import __version__
from carbon_gym.cli.benchmark import benchmark
from carbon_gym.cli.calibrate import calibrate
from carbon_gym.cli.speed import speed

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


app.command()(benchmark)
app.command()(speed)
app.add_typer(calibrate, name="calibrate")
