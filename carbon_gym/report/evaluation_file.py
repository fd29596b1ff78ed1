"""The folder of an evaluation: `evaluation.json` and what is made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from carbon_gym.methods import Method
from carbon_gym.metrics.methods import method_figures
from carbon_gym.report.evaluation import draw_evaluation, evaluation_csv, evaluation_markdown
from carbon_gym.report.rows_file import RowsFile, slug

SCHEMA = 1
"""Version of the layout of `evaluation.json`."""
EVALUATION = "evaluation.json"

Records = list[dict[str, Any]]


class EvaluationFile(RowsFile):
    """An evaluation's folder: rows as they come, and of every scenario the methods asked last."""

    file_name, schema, kind = EVALUATION, SCHEMA, "an evaluation"

    def empty(self) -> dict[str, Any]:
        """No rows and no methods."""
        return {**super().empty(), "reference": {}, "methods": {}}

    @classmethod
    def check(cls, content: Mapping[str, Any]) -> None:
        """See `RowsFile`; methods are records of a scenario."""
        super().check(content)
        dict(content["reference"])
        for records in content["methods"].values():
            for record in records:
                record["scenario"], record["method"], record["members"]

    def finish(self, scenario: str, methods: Sequence[Method], reference: Method) -> list[Path]:
        """Compare the methods and write what is made from that: CSV, Markdown, a picture.

        Args:
            scenario: The one whose rows are complete.
            methods: All that are compared, the reference among them.
            reference: What they are compared with.

        Returns:
            The files written.
        """
        policies = [member.policy for method in methods for member in method.members]
        by_policy: dict[str, Records] = {}
        for row in self.put_in_order(scenario, list(dict.fromkeys(policies))):
            by_policy.setdefault(row["policy"], []).append(row)
        self._content["reference"][scenario] = reference.name
        self._content["methods"][scenario] = [
            method_figures(
                scenario,
                method.name,
                [(member.policy, member.seed) for member in method.members],
                [member.policy for member in reference.members],
                by_policy,
            )
            for method in methods
        ]
        found, named = self._content["methods"], self._content["reference"]
        texts = {
            "evaluation.csv": evaluation_csv(found, named),
            "evaluation.md": evaluation_markdown(found, named),
        }
        written = self.write_texts(scenario, texts)
        picture = self.folder / f"{slug(scenario)}-evaluation.png"
        draw_evaluation(picture, scenario, self.methods(scenario), reference.name)
        return [*written, picture]

    def methods(self, scenario: str) -> Records:
        """Figures of every method."""
        records: Records = self._content["methods"][scenario]
        return records
