"""What `carbon-gym evaluate` and `carbon-gym train` wrote, reduced to what the study says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from baselines.settings import setting_of
from carbon_gym.scenario import load_scenario

DIGITS = 6
FIGURES = (
    *("seeds", "fleets", "co2_relative", "co2_relative_whole_seeds", "saving"),
    *("probability_of_improvement", "probability_of_improvement_whole_seeds"),
    *("quality_predicted", "quality_realised", "ttft_p95_s", "ttft_p95_ratio"),
    *("quality_predicted_difference_by_fleet", "quality_realised_difference_by_fleet"),
    *("quality_violation_rate", "ttft_violation_rate", "capacity_violation_rate"),
    *("constraints_kept", "seeds_with_constraints_kept"),
)
"""Of a method, kept as docs/evaluate.md describes them."""
_NO_RECIPE = ("seed", "jobs", "device", "torch_threads", "validation", "checkpoints", "log_every")
_KNOWN_FOLDERS = ("runs", "configs")

Entries = dict[str, dict[str, Any]]


def collect_evaluations(folder: Path) -> Entries:
    """Every method of every `evaluation.json` below a folder.

    Args:
        folder: Searched to its bottom; a part is named by its folder.

    Returns:
        By "part | scenario | method", the reference first: figures, and the CO2 of every member on
        every fleet, gCO2eq.
    """
    found: Entries = {}
    for path in sorted(folder.rglob("evaluation.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        part = "/".join(path.parent.relative_to(folder).parts) or folder.resolve().name
        for scenario, methods in content["methods"].items():
            short_name = scenario.partition(" on ")[0]  # not with the files that it is on
            rows = [row for row in content["rows"] if row["scenario"] == scenario]
            reference = content["reference"][scenario]
            for method in sorted(methods, key=lambda record: record["method"] != reference):
                name = f"{part} | {short_name} | {short_path(method['method'])}"
                found[name] = short(
                    {
                        "reference": short_path(reference),
                        "turns": _turns(rows, method),
                        **{figure: method[figure] for figure in FIGURES},
                        "broken": [
                            name for name, of in method["constraints"].items() if not of["kept"]
                        ],
                        "members": [_member(member, rows) for member in method["members"]],
                    }
                )
    return found


def _turns(rows: Sequence[Mapping[str, Any]], method: Mapping[str, Any]) -> int:
    policy = method["members"][0]["policy"]
    return next(int(r["turns"]) for r in rows if r["policy"] == policy and r["fleet"] == "all")


def _member(member: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    policy = member["policy"]
    return {
        "policy": short_path(policy),
        "seed": member["seed"],
        "co2_g": [r["co2_g"] for r in rows if r["policy"] == policy and r["fleet"] != "all"],
        "kept": all(member["constraints_kept"].values()),
    }


def collect_trainings(shipped: Path, others: Path) -> Entries:
    """Every `progress.json` below two folders.

    Args:
        shipped: Of the routers that are shipped.
        others: Of what was tried besides; it may be missing.

    Returns:
        By the folder's name and that of the run: how it was trained, and its validations.
    """
    found: Entries = {}
    for folder in (shipped, others):
        for path in sorted(folder.rglob("progress.json")):
            inner = "/".join(path.parent.relative_to(folder).parts)
            name = f"{folder.resolve().name}/{inner}" if inner else folder.resolve().name
            found[name] = short({"shipped": folder == shipped, **_training(path)})
    return found


def _training(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    config = yaml.safe_load((path.parent / "config.yaml").read_text(encoding="utf-8"))
    scenario = load_scenario(str(path.parent / "scenario.yaml"))
    rows = content["validations"]
    search = config["algo"] == "es"
    return {
        "setting": setting_of(scenario),
        "seed": config["seed"],
        **_recipe(config, search),
        "config": {name: _value(v) for name, v in config.items() if name not in _NO_RECIPE},
        "steps": content["steps"],
        "total_steps": content["total_steps"],
        "seconds": content.get("seconds"),
        "reference": content["reference"]["policy"],
        "faircarbon": (content.get("faircarbon") or {}).get("co2_relative"),
        "best": None if content["best"] is None else _point(content["best"], search),
        "curve": [_point(row, search) for row in rows],
    }


def _recipe(config: Mapping[str, Any], search: bool) -> dict[str, Any]:
    """What the study varies."""
    environment = config.get("environment") or {}
    if search:
        warm, network, background = config["warm_start"], "scorer", "its own fleet"
    else:
        warm = (config.get("warm_start") or {}).get("policy")
        network = config.get("policy", "mlp")
        background = environment.get("background", "reference")
    return {
        "algorithm": config["algo"],
        "scenarios": [config["scenario"], *config.get("beside", ())],
        "learns_on": "fleets" if search else "sessions",
        "network": network,
        "warm_start": None if warm in (None, "none") else short_path(str(warm)),
        "background": short_path(str(background)),
    }


def _point(row: Mapping[str, Any], search: bool) -> dict[str, Any]:
    """A validation: on whole fleets, on lone conversations, or both."""
    fleets = row if search else row.get("fleet")
    sessions = None if search else row
    return {
        "stage": row.get("stage"),
        "steps": row["steps"],
        "seconds": row.get("seconds"),
        "fleets": None if fleets is None else _validated(fleets),
        "sessions": None if sessions is None else _validated(sessions),
    }


def _validated(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"co2_relative": row["co2_relative"], "missed": row["missed"]}


def _value(value: Any) -> Any:
    """A field of a configuration without the paths of a machine."""
    if isinstance(value, Mapping):
        return {name: _value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_value(part) for part in value]
    return short_path(value) if isinstance(value, str) else value


def short_path(text: str) -> str:
    """A name as it is; of an absolute path what follows the checkout, or its last two parts."""
    path = Path(text)
    if not path.is_absolute():
        return text
    for known in _KNOWN_FOLDERS:
        if known in path.parts:
            return "/".join(path.parts[path.parts.index(known) :])
    return "/".join(path.parts[-2:])


def short(value: Any) -> Any:
    """The same with fewer digits, so that the file can be reviewed."""
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: short(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [short(part) for part in value]
    return value
