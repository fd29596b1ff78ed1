"""The knobs that were tuned on validation, per packaged scenario (SPEC §6).

Each file of ``configs/tuned`` is written by ``carbon-gym tune-baselines``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from baselines.ccar import CCAR
from baselines.gate import Rule, load_gate
from baselines.learned import (
    LEARNED,
    LOOKAHEADS,
    best_shipped,
    learned_on,
    learned_options,
    lookahead_file,
    lookahead_options,
)
from baselines.settings import LEARNED_ON, setting_of
from carbon_gym.errors import InputError
from carbon_gym.resources import packaged
from carbon_gym.scenario.load import load_scenario
from carbon_gym.scenario.scenario import Scenario

SCHEMA = 1
"""Version of the layout of the files of knobs."""
MEASURED: dict[str, tuple[str, ...]] = {
    "gar-eps": (),
    "gar-pd": ("scale_co2_g", "late_budget"),
    "cedar": ("scale_co2_g",),
    "ccar-budget": ("scale_co2_g",),
    "ccar-budget-fixed": ("scale_co2_g",),
    "ccar-budget-follow": ("scale_co2_g",),
    "ccar-budget-sessions": ("scale_co2_g",),
    "faircarbon-budget": ("scale_co2_g",),
    "gar-pd-budget": ("scale_co2_g", "late_budget"),
}
"""The policies that are tuned, and those of their options that are figures of faircarbon."""
BUDGETED = tuple(name for name in MEASURED if "-budget" in name)
"""Those that need a scenario with a quality budget (SPEC §8)."""
AT_TARGET = ("ccar-budget", "faircarbon-budget")
"""Those whose mean quality is the scenario's `quality_target`."""
SHADOWED = ("ccar-budget-follow", "ccar-budget-sessions")
"""Those that keep CCAR in their shadow, its gate included."""
GATED: dict[str, Rule] = {
    "ccar": "probability",
    "ccar-ev": "expected_value",
    "ccar-no-pricing": "probability",
}
"""The policies that have a fitted gate, and its rule."""
DEFAULT_ORIGIN = "sharegpt"
MARGIN = 0.0005
"""By how much a learned router's target lies above `ccar-budget`'s, quality: at the end of a day
both are off by a few of its tenths (ASSUMED)."""


def tuned_options(policy: str, scenario: Scenario | None) -> dict[str, Any]:
    """Options of a policy that were tuned for the scenario's origin.

    Args:
        policy: Name of a policy.
        scenario: None: the packaged scenario `sharegpt`.

    Returns:
        A fresh mapping; empty for policies without knobs.

    Raises:
        InputError: The file of knobs is missing or damaged.
    """
    if policy in GATED:
        return {"gate": load_gate(gate_of(scenario), GATED[policy])}
    if policy == LEARNED:
        return {**learned_options(scenario), **queue_of(scenario)}
    if policy in LOOKAHEADS:
        options = {**lookahead_options(policy, scenario), "scale_co2_g": scale_co2_g(scenario)}
        if scenario is not None and scenario.bounds.quality_constraint == "budget":
            options |= budget_of(scenario)
        return options
    if policy not in MEASURED:
        return {}
    if policy in BUDGETED and scenario is not None:
        _check_budget(policy, scenario)
    path = knobs_of(scenario)
    content = read_tuned(path)
    try:
        knobs = dict(content["policies"][policy]["knobs"])
        measured = {name: content["faircarbon"][name] for name in MEASURED[policy]}
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: holds no knobs of {policy}; {_fix(path)}") from None
    if "follow" in knobs:
        knobs["shadow"] = CCAR(**tuned_options("ccar", scenario))
    elif "margin" in knobs:
        knobs["quality_target"] = min(1.0, quality_target(scenario) + knobs.pop("margin"))
    return {**knobs, **measured}


def _check_budget(policy: str, scenario: Scenario) -> None:
    if scenario.bounds.quality_constraint != "budget":
        raise InputError(
            f"policy {policy!r} needs a quality budget, and {scenario.name} filters quality per "
            f"query; use a scenario such as sharegpt-budget, or set bounds.quality_constraint: "
            "budget"
        )


