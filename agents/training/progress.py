"""`progress.json`: how far a run is, and what validation found on the way."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from carbon_gym import __version__
from carbon_gym.files import replacing
from carbon_gym.metrics.figures import Figures

Row = dict[str, Any]


class Progress:
    """The file, whole at every moment.

    Args:
        path: Where it is; what it holds already is kept.
        reference: Name of the rule to beat.
        figures: What that rule gives on the same conversations.
        fleets: Name and figures of the rule to beat on whole fleets; None: none are served.

    Attributes:
        rows: One a validation, in order: "steps", "co2_relative" (share of the reference's CO2),
            the fields of `Figures`, and "missed" (`Figures.missed`); where fleets were served
            too, "fleet" has the same of them.
    """

    def __init__(
        self,
        path: Path,
        reference: str,
        figures: Figures,
        fleets: tuple[str, Figures] | None = None,
    ) -> None:
        self._path, self._name, self._reference, self._fleets = path, reference, figures, fleets
        self.rows: list[Row] = []
        if path.is_file():
            self.rows = json.loads(path.read_text(encoding="utf-8"))["validations"]

    def go_back(self, steps: int) -> None:
        """Forget what lies after a checkpoint: it comes again."""
        self.rows = [row for row in self.rows if row["steps"] <= steps]

    def row(self, steps: int, figures: Figures, fleets: Figures | None = None) -> Row:
        """A row for a validation; `fleets`: what was given on those, if they were served."""
        row = {"steps": steps, **_beside(figures, self._reference)}
        if fleets is not None and self._fleets is not None:
            row["fleet"] = _beside(fleets, self._fleets[1])
        return row

    def write(self, steps: int, total_steps: int, best: Row | None) -> None:
        """Write it anew."""
        content = {
            "carbon_gym": __version__,
            "steps": steps,
            "total_steps": total_steps,
            "reference": {"policy": self._name, **asdict(self._reference)},
            "best": best,
            "validations": self.rows,
        }
        if self._fleets is not None:
            name, figures = self._fleets
            content["fleet_reference"] = {"policy": name, **asdict(figures)}
        with replacing(self._path) as partial:
            partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def better(row: Row, than: Row | None) -> bool:
    """Less CO2 with all constraints kept; before that, less missed in sum.

    A row with figures of whole fleets goes before one without, and by those figures.
    """
    return than is None or order(row) < order(than)


def order(row: Row) -> tuple[bool, float, float]:
    """Sort key of validations, best first; see `better`."""
    counted = row.get("fleet", row)
    return "fleet" not in row, sum(counted["missed"].values()), counted["co2_relative"]


def _beside(figures: Figures, reference: Figures) -> Row:
    return {
        "co2_relative": figures.co2_relative(reference),
        **asdict(figures),
        "missed": figures.missed(reference),
    }
