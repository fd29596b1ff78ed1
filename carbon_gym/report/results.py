"""The folder of a comparison: `results.json` and what is made from it."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from carbon_gym import __version__
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation
from carbon_gym.files import make_writable_folder, remove_if_empty, replacing
from carbon_gym.metrics.versus import versus
from carbon_gym.report.pictures import draw_pictures
from carbon_gym.report.tables import to_csv, to_markdown

SCHEMA = 1
"""Version of the layout of `results.json`."""
RESULTS = "results.json"
_VERSIONED = ("gymnasium", "numpy", "numba", "pandas", "pydantic")

Rows = list[dict[str, Any]]


class Results:
    """A comparison's folder. `results.json` is whole at every moment; a rerun takes it up again.

    As a context manager it takes a folder that it made away again if nothing was written.

    Args:
        folder: Made if missing. Where it holds a `results.json`, its rows stay: only those of
            other fleets under the same scenario name, or of a policy that is run again, give way.

    Raises:
        InputError: The folder cannot be made or written, or holds a `results.json` of another kind
            or version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / RESULTS
        self._made = make_writable_folder(folder, "--out")
        self._content = _read(self.path) or {
            "schema": SCHEMA,
            "scenario": {},
            "versions": versions(),
            "inputs": {},
            "rows": [],
            "versus": {},
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        remove_if_empty(self._made)

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
        self._content["scenario"][name] = evaluation.scenario.to_dict()
        self._content["inputs"][name] = {
            "digest": evaluation.scenario.digest(),
            "key": key,
            "grid": evaluation.grid.source,
            "days": [day.isoformat() for day in evaluation.days],
            "notes": list(evaluation.notes),
            "policies": before["policies"] if same else {},
        }

    def add(self, scenario: str, policy: str, policy_key: str, rows: Sequence[Any]) -> None:
        """Add a policy's rows and write the file."""
        kept = [row for row in self.rows if row["scenario"] != scenario or row["policy"] != policy]
        content = {**self._content, "rows": [*kept, *rows]}
        inputs = {**content["inputs"][scenario]}
        inputs["policies"] = {**inputs["policies"], policy: policy_key}
        content["inputs"] = {**content["inputs"], scenario: inputs}
        with replacing(self.path) as partial:
            text = json.dumps(content, indent=1, allow_nan=False)
            partial.write_text(text + "\n", encoding="utf-8", newline="\n")
        self._content = content

    def finish(self, scenario: str, order: Sequence[str]) -> list[Path]:
        """Write what is made from the rows: CSV, Markdown, pictures, the resolved scenario.

        Args:
            scenario: The one that is complete.
            order: Its policies as asked for; rows are put in this order.

        Returns:
            The files written.
        """
        place = {policy: number for number, policy in enumerate(order)}
        others = [row for row in self.rows if row["scenario"] != scenario]
        mine = [row for row in self.rows if row["scenario"] == scenario]
        mine.sort(
            key=lambda row: place.get(row["policy"], len(place))
        )  # stable: fleets keep their order
        self._content["rows"] = [*others, *mine]
        self._content["versus"][scenario] = versus(mine)
        resolved = self.folder / f"{slug(scenario)}.scenario.yaml"
        texts = {
            self.path: json.dumps(self._content, indent=1, allow_nan=False) + "\n",
            self.folder / "results.csv": to_csv(self.rows),
            self.folder / "table.md": to_markdown(self.rows, self._content["versus"]),
            resolved: yaml.safe_dump(self._content["scenario"][scenario], sort_keys=False),
        }
        for path, text in texts.items():
            with replacing(path) as partial:
                partial.write_text(text, encoding="utf-8", newline="\n")
        return [*texts, *draw_pictures(self.folder, slug(scenario), scenario, mine)]


def slug(name: str) -> str:
    """A scenario's name as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "scenario"


def _read(path: Path) -> dict[str, Any] | None:
    """The results of an earlier run; None where there are none."""
    if not path.exists():
        return None
    try:
        content = dict(json.loads(path.read_text(encoding="utf-8")))
        found = (content["schema"], content["versions"]["carbon-gym"])
        for entry in content["inputs"].values():
            dict(entry["policies"])
        for row in content["rows"]:
            row["scenario"], row["policy"], row["fleet"]
        content.update({key: dict(content[key]) for key in ("scenario", "versus")})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{path}: is there already and is not a results file of carbon-gym; name another --out"
        ) from None
    if found != (SCHEMA, __version__):
        raise InputError(
            f"{path}: was made by carbon-gym {found[1]} (schema {found[0]}), this is {__version__} "
            f"(schema {SCHEMA}); name another --out"
        )
    return content


def versions() -> dict[str, str]:
    """What the results were made with."""
    return {
        "carbon-gym": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _VERSIONED},
    }
