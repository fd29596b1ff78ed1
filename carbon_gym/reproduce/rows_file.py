"""`reproduce.json`: the rows of all worlds, which a rerun takes up again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from carbon_gym.benchmark import Rows
from carbon_gym.report.work_file import WorkFile, write_text


class Known(NamedTuple):
    """What makes the rows at hand right.

    Attributes:
        fleets: `carbon_gym.benchmark.evaluation_key` of the world.
        policies: `policy_key` of each policy.
    """

    fleets: str
    policies: Mapping[str, str]


class Served(NamedTuple):
    """What a world gave.

    Attributes:
        known: Keys of the fleets and of all its policies.
        rows: By policy, of those that were run now.
        facts: What the fleets are, for the reader.
    """

    known: Known
    rows: Mapping[str, Rows]
    facts: Mapping[str, Any]


class ReproduceFile(WorkFile):
    """Rows by world and policy; a world's entry is replaced where its fleets or rules change.

    It is written a line for each world, in the order of their ids: of many thousand rows only
    those of one world are put into words at a time. See `WorkFile`.
    """

    file_name, schema, kind = "reproduce.json", 1, "a file of rows of reproduce"

    def __init__(self, folder: Path) -> None:
        self._lines: dict[str, str] = {}
        super().__init__(folder)

    def empty(self) -> dict[str, Any]:
        """No worlds."""
        return {"worlds": {}}

    @classmethod
    def check(cls, content: Mapping[str, Any]) -> None:
        """Worlds have a key and facts, their policies a key and rows."""
        for world in content["worlds"].values():
            world["key"], dict(world["facts"])
            for policy in world["policies"].values():
                policy["key"], [(row["fleet"], row["co2_g"]) for row in policy["rows"]]

    def known(self, world: str) -> Known:
        """Keys of what there is of a world."""
        record = self._content["worlds"].get(world, {"key": "", "policies": {}})
        keys = {name: policy["key"] for name, policy in record["policies"].items()}
        return Known(record["key"], keys)

    def rows(self, world: str, policy: str) -> Rows:
        """Rows of a policy; KeyError where there are none."""
        rows: Rows = self._content["worlds"][world]["policies"][policy]["rows"]
        return rows

    def facts(self, world: str) -> Mapping[str, Any]:
        """What the fleets of a world are."""
        facts: Mapping[str, Any] = self._content["worlds"][world]["facts"]
        return facts

    def keep(self, world: str, served: Served) -> None:
        """Add what a world gave and write the file."""
        old = self._content["worlds"].get(world, {})
        policies = old["policies"] if old.get("key") == served.known.fleets else {}
        new = {
            name: {"key": served.known.policies[name], "rows": list(rows)}
            for name, rows in served.rows.items()
        }
        record = {
            "key": served.known.fleets,
            "facts": dict(served.facts),
            "policies": dict(sorted({**policies, **new}.items())),
        }
        if record == old:
            return
        self._lines.pop(world, None)
        worlds = {**self._content["worlds"], world: record}
        self.write({**self._content, "worlds": worlds})

    def write(self, content: dict[str, Any] | None = None) -> None:
        """See `WorkFile.write`."""
        content = self._content if content is None else content
        head = json.dumps({key: content[key] for key in content if key != "worlds"})
        worlds = ",\n".join(self._line(*entry) for entry in sorted(content["worlds"].items()))
        write_text(self.path, f'{head[:-1]}, "worlds": {{\n{worlds}\n}}}}\n')
        self._content = content

    def _line(self, world: str, record: Mapping[str, Any]) -> str:
        if world not in self._lines:
            self._lines[world] = f"{json.dumps(world)}: {json.dumps(record, allow_nan=False)}"
        return self._lines[world]
