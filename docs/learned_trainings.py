"""Tables of trainings: how long they take, and what was tried."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from budget_tables import NOTHING, number, table
from learned_picture import PICTURE, TRAINED
from learned_tables import BUDGET, ELSEWHERE, MAIN, REAL, Evaluations, side_by_side

from baselines.settings import SETTINGS

Training = Mapping[str, Any]
Results = Mapping[str, Mapping[str, Any]]


def searches(results: Results) -> list[Training]:
    """Trainings of the shipped routers."""
    shipped = [one for one in results["trainings"].values() if one["shipped"]]
    return [one for one in shipped if one["learns_on"] == "fleets"]


def training_part(results: Results) -> str:
    """Curves, times and figures of the shipped routers' trainings."""
    trainings = searches(results)
    if not trainings:
        return ""
    rows = [
        _timing(setting, of)
        for setting in SETTINGS
        if (of := [one for one in trainings if one["setting"] == setting])
    ]
    header = (
        *("setting", "seeds", "ended", "turns, millions", "seconds"),
        *("rule better than faircarbon", "network better"),
        *("faircarbon", "untrained", "rule", "cloned", "best", "keep all"),
    )
    return "\n\n".join(
        [
            "## The trainings",
            f"![CO2 on validation fleets, a line a seed]({PICTURE})",
            "CO2 on validation fleets over the reference's, `ccar` or under a budget "
            "`ccar-budget-fixed`. Diamonds: the linear rule that the network clones; open circles: "
            "a constraint is not kept there.",
            table(header, rows),
            "*seconds*, *rule better than faircarbon*, *network better*: from the start, each in "
            "one process beside other work; to the end, and to the first validation of rule and "
            "network, cloned or evolved, that emits less than `faircarbon` does. *faircarbon* to "
            "*best*: CO2 on validation fleets, reference = 1; least and most of the seeds.",
        ]
    )


def _timing(setting: str, trainings: Sequence[Training]) -> tuple[str, ...]:
    def at(stage: str) -> str:
        rows = [[p for p in one["curve"] if p["stage"] == stage] for one in trainings]
        return span([points[0]["fleets"]["co2_relative"] for points in rows if points], 3)

    bests = [one["best"]["fleets"] for one in trainings if one["best"] is not None]
    return (
        setting,
        str(len(trainings)),
        str(sum(ended(one) for one in trainings)),
        span([one["steps"] / 1e6 for one in trainings]),
        span([seconds(one) for one in trainings]),
        span([until_better(one, ("rule",)) for one in trainings]),
        span([until_better(one) for one in trainings]),
        span([one["faircarbon"] for one in trainings], 3),
        *(at(stage) for stage in ("untrained", "rule", "cloned")),
        span([best["co2_relative"] for best in bests], 3),
        f"{sum(not best['missed'] for best in bests)} of {len(bests)}",
    )


def ended(training: Training) -> bool:
    """Whether all steps were made."""
    return bool(training["steps"] >= training["total_steps"])


def seconds(training: Training) -> float | None:
    """Seconds from the start to the end, pauses left out; None where the run does not say."""
    spent: float | None = training["seconds"]
    return spent


def until_better(training: Training, stages: Sequence[str] = TRAINED) -> float | None:
    """Seconds until a network, or another stage, is below faircarbon on validation; None: never."""
    bound = training["faircarbon"]
    better = [
        point["seconds"]
        for point in training["curve"]
        if point["stage"] in stages
        and bound is not None
        and point["fleets"]["co2_relative"] < bound
    ]
    return better[0] if better else None


def span(values: Sequence[float | None], digits: int = 0) -> str:
    """Least and most; one number where they are shown alike."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return NOTHING
    low, high = number(min(known), digits), number(max(known), digits)
    return low if low == high else f"{low} to {high}"


def tried_part(results: Results, found: Evaluations) -> str:
    """Every recipe with its seeds, and the evaluations of what was tried."""
    groups: dict[str, list[tuple[str, Training]]] = {}
    for name, one in results["trainings"].items():
        groups.setdefault(_but_for_the_seed(one), []).append((name, one))
    others = [part for part in found.parts() if part not in (MAIN, BUDGET, *REAL, *ELSEWHERE)]
    if not others and all(one["shipped"] for one in results["trainings"].values()):
        return ""
    lines = ["## What was tried"]
    if groups:
        header = (
            *("run", "algorithm", "network", "learns on", "warm start", "background", "on"),
            *("seeds", "turns, millions", "seconds", "sessions", "fleets", "keep all"),
        )
        rows = [_recipe(group) for group in groups.values()]
        lines += [
            table(header, rows, words=7),
            "*warm start*: what the network is taught first. *background*: who serves the other "
            "traffic while lone sessions are learned from. *seconds*: of a search. *sessions*, "
            "*fleets*: CO2 of the best model on validation, over the reference's, on lone "
            "conversations and on whole fleets; of seeds least and most. *keep all*: how many "
            "keep all constraints, on fleets where they were served.",
        ]
    for part in others:
        lines += [f"### {part}, on held-out fleets", side_by_side(found, part)]
    return "\n\n".join(lines)


def _but_for_the_seed(training: Training) -> str:
    """A configuration as text; it may name what was trained with the same seed."""
    text, seed = json.dumps(training["config"], sort_keys=True), training["seed"]
    for end in ("/", ".npz"):
        text = text.replace(f"-{seed}{end}", f"-SEED{end}")
    return text


def _recipe(group: Sequence[tuple[str, Training]]) -> tuple[str, ...]:
    """A row for the seeds of one configuration."""
    names, trainings = [name for name, _ in group], [one for _, one in group]
    one = trainings[0]
    bests = [training["best"] for training in trainings if training["best"] is not None]
    counted = [best["fleets"] or best["sessions"] for best in bests]

    def relative(where: str) -> str:
        return span([best[where]["co2_relative"] for best in bests if best[where]], 3)

    return (
        f"`{_common(names)}`",
        one["algorithm"],
        one["network"],
        one["learns_on"],
        one["warm_start"] or NOTHING,
        one["background"],
        ", ".join(one["scenarios"]),
        str(len(trainings)),
        span([training["steps"] / 1e6 for training in trainings], 1),
        span([training["seconds"] for training in trainings]),
        relative("sessions"),
        relative("fleets"),
        f"{sum(not best['missed'] for best in counted)} of {len(counted)}",
    )


def _common(names: Sequence[str]) -> str:
    """What the names of the seeds have in common, without the seed at the end."""
    if len(names) == 1:
        return names[0]
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in same).rstrip("0123456789-_") or names[0]