def quality_target(scenario: Scenario | None) -> float:
    """Mean predicted quality that a budget asks for: the scenario's, or CCAR's (SPEC §8).

    CCAR's is what it reached under the filter on the validation fleets of the scenario's origin.

    Raises:
        InputError: The file of knobs is missing or damaged.
    """
    given = None if scenario is None else scenario.bounds.quality_target
    if given is not None:
        return given
    return _number(scenario, "ccar", "quality")


def budget_price_g(scenario: Scenario | None) -> float:
    """λ·scale of `ccar-budget-fixed`: gCO2eq that validation found a unit of quality to be worth.

    Raises:
        InputError: The file of knobs is missing or damaged.
    """
    price = _number(scenario, "policies", "ccar-budget-fixed", "knobs", "lambda_start")
    return price * scale_co2_g(scenario)


def budget_of(scenario: Scenario) -> dict[str, float]:
    """Price of quality, target and step that learned routers share with `ccar-budget`."""
    knobs = tuned_options("ccar-budget", scenario)
    return {
        "price_g": budget_price_g(scenario),
        "quality_target": min(1.0, float(knobs["quality_target"]) + MARGIN),
        "eta": float(knobs["eta"]),
    }


def queue_of(scenario: Scenario | None) -> dict[str, float]:
    """Options of `RouterPolicy` under a budget; empty where quality is filtered."""
    if scenario is None or scenario.bounds.quality_constraint != "budget":
        return {}
    options = budget_of(scenario)
    del options["price_g"]
    return options


def gate_of(scenario: Scenario | None) -> Path:
    """File of the gate of a scenario: its own, or that of its origin."""
    if scenario is not None and scenario.gate is not None:
        return Path(scenario.gate)
    return gate_path(DEFAULT_ORIGIN if scenario is None else scenario.origin)


def knobs_of(scenario: Scenario | None) -> Path:
    """File of the knobs of a scenario: its own, or that of its origin."""
    if scenario is not None and scenario.knobs is not None:
        return Path(scenario.knobs)
    return tuned_path(DEFAULT_ORIGIN if scenario is None else scenario.origin)


def gate_path(origin: str) -> Path:
    """File of the gate of a packaged scenario; it may not exist."""
    return packaged(f"gates/{origin}.json")


def files_of(policy: str, scenario: Scenario | None) -> list[Path]:
    """The fitted and tuned files that a policy's choices depend on; may be empty."""
    if policy in GATED:
        return [gate_of(scenario)]
    if policy == LEARNED:
        return [best_shipped(scenario), knobs_of(scenario)]
    if policy in LOOKAHEADS:
        return [lookahead_file(scenario), knobs_of(scenario)]
    if policy in SHADOWED:
        return [gate_of(scenario), knobs_of(scenario)]
    return [knobs_of(scenario)] if policy in MEASURED else []


def gate_note(scenario: Scenario, policies: Iterable[str] = tuple(GATED)) -> str | None:
    """A sentence for the report where the gate was fitted on other rules; None where not.

    Args:
        scenario: Compared with what its gate was fitted on; how many sessions a day brings is no
            rule.
        policies: Those that are run; None is said where none of them has a gate.
    """
    gated, path = [name for name in GATED if name in policies], gate_of(scenario)
    if not gated or not path.is_file() or load_gate(path).fitted_for in _digests(scenario):
        return None
    return (
        f"gate of {', '.join(gated)}: {path.name} was fitted on other rules than those of "
        f"{scenario.name}; `carbon-gym fit-gate` makes one, the scenario's key `gate` names it"
    )


def _digests(scenario: Scenario) -> set[str]:
    """Digests of the filtered scenario with its own sessions per fleet and with its origin's.

    What is compared with them was fitted or tuned under the filter.
    """
    scenario = scenario.filtered()
    packaged_size = load_scenario(scenario.origin).workload.sessions_per_fleet
    workload = scenario.workload.model_copy(update={"sessions_per_fleet": packaged_size})
    resized = scenario.model_copy(update={"workload": workload})
    return {scenario.digest(), resized.digest()}


