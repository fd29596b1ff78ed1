"""Pictures of a comparison: CO2 by policy, saving by session length, the trade against quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carbon_gym.metrics.rows import LONGER_THAN
from carbon_gym.report.document_cells import all_digits
from carbon_gym.report.style import colour, hover, label_of, new_figure, plain, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

_OUT_OF_SCALE = 2.0
"""Policies that emit more than this many times session-affinity's CO2 are cut off, with the number
behind the bar, so that the others can be told apart."""


def draw_pictures(folder: Path, stem: str, scenario: str, rows: Sequence[Row]) -> list[Path]:
    """Draw the three pictures of one scenario.

    Args:
        folder: Where to.
        stem: What the files' names begin with.
        scenario: Its name.
        rows: Its rows; the pooled ones are drawn, the others give the intervals.

    Returns:
        The files written.
    """
    pooled = [row for row in rows if row["fleet"] == "all"]
    pictures = {
        f"{stem}-co2.png": co2_figure(scenario, pooled),
        f"{stem}-by-length.png": length_figure(scenario, pooled),
        f"{stem}-trade.png": trade_figure(scenario, pooled),
    }
    for name, figure in pictures.items():
        save(figure, folder / name)
    return [folder / name for name in pictures]


def co2_figure(scenario: str, pooled: Sequence[Row]) -> Figure:
    """CO2 relative to faircarbon with the interval of the paired comparison."""
    drawn = sorted(
        (row for row in pooled if row["saving_vs_faircarbon"] is not None),
        key=lambda row: row["saving_vs_faircarbon"]["mean"],
    )
    figure = new_figure(7.5, 0.8 + 0.3 * max(len(drawn), 2))
    axes = figure.subplots()
    for place, row in enumerate(drawn):
        saving = row["saving_vs_faircarbon"]
        relative = 1.0 - saving["mean"]
        shown = min(relative, _OUT_OF_SCALE)
        bar = axes.barh(place, shown, color=colour(row["policy"]), height=0.7)
        hover(bar.patches[0], f"{row['policy']}: CO2 {all_digits(relative)} of faircarbon's")
        if relative <= _OUT_OF_SCALE:
            low, high = 1.0 - saving["high"], 1.0 - saving["low"]
            axes.errorbar(
                relative, place, xerr=[[relative - low], [high - relative]], color="0.15", capsize=3
            )
            axes.text(high + 0.01, place, f"{relative:.3f}", va="center", fontsize=8)
        else:
            axes.text(shown + 0.02, place, f"{relative:.2f} (cut)", va="center", fontsize=8)
    axes.set_yticks(range(len(drawn)), [label_of(row["policy"]) for row in drawn])
    axes.axvline(1.0, color="0.3", linewidth=0.8)
    axes.set(xlabel="CO2, faircarbon = 1 (95 % interval)", title=label_of(scenario))
    plain(axes)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    return figure


def length_figure(scenario: str, pooled: Sequence[Row]) -> Figure:
    """Saving over faircarbon for all sessions and for longer and longer ones."""
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    labels = ["all", *(f">{bound}" for bound in LONGER_THAN)]
    drawn = 0
    for row in pooled:
        intervals = [
            row["saving_vs_faircarbon"],
            *(row["by_session_turns"][label]["saving_vs_faircarbon"] for label in labels[1:]),
        ]
        if row["policy"] == "faircarbon" or not intervals[0] or abs(intervals[0]["mean"]) > 0.5:
            continue
        points = [(x, interval) for x, interval in enumerate(intervals) if interval]
        shift = 0.03 * (drawn - len(pooled) / 2)
        drawn += 1
        line, _, _ = axes.errorbar(
            [x + shift for x, _ in points],
            [100 * interval["mean"] for _, interval in points],
            yerr=[
                [100 * (interval["mean"] - interval["low"]) for _, interval in points],
                [100 * (interval["high"] - interval["mean"]) for _, interval in points],
            ],
            marker="o",
            markersize=4,
            linewidth=1.4,
            capsize=2,
            color=colour(row["policy"]),
            label=label_of(row["policy"]),
        )
        said = ", ".join(f"{labels[x]} {100 * interval['mean']:.2f}" for x, interval in points)
        hover(line, f"{row['policy']}: saved {said} %")
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xticks(range(len(labels)), labels)
    axes.set(
        xlabel="turns of the session",
        ylabel="CO2 saved against faircarbon, %",
        title=f"{label_of(scenario)} (95 % intervals; policies off by more than 50 % left out)",
    )
    if drawn:
        axes.legend(
            fontsize=8, ncols=2, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False
        )
    plain(axes)
    return figure


def trade_figure(scenario: str, pooled: Sequence[Row]) -> Figure:
    """CO2 against mean realised quality and against P95 TTFT."""
    figure = new_figure(10.0, 4.2)
    panels = figure.subplots(1, 2)
    columns = (
        ("quality_realised", "mean realised quality"),
        ("ttft_p95_s", "P95 TTFT, s"),
    )
    for axes, (key, label) in zip(panels, columns, strict=True):
        for row in pooled:
            if row[key] is None or row["co2_relative"] is None:
                continue
            point = axes.scatter(
                row[key],
                row["co2_relative"],
                color=colour(row["policy"]),
                s=40,
                zorder=3,
                label=label_of(row["policy"]),
            )
            at = f"{label} {all_digits(row[key])}, CO2 {all_digits(row['co2_relative'])}"
            hover(point, f"{row['policy']}: {at}")
        axes.set(xlabel=label, ylabel="CO2, session-affinity = 1")
        axes.set_yscale("log")
        axes.set_yticks([0.3, 0.5, 0.7, 1.0, 2.0, 3.0], ["0.3", "0.5", "0.7", "1", "2", "3"])
        axes.minorticks_off()
        plain(axes)
    panels[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.suptitle(label_of(scenario))
    return figure
