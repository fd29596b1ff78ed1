"""The table of the picture: a cell per deployment, or per pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from carbon_gym.envs import ink
from carbon_gym.envs.record import ConversationRecord, WindowRecord

_TABLE_ROWS, _TABLE_COLUMNS = 18, 14
"""The most that stay legible."""


def caches(axes: Axes, record: ConversationRecord) -> None:
    """Tokens of the session that each deployment holds alive."""
    held = record.held_tokens()
    last = record.served[-1].deployment if record.served else None
    said = [ink.thousands(int(tokens)) if tokens else "" for tokens in held]
    fleet, most = record.fleet, max(float(held.max()), 1.0)
    rows = [
        f"{ink.shortened(model, 22)} @ {ink.shortened(gpu, 10)}"
        for model in fleet.models
        for gpu in fleet.gpus
    ]
    _cells(axes, held.astype(np.float64), said, rows, fleet.regions, last, most)
    ink.title(axes, "KV caches of the session alive now, tokens", left=ink.TABLE_LEFT)


def loads(axes: Axes, record: WindowRecord) -> None:
    """Load of every pool, or region, beside what it takes."""
    fleet = record.fleet
    load, places = record.loads()
    most = np.where(places < 0, max(int(load.sum()), 1), np.maximum(places, 1))
    share = np.minimum(load / most, 1.0)
    said = [f"{n}" if most < 0 else f"{n} / {most}" for n, most in zip(load, places, strict=True)]
    rows = [ink.shortened(gpu, 22) for gpu in fleet.gpus]
    if len(load) == len(fleet.regions) and len(fleet.gpus) > 1:
        rows = ["all GPUs"]
    last = int(fleet.unit[record.served[-1].deployment]) if record.served else None
    _cells(axes, share, said, rows, fleet.regions, last, 1.0)
    ink.title(axes, "Load and places of the pools now", left=ink.TABLE_LEFT)


def _cells(
    axes: Axes,
    value: NDArray[np.float64],
    said: Sequence[str],
    rows: Sequence[str],
    columns: Sequence[str],
    marked: int | None,
    top: float,
) -> None:
    """A table of cells, darker for more; the marked one framed.

    Of a large one, the rows with the most, and the columns likewise; always the marked one's.
    """
    shape = len(rows), len(columns)
    weight = value.copy()
    if marked is not None:
        weight[marked] += top
    kept_rows = _kept(weight.reshape(shape).max(axis=1), _TABLE_ROWS)
    kept_columns = _kept(weight.reshape(shape).max(axis=0), _TABLE_COLUMNS)
    cell = np.arange(len(value)).reshape(shape)[kept_rows][:, kept_columns]
    table = value[cell]
    axes.imshow(table / top, cmap="Purples", vmin=0.0, vmax=1.2, aspect="auto")
    height, width = table.shape
    small = 8.0 if height <= 10 else 6.8
    for i, j in np.ndindex(height, width):
        tone = "white" if table[i, j] > 0.7 * top else "0.1"
        text = said[int(cell[i, j])]
        axes.text(j, i, text, ha="center", va="center", fontsize=small, color=tone)
    for i, j in np.argwhere(cell == (-1 if marked is None else marked)):
        axes.add_patch(
            Rectangle((j - 0.5, i - 0.5), 1.0, 1.0, fill=False, ec=ink.TAKEN, lw=1.8, zorder=5)
        )
    axes.hlines(np.arange(height + 1) - 0.5, -0.5, width - 0.5, color="0.85", lw=0.8, zorder=1)
    axes.vlines(np.arange(width + 1) - 0.5, -0.5, height - 0.5, color="0.85", lw=0.8, zorder=1)
    for place, i in enumerate(kept_rows):
        ink.row_label(axes, place, rows[i], "0.25", small)
    heads = [ink.shortened(columns[j], 12) for j in kept_columns]
    head_size = min(8.5, 310.0 / width / max(len(head) for head in heads))
    for place, j in enumerate(kept_columns):
        axes.text(
            place,
            -0.015,
            heads[place],
            transform=axes.get_xaxis_transform(),
            color=ink.region_colour(int(j)),
            fontsize=head_size,
            fontweight="bold",
            ha="center",
            va="top",
        )
    # Ticks would take several times longer than these texts.
    axes.set_axis_off()


def _kept(weight: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Indices of all, or of the `most` heaviest, in their order."""
    heaviest = np.argsort(-weight, kind="stable")[:most]
    return np.sort(heaviest).astype(np.int64)
