"""The folder of a front: `front.json` and what is made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from carbon_gym.evaluation import Evaluation
from carbon_gym.front import ORDER, Figures, Point, point_keys, reference_point
from carbon_gym.metrics.equal_quality import Floats, estimate, saving_at_equal_quality
from carbon_gym.report.front import draw_front, front_csv, front_markdown
from carbon_gym.report.rows_file import slug
from carbon_gym.report.work_file import WorkFile, write_text

SCHEMA = 1
"""Version of the layout of `front.json`."""
FRONT = "front.json"

Record = dict[str, Any]


class FrontFile(WorkFile):
    """A front's folder. `front.json` is whole at every moment; a rerun takes it up again.

    Points in the folder's `front.json` stay as long as they are what would be measured now: the
    same fleets, rules, sources, gates and knobs. See `WorkFile`.
    """

    file_name, schema, kind = FRONT, SCHEMA, "a front"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._keys: dict[str, str] = {}

    def empty(self) -> Record:
        """No points."""
        return {"families": {}, "points": {}}

    @classmethod
    def check(cls, content: Mapping[str, Any]) -> None:
        """Points can be made of the records, which have a key and figures."""
        for records in content["points"].values():
            for record in records:
                Point.of(record), record["key"], record["fleets"], record["all"]
        dict(content["families"])

    def begin(self, evaluation: Evaluation, points: Sequence[Point]) -> list[Point]:
        """Say what the next points are of.

        Args:
            evaluation: The fleets.
            points: All that are asked for.

        Returns:
            Those that the file does not have yet.
        """
        name = evaluation.scenario.name
        stored = [Point.of(record) for record in self._content["points"].get(name, [])]
        self._keys = point_keys(evaluation, [*points, *stored])
        kept = [
            record
            for record, point in zip(self._content["points"].get(name, []), stored, strict=True)
            if record["key"] == self._keys[point.id]
        ]
        self._content["points"][name] = kept
        self.say_inputs(evaluation, reference=reference_point(evaluation.scenario).id)
        has = {Point.of(record).id for record in kept}
        return [point for point in points if point.id not in has]

    def add(self, scenario: str, point: Point, figures: Sequence[Figures]) -> None:
        """Add a point's figures, of each fleet and of all, and write the file."""
        record = {
            **point.to_dict(),
            "key": self._keys[point.id],
            "fleets": [of for of in figures if of["fleet"] != "all"],
            "all": next(of for of in figures if of["fleet"] == "all"),
        }
        others = [old for old in self._content["points"][scenario] if Point.of(old) != point]
        self._content["points"] = {
            **self._content["points"],
            scenario: sorted([*others, record], key=_place),
        }
        self._relate(scenario)
        self.write()

    def finish(self, scenario: str) -> list[Path]:
        """Write what is made from the points: CSV, Markdown, the picture.

        Returns:
            The files written.
        """
        self._relate(scenario)  # where an earlier run has left nothing to add
        self.write()
        records: list[Record] = self._content["points"][scenario]
        families, reference = self.families(scenario), self.reference(scenario)
        stem = self.folder / f"{slug(scenario)}-front"
        texts = {
            stem.with_name(f"{stem.name}.csv"): front_csv(scenario, records),
            stem.with_name(f"{stem.name}.md"): front_markdown(
                scenario, families, records, reference
            ),
        }
        for path, text in texts.items():
            write_text(path, text)
        picture = stem.with_name(f"{stem.name}.png")
        draw_front(picture, scenario, records, reference)
        return [self.path, *texts, picture]

    def families(self, scenario: str) -> dict[str, Record]:
        """What each family saves at the reference's quality, by name."""
        families: dict[str, Record] = self._content["families"][scenario]
        return families

    def reference(self, scenario: str) -> Record:
        """The record that all others are compared with."""
        wanted = self._content["inputs"][scenario]["reference"]
        records: list[Record] = self._content["points"][scenario]
        return next(record for record in records if Point.of(record).id == wanted)

    def _relate(self, scenario: str) -> None:
        """Compare every point with the reference and every family at its quality."""
        records: list[Record] = self._content["points"][scenario]
        wanted = self._content["inputs"][scenario]["reference"]
        reference = next((r for r in records if Point.of(r).id == wanted), None)
        families: dict[str, Record] = {}
        if reference is not None:
            co2_g, quality = _column(reference, "co2_g"), _column(reference, "quality_realised")
            co2_g = np.where(co2_g > 0, co2_g, np.nan)
            for record in records:
                record["saving_vs_ccar"] = estimate(1.0 - _column(record, "co2_g") / co2_g)
                record["quality_difference"] = estimate(
                    _column(record, "quality_realised") - quality
                )
            for family in dict.fromkeys(record["family"] for record in records):
                mine = [record for record in records if record["family"] == family]
                at_equal = saving_at_equal_quality(
                    np.stack([_column(record, "quality_realised") for record in mine]),
                    np.stack([_column(record, "co2_g") for record in mine]),
                    quality,
                    np.nan_to_num(co2_g),
                )
                families[family] = {
                    "policy": mine[0]["policy"],
                    "knob": mine[0]["knob"],
                    "values": [record["value"] for record in mine],
                    "saving_at_equal_quality": at_equal["saving"],
                    "by_fleet": at_equal["by_fleet"],
                    "reason": at_equal["reason"],
                }
        self._content["families"] = {**self._content["families"], scenario: families}


def _place(record: Mapping[str, Any]) -> tuple[int, str, str, float]:
    """Where a point stands, whenever it was measured: by policy, family, value."""
    policy = record["policy"]
    rank = ORDER.index(policy) if policy in ORDER else len(ORDER)
    return rank, policy, record["family"], record["value"] or 0.0


def _column(record: Mapping[str, Any], name: str) -> Floats:
    """A figure on each fleet, float64 (F,); NaN where it does not exist."""
    return np.array([fleet[name] for fleet in record["fleets"]], dtype=np.float64)
