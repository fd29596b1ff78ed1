"""`carbon-gym tune-lookahead`: find the weights of the look-ahead rules on training fleets."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carbon_gym.cli.choices import at_least_one, one_of, processes_of
from carbon_gym.cli.comparing import JobsOption
from carbon_gym.cli.console import finish, out_folder, output_console, say, turns_bar
from carbon_gym.doors import our_package
from carbon_gym.errors import InputError
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing

if TYPE_CHECKING:
    from agents.policy_search.fleets import Fleets
    from agents.policy_search.workers import Workers

GROUPS, FLEETS, HELD_OUT = 8, 4, 8
"""Groups of training fleets, fleets of a group over all scenarios, validation fleets of each
(ASSUMED)."""
POPULATION = 48
"""Candidates of a generation (ASSUMED)."""
EXAMPLES = """\b
Examples:
  carbon-gym tune-lookahead --setting congested --out weights
"""


def tune_lookahead(
    setting: Annotated[
        str, typer.Option(metavar="NAME", help="filter, congested or budget.")
    ] = "filter",
    generations: Annotated[
        int, typer.Option(metavar="N", help="Of 48 candidates, each on four fleets.")
    ] = 32,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the candidates' draws.")] = 0,
    jobs: JobsOption = None,
    again: Annotated[
        bool, typer.Option("--again", help="Search anew what DIR holds already.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for SETTING.json.")] = Path(
        "runs/lookahead"
    ),
) -> None:
    """Find the weights of `lookahead` and `lookahead-places` for a setting.

    Least CO2 on fleets of the training split at the mean predicted quality, P95 TTFT and rates of
    violations of the setting's rule-based reference. A run that was cut short goes on where it was.
    """
    our_package("baselines")
    our_package("agents")
    from agents.policy_search.fleets import Fleets
    from agents.policy_search.workers import measured_by
    from baselines.learned import LOOKAHEADS, SCHEMA
    from baselines.settings import LEARNED_ON, SETTINGS
    from carbon_gym.scenario import load_scenario

    at_least_one("--generations", generations)
    chosen = one_of("--setting", setting, SETTINGS)
    made = make_writable_folder(out_folder(out, "lookahead", goes_on=not again), "--out")
    path = out / f"{chosen}.json"
    scenarios = [load_scenario(name) for name in LEARNED_ON[chosen]]
    each = FLEETS // len(scenarios)
    fleets = Fleets(scenarios, "train", GROUPS, each)
    held_out = Fleets(scenarios, "validation", 1, HELD_OUT)
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "command": f"carbon-gym tune-lookahead --setting {chosen} --generations {generations} "
        f"--seed {seed}",
        "setting": chosen,
        "scenarios": [scenario.name for scenario in scenarios],
        "scenario_digests": [scenario.digest() for scenario in scenarios],
        "split": "train",
        "groups": GROUPS,
        "fleets": each,
        "seed": seed,
        "rules": {},
    }
    if path.is_file() and not again:
        content["rules"] = _found(path, content["command"])
    console = output_console()
    processes = processes_of(jobs)
    try:
        with measured_by(fleets, 1, 1, 0.0, processes) as workers:
            for name in LOOKAHEADS:
                rule = _search(
                    *(fleets, held_out, workers, name, content, path),
                    generations=generations,
                    seed=seed,
                )
                content["rules"][name] = rule
                console.print(
                    f"{name}: CO2 {rule['validation']['co2_relative']:.4f} of the reference's on "
                    "validation fleets"
                )
    finally:
        remove_if_empty(made)
    found = {name: rule["validation"] for name, rule in content["rules"].items()}
    finish(found, [path], path)


def _found(path: Path, command: str) -> dict[str, Any]:
    """What a file holds already of the same search."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["command"] == command:
            return dict(content["rules"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: is not a file of look-ahead weights ({type(error).__name__}); remove it, or "
            "give --again"
        ) from None
    raise InputError(f"{path}: was made by another command ({content['command']}); give --again")


def _search(
    fleets: Fleets,
    held_out: Fleets,
    workers: Workers,
    name: str,
    content: dict[str, Any],
    path: Path,
    *,
    generations: int,
    seed: int,
) -> dict[str, Any]:
    """Search one rule; the file is written after every generation."""
    import numpy as np

    from agents.policy_search.linear import LinearSearch, Spread

    places = name == "lookahead-places"
    search = LinearSearch(fleets, seed, POPULATION, places=places)
    measure = partial(workers.costs_of_rules, places=places)
    at, costs = search.begin(), []
    before = content["rules"].get(name, {})
    if "search" in before:
        at = Spread(*(np.array(before["search"][key]) for key in ("mean", "deviation")))
        costs = list(before["search"]["costs"])
    rule: dict[str, Any] = before
    say(f"{name}: {len(costs)} of {generations} generations are in {path} already")
    with turns_bar(name, generations - len(costs)) as on_generations:
        for number in range(len(costs), generations):
            at, cost = search.generation(number, at, measure)
            costs.append(round(cost, 6))
            policies = [search.policy(scenario, at.mean) for scenario in fleets.scenarios]
            rule = {
                **search.content(at.mean),
                "search": {
                    "mean": at.mean.tolist(),
                    "deviation": at.deviation.tolist(),
                    "costs": costs,
                },
            }
            if number + 1 == generations:
                served = held_out.serve_policies(0, policies)
                references = [group.reference for group in held_out.group(0)]
                pairs = list(zip(served, references, strict=True))
                rule["validation"] = {
                    "co2_relative": float(np.mean([f.co2_relative(r) for f, r in pairs])),
                    "scenarios": [
                        {**asdict(f), "co2_relative": f.co2_relative(r), "missed": f.missed(r)}
                        for f, r in pairs
                    ],
                }
            content["rules"][name] = rule
            with replacing(path) as unfinished:
                unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            on_generations(1)
    return rule
