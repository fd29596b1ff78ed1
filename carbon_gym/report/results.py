"""The folder of a comparison: `results.json` and what is made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from carbon_gym.metrics.versus import versus
from carbon_gym.report.pictures import draw_pictures
from carbon_gym.report.rows_file import RowsFile, slug
from carbon_gym.report.tables import to_csv, to_markdown

SCHEMA = 1
"""Version of the layout of `results.json`."""
RESULTS = "results.json"


class Results(RowsFile):
    """A comparison's folder. `results.json` is whole at every moment; a rerun takes it up again."""

    file_name, schema, kind = RESULTS, SCHEMA, "a results file"

    def empty(self) -> dict[str, Any]:
        """No rows."""
        return {**super().empty(), "versus": {}}

    @classmethod
    def check(cls, content: Mapping[str, Any]) -> None:
        """See `RowsFile`."""
        super().check(content)
        dict(content["versus"])

    def finish(self, scenario: str, order: Sequence[str]) -> list[Path]:
        """Write what is made from the rows: CSV, Markdown, pictures, the resolved scenario.

        Args:
            scenario: The one that is complete.
            order: Its policies as asked for; rows are put in this order.

        Returns:
            The files written.
        """
        mine = self.put_in_order(scenario, order)
        self._content["versus"][scenario] = versus(mine)
        texts = {
            "results.csv": to_csv(self.rows),
            "table.md": to_markdown(self.rows, self._content["versus"]),
        }
        written = self.write_texts(scenario, texts)
        return [*written, *draw_pictures(self.folder, slug(scenario), scenario, mine)]
