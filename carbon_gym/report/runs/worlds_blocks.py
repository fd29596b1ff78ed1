"""What the page says of `carbon-gym reproduce` and `carbon-gym audit`: their worlds' rows.

Both write a report of their own, with the paper's numbers or an account in words; here stands what
each world gave, so that it can be sorted and set beside other runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from carbon_gym.report.document import Block, Cell, Column, Table
from carbon_gym.report.document_cells import measured
from carbon_gym.report.runs.benchmark_blocks import policies_table
from carbon_gym.report.runs.found import Run, slugs
from carbon_gym.report.runs.inputs import percent, pooled_rows
from carbon_gym.report.tables import flat

Row = Mapping[str, Any]

_MANY = 8
"""Policies from which a world has a table of its own."""
_VARIANTS = ("ccar", "ccar-ev", "ccar-no-gate", "ccar-budget", "learned")
_SHOWN = 32
"""Characters up to which the value of a changed rule is shown."""
_NO_RULES = ("name", "description", "origin")
_OWN_REPORT = (
    "Its folder holds a report in words and pictures, `report.html`. Here are the rows behind it. "
)


def reproduce_blocks(run: Run) -> list[Block]:
    """The worlds with many policies in full, then what some save in every world."""
    worlds: Mapping[str, Row] = run.content["worlds"]
    names = _names(worlds)
    anchors = slugs(list(worlds))
    blocks: list[Block] = [
        _OWN_REPORT + "A world is a set of fleets under some rules. It is called by its scenario "
        "and by those of its rules that most of the scenario's worlds do not have."
    ]
    blocks += [
        policies_table(
            names[world],
            [row for policy in record["policies"].values() for row in policy["rows"]],
            run.name_of(anchors[world]),
        )
        for world, record in worlds.items()
        if len(record["policies"]) >= _MANY
    ]
    table = Table(
        run.name_of("worlds"),
        "CO2 saved over faircarbon in every world",
        [
            Column("world", kind="text"),
            Column("fleets", digits=0),
            Column("turns", digits=0),
            *(Column(name, "%", 1) for name in _VARIANTS),
            Column("P95 TTFT of ccar", "s"),
            Column("quality realised of ccar", digits=4),
        ],
        [_world(names[world], record) for world, record in worlds.items()],
    )
    return [*blocks, table]


def audit_blocks(run: Run) -> list[Block]:
    """What each router saves over the present rule, under the fleet's rules and with one moved."""
    worlds: Mapping[str, Row] = run.content["worlds"]
    cases = [
        (record, policy, found)
        for record in worlds.values()
        for policy, entry in record["policies"].items()
        for found in [pooled_rows(entry["rows"])[0]]
        if found.get("versus_present")
    ]
    main = [case for case in cases if case[2]["versus_present"].get("kinds")]
    varied = [case for case in cases if not case[2]["versus_present"].get("kinds")]
    columns = [
        Column("CO2", "g", 1),
        Column("CO2 saved", "%", 1),
        Column("change of P95 TTFT", "s", 3, signed=True),
        Column("P95 TTFT", "s", 3),
        Column("quality realised", digits=4),
    ]
    blocks: list[Block] = [_OWN_REPORT + "All is against the rule that routes now."]
    if main:
        router = [
            Column("router", kind="text"),
            Column("quality as", kind="text"),
            Column("turns", digits=0),
        ]
        table = Table(
            run.name_of("routers"),
            "What routers save over the present rule",
            [*router, *columns],
            [
                [policy, _bound(record), found["turns"], *_audited(found)]
                for record, policy, found in main
            ],
        )
        blocks.append(table)
    if varied:
        words = _differences([record["facts"]["rules"] for record, _, _ in varied])
        table = Table(
            run.name_of("assumptions"),
            "With an assumption moved",
            [Column("moved", kind="text"), Column("router", kind="text"), *columns],
            [
                [text, policy, *_audited(found)]
                for text, (_, policy, found) in zip(words, varied, strict=True)
            ],
        )
        blocks.append(table)
    return blocks


def _bound(record: Row) -> str:
    """How the rules ask for quality: filter or budget."""
    return str(record["facts"]["rules"]["bounds"]["quality_constraint"])


def _audited(found: Row) -> list[Cell]:
    beside = found["versus_present"]
    return [
        found["co2_g"],
        percent(beside["saving"]),
        measured(beside["ttft_p95_difference_s"]),
        found["ttft_p95_s"],
        found["quality_realised"],
    ]


def _world(name: str, record: Row) -> list[Cell]:
    pooled = {policy: pooled_rows(entry["rows"])[0] for policy, entry in record["policies"].items()}
    savings = [
        percent(pooled[policy]["saving_vs_faircarbon"]) if policy in pooled else None
        for policy in _VARIANTS
    ]
    facts, ccar = record["facts"], pooled.get(_VARIANTS[0], {})
    felt = [ccar.get(key) for key in ("ttft_p95_s", "quality_realised")]
    return [name, facts["fleets"], facts["turns"], *savings, *felt]


def _names(worlds: Mapping[str, Row]) -> dict[str, str]:
    """What each world is called: its scenario, and the rules that are its own."""
    by_scenario: dict[str, list[str]] = {}
    for world, record in worlds.items():
        by_scenario.setdefault(str(record["facts"]["rules"]["name"]), []).append(world)
    return {
        world: f"{scenario}; {words}" if words else scenario
        for scenario, its in by_scenario.items()
        for world, words in zip(
            its, _differences([worlds[world]["facts"]["rules"] for world in its]), strict=True
        )
    }


def _differences(rules: Sequence[Row]) -> list[str]:
    """Of each set of rules those values that most of them do not have."""
    sets = [
        {name: json.dumps(value) for name, value in flat(one).items() if name not in _NO_RULES}
        for one in rules
    ]
    names = list(dict.fromkeys(name for one in sets for name in one))
    usual = {name: Counter(one.get(name) for one in sets).most_common(1)[0][0] for name in names}
    return [
        ", ".join(
            f"{name} {'changed' if len(one[name]) > _SHOWN else one[name]}"
            for name in one
            if one[name] != usual[name]
        )
        for one in sets
    ]
