"""What the page says of `carbon-gym train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carbon_gym.report.document import Block, Cell, Column, Picture, Table
from carbon_gym.report.document_cells import all_digits
from carbon_gym.report.document_markdown import escaped
from carbon_gym.report.runs.found import Run
from carbon_gym.report.style import colour, hover, label_of, new_figure, plain
from carbon_gym.report.tables import flat

Row = Mapping[str, Any]

_FIGURES = (
    Column("quality predicted", digits=4),
    Column("quality realised", digits=4),
    Column("P95 TTFT", "s", 3),
)
_KEYS = ("quality_predicted", "quality_realised", "ttft_p95_s")
_NAMED = {"algo": "Algorithm", "scenario": "scenario", "seed": "seed"}
_CONFIGURED = 60
"""Characters of a setting that are shown."""


def training_blocks(run: Run) -> list[Block]:
    """How far it is, its validations as picture and table, its configuration."""
    content = run.content
    blocks: list[Block] = [_summary(content)]
    if content["validations"]:
        blocks += [_picture(run), _validations(run)]
    if content["config"]:
        settings = flat(content["config"])
        table = Table(
            run.name_of("configuration"),
            "Configuration",
            [Column("setting", kind="text"), Column("value", kind="text")],
            [[str(name), _short(value)] for name, value in settings.items()],
        )
        blocks.append(table)
    return blocks


def _summary(content: Row) -> str:
    config, best = content["config"], content.get("best")
    what = ", ".join(
        f"{words} {config[name]}" for name, words in _NAMED.items() if config.get(name) is not None
    )
    done = content["steps"] >= content["total_steps"]
    said = f"{what or 'Training'}: {content['steps']:,} of {content['total_steps']:,} steps"
    said += "." if done else "; `carbon-gym train --resume` goes on."
    if best is not None:
        counted = best.get("fleet", best)
        missed = ", ".join(f"{name} by {gap:.4g}" for name, gap in counted["missed"].items())
        said += (
            f" The best, at step {best['steps']:,}, emits {counted['co2_relative']:.4f} of the CO2 "
            f"of {_reference(content)} on held-out {_what(content)}; "
        )
        said += f"it misses {missed}." if missed else "it keeps all constraints."
    return escaped(said).replace("\\`", "`")


def _reference(content: Row) -> str:
    """Name of what the figures that count are compared with."""
    policy: str = content.get("fleet_reference", content["reference"])["policy"]
    return policy


def _what(content: Row) -> str:
    whole = "fleet_reference" in content or "scenarios" in content["reference"]
    return "fleets" if whole else "conversations"


def _counted(content: Row) -> list[tuple[Row, Row]]:
    """Validations with the figures of each that count: of fleets, where any served those."""
    rows: Sequence[Row] = content["validations"]
    of_fleets = [(row, row["fleet"]) for row in rows if "fleet" in row]
    return of_fleets or [(row, row) for row in rows]


def _picture(run: Run) -> Picture:
    """CO2 along the steps; what misses a constraint is hollow."""
    content, policy = run.content, str(run.content["config"].get("algo", "trained"))
    from matplotlib.ticker import EngFormatter

    counted, reference = _counted(content), _reference(content)
    figure = new_figure(8.0, 3.8)
    axes = figure.subplots()
    shade, best = colour("learned"), content.get("best")
    axes.plot(
        [row["steps"] for row, _ in counted],
        [figures["co2_relative"] for _, figures in counted],
        color=shade,
        linewidth=1.2,
        zorder=1,
    )
    for row, figures in counted:
        is_best = best is not None and row["steps"] == best["steps"]
        (point,) = axes.plot(
            row["steps"],
            figures["co2_relative"],
            "*" if is_best else "o",
            markersize=13 if is_best else 6,
            color=shade,
            markerfacecolor="white" if figures["missed"] else shade,
        )
        missed = f", misses {', '.join(figures['missed'])}" if figures["missed"] else ""
        value = all_digits(figures["co2_relative"])
        hover(point, f"step {row['steps']}: CO2 {value} of {reference}'s{missed}")
    axes.axhline(1.0, color="0.3", linewidth=0.8)
    if "faircarbon" in content:
        other = axes.axhline(
            content["faircarbon"]["co2_relative"], color=colour("faircarbon"), linewidth=1.0
        )
        hover(other, f"faircarbon: {all_digits(content['faircarbon']['co2_relative'])}")
        axes.text(1.0, content["faircarbon"]["co2_relative"], "faircarbon", fontsize=8, va="bottom")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(
        xlabel="steps",
        ylabel=f"CO2, {label_of(reference)} = 1",
        title=f"{label_of(policy)}, held-out {_what(content)}",
    )
    plain(axes)
    return Picture(
        run.name_of("validations"),
        "CO2 in validation along the training",
        figure,
        f"A line of CO2, as a share of {reference}'s, over the steps of the training.",
        "Hollow: a constraint is missed. Star: the best.",
    )


def _validations(run: Run) -> Table:
    content = run.content
    rows: Sequence[Row] = content["validations"]
    staged = any("stage" in row for row in rows)
    fleets = any("fleet" in row for row in rows)
    scenarios = list(dict.fromkeys(name for row in rows for name in row.get("scenarios", {})))
    best = content.get("best") or {}
    return Table(
        run.name_of("validations"),
        "Validations",
        [
            Column("steps", digits=0),
            *([Column("stage", kind="text")] if staged else []),
            Column("CO2", digits=4),
            *([Column("CO2 on fleets", digits=4)] if fleets else []),
            *(Column(f"CO2 on {name}", digits=4) for name in scenarios if len(scenarios) > 1),
            *_FIGURES,
            Column("missed", kind="text"),
        ],
        [
            [
                row["steps"],
                *([str(row.get("stage", ""))] if staged else []),
                row["co2_relative"],
                *([row["fleet"]["co2_relative"] if "fleet" in row else None] if fleets else []),
                *(
                    row["scenarios"][name]["co2_relative"]
                    for name in scenarios
                    if len(scenarios) > 1
                ),
                *_figures(row),
                ", ".join(
                    f"{name} by {gap:.4g}" for name, gap in row.get("fleet", row)["missed"].items()
                ),
            ]
            for row in rows
        ],
        f"CO2: {escaped(content['reference']['policy'])} is 1. Quality and latency: of fleets "
        "where those were served; of several scenarios their mean.",
        frozenset(place for place, row in enumerate(rows) if row["steps"] == best.get("steps")),
    )


def _figures(row: Row) -> list[Cell]:
    counted = row.get("fleet", row)
    each = [counted] if _KEYS[0] in counted else list(counted.get("scenarios", {}).values())
    return [sum(figures[key] for figures in each) / len(each) if each else None for key in _KEYS]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _CONFIGURED else f"{text[:_CONFIGURED]}…"
