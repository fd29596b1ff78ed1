"""What the page says of `carbon-gym benchmark`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carbon_gym.metrics.figures import CONSTRAINTS, no_worse
from carbon_gym.metrics.rows import LONGER_THAN
from carbon_gym.report.document import Block, Cell, Column, Picture, Table
from carbon_gym.report.document_cells import measured
from carbon_gym.report.document_markdown import escaped
from carbon_gym.report.pictures import co2_figure, length_figure, trade_figure
from carbon_gym.report.runs.found import Run
from carbon_gym.report.runs.inputs import POLICY, RATES, inputs_text, percent, pooled_rows, rates
from carbon_gym.report.table import GUARD_TITLE, guarded, interval_words

Row = Mapping[str, Any]
Names = Callable[[str], str]

REFERENCE = "faircarbon"
_BOUNDS = ("lower-bound", "clairvoyant")
"""They know what no router knows."""
_MARKED = (
    "Marked: the least CO2 of those that are no worse than faircarbon in mean predicted quality, "
    "P95 TTFT and violations (lower-bound and clairvoyant, which know what no router knows, aside)."
)


def benchmark_blocks(run: Run) -> list[Block]:
    """Of every scenario its policies, what CCAR's variants save over each, by session length."""
    blocks: list[Block] = []
    for scenario in run.scenarios:
        rows = [row for row in run.content["rows"] if row["scenario"] == scenario]
        blocks.append(inputs_text(run, scenario, rows))
        if rows:
            blocks += _scenario(scenario, rows, run.content["versus"].get(scenario, {}), run)
    return blocks


def policies_table(scenario: str, rows: Sequence[Row], name: str) -> Table:
    """A line for each policy: CO2, quality, latency and violations.

    Args:
        scenario: What to call it.
        rows: All of one scenario, as `carbon_gym.benchmark.compare` makes them.
        name: Of the table.
    """
    pooled = pooled_rows(rows)
    timed = any(row.get("decision_us") is not None for row in pooled)
    return Table(
        name,
        f"Policies on {scenario}",
        [
            POLICY,
            Column("CO2", "g", 1),
            Column("CO2 relative", digits=3),
            Column("saved over faircarbon", "%", 1),
            Column("quality predicted", digits=4),
            Column("quality realised", digits=4),
            Column("P95 TTFT", "s"),
            *RATES,
            Column("energy", "kWh", 3),
            Column("recomputed", "mWh/turn", 1),
            Column("moves", "a session"),
            Column("gate asked", "a session"),
            Column("gate stayed", "a session"),
            *([Column("decision", "µs", 1)] if timed else []),
        ],
        [_policy(row, timed) for row in pooled],
        f"CO2 relative: session-affinity is 1. In brackets: {interval_words(rows)}. {_MARKED}",
        frozenset(_best(pooled)),
    )


def _scenario(scenario: str, rows: Sequence[Row], versus: Row, run: Run) -> list[Block]:
    named, pooled = run.names(scenario), pooled_rows(rows)
    blocks: list[Block] = []
    if any(row["saving_vs_faircarbon"] for row in pooled):
        blocks.append(
            Picture(
                named("co2"),
                f"CO2 of every policy on {scenario}",
                co2_figure(scenario, pooled),
                "A bar of CO2 for every policy, least first, as a share of faircarbon's.",
                "Policies that emit more than twice as much are cut off, with their number.",
            )
        )
    blocks.append(policies_table(scenario, rows, named("policies")))
    blocks += [_guard(scenario, found, named)] if (found := guarded(rows)) else []
    blocks += [_versus(scenario, versus, named)] if _ours(versus) else []
    blocks += [
        Picture(
            named("trade"),
            f"CO2 against quality and latency on {scenario}",
            trade_figure(scenario, pooled),
            "A point for every policy: CO2 against mean realised quality, and against P95 TTFT.",
        ),
        Picture(
            named("by-length"),
            f"CO2 saved by the length of the session on {scenario}",
            length_figure(scenario, pooled),
            "A line for every policy: CO2 saved against faircarbon, for all sessions and for "
            "longer and longer ones.",
        ),
        _by_length(scenario, pooled, named),
    ]
    return blocks


