"""Runs of the same scenario, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from carbon_gym.report.document import Block, Cell, Column, Measured, Picture, Section, Table
from carbon_gym.report.document_cells import all_digits
from carbon_gym.report.document_markdown import escaped
from carbon_gym.report.runs.found import BENCHMARK, Run, slugs
from carbon_gym.report.runs.inputs import POLICY, days_words, percent, pooled_rows
from carbon_gym.report.style import hover, label_of, new_figure, plain, series_colour
from carbon_gym.reproduce.figures import whiskers

Row = Mapping[str, Any]
Shown = Callable[[Row], Cell]

_OFF_THE_PICTURE = 50.0
"""Policies that emit more than so much more than faircarbon, %, are left out of the picture."""
_FIGURES: tuple[tuple[str, str, Column, Shown], ...] = (
    (
        "saving",
        "CO2 saved over faircarbon",
        Column("", "%", 1),
        lambda row: _saving(row),
    ),
    (
        "co2",
        "CO2 relative to session-affinity",
        Column("", digits=3),
        lambda row: row["co2_relative"],
    ),
    (
        "quality",
        "Mean realised quality",
        Column("", digits=4),
        lambda row: row["quality_realised"],
    ),
    ("p95", "P95 TTFT", Column("", "s", 3), lambda row: row["ttft_p95_s"]),
)


def beside_sections(runs: Sequence[Run]) -> list[Section]:
    """A section for every scenario of which two or more benchmarks have rows."""
    together: dict[str, list[Run]] = {}
    for run in runs:
        if run.kind is BENCHMARK:
            for scenario in run.scenarios:
                if _pooled(run, scenario):
                    together.setdefault(scenario, []).append(run)
    together = {scenario: its for scenario, its in together.items() if len(its) > 1}
    anchors = slugs(list(together))
    return [
        Section(
            f"beside-{anchors[scenario]}",
            f"Side by side: {scenario}",
            _blocks(scenario, its, f"beside-{anchors[scenario]}"),
        )
        for scenario, its in together.items()
    ]


def _blocks(scenario: str, runs: Sequence[Run], name: str) -> list[Block]:
    rows = [_pooled(run, scenario) for run in runs]
    policies = list(dict.fromkeys(policy for found in rows for policy in found))
    blocks: list[Block] = [_sameness(scenario, runs), _inputs(scenario, runs, name)]
    if any(_saving(row) is not None for found in rows for row in found.values()):
        blocks.append(_picture(scenario, runs, rows, policies, name))
    blocks += [
        Table(
            f"{name}-{figure}",
            f"{title}: {scenario}",
            [POLICY, *(Column(run.label, of.unit, of.digits) for run in runs)],
            [
                [policy, *(shown(found[policy]) if policy in found else None for found in rows)]
                for policy in policies
            ],
        )
        for figure, title, of, shown in _FIGURES
    ]
    return blocks


def _pooled(run: Run, scenario: str) -> dict[str, Row]:
    rows = [row for row in run.content["rows"] if row["scenario"] == scenario]
    return {row["policy"]: row for row in pooled_rows(rows)}


def _saving(row: Row) -> Measured | None:
    return None if row["policy"] == "faircarbon" else percent(row["saving_vs_faircarbon"])


def _sameness(scenario: str, runs: Sequence[Run]) -> str:
    """Whether the runs can be compared turn by turn."""
    if len({run.content["inputs"][scenario].get("key") for run in runs}) == 1:
        return (
            "All runs served the same fleets under the same rules by the same code: a policy that "
            "differs between them was itself changed."
        )
    return (
        "The runs differ in fleets, rules or code, as far as the table says: a difference between "
        "them is not one between policies alone, and their intervals are not paired."
    )


def _inputs(scenario: str, runs: Sequence[Run], name: str) -> Table:
    rows: list[list[Cell]] = []
    for run in runs:
        inputs = run.content["inputs"][scenario]
        pooled = next(iter(_pooled(run, scenario).values()))
        rows.append(
            [
                run.label,
                days_words(inputs["days"]),
                pooled["sessions"],
                pooled["turns"],
                inputs["grid"],
                inputs["digest"],
                run.version,
            ]
        )
    return Table(
        f"{name}-inputs",
        f"What was served: {scenario}",
        [
            Column("run", kind="text"),
            Column("fleets", kind="text"),
            Column("sessions", digits=0),
            Column("turns", digits=0),
            *(Column(title, kind="text") for title in ("grid", "rules", "version")),
        ],
        rows,
        "Rules: a hash of all of them; the same hash, the same rules.",
    )


def _picture(
    scenario: str,
    runs: Sequence[Run],
    rows: Sequence[Mapping[str, Row]],
    policies: Sequence[str],
    name: str,
) -> Picture:
    """A point with its interval for every policy and run."""
    cells = [
        {policy: _saving(found[policy]) for policy in policies if policy in found} for found in rows
    ]
    drawn = [
        policy
        for policy in policies
        if any((cell := found.get(policy)) and cell.value > -_OFF_THE_PICTURE for found in cells)
    ]
    figure = new_figure(8.0, 1.2 + 0.2 * len(runs) + 0.14 * (len(runs) + 1.5) * max(len(drawn), 2))
    axes = figure.subplots()
    for number, (run, found) in enumerate(zip(runs, cells, strict=True)):
        shade, shift = series_colour(number), 0.7 * ((number + 0.5) / len(runs) - 0.5)
        axes.plot([], [], "o", color=shade, markersize=5, label=label_of(run.label))
        for place, policy in enumerate(drawn):
            cell = found.get(policy)
            if cell is None or cell.value <= -_OFF_THE_PICTURE:
                continue
            point, _, _ = axes.errorbar(
                cell.value,
                place + shift,
                xerr=whiskers([cell]),
                color=shade,
                marker="o",
                markersize=5,
                capsize=2,
                linewidth=1.2,
            )
            hover(point, f"{policy}, {run.label}: {all_digits(cell.value)} %")
    axes.axvline(0.0, color="0.3", linewidth=0.8)
    axes.set_yticks(range(len(drawn)), [label_of(policy) for policy in drawn])
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.set(xlabel="CO2 saved over faircarbon, % (95 % intervals)", title=label_of(scenario))
    figure.legend(fontsize=8, loc="outside lower center", frameon=False)
    plain(axes)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    return Picture(
        f"{name}-saving",
        f"CO2 saved over faircarbon in every run: {scenario}",
        figure,
        "A point with its interval for every policy and run: CO2 saved over faircarbon.",
        f"Runs of {escaped(scenario)}; policies that emit over {_OFF_THE_PICTURE:.0f} % more than "
        "faircarbon are in the tables only.",
    )
