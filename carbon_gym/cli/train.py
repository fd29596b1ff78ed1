"""`carbon-gym train`: train a router with Stable-Baselines3 or sb3-contrib."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carbon_gym.cli.choices import complete_scenario
from carbon_gym.cli.console import finish, output_console, turns_bar
from carbon_gym.cli.habits import exit_code
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError, did_you_mean, from_extra
from carbon_gym.resources import packaged, packaged_names

if TYPE_CHECKING:
    from agents.training.config import Config, Run
    from agents.training.folder import Outcome
    from carbon_gym.scenario.scenario import Scenario

EXAMPLES = """\b
Examples:
  carbon-gym train --algo maskable-ppo --scenario tiny --total-steps 20000
  carbon-gym train --config learned-congested
  carbon-gym train --algo dqn --config mine.yaml --seed 1 --out runs/mine
  carbon-gym train --resume runs/mine
"""


ALGORITHMS = ("ppo", "maskable-ppo", "dqn", "qrdqn", "a2c", "es")


def _complete_algo(incomplete: str) -> list[str]:
    return [name for name in ALGORITHMS if name.startswith(incomplete)]


def _complete_config(incomplete: str) -> list[str]:
    recipes = [name for name in packaged_names("agents", ".yaml") if name.startswith("learned-")]
    return [name for name in recipes if name.startswith(incomplete)]


def train(
    algo: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(ALGORITHMS[:-1])} or {ALGORITHMS[-1]}.",
            autocompletion=_complete_algo,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|NAME",
            help="YAML laid over the algorithm's (docs/training.md), or a packaged recipe: "
            "learned-filter, learned-congested, learned-budget.",
            autocompletion=_complete_config,
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Packaged scenario or YAML file. Default: sharegpt.",
            autocompletion=complete_scenario,
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
            metavar="DIR", help="The run's folder; default runs/SCENARIO__ALGO__SEED__TIME."
        ),
    ] = None,
) -> None:
    """Train a router; validate it against CCAR on the way, and keep the best.

    Ctrl-C ends the rollout, leaves a checkpoint and says how to go on.
    """
    our_package("agents")
    with from_extra("train"):
        import sb3_contrib  # noqa: F401
        import stable_baselines3  # noqa: F401
        import tensorboard  # type: ignore[import-untyped]  # noqa: F401
        import torch  # noqa: F401

        from agents.policy_search.config import SEARCHES
        from agents.training.config import CONFIGS, load_run
    from carbon_gym.scenario import load_scenario

    options = {"total_steps": total_steps, "device": device}
    if resume is not None:
        given = {"algo": algo, "config": config, "scenario": scenario, "seed": seed, "out": out}
        named = [f"--{name}" for name, value in given.items() if value is not None]
        if named:
            raise InputError(
                "--resume goes on with the run's own configuration; leave out "
                + " and ".join(named)
            )
        chosen, train_in, worlds = _of_folder(resume, options)
        folder = resume
    else:
        kinds: dict[str, type[Run]] = {**CONFIGS, **SEARCHES}
        chosen = load_run(kinds, algo, _file(config), scenario=scenario, seed=seed, **options)
        train_in, names = _worker(chosen)
        worlds = [load_scenario(name) for name in names]
        folder = out or _folder(chosen, worlds[0])
    _show(folder, _run(chosen, train_in, worlds, folder, resume is not None))


Worker = Callable[..., "Outcome"]


def _file(config: Path | None) -> Path | None:
    """The file of --config, or the packaged one of that name."""
    if config is not None and not config.exists():
        shipped = packaged(f"agents/{config}.yaml")
        if shipped.is_file():
            return shipped
        recipes = _complete_config("")
        raise InputError(
            f"--config {config}: there is no such file; {did_you_mean(config, recipes)}name a YAML "
            f"file or one of {', '.join(recipes)}"
        )
    return config


def _worker(config: Run) -> tuple[Worker, list[str]]:
    """What trains by a configuration, called with it and the scenarios of the names."""
    from agents.policy_search.config import Es

    if isinstance(config, Es):
        from agents.policy_search.run import search

        return search, [config.scenario, *config.beside]
    from agents.training.run import train as train_in

    def alone(config: Config, scenarios: list[Scenario], run: Path, **options: Any) -> Outcome:
        return train_in(config, scenarios[0], run, **options)

    return alone, [config.scenario]


def _of_folder(run: Path, options: dict[str, Any]) -> tuple[Run, Worker, list[Scenario]]:
    """Configuration, worker and scenarios of a run's folder."""
    from agents.policy_search.config import SEARCHES
    from agents.policy_search.run import read_search
    from agents.training.folder import CONFIG
    from agents.training.run import read_run
    from carbon_gym.scenario.load import read_yaml_mapping

    chosen: Run
    path = run / CONFIG
    if path.is_file() and read_yaml_mapping(path).get("algo") in SEARCHES:
        chosen, worlds = read_search(run, **options)
    else:
        chosen, world = read_run(run, **options)
        worlds = [world]
    return chosen, _worker(chosen)[0], worlds


def _folder(config: Run, scenario: Scenario) -> Path:
    name = re.sub(r"[^\w.-]+", "-", scenario.name)
    now = f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
    return Path("runs") / f"{name}__{config.algo}__{config.seed}__{now}"


def _run(
    config: Run, train_in: Worker, scenarios: list[Scenario], folder: Path, resume: bool
) -> Outcome:
    bar = turns_bar(f"{scenarios[0].name} {config.algo}", config.total_steps)
    try:
        with _ctrl_c() as asked, bar as on_steps:
            return train_in(
                config, scenarios, folder, resume=resume, on_steps=on_steps, stop=asked.is_set
            )
    except KeyboardInterrupt as stop:
        print(f"stopped; latest checkpoint: carbon-gym train --resume {folder}", file=sys.stderr)
        raise typer.Exit(exit_code(stop)) from None


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
    found = best
    what = "fleets" if best and ("fleet" in best or "scenarios" in best) else "conversations"
    if best is not None and "fleet" in best:  # those figures made it the best
        found, reference = best["fleet"], content["fleet_reference"]["policy"]
    if best is not None:
        missed = ", ".join(f"{name} by {gap:.4g}" for name, gap in found["missed"].items())
        console.print(
            f"best: step {best['steps']:,}, CO2 {found['co2_relative']:.4f} of {reference}'s on "
            f"held-out {what}; "
            + (f"none kept the constraints, it misses {missed}" if missed else "constraints kept"),
            soft_wrap=True,
        )
    results = {"finished": outcome.finished, "steps": outcome.steps, "best": best}
    results |= {key: content[key] for key in ("reference", "fleet_reference") if key in content}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    said = (
        f"{folder}  ({outcome.steps:,} steps)"
        if outcome.finished
        else f"stopped at step {outcome.steps:,}; go on with: carbon-gym train --resume {folder}"
    )
    finish(results, files, said, out=folder)
    if not outcome.finished:
        raise typer.Exit(130)
