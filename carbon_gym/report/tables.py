"""The rows of a comparison as CSV and Markdown."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from carbon_gym.report.table import GUARD_TITLE, guarded, markdown_guard, markdown_table


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without nesting: ``saving_vs_faircarbon.mean``, ``by_session_turns.>5.co2_g``, ..."""
    flattened: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            for inner, content in flat(value).items():
                flattened[f"{key}.{inner}"] = content
        else:
            flattened[key] = value
    return flattened


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows, one line each; columns in the order of their first appearance; None is empty."""
    flattened = [flat(row) for row in rows]
    columns = list(dict.fromkeys(key for row in flattened for key in row))
    text = StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flattened)
    return text.getvalue()


def to_markdown(
    rows: Sequence[Mapping[str, Any]], versus: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> str:
    """The pooled rows, a table for each scenario, and what CCAR's variants save over the others.

    Where quality is a budget, a second table says what users lose or gain against CCAR.

    Args:
        rows: Of all scenarios.
        versus: `carbon_gym.metrics.versus.versus` of each scenario.
    """
    scenarios = list(dict.fromkeys(row["scenario"] for row in rows))
    parts = []
    for scenario in scenarios:
        pooled = [row for row in rows if row["scenario"] == scenario and row["fleet"] == "all"]
        parts.append("\n".join([f"## {scenario}", "", *markdown_table(pooled)]))
        beside = guarded(pooled)
        if beside:
            title = f"{GUARD_TITLE.capitalize()} ({scenario})"
            parts.append("\n".join([title, "", *markdown_guard(beside)]))
        against = versus.get(scenario, {})
        ours = [name for name in against if name.startswith("ccar")]
        if ours:
            head = [
                f"CO2 saved over each policy, % (paired 95 % t intervals; {scenario})",
                "",
                f"| against | {' | '.join(ours)} |",
                f"|---|{'---:|' * len(ours)}",
            ]
            body = [
                f"| {other} | {' | '.join(_saving(against[name].get(other)) for name in ours)} |"
                for other in against
            ]
            parts.append("\n".join([*head, *body]))
    return "\n\n".join(parts) + "\n"


def _saving(interval: Mapping[str, Any] | None) -> str:
    if interval is None:
        return ""
    return (
        f"{100 * interval['mean']:.2f} [{100 * interval['low']:.2f}, {100 * interval['high']:.2f}]"
    )
