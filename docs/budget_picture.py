"""The picture of part B: the running mean of quality from three starts of λ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budget_plan import MAIN, UNDISTURBED
from budget_tables import Units

from carbon_gym.report.style import new_figure, plain, save

PICTURE = "pictures/budget-lambda.png"
SHOWN = ("ccar-budget", "ccar-budget-fixed")
_COLOURS = ("#0072B2", "#009E73", "#D55E00")  # Okabe and Ito's palette
_BAND = 0.5


def draw_running(units: Units, path: Path) -> None:
    """Draw the running mean of q̂ over the day: mean of the fleets and their range.

    Args:
        units: The records.
        path: The PNG to write; its folder is made if it is missing.
    """
    scenarios = units.scenarios("wrong-lambda", MAIN)
    figure = new_figure(10.0, 0.6 + 2.4 * len(scenarios))
    panels = figure.subplots(len(scenarios), len(SHOWN), squeeze=False, sharex=True, sharey="row")
    for row, scenario in zip(panels, scenarios, strict=True):
        for axes, policy in zip(row, SHOWN, strict=True):
            _panel(axes, units, scenario, policy)
        row[0].set_ylabel("off the target, %")
    for axes in panels[-1]:
        axes.set_xlabel("turns of the day")
    lines, labels = panels[0][0].get_legend_handles_labels()
    labels = [f"started at {label}" for label in labels]
    figure.legend(lines, labels, loc="outside upper center", ncols=3, fontsize=9, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def _panel(axes: Any, units: Units, scenario: str, policy: str) -> None:
    curves = units.curve("wrong-lambda", scenario, UNDISTURBED, policy)
    for record, colour in zip(curves, _COLOURS, strict=False):
        curve = record["running"]["curve"]
        mean, low, high = ([100 * y for y in curve[name]] for name in ("mean", "low", "high"))
        factor = record["value"]
        label = f"λ / {1 / factor:.0f}" if factor < 1 else f"{factor:.0f} λ".removeprefix("1 ")
        axes.plot(curve["turns"], mean, color=colour, linewidth=1.4, label=label)
        axes.fill_between(curve["turns"], low, high, color=colour, alpha=0.18, linewidth=0)
    axes.axhspan(-_BAND, _BAND, color="0.9", zorder=0)
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_title(f"{scenario}: {policy}", fontsize=9)
    plain(axes)
