"""The pictures of an audit: CO2 by router, savings by kind of turn, the tornado."""

from __future__ import annotations

from typing import Any

from carbon_gym.audit.assumptions import Assumption
from carbon_gym.audit.cases import VARIED
from carbon_gym.audit.findings import PER, Ends, Findings
from carbon_gym.audit.tables import KINDS, kinds_of, ranked, saving_of_kind, swing
from carbon_gym.report.document import Picture
from carbon_gym.report.style import colour, new_figure, plain
from carbon_gym.reproduce.figures import whiskers

_BARS = 8
"""Assumptions that are drawn; the table has all."""
_LEAST = 0.05
"""Points below which a bar could not be seen."""
_LETTERS = 42
"""Of all labels under a panel, beyond which they are turned."""
_LOWEST = -100.0
"""Where the panels end: on turns that emit next to nothing now, a share may be any number."""
_NOW = "0.55"
_ENDS = ("#0072B2", "#E69F00")  # low, high


def emissions_picture(findings: Findings) -> Picture:
    """Bars of CO2 per 1,000 turns."""
    names = [findings.present, *findings.routers]
    figure = new_figure(7.5, 0.9 + 0.42 * len(names))
    axes = figure.subplots()
    now = findings.now["co2_g"] * PER / findings.now["turns"]
    axes.barh(0, now, color=_NOW, height=0.65)
    axes.text(now, 0, f" {now:.2f}", va="center", fontsize=8)
    for place, (name, pair) in enumerate(findings.routers.items(), start=1):
        each = PER / pair.mine["turns"]
        emitted, saved = each * pair.mine["co2_g"], pair.reduction("co2_g", each)
        axes.barh(place, emitted, color=colour(name), height=0.65)
        if saved is not None:
            below, above = whiskers([saved])
            # What is saved more is emitted less.
            axes.errorbar(emitted, place, xerr=[above, below], color="0.15", capsize=3)
        axes.text(max(emitted, now), place, f" {emitted:.2f}", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel=f"CO2 per {PER:,} turns, g")
    _upright(axes)
    return Picture(
        "emissions",
        "CO2 by router",
        figure,
        f"Bars of CO2 per {PER:,} turns: the present rule, {findings.present}, and the routers.",
        "Whiskers: the 95 % interval of what is saved over the present rule.",
    )


def kinds_picture(findings: Findings) -> Picture:
    """A panel for history, hour and region; a line for each router."""
    figure = new_figure(9.0, 2.3)
    panels = figure.subplots(1, len(KINDS), sharey=True)
    for axes, kind in zip(panels, KINDS, strict=True):
        labels = list(kinds_of(findings.base, kind))
        for number, (name, pair) in enumerate(findings.routers.items()):
            cells = [saving_of_kind(pair, kind, label) for label in labels]
            points = [(x, cell) for x, cell in enumerate(cells) if cell is not None]
            shift = 0.08 * (number - (len(findings.routers) - 1) / 2)
            axes.errorbar(
                [x + shift for x, _ in points],
                [cell.value for _, cell in points],
                yerr=whiskers([cell for _, cell in points]),
                marker="o",
                markersize=3.5,
                linewidth=1.2,
                elinewidth=0.8,
                linestyle="" if kind == "region" else "-",
                color=colour(name),
                label=name,
            )
        axes.axhline(0, color="0.3", linewidth=0.8)
        if kind == "hour":
            labels = ["–".join(str(int(end)) for end in label.split("–")) for label in labels]
        crowded = sum(map(len, labels)) > _LETTERS
        how: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
        axes.set_xticks(range(len(labels)), labels, fontsize=7, **how)
        axes.set_xlabel(KINDS[kind][0])
        plain(axes)
    panels[0].set_ylabel("CO2 saved, %")
    panels[0].set_ylim(bottom=max(_LOWEST, panels[0].get_ylim()[0]))
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    return Picture(
        "kinds",
        "CO2 saved by history, hour and region of the turn",
        figure,
        "Three panels with the saving of each router by the history of a turn, by the hour of the "
        "day and by the region that serves the turn now.",
        "Of the CO2 that the present rule emits on these turns; 95 % intervals. Below zero: more "
        "than now.",
    )


def tornado_picture(findings: Findings) -> Picture:
    """How far each assumption moves the saving, the most important at the top."""
    items, still = _moving(findings)
    figure = new_figure(9.0, 0.65 + 0.23 * max(len(items), 1))
    axes = figure.subplots()
    centre = findings.base.saving.value if findings.base.saving is not None else 0.0
    for place, (_, settings) in enumerate(items):
        _draw_ends(axes, place, centre, settings)
    axes.axvline(centre, color="0.2", linewidth=1.0)
    axes.set_yticks(range(len(items)), [f"{a.name} ({a.here})" for a, _ in items], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(xlabel=f"CO2 that {VARIED} saves over {findings.present}, %")
    _upright(axes)
    return Picture(
        "tornado",
        "CCAR's saving with each assumption moved",
        figure,
        "A bar for each assumption, from the saving at its low value to that at its high value, "
        "around the saving at the fleet's own values; the widest bar is at the top.",
        "In parentheses the value here, at the ends of the bars the values that it is moved to, "
        "one at a time; the line is the saving with nothing moved. Not drawn, as less moves: "
        f"{'; '.join(still) or 'nothing'}.",
    )


def _moving(findings: Findings) -> tuple[list[tuple[Assumption, Ends]], list[str]]:
    """What is drawn, and the names of what moves the saving less."""
    if findings.base.saving is None:
        return [], []
    items = ranked(findings)
    drawn = [(a, s) for a, s in items[:_BARS] if (swing(findings, s) or 0.0) >= _LEAST]
    return drawn, [a.name for a, _ in items[len(drawn) :]]


def _draw_ends(axes: Any, place: int, centre: float, settings: Ends) -> None:
    """A bar for each setting; both may lie on the same side, so that each has half the height."""
    height = 0.7 / len(settings)
    for number, (setting, pair) in enumerate(settings):
        if pair.saving is None:
            continue
        end, at = pair.saving.value, place + height * (number - (len(settings) - 1) / 2)
        axes.barh(at, end - centre, left=centre, color=_ENDS[number], height=height)
        side = "left" if end >= centre else "right"
        axes.text(end, at, f" {setting.label} ", va="center", ha=side, fontsize=7)


def _upright(axes: Any) -> None:
    """Grid lines for values that run from left to right."""
    plain(axes)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
