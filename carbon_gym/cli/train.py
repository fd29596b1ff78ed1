"""`carbon-gym train`: train a router with Stable-Baselines3 or sb3-contrib."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carbon_gym.cli.console import output_console, turns_bar
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError, InstallationError
from carbon_gym.scenario import load_scenario

if TYPE_CHECKING:
    from agents.training.config import Config
    from agents.training.run import Outcome
    from carbon_gym.scenario.scenario import Scenario

EXAMPLES = """\b
Examples:
  carbon-gym train --algo maskable-ppo --scenario tiny --total-steps 20000
  carbon-gym train --algo dqn --config mine.yaml --seed 1 --out runs/mine
  carbon-gym train --resume runs/mine
"""


def train(
    algo: Annotated[
        str | None, typer.Option(metavar="NAME", help="ppo, maskable-ppo, dqn, qrdqn or a2c.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML laid over the algorithm's; docs/training.md."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="Packaged scenario or YAML file. Default: sharegpt."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Default: 0.")] = None,
    total_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Turns to train on. Default: 500,000.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go on with the run in this folder, from its latest checkpoint; of the others "
            "only --total-steps and --device may be given.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="auto (default), cpu or cuda.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The run's folder; default runs/<scenario>__<algo>__<seed>__<time>."
        ),
    ] = None,
) -> None:
    """Train a router; validate it against CCAR on the way, and keep the best.

    Ctrl-C ends the rollout, leaves a checkpoint and says how to go on.
    """
    our_package("agents")
    try:
        from agents.training.config import load_config
        from agents.training.run import read_run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("agents", "carbon_gym"):
            raise
        raise InstallationError(
            f'train needs {error.name}; run `pip install "carbon-gym[train]"`'
        ) from None
    options = {"total_steps": total_steps, "device": device}
    if resume is not None:
        given = {"algo": algo, "config": config, "scenario": scenario, "seed": seed, "out": out}
        named = [f"--{name}" for name, value in given.items() if value is not None]
        if named:
            raise InputError(
                "--resume goes on with the run's own configuration; leave out "
                + " and ".join(named)
            )
        chosen, world = read_run(resume, **options)
        folder = resume
    else:
        chosen = load_config(algo, config, scenario=scenario, seed=seed, **options)
        world = load_scenario(chosen.scenario)
        folder = out or _folder(chosen, world)
    _show(folder, _run(chosen, world, folder, resume is not None))


def _folder(config: Config, scenario: Scenario) -> Path:
    name = re.sub(r"[^\w.-]+", "-", scenario.name)
    now = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    return Path("runs") / f"{name}__{config.algo}__{config.seed}__{now}"


def _run(config: Config, scenario: Scenario, folder: Path, resume: bool) -> Outcome:
    from agents.training.run import train as train_in

    bar = turns_bar(f"{scenario.name} {config.algo}", config.total_steps)
    try:
        with _ctrl_c() as asked, bar as on_steps:
            return train_in(
                config, scenario, folder, resume=resume, on_steps=on_steps, stop=asked.is_set
            )
    except KeyboardInterrupt:
        print(f"stopped; latest checkpoint: carbon-gym train --resume {folder}", file=sys.stderr)
        raise typer.Exit(130) from None


@contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """Set by the first Ctrl-C; a second one interrupts at once."""
    asked = threading.Event()

    def note(*_: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)
        print("stopping after this rollout; Ctrl-C again stops at once", file=sys.stderr)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _show(folder: Path, outcome: Outcome) -> None:
    console = output_console()
    content = outcome.progress
    best, reference = content["best"], content["reference"]["policy"]
    if best is not None:
        missed = ", ".join(f"{name} by {gap:.4g}" for name, gap in best["missed"].items())
        console.print(
            f"best: step {best['steps']:,}, CO2 {best['co2_relative']:.4f} of {reference}'s on "
            f"held-out conversations; "
            + (f"none kept the constraints, it misses {missed}" if missed else "constraints kept"),
            soft_wrap=True,
        )
    if outcome.finished:
        console.print(f"{folder}  ({outcome.steps:,} steps)", soft_wrap=True)
    else:
        console.print(
            f"stopped at step {outcome.steps:,}; go on with: carbon-gym train --resume {folder}",
            soft_wrap=True,
        )
        raise typer.Exit(130)
