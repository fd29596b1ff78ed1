"""`progress.json`: how far a run is, and what validation found on the way."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agents.training.validation import Figures
from carbon_gym.files import replacing

Row = dict[str, Any]


class Progress:
    """The file, whole at every moment.

    Args:
        path: Where it is; what it holds already is kept.
        reference: Name of the rule to beat.
        figures: What that rule gives on the same conversations.

    Attributes:
        rows: One a validation, in order: "steps", "co2_relative" (share of the reference's CO2),
            the fields of `Figures`, and "missed" (`Figures.missed`).
    """

    def __init__(self, path: Path, reference: str, figures: Figures) -> None:
        self._path, self._name, self._reference = path, reference, figures
        self.rows: list[Row] = []
        if path.is_file():
            self.rows = json.loads(path.read_text(encoding="utf-8"))["validations"]

    def go_back(self, steps: int) -> None:
        """Forget what lies after a checkpoint: it comes again."""
        self.rows = [row for row in self.rows if row["steps"] <= steps]

    def row(self, steps: int, figures: Figures) -> Row:
        """A row for a validation."""
        return {
            "steps": steps,
            "co2_relative": figures.co2_relative(self._reference),
            **asdict(figures),
            "missed": figures.missed(self._reference),
        }

    def write(self, steps: int, total_steps: int, best: Row | None) -> None:
        """Write it anew."""
        content = {
            "steps": steps,
            "total_steps": total_steps,
            "reference": {"policy": self._name, **asdict(self._reference)},
            "best": best,
            "validations": self.rows,
        }
        with replacing(self._path) as partial:
            partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def better(row: Row, than: Row | None) -> bool:
    """Less CO2 with all constraints kept; before that, less missed in sum."""
    return than is None or _order(row) < _order(than)


def _order(row: Row) -> tuple[float, float]:
    return sum(row["missed"].values()), row["co2_relative"]
