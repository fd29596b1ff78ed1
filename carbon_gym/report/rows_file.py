"""A work file of rows: a policy's account of each fleet, and of all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from carbon_gym.evaluation import Evaluation
from carbon_gym.report.work_file import WorkFile, write_text

Rows = list[dict[str, Any]]


class RowsFile(WorkFile):
    """A work file of the rows of `carbon_gym.benchmark.compare`.

    Where the folder holds the file already, its rows stay: only those of other fleets under the
    same scenario name, or of a policy that is run again, give way. See `WorkFile`.
    """

    def empty(self) -> dict[str, Any]:
        """No rows."""
        return {"rows": []}

    @classmethod
    def check(cls, content: Mapping[str, Any]) -> None:
        """Rows name scenario, policy and fleet; inputs name policies."""
        for entry in content["inputs"].values():
            dict(entry["policies"])
        for row in content["rows"]:
            row["scenario"], row["policy"], row["fleet"]

    @property
    def rows(self) -> Rows:
        """All rows so far."""
        rows: Rows = self._content["rows"]
        return rows

    def done(self, scenario: str, key: str, policies: Mapping[str, str]) -> dict[str, Rows]:
        """Rows that an earlier run into this folder has already made.

        Args:
            scenario: Its name.
            key: `carbon_gym.benchmark.evaluation_key` of its fleets.
            policies: `policy_key` of each policy asked for.
        """
        before = self._content["inputs"].get(scenario, {})
        if before.get("key") != key:
            return {}
        found: dict[str, Rows] = {}
        for name, policy in policies.items():
            rows = [
                row for row in self.rows if row["scenario"] == scenario and row["policy"] == name
            ]
            if rows and before["policies"].get(name) == policy:
                found[name] = rows
        return found

    def begin(self, evaluation: Evaluation, key: str) -> None:
        """Say what the next rows are of."""
        name = evaluation.scenario.name
        before = self._content["inputs"].get(name, {})
        same = before.get("key") == key
        if not same:
            self._content["rows"] = [row for row in self.rows if row["scenario"] != name]
        self.say_inputs(evaluation, key=key, policies=before["policies"] if same else {})

    def add(self, scenario: str, policy: str, policy_key: str, rows: Sequence[Any]) -> None:
        """Add a policy's rows and write the file."""
        kept = [row for row in self.rows if row["scenario"] != scenario or row["policy"] != policy]
        content = {**self._content, "rows": [*kept, *rows]}
        inputs = {**content["inputs"][scenario]}
        inputs["policies"] = {**inputs["policies"], policy: policy_key}
        content["inputs"] = {**content["inputs"], scenario: inputs}
        self.write(content)

    def put_in_order(self, scenario: str, order: Sequence[str]) -> Rows:
        """Put a scenario's rows last and its policies in this order; returns them."""
        place = {policy: number for number, policy in enumerate(order)}
        others = [row for row in self.rows if row["scenario"] != scenario]
        mine = [row for row in self.rows if row["scenario"] == scenario]
        mine.sort(
            key=lambda row: place.get(row["policy"], len(place))
        )  # stable: fleets keep their order
        self._content["rows"] = [*others, *mine]
        return mine

    def write_texts(self, scenario: str, texts: Mapping[str, str]) -> list[Path]:
        """Write the file, the resolved scenario and texts by file name; returns their paths."""
        resolved = yaml.safe_dump(self._content["scenario"][scenario], sort_keys=False)
        named = {**texts, f"{slug(scenario)}.scenario.yaml": resolved}
        for name, text in named.items():
            write_text(self.folder / name, text)
        self.write()
        return [self.path, *(self.folder / name for name in named)]


def slug(name: str) -> str:
    """A scenario's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "scenario"
