"""What the page says of `carbon-gym evaluate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carbon_gym.report.document import Block, Cell, Column, Picture, Table
from carbon_gym.report.document_cells import measured
from carbon_gym.report.evaluation import constraints_missed, evaluation_figure
from carbon_gym.report.runs.found import Run
from carbon_gym.report.runs.inputs import RATES, inputs_text, percent, rates

Record = Mapping[str, Any]
_METHOD = Column("method", kind="text")


def evaluation_blocks(run: Run) -> list[Block]:
    """Of every scenario the methods' CO2, what their users get, and every seed."""
    blocks: list[Block] = []
    for scenario in run.scenarios:
        records = run.content["methods"].get(scenario, [])
        rows = [row for row in run.content["rows"] if row["scenario"] == scenario]
        blocks.append(inputs_text(run, scenario, rows if records else []))
        if records:
            blocks += _scenario(scenario, records, run)
    return blocks


def _scenario(scenario: str, records: Sequence[Record], run: Run) -> list[Block]:
    named, reference = run.names(scenario), run.content["reference"][scenario]
    blocks: list[Block] = []
    if any(record["co2_relative"] is not None for record in records):
        picture = Picture(
            named("methods"),
            f"CO2 of every method on {scenario}",
            evaluation_figure(scenario, records, reference),
            f"A dot of CO2 for every method with its intervals, as a share of {reference}'s.",
        )
        blocks.append(picture)
    blocks += [
        Table(
            named("co2"),
            f"CO2 of the methods on {scenario}, {reference} = 1",
            [
                _METHOD,
                Column("seeds", digits=0),
                Column("CO2", digits=3),
                Column("CO2, whole seeds", digits=3),
                Column("saving", "%", 1),
                Column("P"),
                Column("P, whole seeds"),
                Column("best seed", digits=3),
                Column("worst seed", digits=3),
            ],
            [_co2(record) for record in records],
            "CO2: interquartile mean over seeds and fleets, with a 95 % stratified bootstrap over "
            "seeds; whole seeds: a seed drawn with all its fleets. Saving: mean of "
            f"{records[0]['fleets']} fleets with its 95 % paired t interval, from five fleets on. "
            "P: probability that a seed emits less on a fleet.",
        ),
        Table(
            named("kept"),
            f"What users get on {scenario}, beside {reference}",
            [
                _METHOD,
                Column("quality predicted", digits=4),
                Column("quality predicted, difference", "0.001", 1, signed=True),
                Column("quality realised", digits=4),
                Column("quality realised, difference", "0.001", 1, signed=True),
                Column("P95 TTFT", "s"),
                Column("P95 TTFT, ratio", digits=3),
                *RATES,
                *(Column(f"{rate.title}, difference", "points", 1, signed=True) for rate in RATES),
                Column("kept", kind="text"),
                Column("seeds that keep all", digits=0),
            ],
            [_kept(record) for record in records],
            "Kept: whether predicted quality is no lower, and P95 TTFT and violations no higher, "
            "than the reference's. Differences of quality: means over fleets with their interval.",
        ),
        Table(
            named("seeds"),
            f"Every policy and seed on {scenario}",
            [
                _METHOD,
                Column("policy", kind="text"),
                Column("seed", digits=0),
                Column("CO2", digits=4),
                Column("constraints not kept", kind="text"),
            ],
            [
                [
                    record["method"],
                    member["policy"],
                    member["seed"],
                    member["co2_relative"],
                    constraints_missed(member),
                ]
                for record in records
                for member in record["members"]
            ],
        ),
    ]
    return blocks


def _co2(record: Record) -> list[Cell]:
    ends = [
        None if record[end] is None or record["seeds"] == 1 else record[end]["co2_relative"]
        for end in ("best", "worst")
    ]
    return [
        record["method"],
        record["seeds"],
        measured(record["co2_relative"]),
        measured(record["co2_relative_whole_seeds"]),
        percent(record["saving"]),
        measured(record["probability_of_improvement"]),
        measured(record["probability_of_improvement_whole_seeds"]),
        *ends,
    ]


def _kept(record: Record) -> list[Cell]:
    differences = [
        measured(record[f"quality_{kind}_difference_by_fleet"], 1000.0)
        for kind in ("predicted", "realised")
    ]
    return [
        record["method"],
        record["quality_predicted"],
        differences[0],
        record["quality_realised"],
        differences[1],
        record["ttft_p95_s"],
        record["ttft_p95_ratio"],
        *rates(record),
        *rates(record, "_difference"),
        "yes" if record["constraints_kept"] else "no",
        record["seeds_with_constraints_kept"],
    ]
