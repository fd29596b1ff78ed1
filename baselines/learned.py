"""What was learned on training fleets and is shipped: the look-ahead rules and the routers."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from baselines.settings import setting_of
from carbon_gym.errors import InputError
from carbon_gym.resources import packaged
from carbon_gym.router import Router, load_router
from carbon_gym.router.policy import RouterPolicy
from carbon_gym.scenario.scenario import Scenario

LEARNED = "learned"
LOOKAHEADS = ("lookahead", "lookahead-places")
"""The linear rule with eleven weights, and the one that also prices places in pools."""
SCHEMA = 1
"""Version of the layout of the files of look-ahead weights."""


class Learned(RouterPolicy):
    """A router that was trained on fleets of the scenario's setting."""

    def __init__(
        self,
        router: Router,
        name: str = LEARNED,
        quality_target: float = 0.0,
        eta: float = 0.0,
    ) -> None:
        super().__init__(router, name, quality_target, eta)


def shipped(scenario: Scenario | None) -> list[Path]:
    """Files of the routers shipped for a scenario's setting, one per training seed, by seed."""
    folder, setting = packaged("routers"), setting_of(scenario)
    return sorted(folder.glob(f"{setting}-*.npz"), key=lambda path: (len(path.name), path.name))


@lru_cache(maxsize=8)
def _best(files: tuple[Path, ...]) -> Path:
    def on_validation(path: Path) -> tuple[float, float]:
        row = load_router(path, compiled=False).recipe["validation"]
        return sum(row["missed"].values()), row["co2_relative"]

    return min(files, key=on_validation)


def best_shipped(scenario: Scenario | None) -> Path:
    """The one of them that was best on validation: least CO2 with the constraints kept.

    Raises:
        InputError: None is there.
    """
    files = shipped(scenario)
    if not files:
        raise InputError(
            f"policy {LEARNED!r}: no router is shipped for the setting {setting_of(scenario)!r}; "
            "train one with `carbon-gym train --algo es`, and name its router.npz"
        )
    return _best(tuple(files))


def learned_options(scenario: Scenario | None) -> dict[str, Any]:
    """The option `router` of `Learned`: the best one shipped."""
    return {"router": load_router(best_shipped(scenario))}


def learned_on(scenario: Scenario | None) -> tuple[str, ...]:
    """Scenarios on whose training fleets the shipped router was trained, by its recipe."""
    config = load_router(best_shipped(scenario), compiled=False).recipe["config"]
    return (config["scenario"], *config["beside"])


def lookahead_file(scenario: Scenario | None) -> Path:
    """File of the look-ahead weights of a scenario's setting."""
    return packaged(f"lookahead/{setting_of(scenario)}.json")


def lookahead_options(policy: str, scenario: Scenario | None) -> dict[str, Any]:
    """Options `weights` and `caches` of a look-ahead rule, as found on training fleets.

    Raises:
        InputError: The file is missing or damaged.
    """
    path = lookahead_file(scenario)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content["rules"][policy] if content["schema"] == SCHEMA else None
        if found is None:
            raise KeyError("schema")
        caches = tuple((float(size), float(weight)) for size, weight in found["caches"])
        return {"weights": dict(found["weights"]), "caches": caches}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: holds no weights of {policy} ({type(error).__name__}: {error}); find them "
            f"with `carbon-gym tune-lookahead --setting {setting_of(scenario)} --out {path.parent}`"
        ) from None
