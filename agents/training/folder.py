"""What every run's folder has in common, and how a run ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from carbon_gym.files import replacing

CONFIG, SCENARIO, PROGRESS = "config.yaml", "scenario.yaml", "progress.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        finished: All steps were made.
        steps: Steps made.
        progress: Content of `progress.json`.
    """

    finished: bool
    steps: int
    progress: dict[str, Any]


def write_yaml(path: Path, content: dict[str, Any]) -> None:
    """Write a mapping, whole or not at all."""
    with replacing(path) as partial_path:
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
        partial_path.write_text(text, encoding="utf-8")
