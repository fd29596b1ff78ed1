"""Methods over their training seeds: tables for the terminal and in Markdown, CSV, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from carbon_gym.report.cells import (
    WIDE,
    Shown,
    figures_table,
    markdown_lines,
    number,
    plus_minus,
    signed,
)
from carbon_gym.report.document_cells import all_digits
from carbon_gym.report.style import colour, hover, label_of, new_figure, plain, save
from carbon_gym.report.tables import to_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]

CO2_CAPTION = (
    "CO2: {reference} = 1, interquartile mean over seeds and fleets, with a 95 % stratified "
    "bootstrap over seeds; whole seeds: likewise, a seed drawn with all its fleets. saving: mean "
    "of {fleets} fleets, in %, ± half the 95 % paired t interval over them, from five on. P: "
    "probability that a seed emits less on a fleet."
)
KEPT_CAPTION = (
    "best, worst: CO2 of a seed, mean over fleets. q, realised: mean predicted and realised "
    "quality minus the reference's, in 0.001. P95: TTFT over the reference's. viol.: % of turns "
    "that break the quality, TTFT and capacity bound, minus the reference's. kept: whether "
    "quality (predicted) is no lower and P95 and violations no higher, and by how many seeds."
)
KEPT_TITLE = "beside {reference}, over all turns"


def evaluation_tables(
    title: str, records: Sequence[Record], reference: str, width: int
) -> list[Table]:
    """CO2 of the methods, and what their users get.

    Args:
        title: Above the first.
        records: Of one scenario.
        reference: Name of the method that they are compared with.
        width: Characters at hand.
    """
    caption = CO2_CAPTION.format(reference=reference, fleets=records[0]["fleets"])
    wide = width >= WIDE
    return [
        figures_table(
            title,
            caption,
            _CO2_WIDE if wide else _CO2,
            records,
            head="method",
            fold=True,
            collapse_padding=True,
        ),
        figures_table(
            KEPT_TITLE.format(reference=reference),
            KEPT_CAPTION,
            _KEPT,
            records,
            head="method",
            fold=True,
            collapse_padding=True,
        ),
    ]


def evaluation_csv(methods: Mapping[str, Sequence[Record]], reference: Mapping[str, str]) -> str:
    """One line per scenario and method; the seeds one by one are in `evaluation.json`."""
    return to_csv(
        [
            {
                "scenario": record["scenario"],
                "reference": reference[scenario],
                **{name: value for name, value in record.items() if name != "members"},
            }
            for scenario, records in methods.items()
            for record in records
        ]
    )


def evaluation_markdown(
    methods: Mapping[str, Sequence[Record]], reference: Mapping[str, str]
) -> str:
    """Per scenario both tables, with all columns, and every seed."""
    parts = []
    for scenario, records in methods.items():
        named = reference[scenario]
        caption = CO2_CAPTION.format(reference=named, fleets=records[0]["fleets"])
        kept = KEPT_TITLE.format(reference=named)
        lines = [f"## {scenario}", "", *markdown_lines(_CO2_WIDE, records, head="method")]
        lines += ["", caption, "", f"{kept[0].upper()}{kept[1:]}:", ""]
        lines += [*markdown_lines(_KEPT, records, head="method"), "", KEPT_CAPTION]
        several = [record for record in records if record["seeds"] > 1]
        if several:
            lines += ["", *_members(several)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _members(records: Sequence[Record]) -> list[str]:
    """A line for each seed of each method."""
    return [
        "| method | policy | seed | CO2 | constraints not kept |",
        "|---|---|---:|---:|---|",
        *(
            f"| {record['method']} | {member['policy']} | {_seed(member)} | "
            f"{number(member['co2_relative'], 4)} | {constraints_missed(member)} |"
            for record in records
            for member in record["members"]
        ),
    ]


def _seed(member: Record) -> str:
    return "" if member["seed"] is None else str(member["seed"])


def constraints_missed(member: Record) -> str:
    """Names of the constraints that a policy does not keep."""
    return ", ".join(name for name, kept in member["constraints_kept"].items() if not kept)


def draw_evaluation(path: Path, scenario: str, records: Sequence[Record], reference: str) -> None:
    """Write `evaluation_figure` as PNG."""
    save(evaluation_figure(scenario, records, reference), path)


def evaluation_figure(scenario: str, records: Sequence[Record], reference: str) -> Figure:
    """CO2 of every method: its seeds, and the intervals over seeds and over fleets.

    Args:
        scenario: Its name.
        records: Of the scenario.
        reference: Its CO2 is 1.
    """
    drawn = [record for record in records if record["co2_relative"] is not None]
    figure = new_figure(8.0, 1.6 + 0.6 * max(len(drawn), 2))
    axes = figure.subplots()
    for place, record in enumerate(drawn):
        shade, interval = colour(record["method"]), record["co2_relative"]
        if interval["method"] is not None:
            whole = record["co2_relative_whole_seeds"]
            axes.plot([whole["low"], whole["high"]], [place] * 2, color=shade, linewidth=1.2)
            axes.plot([interval["low"], interval["high"]], [place] * 2, color=shade, linewidth=5)
            seeds = [member["co2_relative"] for member in record["members"]]
            axes.plot(seeds, [place - 0.2] * len(seeds), "|", color=shade, markersize=8)
        (dot,) = axes.plot(
            interval["value"], place, "o", color=shade, markeredgecolor="w", markersize=8
        )
        hover(dot, f"{record['method']}: CO2 {all_digits(interval['value'])} of {reference}'s")
        saving = record["saving"]
        if saving["low"] is not None:
            axes.errorbar(
                1.0 - saving["mean"],
                place + 0.2,
                xerr=[[saving["high"] - saving["mean"]], [saving["mean"] - saving["low"]]],
                color="0.45",
                marker="s",
                markersize=3,
                capsize=2,
                linewidth=1,
            )
    axes.axvline(1.0, color="0.3", linewidth=0.8)
    axes.set_yticks(range(len(drawn)), [_with_seeds(record) for record in drawn])
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.set(
        xlabel=f"CO2, {label_of(reference)} = 1. Dot: interquartile mean, thick: stratified "
        "bootstrap, thin: whole seeds,\n"
        "ticks: each seed; grey: mean over fleets, paired t (all 95 %)",
        title=label_of(scenario),
    )
    plain(axes)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    return figure


def _with_seeds(record: Record) -> str:
    seeds = f", {record['seeds']} seeds" if record["seeds"] > 1 else ""
    return f"{label_of(record['method'])}{seeds}"


def _value(record: Record, key: str, digits: int) -> str:
    """A figure with its interval."""
    found = record[key]
    if found is None:
        return "–"
    shown = number(found["value"], digits)
    return shown if found["low"] is None else f"{shown} {_ends(record, key, digits)}"


def _ends(record: Record, key: str, digits: int) -> str:
    found = record[key]
    if found is None or found["low"] is None:
        return "–"
    return f"[{number(found['low'], digits)}, {number(found['high'], digits)}]"


def _probability(record: Record) -> str:
    found = record["probability_of_improvement"]
    return "–" if found is None else number(found["value"], 2)


def _best_and_worst(record: Record) -> str:
    if record["best"] is None or record["seeds"] == 1:
        return "–"
    return ", ".join(number(record[which]["co2_relative"], 3) for which in ("best", "worst"))


def _violations(record: Record) -> str:
    shown = [
        signed(record[f"{kind}_violation_rate_difference"], 100, 1)
        for kind in ("quality", "ttft", "capacity")
    ]
    return "/".join("0" if text in ("+0.0", "-0.0") else text for text in shown)


def _kept(record: Record) -> str:
    kept = "yes" if record["constraints_kept"] else "no"
    if record["seeds"] == 1:
        return kept
    return f"{kept}, {record['seeds_with_constraints_kept']} of {record['seeds']}"


_CO2: tuple[tuple[str, Shown], ...] = (
    ("seeds", lambda record: str(record["seeds"])),
    ("CO2", lambda record: _value(record, "co2_relative", 3)),
    ("whole seeds", lambda record: _ends(record, "co2_relative_whole_seeds", 3)),
    ("saving", lambda record: plus_minus(record["saving"], 100, "-")),
    ("P", _probability),
)
_CO2_WIDE: tuple[tuple[str, Shown], ...] = (
    *_CO2[:-1],
    ("P", lambda record: _value(record, "probability_of_improvement", 2)),
    ("whole seeds", lambda record: _ends(record, "probability_of_improvement_whole_seeds", 2)),
)
_KEPT: tuple[tuple[str, Shown], ...] = (
    ("best, worst", _best_and_worst),
    ("q", lambda record: signed(record["quality_predicted_difference"], 1000, 1)),
    ("realised", lambda record: signed(record["quality_realised_difference"], 1000, 1)),
    ("P95", lambda record: number(record["ttft_p95_ratio"], 3)),
    ("viol.", _violations),
    ("kept", _kept),
)
