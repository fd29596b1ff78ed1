"""The tables of an audit."""

from __future__ import annotations

from carbon_gym.audit.assumptions import Assumption
from carbon_gym.audit.findings import PER, PERCENT, Ends, Findings, Pair, Row
from carbon_gym.report.document import Cell, Column, Measured, Table
from carbon_gym.report.document_cells import measured

KINDS = {
    "history": ("history, tokens", "By the history of the turn"),
    "hour": ("hour of the day, UTC", "By the hour of the turn"),
    "region": ("region that serves it now", "By the region that the present rule takes"),
}
"""Head of the first column and title, by kind of `carbon_gym.audit.account.kinds_of`."""
_MUCH_KWH, _MUCH_G = 10.0, 1000.0
"""From here on the first page has fewer digits."""
_ROUTER = Column("router", kind="text")


def overview_table(findings: Findings) -> Table:
    """What each router emits and saves: the first table of the report."""
    now = findings.now
    digits = 3 if now["energy_kwh"] < _MUCH_KWH else 1
    digits_g = 1 if now["co2_g"] < _MUCH_G else 0
    rows: list[list[Cell]] = [[findings.present, *_sums(now), None, None, None, None]]
    for name, pair in findings.routers.items():
        each = PER / pair.mine["turns"]
        saved = [
            pair.saving,
            pair.reduction("co2_g"),
            pair.reduction("energy_kwh"),
            pair.reduction("co2_g", each),
        ]
        rows.append([name, *_sums(pair.mine), *saved])
    return Table(
        "overview",
        f"What is emitted, and saved over {findings.present}",
        [
            _ROUTER,
            Column("CO2", "g", 1),
            Column("energy", "kWh", digits),
            Column(f"CO2 per {PER:,} turns", "g", 2),
            Column("CO2 saved", "%", 1),
            Column("CO2 saved", "g", digits_g),
            Column("energy saved", "kWh", digits),
            Column(f"CO2 saved per {PER:,} turns", "g", 2),
        ],
        rows,
        f"The first row is what runs now. In brackets: {interval_words(findings)}; below zero: "
        "more than now. Energy is that of the GPUs; CO2 counts the PUE too.",
        frozenset({0}),
    )


def emissions_table(findings: Findings) -> Table:
    """What each router emits, in all and per 1,000 turns."""
    rows = [_emitted(findings.present, findings.now)]
    rows += [_emitted(name, pair.mine) for name, pair in findings.routers.items()]
    return Table(
        "emissions",
        "What is emitted",
        [
            _ROUTER,
            Column("CO2", "g", 1),
            Column("energy", "kWh", 3),
            Column(f"CO2 per {PER:,} turns", "g", 2),
            Column(f"energy per {PER:,} turns", "kWh", 4),
        ],
        rows,
        "The first row is what runs now. Energy is that of the GPUs; CO2 counts the PUE too.",
        frozenset({0}),
    )


def savings_table(findings: Findings) -> Table:
    """What each router saves over the present rule."""
    rows: list[list[Cell]] = []
    for name, pair in findings.routers.items():
        each = PER / pair.mine["turns"]
        figures = [
            pair.reduction(figure, scale)
            for scale in (1.0, each)
            for figure in ("co2_g", "energy_kwh")
        ]
        rows.append([name, pair.saving, *figures])
    return Table(
        "savings",
        f"What is saved over {findings.present}",
        [
            _ROUTER,
            Column("CO2 saved", "%", 1),
            Column("CO2 saved", "g", 1),
            Column("energy saved", "kWh", 3),
            Column(f"CO2 saved per {PER:,} turns", "g", 2),
            Column(f"energy saved per {PER:,} turns", "kWh", 4),
        ],
        rows,
        f"In brackets: {interval_words(findings)}. Below zero: more than now.",
    )


def price_table(findings: Findings) -> Table:
    """What users feel of it: latency and quality."""
    rows: list[list[Cell]] = [_felt(findings.present, findings.now, None)]
    rows += [_felt(name, pair.mine, pair) for name, pair in findings.routers.items()]
    return Table(
        "price",
        "The price: latency and quality",
        [
            _ROUTER,
            Column("TTFT P95", "s", 2),
            Column("change of TTFT P95", "s", 2, signed=True),
            Column("change of mean TTFT", "ms", 0, signed=True),
            Column("TTFT bound broken", "% of turns", 1),
            Column("quality", digits=3),
            Column("change of quality", digits=3, signed=True),
        ],
        rows,
        "TTFT is prefill and round trip, without queueing; the change of its P95 is the mean over "
        "days. Quality is realised quality, 0 to 1.",
        frozenset({0}),
    )


def service_table(findings: Findings) -> Table:
    """What else is different in how turns are served."""
    rows = [_served(findings.present, findings.now)]
    rows += [_served(name, pair.mine) for name, pair in findings.routers.items()]
    return Table(
        "service",
        "How turns are served",
        [
            _ROUTER,
            Column("TTFT P50", "s", 3),
            Column("mean TTFT", "s", 3),
            Column("no room", "% of turns", 1),
            Column("below the quality bound", "% of turns", 1),
            Column("predicted quality", digits=3),
            Column("quality, lowest tenth of sessions", digits=3),
            Column("recomputed", "mWh a turn", 1),
            Column("moves", "a session", 2),
        ],
        rows,
        "*Lowest tenth*: mean of the sessions that the router itself serves worst. *Recomputed*: "
        "energy of history that had been prefilled before.",
        frozenset({0}),
    )


