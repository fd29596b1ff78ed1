"""The picture of the trainings: CO2 on validation fleets against turns served, a line a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from baselines.settings import SETTINGS
from carbon_gym.report.style import colour, new_figure, plain, save

PICTURE = "pictures/learned-curves.png"
TRAINED = ("cloned", "evolved")
"""Stages of a network; before them come "untrained" and "rule"."""
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # Okabe and Ito's palette
_ROOM = 0.15

Training = Mapping[str, Any]


def draw_curves(trainings: Sequence[Training], path: Path) -> None:
    """Draw one panel for each setting.

    Args:
        trainings: Searches on whole fleets, as in `learned.json`.
        path: The PNG to write; its folder is made if it is missing.
    """
    figure = new_figure(10.0, 3.4)
    panels = figure.subplots(1, len(SETTINGS), squeeze=False)[0]
    for axes, setting in zip(panels, SETTINGS, strict=True):
        _panel(axes, [one for one in trainings if one["setting"] == setting])
        axes.set_title(setting, fontsize=9)
        axes.set_xlabel("turns served, millions")
    panels[0].set_ylabel("CO2 on validation fleets, reference = 1")
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def _panel(axes: Any, trainings: Sequence[Training]) -> None:
    seen: list[float] = []
    for training in sorted(trainings, key=lambda one: one["seed"]):
        shade = _COLOURS[training["seed"] % len(_COLOURS)]
        trained = [point for point in training["curve"] if point["stage"] in TRAINED]
        rules = [point for point in training["curve"] if point["stage"] == "rule"]
        x, y = _line(trained)
        axes.plot(x, y, color=shade, linewidth=1.2, label=f"seed {training['seed']}")
        for missed, face in ((False, shade), (True, "white")):
            x, y = _line([p for p in trained if bool(p["fleets"]["missed"]) == missed])
            axes.plot(x, y, "o", color=shade, markerfacecolor=face, markersize=3.5)
        x, y = _line(rules)
        axes.plot(x, y, "D", color=shade, markerfacecolor="none", markersize=5)
        seen += [point["fleets"]["co2_relative"] for point in (*trained, *rules)]
    if not seen:
        axes.text(0.5, 0.5, "none yet", ha="center", transform=axes.transAxes, fontsize=9)
        plain(axes)
        return
    low, high = min(seen), max(seen)
    room = max(_ROOM * (high - low), 0.002)
    axes.set_ylim(low - room, high + room)
    for training in trainings:
        if training["faircarbon"] is not None:  # mostly far above the panel
            axes.axhline(training["faircarbon"], color=colour("faircarbon"), linewidth=0.8)
    axes.axhline(1.0, color="0.3", linewidth=0.8)
    axes.legend(fontsize=7, frameon=False)
    plain(axes)


def _line(points: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Millions of turns, and CO2 relative to the reference."""
    return [p["steps"] / 1e6 for p in points], [p["fleets"]["co2_relative"] for p in points]
