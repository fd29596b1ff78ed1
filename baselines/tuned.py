"""The knobs that were tuned on validation, per packaged scenario (SPEC §6).

Each file of ``configs/tuned`` is written by ``carbon-gym tune-baselines``.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from baselines.gate import Rule, load_gate
from carbon_gym.errors import InputError
from carbon_gym.resources import packaged
from carbon_gym.scenario.scenario import Scenario

SCHEMA = 1
"""Version of the layout of the files of knobs."""
MEASURED: dict[str, tuple[str, ...]] = {
    "gar-eps": (),
    "gar-pd": ("scale_co2_g", "late_budget"),
    "cedar": ("scale_co2_g",),
}
"""The policies that are tuned, and those of their options that are figures of faircarbon."""
GATED: dict[str, Rule] = {"ccar": "probability", "ccar-ev": "expected_value"}
"""The policies that have a fitted gate, and its rule."""
DEFAULT_ORIGIN = "sharegpt"


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
    origin = DEFAULT_ORIGIN if scenario is None else scenario.origin
    if policy in GATED:
        return {"gate": load_gate(gate_path(origin), GATED[policy])}
    if policy not in MEASURED:
        return {}
    path = tuned_path(origin)
    content = read_tuned(path)
    try:
        knobs = dict(content["policies"][policy]["knobs"])
        measured = {name: content["faircarbon"][name] for name in MEASURED[policy]}
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: holds no knobs of {policy}; {_fix(path)}") from None
    return {**knobs, **measured}


def gate_path(origin: str) -> Path:
    """File of the gate of a packaged scenario; it may not exist."""
    return packaged(f"gates/{origin}.json")


def files_of(policy: str, scenario: Scenario | None) -> list[Path]:
    """The fitted and tuned files that a policy's choices depend on; may be empty."""
    origin = DEFAULT_ORIGIN if scenario is None else scenario.origin
    if policy in GATED:
        return [gate_path(origin)]
    return [tuned_path(origin)] if policy in MEASURED else []


def gate_note(scenario: Scenario) -> str | None:
    """A sentence for the report where the gate was fitted on other rules; None where not."""
    path = gate_path(scenario.origin)
    if not path.is_file() or load_gate(path).fitted_for == scenario.digest():
        return None
    return (
        f"gate of {', '.join(GATED)}: fitted on the packaged scenario {scenario.origin}, from "
        f"which {scenario.name} differs; `carbon-gym fit-gate` makes one for it"
    )


def scale_co2_g(scenario: Scenario | None) -> float:
    """Mean CO2 per turn of faircarbon on validation, gCO2eq (SPEC §10).

    Raises:
        InputError: The file of knobs is missing or damaged.
    """
    path = tuned_path(DEFAULT_ORIGIN if scenario is None else scenario.origin)
    try:
        return float(read_tuned(path)["faircarbon"]["scale_co2_g"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: holds no scale_co2_g; {_fix(path)}") from None


def tuned_note(scenario: Scenario) -> str | None:
    """A sentence for the report where the knobs were tuned on other rules; None where not."""
    path = tuned_path(scenario.origin)
    if not path.is_file():
        return None
    if read_tuned(path).get("scenario_digest") == scenario.digest():
        return None
    return (
        f"knobs of {', '.join(MEASURED)}: tuned on the packaged scenario {scenario.origin}, from "
        f"which {scenario.name} differs"
    )


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
