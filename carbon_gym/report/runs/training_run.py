"""The folder of a training, read without the packages that trained it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from carbon_gym.errors import InputError
from carbon_gym.report.work_file import json_mapping, what_is_wrong
from carbon_gym.scenario.load import read_yaml_mapping

CONFIG, PROGRESS = "config.yaml", "progress.json"


def training_content(path: Path) -> dict[str, Any]:
    """What `progress.json` says, with the configuration beside it.

    Args:
        path: `progress.json` in the folder of a run.

    Returns:
        Its content; "config" as in the folder's `config.yaml`, empty where that is missing;
        "inputs" with the name of the scenario; "versions" where the run recorded one.

    Raises:
        InputError: It cannot be read, is broken or of something else.
    """
    content = json_mapping(path)
    try:
        float(content["steps"]), float(content["total_steps"]), content["reference"]["policy"]
        for row in content["validations"]:
            float(row["steps"]), float(row["co2_relative"]), dict(row["missed"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: is not the progress of a training of carbon-gym ({what_is_wrong(error)}); "
            "name the folder that `carbon-gym train` wrote"
        ) from None
    config = path.with_name(CONFIG)
    content["config"] = read_yaml_mapping(config) if config.is_file() else {}
    content["inputs"] = {str(content["config"].get("scenario", "")): {}}
    if "carbon_gym" in content:  # not in files of 0.1.0's making
        content["versions"] = {"carbon-gym": content["carbon_gym"]}
    return content