def kind_table(findings: Findings, kind: str) -> Table:
    """Where the saving comes from: every kind of turn, every router."""
    head, title = KINDS[kind]
    now = kinds_of(findings.base, kind)
    turns = sum(row["turns"] for row in now.values())
    co2_g = sum(row["present_co2_g"] for row in now.values())
    rows: list[list[Cell]] = []
    for label, row in now.items():
        saved = [saving_of_kind(pair, kind, label) for pair in findings.routers.values()]
        emitted = PERCENT * row["present_co2_g"] / co2_g if co2_g else None
        rows.append([label, PERCENT * row["turns"] / turns, emitted, *saved])
    return Table(
        f"by-{kind}",
        title,
        [
            Column(head, kind="text"),
            Column("turns", "%", 1),
            Column("CO2 now", "%", 1),
            *(Column(f"{name} saves", "%", 1) for name in findings.routers),
        ],
        rows,
    )


def assumptions_table(findings: Findings) -> Table:
    """The saving under every setting, those that move it most first."""
    rows: list[list[Cell]] = []
    for assumption, settings in ranked(findings):
        cells: list[Cell] = []
        for setting, pair in settings:
            each = pair.reduction("co2_g", PER / pair.mine["turns"])
            cells += [setting.label, pair.saving, None if each is None else each.value]
        cells += [None] * (6 - len(cells))
        rows.append([assumption.name, assumption.here, *cells, swing(findings, settings)])
    return Table(
        "assumptions",
        "CCAR's saving with each assumption moved",
        [
            Column("assumption", kind="text"),
            Column("here", kind="text"),
            *(
                column
                for end in ("low", "high")
                for column in (
                    Column(end, kind="text"),
                    Column(f"saved, {end}", "%", 1),
                    Column(f"saved per {PER:,} turns, {end}", "g", 2),
                )
            ),
            Column("moves the saving by", "points", 1),
        ],
        rows,
        "One assumption at a time, the others as in *here*; both the present rule and CCAR are run "
        "again. Where there is only one other value it stands under *low*.",
    )


def ranked(findings: Findings) -> list[tuple[Assumption, Ends]]:
    """Assumptions with their settings, those that move the saving most first."""
    return sorted(findings.assumptions, key=lambda item: -(swing(findings, item[1]) or 0.0))


def swing(findings: Findings, settings: Ends) -> float | None:
    """Largest less smallest saving of some settings and the fleet's own rules, points."""
    savings = [findings.base.saving, *(pair.saving for _, pair in settings)]
    values = [saving.value for saving in savings if saving is not None]
    return max(values) - min(values) if values else None


def kinds_of(pair: Pair, kind: str) -> dict[str, Row]:
    """Rows by label of the kinds that occur."""
    found: dict[str, Row] = pair.mine["versus_present"]["kinds"][kind]
    return {label: row for label, row in found.items() if row["turns"]}


def saving_of_kind(pair: Pair, kind: str, label: str) -> Measured | None:
    """CO2 saved on the turns of a kind, %."""
    return measured(kinds_of(pair, kind)[label]["saving"], PERCENT)


def interval_words(findings: Findings) -> str:
    """What the brackets hold."""
    method = findings.base.mine["versus_present"]["saving"]["method"]
    if method == "paired-t-over-fleets":
        return "95 % intervals, paired t over days"
    if method == "bootstrap-over-sessions":
        return (
            "95 % intervals, a bootstrap over sessions, because there are fewer than five days; "
            "they say nothing of other days"
        )
    return "nothing, because one session has no spread"


def _emitted(name: str, row: Row) -> list[Cell]:
    return [name, *_sums(row), PER / row["turns"] * row["energy_kwh"]]


def _sums(row: Row) -> list[Cell]:
    """CO2, energy, and CO2 per `PER` turns."""
    return [row["co2_g"], row["energy_kwh"], PER / row["turns"] * row["co2_g"]]


def _felt(name: str, row: Row, pair: Pair | None) -> list[Cell]:
    changes: list[Cell] = [None, None, None]
    if pair is not None:
        each = -1.0 / row["turns"]
        changes = [
            measured(pair.mine["versus_present"]["ttft_p95_difference_s"]),
            pair.reduction("ttft_s", 1000.0 * each),
            pair.reduction("quality_realised", each),
        ]
    return [
        name,
        row["ttft_p95_s"],
        *changes[:2],
        PERCENT * row["ttft_violation_rate"],
        row["quality_realised"],
        changes[2],
    ]


def _served(name: str, row: Row) -> list[Cell]:
    return [
        name,
        row["ttft_p50_s"],
        row["ttft_mean_s"],
        PERCENT * row["capacity_violation_rate"],
        PERCENT * row["quality_violation_rate"],
        row["quality_predicted"],
        row["session_quality_low_decile"],
        row["recompute_mwh_per_turn"],
        row["switches_per_session"],
    ]
