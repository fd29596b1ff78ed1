"""Under a budget: what learned routers save at the mean *realised* quality of `ccar-budget`.

At the reference's predicted quality they reach a higher realised one. So each is run at several
targets, and on every fleet its CO2 is read off where the curve passes the reference's quality
(`carbon_gym.metrics.equal_quality`): nothing is chosen after the fact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from budget_tables import NOTHING, number, percent, table
from learned_collect import short, short_path
from numpy.typing import NDArray

from baselines import POLICIES
from baselines.learned import LEARNED, shipped
from baselines.settings import LEARNED_ON, reference_of
from baselines.tuned import tuned_options
from carbon_gym.benchmark import evaluation_key, policy_key
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.metrics.equal_quality import saving_at_equal_quality
from carbon_gym.metrics.guard import over_fleets
from carbon_gym.policy import Policy
from carbon_gym.router import load_router
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.simulator.run import run_policy

FLEETS = 16
OFFSETS = (-0.012, -0.008, -0.004, 0.0, 0.004)
"""Targets of mean predicted quality, beside the one that the routers have (ASSUMED)."""
METHODS = ("lookahead-places", LEARNED)
VERSION = 1
"""Of the figures; raise it when they change, so that a rerun measures anew."""

Entry = dict[str, Any]
AtTarget = Callable[[float], Policy]
Savings = NDArray[np.float64]


def measure_equal_quality(
    known: Mapping[str, Mapping[str, Any]],
    fleets: int = FLEETS,
    scenarios: tuple[str, ...] | None = None,
) -> Iterator[tuple[str, Entry]]:
    """Run the routers at several targets on fleets of the test split.

    Args:
        known: Entries at hand; what still holds is not run again.
        fleets: Days.
        scenarios: Those with a budget; default: those that the routers were learned on.

    Yields:
        "scenario | policy" and its figures: "members" have co2_g (gCO2eq) and quality_realised,
        each by target and fleet; the reference has one target, its own.
    """
    for name in scenarios or LEARNED_ON["budget"]:
        scenario = load_scenario(name)
        evaluation = evaluation_fleets(scenario, split="test", fleets=fleets)
        world = evaluation_key(evaluation)
        for method in (reference_of(scenario), *METHODS):
            members = _members(scenario, method)
            text = f"{world} {policy_key(method, evaluation)} {OFFSETS} {VERSION}"
            digest = hashlib.sha256(text.encode())
            for path in shipped(scenario) if method == LEARNED else ():
                digest.update(path.read_bytes())
            key = digest.hexdigest()[:16]
            if known.get(f"{name} | {method}", {}).get("key") == key:
                continue
            offsets = OFFSETS if method in METHODS else (0.0,)
            entry = {
                "key": key,
                "offsets": list(offsets),
                "members": [_served(evaluation, name, of, offsets) for name, of in members.items()],
            }
            yield f"{name} | {method}", dict(short(entry))


def _members(scenario: Scenario, method: str) -> dict[str, AtTarget]:
    """By name what makes a member of a method at a target so far beside its own."""
    if method not in METHODS:
        return {method: lambda _: make_policy(method, scenario)}
    options = tuned_options(method, scenario)
    kind, own = POLICIES[method], options.pop("quality_target")

    def at(**changed: Any) -> AtTarget:
        made = {**options, **changed}
        return lambda offset: kind(**made, quality_target=min(1.0, own + offset))

    if method != LEARNED:
        return {method: at()}
    return {short_path(str(path)): at(router=load_router(path)) for path in shipped(scenario)}


def _served(evaluation: Evaluation, name: str, at: AtTarget, offsets: tuple[float, ...]) -> Entry:
    co2_g, quality = [], []
    for offset in offsets:
        run = run_policy(evaluation.scenario, at(offset), evaluation.traces, evaluation.grid)
        ledgers = [run.ledger[a:b] for a, b in zip(run.bounds[:-1], run.bounds[1:], strict=True)]
        co2_g.append([float(ledger["co2_g"].sum()) for ledger in ledgers])
        quality.append([float(ledger["quality_realised"].mean()) for ledger in ledgers])
    return {"policy": name, "co2_g": co2_g, "quality_realised": quality}


def equal_quality_part(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of the page; empty without entries."""
    rows = []
    for scenario, method, by_seed in _compared(entries):
        if by_seed is None:
            rows.append((scenario, f"`{method}`", NOTHING, NOTHING))
            continue
        means = 100.0 * by_seed.mean(axis=1)
        low, high = number(means.min(), 1), number(means.max(), 1)
        seeds = NOTHING if len(means) == 1 else f"{low} to {high}"
        rows.append((scenario, f"`{method}`", percent(over_fleets(by_seed.mean(axis=0))), seeds))
    if not rows:
        return ""
    header = ("scenario", "method", "saving over `ccar-budget` at its realised quality, %", "seeds")
    targets = ", ".join(f"{offset:+.3f}" for offset in OFFSETS)
    return "\n\n".join(
        [
            "### At equal realised quality",
            f"Each at its target of mean predicted quality {targets}; on every fleet CO2 is read "
            "off where realised quality is that of `ccar-budget`, log CO2 linear in quality. "
            "*seeds*: mean over fleets, the worst and the best seed. Paired 95 % t interval over "
            "fleets.",
            table(header, rows, words=2),
        ]
    )


def savings_by_seed(mine: Mapping[str, Any], reference: Mapping[str, Any]) -> Savings | None:
    """Share of CO2 saved at the reference's realised quality.

    Returns:
        float64 (seeds, fleets); None where a curve does not pass that quality on every fleet.
    """
    (theirs,) = reference["members"]
    savings = []
    for member in mine["members"]:
        found = saving_at_equal_quality(
            np.array(member["quality_realised"]),
            np.array(member["co2_g"]),
            np.array(theirs["quality_realised"][0]),
            np.array(theirs["co2_g"][0]),
        )
        if found["saving"] is None:
            return None
        savings.append(found["by_fleet"])
    return np.array(savings, dtype=np.float64)


def equal_quality_said(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """One sentence; empty where there is nothing to say."""
    said = [
        f"on {scenario} {percent(over_fleets(by_seed.mean(axis=0)))} %"
        for scenario, method, by_seed in _compared(entries)
        if method == LEARNED and by_seed is not None
    ]
    return (
        f"At the mean realised quality of `ccar-budget` `{LEARNED}` saves {', '.join(said)}."
        if said
        else ""
    )


def _compared(
    entries: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, str, Savings | None]]:
    """Scenario, method and its savings by seed and fleet, where the reference is there too."""
    for name, entry in entries.items():
        scenario, method = name.split(" | ")
        reference = entries.get(f"{scenario} | {reference_of(load_scenario(scenario))}")
        if method in METHODS and reference is not None:
            yield scenario, method, savings_by_seed(entry, reference)