def _policy(row: Row, timed: bool) -> list[Cell]:
    return [
        row["policy"],
        row["co2_g"],
        row["co2_relative"],
        None if row["policy"] == REFERENCE else percent(row["saving_vs_faircarbon"]),
        row["quality_predicted"],
        row["quality_realised"],
        row["ttft_p95_s"],
        *rates(row),
        row["energy_kwh"],
        row["recompute_mwh_per_turn"],
        row["switches_per_session"],
        *([row[f"gate_{what}_per_session"] or None for what in ("proposals", "blocks")]),
        *([row.get("decision_us")] if timed else []),
    ]


def _best(pooled: Sequence[Row]) -> list[int]:
    """Number of the row with the least CO2 among those that keep what faircarbon keeps."""
    reference = next((row for row in pooled if row["policy"] == REFERENCE), None)
    if reference is None or any(reference[name] is None for name in CONSTRAINTS):
        return []
    keeping = [
        number
        for number, row in enumerate(pooled)
        if row["policy"] not in _BOUNDS
        and all(no_worse(name, row[name], reference[name]) for name in CONSTRAINTS)
    ]
    return sorted(keeping, key=lambda number: float(pooled[number]["co2_g"]))[:1]


def _by_length(scenario: str, pooled: Sequence[Row], named: Names) -> Table:
    labels = [f">{bound}" for bound in LONGER_THAN]
    sessions = [pooled[0]["by_session_turns"][label]["sessions"] for label in labels]
    counts = ", ".join(
        f"{count:,} of more than {bound}"
        for count, bound in zip(sessions, LONGER_THAN, strict=True)
    )
    return Table(
        named("by-length"),
        f"CO2 saved over faircarbon by session length on {scenario}",
        [
            POLICY,
            Column("all sessions", "%", 1),
            *(Column(f"more than {bound} turns", "%", 1) for bound in LONGER_THAN),
        ],
        [
            [
                row["policy"],
                percent(row["saving_vs_faircarbon"]),
                *(
                    percent(row["by_session_turns"][label]["saving_vs_faircarbon"])
                    for label in labels
                ),
            ]
            for row in pooled
            if row["policy"] != REFERENCE
        ],
        f"{pooled[0]['sessions']:,} sessions, {counts} turns.",
    )


def _guard(scenario: str, rows: Sequence[Row], named: Names) -> Table:
    columns = [
        POLICY,
        Column("saved over ccar", "%", 1),
        *(
            Column(f"{what} quality", "0.001", 1, signed=True)
            for what in ("realised", "predicted", "ccar's lowest tenth of sessions:", "worst")
        ),
        Column("category that fares worst", kind="text"),
        Column("P95 TTFT", "s", 3, signed=True),
        *(
            Column(f"sessions below 95 % of their mean under ccar, {kind}", "%", 1)
            for kind in ("realised", "predicted")
        ),
    ]
    return Table(
        named("guard"),
        f"{GUARD_TITLE.capitalize()}: {scenario}",
        columns,
        [_guarded(row) for row in rows],
        "Differences from ccar: of realised quality where nothing else is said. *Worst quality*: "
        "of the category of queries that fares worst.",
    )


def _guarded(row: Row) -> list[Cell]:
    beside = row["versus_ccar"]
    by_category = {
        name: found
        for name, found in beside["quality_realised_difference_by_category"].items()
        if found["mean"] is not None
    }
    worst = min(by_category, key=lambda name: float(by_category[name]["mean"]), default=None)
    ratio = beside["session_quality_ratio"]
    below = [ratio[kind]["below_95_percent"] for kind in ("realised", "predicted")]
    return [
        row["policy"],
        percent(beside["saving"]),
        measured(beside["quality_realised_difference"], 1000.0),
        measured(beside["quality_predicted_difference"], 1000.0),
        measured(beside["low_decile_difference"]["of_ccar"], 1000.0),
        None if worst is None else measured(by_category[worst], 1000.0),
        worst,
        measured(beside["ttft_p95_difference_s"]),
        *(None if share is None else 100.0 * share for share in below),
    ]


def _ours(versus: Row) -> list[str]:
    return [name for name in versus if name.startswith("ccar")]


def _versus(scenario: str, versus: Row, named: Names) -> Table:
    ours = _ours(versus)
    return Table(
        named("versus"),
        f"CO2 that CCAR's variants save over each policy on {scenario}",
        [Column("against", kind="text"), *(Column(name, "%", 2) for name in ours)],
        [[other, *(percent(versus[name].get(other)) for name in ours)] for other in versus],
        f"Means over the fleets of {escaped(scenario)} with their paired 95 % t interval.",
    )
