"""The pictures of the sensitivity analysis: heat maps of β_Q by capacity, and a panel an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carbon_gym.report.document import Measured, Picture
from carbon_gym.report.style import colour, new_figure, plain
from carbon_gym.reproduce.figures import whiskers
from carbon_gym.reproduce.published import SENSITIVITY_SAVING
from carbon_gym.reproduce.sensitivity_settings import POLICIES, Axis, Cell
from carbon_gym.reproduce.worlds import CACHES, DASHES

_COLUMNS = 3


def draw_heat_maps(savings: Mapping[Cell, Measured | None]) -> Picture:
    """A map of β_Q by c for each reading of caches, rule and scope.

    Args:
        savings: Over faircarbon, %.
    """
    maps = list(dict.fromkeys((cell.leave, cell.rule, cell.scope) for cell in savings))
    betas = list(dict.fromkeys(cell.beta_q for cell in savings))
    limits = list(dict.fromkeys(cell.limit for cell in savings))
    columns = min(4, len(maps))
    lines = -(-len(maps) // columns)
    figure = new_figure(2.6 * columns + 0.8, 2.5 * lines + 0.4)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    most = max((saving.value for saving in savings.values() if saving), default=1.0)
    image: Any = None
    for axes, (leave, rule, scope) in zip(panels.flat, maps, strict=False):
        values = np.full((len(betas), len(limits)), np.nan)
        for row, beta in enumerate(betas):
            for column, limit in enumerate(limits):
                saving = savings[Cell(leave, rule, scope, beta, limit)]
                if saving is not None:
                    values[row, column] = saving.value
                    dark = saving.value > 0.6 * most
                    axes.text(
                        *(column, row, f"{saving.value:.1f}"),
                        **{"ha": "center", "va": "center", "fontsize": 8},
                        color="white" if dark else "0.1",
                    )
        image = axes.imshow(values, cmap="YlGnBu", vmin=0.0, vmax=max(most, 1.0), aspect="auto")
        axes.set_xticks(range(len(limits)), ["none" if c is None else f"{c:g}" for c in limits])
        axes.set_yticks(range(len(betas)), [f"{beta:g}" for beta in betas])
        axes.set_title(f"{CACHES[leave]}; {rule} by {scope}", fontsize=9)
    for axes in panels[-1]:
        axes.set_xlabel("capacity c")
    for axes in panels[:, 0]:
        axes.set_ylabel("β_Q")
    figure.colorbar(image, ax=panels, label="CO2 saved over faircarbon, %", shrink=0.8)
    return Picture(
        "sensitivity-capacity",
        "CO2 saved over faircarbon by β_Q and capacity",
        figure,
        "Heat maps of the saving of CCAR without a gate over faircarbon by β_Q and capacity, one "
        "for each reading of what happens to caches and of what capacity counts.",
        "ccar-no-gate; above each map: what happens to a cache that its session leaves, what c "
        "counts and in what.",
    )


def draw_axes(
    axes_of_study: Sequence[Axis],
    savings: Mapping[str, Mapping[tuple[str, str], Measured | None]],
) -> Picture:
    """A panel for each axis, a line for each reading of leaving.

    Args:
        axes_of_study: What is varied.
        savings: Over faircarbon, %, by reading, then by (axis, value).
    """
    lines = -(-len(axes_of_study) // _COLUMNS)
    figure = new_figure(9.5, 2.3 * lines + 0.6)
    panels = figure.subplots(lines, _COLUMNS, squeeze=False, sharey=True)
    for panel in panels.flat[len(axes_of_study) :]:
        panel.set_visible(False)
    for panel, axis in zip(panels.flat, axes_of_study, strict=False):
        published = (SENSITIVITY_SAVING.value, SENSITIVITY_SAVING.high or SENSITIVITY_SAVING.value)
        panel.axhspan(*published, color="0.92", label="paper, all settings")
        for leave, of_leave in savings.items():
            cells = [of_leave[axis.name, value] for value in axis.settings]
            points = [(x, cell) for x, cell in enumerate(cells) if cell is not None]
            panel.errorbar(
                [x for x, _ in points],
                [cell.value for _, cell in points],
                yerr=whiskers([cell for _, cell in points]),
                marker="o",
                markersize=4,
                capsize=2,
                color=colour(POLICIES[0]),
                linestyle=DASHES[leave],
                label=f"caches {CACHES[leave]}",
            )
        panel.axhline(0, color="0.3", linewidth=0.8)
        panel.set_xticks(range(len(axis.settings)), list(axis.settings))
        panel.set_xlabel(axis.name)
        plain(panel)
    for panel in panels[:, 0]:
        panel.set_ylabel("CO2 saved, %")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return Picture(
        "sensitivity-axes",
        "CO2 saved over faircarbon, one axis at a time",
        figure,
        "A panel for each thing that is varied, with the saving of CCAR without a gate over "
        "faircarbon for caches retained and evicted, and a band of the published range.",
        "ccar-no-gate, with 95 % intervals; the band is the range of all published settings.",
    )