def scale_co2_g(scenario: Scenario | None) -> float:
    """Mean CO2 per turn of faircarbon on validation, gCO2eq (SPEC §10).

    Raises:
        InputError: The file of knobs is missing or damaged.
    """
    return _number(scenario, "faircarbon", "scale_co2_g")


def _number(scenario: Scenario | None, *keys: str) -> float:
    """One number of a scenario's file of knobs."""
    path = knobs_of(scenario)
    found: Any = read_tuned(path)
    try:
        for key in keys:
            found = found[key]
        return float(found)
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: holds no {'.'.join(keys)}; {_fix(path)}") from None


def tuned_note(scenario: Scenario, policies: Iterable[str] = tuple(MEASURED)) -> str | None:
    """A sentence for the report where the knobs were tuned on other rules; see `gate_note`."""
    tuned, path = [name for name in MEASURED if name in policies], knobs_of(scenario)
    if not tuned or not path.is_file():
        return None
    content, bounds = read_tuned(path), scenario.bounds
    if content.get("scenario_digest") in _digests(scenario):
        if bounds.quality_constraint == "filter" or bounds.beta_floor == content.get("beta_floor"):
            return None
        tuned = [name for name in tuned if name in BUDGETED]
        if not tuned:
            return None
    return (
        f"knobs of {', '.join(tuned)}: {path.name} was tuned on other rules than those of "
        f"{scenario.name}; `carbon-gym tune-baselines` makes a file, the scenario's key `knobs` "
        "names it"
    )


def target_note(scenario: Scenario, policies: Iterable[str] = BUDGETED) -> str | None:
    """A sentence for the report where some policies do not go to the scenario's own target."""
    target = scenario.bounds.quality_target
    others = [name for name in BUDGETED if name in policies and name not in AT_TARGET]
    if target is None or not others:
        return None
    return (
        f"quality_target = {target:g} moves {', '.join(AT_TARGET)} only: {', '.join(others)} keep "
        "to CCAR's quality, which they follow or were tuned for"
    )


def learned_note(scenario: Scenario, policies: Iterable[str]) -> str | None:
    """A sentence for the report where what was learned was learned in other scenarios."""
    names = set(policies)
    by_origin: dict[tuple[str, ...], list[str]] = {}
    for name in (*LOOKAHEADS, LEARNED):
        if name in names:
            on = learned_on(scenario) if name == LEARNED else LEARNED_ON[setting_of(scenario)]
            by_origin.setdefault(on, []).append(name)
    said = [
        f"{', '.join(ours)}: learned on fleets of {', '.join(on)}, not of {scenario.name}"
        for on, ours in by_origin.items()
        if scenario.name not in on
    ]
    return "; ".join(said) or None


def notes_on(scenario: Scenario, policies: Iterable[str]) -> list[str]:
    """All that a report has to say of the gates, knobs and targets of some policies."""
    names = list(policies)
    notes = (gate_note, tuned_note, target_note, learned_note)
    found = (note(scenario, names) for note in notes)
    return [note for note in found if note]


def tuned_path(origin: str) -> Path:
    """File of the knobs of a packaged scenario; it may not exist."""
    return packaged(f"tuned/{origin}.json")


@lru_cache(maxsize=64)
def read_tuned(path: Path) -> dict[str, Any]:
    """Read a file of knobs; do not change what it returns.

    Raises:
        InputError: It is missing, damaged or of another version.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file of tuned knobs; {_fix(path)}") from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: is not a file of tuned knobs ({type(error).__name__}: {error}); {_fix(path)}"
        ) from None
    found = content.get("schema") if isinstance(content, dict) else None
    if found != SCHEMA:
        raise InputError(
            f"{path}: is a file of tuned knobs of another version (schema {found}, {SCHEMA} is "
            f"read); {_fix(path)}"
        )
    return dict(content)


def _fix(path: Path) -> str:
    return (
        f"make it with `carbon-gym tune-baselines --scenario {path.stem} --again "
        f"--out {path.parent}`"
    )
