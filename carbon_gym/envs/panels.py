"""The panels of the picture of an episode that have axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from carbon_gym.envs import ink
from carbon_gym.envs.record import ConversationRecord, Record, WindowRecord
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.report.style import colour, plain

_NAMED = 9
"""Deployments named in the lower left panel."""
_FEW = 40
"""Turns up to which each one is drawn large."""
_MARKED = 40
"""Turns of a conversation marked on the curves."""


def intensity(axes: Axes, record: Record) -> None:
    """Carbon intensity over the day: solid up to now, faint after it; turns where they went."""
    fleet = record.fleet
    hours, values = record.day()
    now_h = record.now_s / 3600.0
    seen = int(np.searchsorted(hours, now_h, side="right"))
    top = float(values.max(initial=1.0)) * 1.08
    for r in range(len(fleet.regions)):
        tone = ink.region_colour(r)
        axes.step(hours[:seen], values[:seen, r], where="post", color=tone, linewidth=1.8)
        after = slice(max(seen - 1, 0), None)
        axes.step(
            hours[after],
            values[after, r],
            where="post",
            color=tone,
            linewidth=1.0,
            alpha=0.35,
            linestyle=(0, (2, 2)),
        )
    begin_h = record.begin_s / 3600.0
    axes.axvspan(begin_h, max(now_h, begin_h), color="0.92", linewidth=0)
    axes.axvline(now_h, color="0.35", linewidth=1.0)
    if record.served:
        region = fleet.region[[turn.deployment for turn in record.served]]
        served_h = np.array([turn.arrival_s for turn in record.served]) / 3600.0
        rows = np.clip(np.searchsorted(hours, served_h, side="right") - 1, 0, len(hours) - 1)
        few = slice(-_MARKED, None) if isinstance(record, ConversationRecord) else slice(-1, None)
        served_h, rows, region = served_h[few], rows[few], region[few]
        axes.scatter(
            served_h,
            values[rows, region],
            s=26 if len(region) > 1 else 60,
            color=[ink.region_colour(int(r)) for r in region],
            edgecolor="white",
            linewidth=0.7,
            zorder=4,
        )
    _name_regions(axes, fleet, values[max(seen - 1, 0)] if len(values) else np.zeros(0))
    axes.set(xlim=(0.0, max(24.0, float(hours[-1]))), ylim=(0.0, top))
    axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 3, 6, 10], integer=True))
    ink.title(axes, "Carbon intensity, gCO₂eq/kWh")
    axes.set_xlabel(f"hour of {record.time_of(0.0):%Y-%m-%d}, UTC", labelpad=2)
    plain(axes)


def _name_regions(axes: Axes, fleet: Deployments, now: NDArray[np.float64]) -> None:
    """Names and present values, the dirtiest above, at the right of the curves."""
    order = np.argsort(-now, kind="stable")
    step = min(0.1, 1.0 / max(len(order), 1))
    for place, r in enumerate(order.tolist()):
        axes.text(
            1.015,
            0.99 - step * place,
            f"{now[r]:.0f}  {ink.shortened(fleet.regions[r], 12)}",
            transform=axes.transAxes,
            color=ink.region_colour(r),
            fontweight="bold",
            fontsize=9 if step >= 0.08 else 7,
            va="top",
        )


def path(axes: Axes, record: ConversationRecord) -> None:
    """Where each turn was served; the rows are the deployments in the order of their first use."""
    fleet, served = record.fleet, record.served
    rows = list(dict.fromkeys(turn.deployment for turn in served))
    if len(rows) > _NAMED:
        counts = Counter(turn.deployment for turn in served)
        used = {d for d, _ in counts.most_common(_NAMED - 2)} | {served[-1].deployment}
        rows = [d for d in rows if d in used]
    row_of = {d: row for row, d in enumerate(rows)}
    turn = np.arange(1, len(served) + 1)
    row = np.array([row_of.get(t.deployment, len(rows)) for t in served], dtype=np.int64)
    axes.plot(turn, row, color="0.75", linewidth=1.2, drawstyle="steps-mid", zorder=1)
    tone = [ink.region_colour(int(fleet.region[t.deployment])) for t in served]
    fill = [
        c if t.cached_tokens or not t.history_tokens else "white"
        for t, c in zip(served, tone, strict=True)
    ]
    size = 46.0 if _last_turn(record) <= _FEW else 16.0
    axes.scatter(turn, row, s=size, color=fill, edgecolor=tone, linewidth=1.4, zorder=3)
    broken = np.array([t.broken for t in served], dtype=np.bool_)
    axes.scatter(
        turn[broken], row[broken], s=3.2 * size, facecolor="none", edgecolor=ink.WRONG, zorder=2
    )
    names = [ink.short_name(fleet, d) for d in rows]
    names += ["others"] if (row == len(rows)).any() else []
    _deployment_ticks(axes, names, [int(fleet.region[d]) for d in rows])
    if not served:
        ink.nothing_yet(axes)
    axes.set(xlim=(0.5, _last_turn(record) + 0.5), xlabel="turn")
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    note = "(hollow: nothing cached; red ring: out of bounds)" if served else ""
    ink.title(axes, f"Path of the conversation {note}", left=ink.LEFT)
    plain(axes)


def places(axes: Axes, record: WindowRecord) -> None:
    """Turns of the window by deployment, the most used above; the last turn's marked."""
    fleet, served = record.fleet, record.served
    counts = Counter(turn.deployment for turn in served)
    last = served[-1].deployment if served else None
    rows = [d for d, _ in counts.most_common(_NAMED)]
    if last is not None and last not in rows:
        rows[-1] = last
    for row, d in enumerate(rows):
        axes.barh(row, counts[d], height=0.7, color=ink.region_colour(int(fleet.region[d])))
        note = f" {counts[d]}" + ("  ← last turn" if d == last else "")
        axes.text(counts[d], row, note, va="center", fontsize=8, color="0.2")
    if not served:
        ink.nothing_yet(axes)
    _deployment_ticks(axes, [ink.short_name(fleet, d) for d in rows], fleet.region[rows].tolist())
    axes.set(xlim=(0.0, 1.3 * max(counts.values(), default=1)), xlabel="turns of the window")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    more = f", {len(rows)} of {len(counts)} deployments" if len(counts) > len(rows) else ""
    ink.title(axes, f"Where turns were served{more}", left=ink.LEFT)
    plain(axes)


