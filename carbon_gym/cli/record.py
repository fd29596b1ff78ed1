"""`carbon-gym record`: what a policy saw and did, as a dataset to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from carbon_gym.cli.choices import at_least_one, complete_policy, complete_scenario, one_of
from carbon_gym.cli.comparing import SPLITS
from carbon_gym.cli.console import finish, out_folder, output_console, turns_bar

FORMATS = ("npz", "minari")
DEFAULT_FLEETS = 4
EXAMPLES = """\b
Examples:
  carbon-gym record ccar --out runs/ccar-sharegpt
  carbon-gym record clairvoyant --instead cheapest --fleets 8 --out runs/plans
"""


def record(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY",
            help="A policy's name, an exported router (.npz), the folder of a training run, or "
            "module:Class.",
            autocompletion=complete_policy,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the dataset.")],
    scenario: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Packaged scenario or YAML file.",
            autocompletion=complete_scenario,
        ),
    ] = "sharegpt",
    split: Annotated[
        str, typer.Option(metavar="NAME", help="train, validation or test.")
    ] = "train",
    fleets: Annotated[
        int, typer.Option(metavar="N", help="Number of fleets; each is a day.")
    ] = DEFAULT_FLEETS,
    sessions: Annotated[
        int | None, typer.Option(metavar="N", help="Sessions per fleet; default: the scenario's.")
    ] = None,
    instead: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What serves a turn where the mask forbids a foreseen plan: the allowed "
            "deployment nearest to the planned one in CO2, or the cheapest.",
        ),
    ] = "cheapest",
    format: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="npz, or minari: a copy in Minari's format is put beside it."
        ),
    ] = "npz",
) -> None:
    """Serve whole fleets by a policy and record observations, actions, rewards and masks.

    The dataset is written fleet by fleet; the same command goes on where it was stopped.
    """
    of_split = one_of("--split", split, SPLITS)
    at_least_one("--fleets", fleets)
    at_least_one("--sessions", sessions)
    also_minari = one_of("--format", format, FORMATS) == "minari"
    from carbon_gym.datasets import load_dataset
    from carbon_gym.datasets.minari_copy import check_minari, write_minari
    from carbon_gym.datasets.recorder import INSTEAD, recordable
    from carbon_gym.datasets.recorder import record as record_fleets
    from carbon_gym.envs.options import resolve
    from carbon_gym.evaluation import evaluation_fleets
    from carbon_gym.scenario import load_scenario

    rule = one_of("--instead", instead, INSTEAD)
    if also_minari:
        check_minari()
    chosen = load_scenario(scenario)
    evaluation = evaluation_fleets(chosen, split=of_split, fleets=fleets, sessions=sessions)
    out_folder(out, "record")
    recordable(policy, evaluation)  # a wrong name is said before the long work
    rules = resolve(scenario=chosen).rules
    turns = sum(trace.turns for trace in evaluation.traces)
    with turns_bar(f"{chosen.name} {policy}", turns * (2 if also_minari else 1)) as on_turns:
        made = record_fleets(
            evaluation, policy, out, rules, split=of_split, instead=rule, on_turns=on_turns
        )
        if also_minari:
            write_minari(load_dataset(out), evaluation.scenario, on_turns)
    counts = made["counts"]
    console = output_console()
    if counts["replaced"]:
        console.print(
            f"{counts['replaced']:,} turns: the mask forbids what {policy} planned; "
            + ("the allowed deployment nearest in CO2" if rule == "nearest" else "the cheapest")
            + " served them",
            soft_wrap=True,
        )
    if counts["outside_mask"]:
        console.print(
            f"{counts['outside_mask']:,} turns: the choice is outside the mask; "
            f"{counts['refused']:,} of them found no room and were served elsewhere"
        )
    said = (
        f"{out}  ({len(made['fleets'])} fleets, {counts['sessions']:,} sessions, "
        f"{counts['turns']:,} turns)"
    )
    files = sorted(path for path in out.rglob("*") if path.is_file())
    finish({"fleets": len(made["fleets"]), "counts": counts}, files, said)
