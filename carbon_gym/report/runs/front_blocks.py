"""What the page says of `carbon-gym benchmark --front`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carbon_gym.front import Point
from carbon_gym.report.document import Block, Cell, Column, Picture, Table
from carbon_gym.report.document_cells import measured
from carbon_gym.report.front import front_figure
from carbon_gym.report.runs.found import Run
from carbon_gym.report.runs.inputs import RATES, inputs_text, percent, rates

Record = Mapping[str, Any]
_FAMILY = Column("family", kind="text")


def front_blocks(run: Run) -> list[Block]:
    """Of every scenario the front, its families at equal quality, and every point."""
    blocks: list[Block] = []
    for scenario in run.scenarios:
        records = run.content["points"].get(scenario, [])
        blocks.append(inputs_text(run, scenario, [record["all"] for record in records]))
        wanted = run.content["inputs"][scenario]["reference"]
        reference = next((r for r in records if Point.of(r).id == wanted), None)
        if reference is not None:
            blocks += _scenario(scenario, records, reference, run)
        elif records:
            blocks.append("The point that all others are compared with is not measured yet.")
    return blocks


def _scenario(scenario: str, records: Sequence[Record], reference: Record, run: Run) -> list[Block]:
    named = run.names(scenario)
    families = run.content["families"].get(scenario, {})
    against = f"ccar at β_Q = {reference['value']:g}"
    return [
        Picture(
            named("front"),
            f"CO2 against mean realised quality on {scenario}",
            front_figure(scenario, records, reference),
            f"A curve of CO2 against quality for every family of policies; a star at {against}.",
        ),
        Table(
            named("families"),
            f"CO2 saved at the realised quality of {against} on {scenario}",
            [
                _FAMILY,
                Column("knob", kind="text"),
                *(Column(end, digits=4) for end in ("from", "to")),
                Column("points", digits=0),
                Column("saved", "%", 1),
                Column("why nothing can be said", kind="text"),
            ],
            [_family(name, family) for name, family in families.items()],
            "Interpolated on each fleet along the knob; mean with paired 95 % t interval.",
        ),
        Table(
            named("points"),
            f"Every point on {scenario}",
            [
                _FAMILY,
                Column("knob", digits=4),
                Column("saved", "%", 1),
                Column("quality realised, difference", digits=4, signed=True),
                Column("quality realised", digits=4),
                Column("quality predicted", digits=4),
                Column("P95 TTFT", "s"),
                *RATES,
            ],
            [_point(record) for record in records],
            f"Saved and difference: against {against}, paired by fleet.",
        ),
    ]


def _family(name: str, family: Record) -> list[Cell]:
    values, saving = family["values"], family["saving_at_equal_quality"]
    reason = "" if saving is not None else str(family["reason"])
    return [name, family["knob"], values[0], values[-1], len(values), percent(saving), reason]


def _point(record: Record) -> list[Cell]:
    pooled = record["all"]
    return [
        record["family"],
        record["value"],
        percent(record["saving_vs_ccar"]),
        measured(record["quality_difference"]),
        pooled["quality_realised"],
        pooled["quality_predicted"],
        pooled["ttft_p95_s"],
        *rates(pooled),
    ]
