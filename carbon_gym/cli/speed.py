"""`carbon-gym speed`: how fast the environments and the simulator are on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from carbon_gym.cli.choices import at_least_one, one_of
from carbon_gym.cli.console import finish, output_console, session, turns_bar
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError
from carbon_gym.files import check_writable_file, replacing
from carbon_gym.speed import (
    Environments,
    Measurement,
    Threads,
    Training,
    measure_environments,
    measure_simulator,
    measure_threads,
    measure_training,
    threads,
)

Part = Literal["environments", "threads", "training", "simulator"]
PARTS: tuple[Part, ...] = ("environments", "threads", "training", "simulator")
EXAMPLES = """\b
Examples:
  carbon-gym speed
  carbon-gym speed --only environments --only simulator --repeats 3
  carbon-gym speed --json speed.json
"""


@dataclass(frozen=True)
class Found:
    """What the parts found; None for those not asked for, or not to be had here."""

    parts: frozenset[Part]
    environments: Environments | None
    two_threads: Threads | None
    training: Training | None
    simulator: list[Measurement] | None

    def pinned(self) -> bool | None:
        """Whether what should run on one core did; None if no such part was measured."""
        cores = [part.cores for part in (self.environments, self.training) if part]
        return None not in cores if cores else None

    def content(self) -> dict[str, Any]:
        """What is written with ``--json``; its keys are there whatever was measured."""
        rows = self.environments
        return {
            "rows": [asdict(row) for row in rows.rows] if rows else [],
            "ppo_env_share": self.training.env_share if self.training else None,
            "ppo": asdict(self.training) if self.training else None,
            "threads": asdict(self.two_threads) if self.two_threads else None,
            "copy_bandwidth_gb_s": rows.copy_bandwidth_gb_s if rows else None,
            "bytes_per_turn": rows.bytes_per_turn if rows else None,
            "pinned": self.pinned(),
            "simulator": [asdict(row) for row in self.simulator or []],
        }


def _complete_part(incomplete: str) -> list[str]:
    return [part for part in PARTS if part.startswith(incomplete)]


def speed(
    repeats: Annotated[int, typer.Option(metavar="N", help="Counted repeats of each figure.")] = 5,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help=f"One of {', '.join(PARTS)}; may be repeated. Default: all.",
            autocompletion=_complete_part,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Where --json writes the figures; the tables are printed then."
        ),
    ] = None,
) -> None:
    """Measure the environments, PPO on them and the simulator, beside gymnasium's CartPole-v1.

    Takes one to two minutes on an idle machine.
    """
    if json_file is not None:
        check_writable_file(json_file, "--json")
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise InputError("speed: NUMBA_DISABLE_JIT is set, so there is nothing to time; unset it")
    at_least_one("--repeats", repeats)
    parts = frozenset(one_of("--only", part, PARTS) for part in only or PARTS)
    if "training" in parts:
        our_package("agents")
    found = Found(
        parts,
        measure_environments(repeats, turns_bar) if "environments" in parts else None,
        measure_threads(repeats, turns_bar) if "threads" in parts else None,
        measure_training(repeats, turns_bar) if "training" in parts else None,
        measure_simulator(repeats, turns_bar) if "simulator" in parts else None,
    )
    if json_file is not None:
        with replacing(json_file) as partial:
            partial.write_text(json.dumps(found.content(), indent=1) + "\n", encoding="utf-8")
    _show(found, output_console())
    files = [] if json_file is None else [json_file]
    finish(found.content(), files, *(files if session().quiet else []))


def _show(found: Found, console: Console) -> None:
    if found.pinned() is False:
        console.print("environments and PPO: not pinned to one core, this system cannot")
    shown = []
    if found.environments:
        shown.append(_show_environments)
    if "threads" in found.parts:
        shown.append(_show_threads)
    if "training" in found.parts:
        shown.append(_show_training)
    if found.simulator:
        shown.append(_show_simulator)
    for number, show in enumerate(shown):
        if number:
            console.print()
        show(found, console)


def _show_environments(found: Found, console: Console) -> None:
    assert found.environments is not None
    rows = [
        (row.name, *_numbers(row.steps_per_s, row.low, row.high), f"{row.ratio_to_cartpole:.2f}")
        for row in found.environments.rows
    ]
    console.print(_table(("steps/s, one core", "median", "low", "high", "x CartPole"), rows))
    written, bandwidth = found.environments.bytes_per_turn, found.environments.copy_bandwidth_gb_s
    console.print(
        f"a turn writes {written:,.0f} bytes; np.copyto: {bandwidth:.1f} GB/s, "
        f"so at most {bandwidth * 1e3 / written:.1f} M turns/s"
    )


def _show_threads(found: Found, console: Console) -> None:
    said = found.two_threads
    console.print(
        f"two threads, {threads.LANES:,} lanes: {said.speedup:.2f} x one; arithmetic: "
        f"{said.arithmetic_speedup:.2f} x one; ratio {said.ratio:.2f}"
        if said
        else "two threads: not measured, this process may use only one core"
    )


def _show_training(found: Found, console: Console) -> None:
    said = found.training
    console.print(
        f"PPO, 64 lanes: environment {said.env_share:.1%} of the time ({said.low:.1%} to "
        f"{said.high:.1%}), {said.turns_per_s:,.0f} turns/s"
        if said
        else "PPO: not measured; pip install 'carbon-gym[train]' first (extra `train`)"
    )


def _show_simulator(found: Found, console: Console) -> None:
    assert found.simulator is not None
    rows = []
    for row in found.simulator:
        figures = row.value, row.low, row.high
        per_second = row.unit.endswith("/s")
        numbers = _numbers(*figures) if per_second else tuple(f"{value:.2f}" for value in figures)
        rows.append((row.name, *numbers, row.unit))
    console.print(_table(("simulator", "median", "low", "high", "unit"), rows, words=(0, 4)))
    cartpole, lanes = found.simulator[:2]
    console.print(f"{lanes.name}: {lanes.value / cartpole.value:.1f} x CartPole")


def _numbers(*values: float) -> tuple[str, ...]:
    return tuple(f"{value:,.0f}" for value in values)


def _table(
    names: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int] = (0,)
) -> Table:
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    for column, name in enumerate(names):
        table.add_column(name, justify="left" if column in words else "right")
    for row in rows:
        table.add_row(*row)
    return table
