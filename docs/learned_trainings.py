"""Tables of trainings: how long they take, and what was tried."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os.path import commonprefix
from typing import Any

from budget_tables import NOTHING, number, table
from learned_picture import PICTURE, TRAINED
from learned_tables import BUDGET, MAIN, REAL, Evaluations, side_by_side

from baselines.settings import SETTINGS

Training = Mapping[str, Any]
Results = Mapping[str, Mapping[str, Any]]


def searches(results: Results) -> list[Training]:
    """Trainings of the shipped routers."""
    shipped = [one for one in results["trainings"].values() if one["shipped"]]
    return [one for one in shipped if one["learns_on"] == "fleets"]


def training_part(results: Results) -> str:
    trainings = searches(results)
    if not trainings:
        return ""
    rows = [
        _timing(setting, of)
        for setting in SETTINGS
        if (of := [one for one in trainings if one["setting"] == setting])
    ]
    header = ("setting", "seeds", "ended", "turns, millions", "seconds", "better than faircarbon")
    header += ("faircarbon", "untrained", "rule", "cloned", "best", "keep all")
    return "\n\n".join(
        [
            "## The trainings",
            f"![CO2 on validation fleets, a line a seed]({PICTURE})",
            "CO2 on validation fleets over the reference's, `ccar` or under a budget "
            "`ccar-budget-fixed`. Diamonds: the linear rule that the network clones; open circles: "
            "a constraint is not kept there.",
            table(header, rows),
            "*seconds*, *better than faircarbon*: from the start, on two cores, which others may "
            "have used too; to the end, and to the first validation of a network, cloned or "
            "evolved, that emits less than `faircarbon` does. *faircarbon* to *best*: CO2 on "
            "validation fleets, reference = 1; least and most of the seeds.",
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
        str(sum(one["steps"] >= one["total_steps"] for one in trainings)),
        span([one["steps"] / 1e6 for one in trainings]),
        span([seconds(one) for one in trainings]),
        span([until_better(one) for one in trainings]),
        span([one["faircarbon"] for one in trainings], 3),
        *(at(stage) for stage in ("untrained", "rule", "cloned")),
        span([best["co2_relative"] for best in bests], 3),
        f"{sum(not best['missed'] for best in bests)} of {len(bests)}",
    )


def seconds(training: Training) -> float | None:
    """Seconds from the start to the end, pauses left out; None where the run does not say."""
    return training["seconds"]


def until_better(training: Training) -> float | None:
    """Seconds until a network emits less than faircarbon on validation; None: never."""
    bound = training["faircarbon"]
    better = [
        point["seconds"]
        for point in training["curve"]
        if point["stage"] in TRAINED
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
    groups: dict[str, list[tuple[str, Training]]] = {}
    for name, one in results["trainings"].items():
        groups.setdefault(json.dumps(one["config"], sort_keys=True), []).append((name, one))
    others = [part for part in found.parts() if part not in (MAIN, BUDGET, *REAL)]
    if len(groups) <= len(SETTINGS) and not others:
        return ""
    lines = ["## What was tried"]
    if groups:
        header = ("run", "algorithm", "network", "learns on", "warm start", "background", "on")
        header += ("seeds", "turns, millions", "seconds", "sessions", "fleets", "keep all")
        rows = [_recipe(group) for group in groups.values()]
        lines += [
            table(header, rows, words=7),
            "*warm start*: what the network is taught first. *background*: who serves the other "
            "traffic while lone sessions are learned from. *seconds*: on two cores. *sessions*, "
            "*fleets*: CO2 of the best model on validation, over the reference's, on lone "
            "conversations and on whole fleets; of seeds least and most. *keep all*: how many "
            "keep all constraints, on fleets where they were served.",
        ]
    for part in others:
        lines += [f"### {part}, on held-out fleets", side_by_side(found, part)]
    return "\n\n".join(lines)


def _recipe(group: Sequence[tuple[str, Training]]) -> tuple[str, ...]:
    """A row for the seeds of one configuration."""
    names, trainings = [name for name, _ in group], [one for _, one in group]
    one = trainings[0]
    bests = [training["best"] for training in trainings if training["best"] is not None]
    counted = [best["fleets"] or best["sessions"] for best in bests]

    def relative(where: str) -> str:
        return span([best[where]["co2_relative"] for best in bests if best[where]], 3)

    return (
        f"`{commonprefix(names).rstrip('0123456789-_') if len(names) > 1 else names[0]}`",
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