def _deployment_ticks(axes: Axes, names: Sequence[str], regions: Sequence[int]) -> None:
    axes.set_yticks([])
    for row, name in enumerate(names):
        ink.row_label(
            axes, row, name, ink.region_colour(regions[row]) if row < len(regions) else "0.4", 7.5
        )
    axes.hlines(
        range(len(names)),
        0.0,
        1.0,
        transform=axes.get_yaxis_transform(),
        color="0.93",
        lw=0.8,
        zorder=0,
    )
    # Few rows stay near the top and at a constant distance.
    axes.set_ylim(max(len(names), 5) - 0.5, -0.6)


def emissions(axes: Axes, record: Record) -> None:
    """Cumulative CO2, beside that of the other way to serve the same turns."""
    taken, compared = record.co2_g(), record.compared()
    axes.set(xlabel="turn", xlim=(0.5, _last_turn(record) + 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
    plain(axes)
    if compared is None:
        axes.set_yticks([])
        ink.title(axes, "Cumulative CO₂eq")
        ink.nothing_yet(axes)
        return
    name, short, other, remark = compared
    unit, scale = ("g", 1.0) if max(taken[-1], other[-1]) >= 0.1 else ("mg", 1e3)
    turn = np.arange(1, len(taken) + 1)
    style: dict[str, Any] = {"marker": "o" if _last_turn(record) <= _FEW else "", "markersize": 4}
    here = f"as served: {scale * taken[-1]:.3g} {unit}"
    there = f"{name}: {scale * other[-1]:.3g} {unit}" + (f"\n({remark})" if remark else "")
    pink = colour("session-affinity")
    axes.plot(turn, scale * taken, color=ink.TAKEN, lw=2.0, label=here, zorder=3, **style)
    axes.plot(turn, scale * other, color=pink, lw=1.8, ls="--", label=there, **style)
    axes.set_ylim(0.0, 1.5 * scale * max(taken[-1], other[-1]) or 1.0)
    axes.legend(loc="upper left", frameon=False, fontsize=8.5)
    ink.title(axes, f"Cumulative CO₂eq, {unit}{_difference(taken[-1], other[-1], short)}")


def _last_turn(record: Record) -> int:
    """Where the turns' axis ends: it grows with a long episode."""
    return min(record.stop - record.begin, max(16, 3 * len(record.served) // 2))


def _difference(taken: float, other: float, than: str) -> str:
    if other <= 0.0 or round(100 * (taken / other - 1)) == 0:
        return ""
    change = taken / other - 1
    if change >= 1.0:
        return f": {taken / other:.1f} times {than}"
    return f": {abs(change):.0%} {'less' if change < 0 else 'more'} than {than}"
