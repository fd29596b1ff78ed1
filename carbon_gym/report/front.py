"""CO2 against mean realised quality: the front as CSV, tables and a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from carbon_gym.report.style import colour, hover, label_of, new_figure, plain, save
from carbon_gym.report.tables import to_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]

_TICKS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
_HEADER = ("family", "knob", "points", "CO2 saved at ccar's realised quality, %")


def front_csv(scenario: str, records: Sequence[Record]) -> str:
    """One line per point and fleet, and one for all fleets, which carries the comparison.

    Args:
        scenario: Its name.
        records: Its points, as `front.json` has them.
    """
    rows: list[dict[str, Any]] = []
    for record in records:
        names = ("family", "policy", "knob", "value")
        head = {"scenario": scenario, **{name: record[name] for name in names}}
        compared = {name: record[name] or {} for name in ("saving_vs_ccar", "quality_difference")}
        rows += [{**head, **figures} for figures in record["fleets"]]
        rows.append({**head, **record["all"], **compared})
    return to_csv(rows)


def front_table(title: str, families: Mapping[str, Record], reference: Record) -> Table:
    """Table of the families for the terminal."""
    table = Table(
        title=title,
        title_justify="left",
        caption=_caption(reference),
        caption_justify="left",
        box=None,
        pad_edge=False,
    )
    for name, justify in zip(_HEADER, ("left", "left", "right", "left"), strict=True):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for cells in _family_cells(families):
        table.add_row(*cells)
    return table


def front_markdown(
    scenario: str, families: Mapping[str, Record], records: Sequence[Record], reference: Record
) -> str:
    """The families, then every point."""
    lines = [
        f"## {scenario}: CO2 against mean realised quality",
        "",
        f"| {' | '.join(_HEADER)} |",
        "|---|---|---:|---|",
        *(f"| {' | '.join(cells)} |" for cells in _family_cells(families)),
        "",
        _caption(reference),
        "",
        "| family | knob | CO2 saved, % | quality difference | realised | predicted | P95 TTFT s "
        "| % of turns that break the quality, TTFT, capacity bound |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(f"| {' | '.join(_point_cells(record))} |" for record in records),
    ]
    return "\n".join(lines) + "\n"


def draw_front(path: Path, scenario: str, records: Sequence[Record], reference: Record) -> None:
    """Write `front_figure` as PNG."""
    save(front_figure(scenario, records, reference), path)


def front_figure(scenario: str, records: Sequence[Record], reference: Record) -> Figure:
    """A curve per family, as means over fleets with paired intervals on both axes.

    Args:
        scenario: Its name.
        records: Its points.
        reference: The one that is marked; its CO2 is 1.
    """
    figure = new_figure(8.5, 5.0)
    axes = figure.subplots()
    quality = _mean_over_fleets(reference)
    curves: dict[str, list[Record]] = {}
    for record in records:
        if record["saving_vs_ccar"] is not None and record["quality_difference"] is not None:
            curves.setdefault(record["family"], []).append(record)
    reach = [1.0]
    for family, points in curves.items():
        x, x_error = _with_error(quality, 1.0, [p["quality_difference"] for p in points])
        y, y_error = _with_error(1.0, -1.0, [p["saving_vs_ccar"] for p in points])
        reach += list(y)
        line, _, _ = axes.errorbar(
            x,
            y,
            xerr=x_error,
            yerr=y_error,
            label=label_of(family),
            color=colour(_twin(points[0]["policy"])),
            elinewidth=0.6,
            **_line(points[0]),
        )
        said = "; ".join(f"quality {a:.4f} CO2 {b:.4f}" for a, b in zip(x, y, strict=True))
        hover(line, f"{family}: {said}")
    axes.plot(
        *(quality, 1.0, "*"),
        markersize=15,
        color=colour(reference["policy"]),
        markeredgecolor="black",
        zorder=5,
        label=f"ccar, β_Q = {reference['value']:g}",
    )
    axes.axhline(1.0, color="0.75", linewidth=0.8, zorder=0)
    axes.axvline(quality, color="0.75", linewidth=0.8, zorder=0)
    axes.set_yscale("log")
    low, high = 0.93 * min(reach), 1.07 * max(reach)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_ylim(low, high)
    axes.minorticks_off()
    axes.set(
        xlabel="mean realised quality",
        ylabel=f"CO2, ccar at β_Q = {reference['value']:g} is 1",
        title=f"{label_of(scenario)} "
        f"(mean of {len(reference['fleets'])} fleets, paired 95 % intervals)",
    )
    plain(axes)
    axes.legend(
        fontsize=8,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        handlelength=3.0,  # so that dashes show
    )
    return figure


def _twin(policy: str) -> str:
    """The policy whose prices are the same under the filter; it has the same colour."""
    return policy.removesuffix("-fixed").removesuffix("-sessions").removesuffix("-budget")


def _line(point: Record) -> dict[str, Any]:
    """Filtered: thin and round; under a budget: thick and square, dashed at other floors."""
    if point["bounds"]["quality_constraint"] == "filter":
        if point["knob"] is None:
            return {"marker": "D", "markersize": 5, "linestyle": "none", "zorder": 4}
        return {"marker": "o", "markersize": 4, "linewidth": 1.2}
    if point["knob"] is None:
        return {"marker": "P", "markersize": 7, "linestyle": "none", "zorder": 4}
    dashes = {0.0: ":", 0.7: "-"}.get(point["bounds"]["beta_floor"], "--")
    return {"marker": "s", "markersize": 3, "linestyle": dashes, "linewidth": 1.8}


def _mean_over_fleets(record: Record) -> float:
    known = [f["quality_realised"] for f in record["fleets"] if f["quality_realised"] is not None]
    return float(np.mean(known))


def _with_error(base: float, sign: float, estimates: Sequence[Record]) -> tuple[Any, Any]:
    """``base + sign · mean`` and how far its interval reaches down and up, or None."""
    means = np.array([e["mean"] for e in estimates])
    if any(e["low"] is None for e in estimates):
        return base + sign * means, None
    half = np.array([e["high"] - e["mean"] for e in estimates])  # t intervals are symmetric
    return base + sign * means, half


def _family_cells(families: Mapping[str, Record]) -> Iterable[list[str]]:
    for name, family in families.items():
        values, saving = family["values"], family["saving_at_equal_quality"]
        knob = "" if family["knob"] is None else f"{family['knob']} {values[0]:g}"
        knob += f" to {values[-1]:g}" if len(values) > 1 else ""
        shown = f"none: {family['reason']}" if saving is None else _percent(saving)
        yield [name, knob, str(len(values)), shown]


def _point_cells(record: Record) -> list[str]:
    pooled = record["all"]
    rates = [pooled[f"{kind}_violation_rate"] for kind in ("quality", "ttft", "capacity")]
    return [
        record["family"],
        "" if record["value"] is None else f"{record['value']:g}",
        _percent(record["saving_vs_ccar"]),
        _interval(record["quality_difference"], 1.0, "+z.4f"),
        _number(pooled["quality_realised"], ".4f"),
        _number(pooled["quality_predicted"], ".4f"),
        _number(pooled["ttft_p95_s"], ".2f"),
        " / ".join(_number(None if rate is None else 100 * rate, ".1f") for rate in rates),
    ]


def _percent(saving: Record | None) -> str:
    return _interval(saving, 100.0, "z.1f")


def _interval(estimate: Record | None, by: float, form: str) -> str:
    if estimate is None:
        return "–"
    mean = f"{by * estimate['mean']:{form}}"
    if estimate["low"] is None:
        return f"{mean} (no interval below five fleets)"
    return f"{mean} [{by * estimate['low']:{form}}, {by * estimate['high']:{form}}]"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def _caption(reference: Record) -> str:
    pooled = reference["all"]
    return (
        f"ccar at β_Q = {reference['value']:g}: {pooled['co2_g']:,.0f} gCO2eq, mean realised "
        f"quality {_number(pooled['quality_realised'], '.4f')}, P95 TTFT "
        f"{_number(pooled['ttft_p95_s'], '.2f')} s. Saved: interpolated on each of "
        f"{len(reference['fleets'])} fleets, mean with paired 95 % t interval."
    )
