"""The report of an audit: one page for an engineer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from carbon_gym.audit.cases import RULES
from carbon_gym.audit.findings import PER, Findings
from carbon_gym.audit.pictures import emissions_picture, kinds_picture, tornado_picture
from carbon_gym.audit.tables import (
    KINDS,
    assumptions_table,
    emissions_table,
    interval_words,
    kind_table,
    price_table,
    ranked,
    savings_table,
)
from carbon_gym.report.document import Column, Document, Measured, Section
from carbon_gym.report.document_cells import shown

ROUTERS = {
    "ccar": "cheapest CO2 with the caches priced, quality filtered query by query",
    "learned": "a trained router under the same bounds",
    "ccar-budget": "as ccar, but quality is a mean over turns with a floor for each query",
    "learned-budget": "a trained router under that budget",
}
"""What each router is, in words."""
NOT_MODELLED = (
    "Not modelled: queueing, batching, network beyond a fixed round trip, moving caches between "
    "regions, embodied carbon, idle power. Emissions are those of average carbon intensity and not "
    "what the grid would emit at the margin."
)
_TOP = 3


def report_of(
    findings: Findings, days: Sequence[str], notes: Sequence[str], facts: Mapping[str, str]
) -> Document:
    """The document.

    Args:
        findings: Of all cases.
        days: Of the grid, as 2023-05-08.
        notes: What was drawn, dropped or fitted elsewhere; one sentence each.
        facts: Shown at the end.
    """
    return Document(
        f"What {findings.present} emits, and what other routers would",
        [_summary(findings, days), _routers()],
        [
            Section(
                "emissions",
                "Emissions and savings",
                [emissions_picture(findings), emissions_table(findings), savings_table(findings)],
            ),
            Section("price", "What users would notice", [price_table(findings)]),
            Section(
                "where",
                "Where the saving comes from",
                [kinds_picture(findings), *(kind_table(findings, kind) for kind in KINDS)],
            ),
            Section(
                "assumptions",
                "Which assumptions matter most",
                [_matter(findings), tornado_picture(findings), assumptions_table(findings)],
            ),
            Section("reading", "How to read it", [_reading(findings), _listed(notes)]),
        ],
        facts,
    )


def _summary(findings: Findings, days: Sequence[str]) -> str:
    now = findings.now
    each = now["co2_g"] * PER / now["turns"]
    span = days[0] if len(days) == 1 else f"{len(days)} days from {min(days)} to {max(days)}"
    saved = ", ".join(
        f"**{name}** {_percent(pair.saving)}" for name, pair in findings.routers.items()
    )
    quality = ", ".join(
        f"{name} {_signed(pair.mine['quality_realised'] - now['quality_realised'], 3)}"
        for name, pair in findings.routers.items()
    )
    late = ", ".join(
        f"{name} {_signed(pair.mine['ttft_p95_s'] - now['ttft_p95_s'], 2)} s"
        for name, pair in findings.routers.items()
    )
    return (
        f"On {now['turns']:,} turns of {now['sessions']:,} sessions, {span}, the present rule, "
        f"**{findings.present}**, emits {now['co2_g']:,.1f} g of CO2 with {now['energy_kwh']:,.3f} "
        f"kWh: {each:,.2f} g per {PER:,} turns. On the same turns and the same fleet would save: "
        f"{saved} ({interval_words(findings)}). The price: mean quality, now "
        f"{now['quality_realised']:.3f}, moves by {quality}; P95 TTFT, now "
        f"{now['ttft_p95_s']:.2f} s, by {late}."
    )


def _routers() -> str:
    return "\n".join(f"- `{name}`: {words}" for name, words in ROUTERS.items())


def _matter(findings: Findings) -> str:
    first = [assumption.name for assumption, _ in ranked(findings)[:_TOP]]
    return (
        f"CCAR saves {_percent(findings.base.saving)} here. Each assumption is moved to a "
        "documented low and high value (`docs/audit.md`), the others stay. Those that move the "
        f"saving most: {', '.join(first)}. Find out your own values of these first."
    )


def _reading(findings: Findings) -> str:
    text = (
        "All routers serve the same turns, in a simulation of the fleet: energy from the model's "
        "formula or the fleet's measured profiles, caches, capacity and quality as the fleet's "
        "rules say. So does the present rule: what it emits is a computed figure, not a metered "
        "one. "
    )
    if findings.present not in RULES:
        text += (
            "Every turn of the present rule goes where the log says, whatever bound that breaks. "
        )
    return text + NOT_MODELLED


def _listed(notes: Sequence[str]) -> str:
    return "\n".join(f"- {note}" for note in notes) or "Nothing was drawn, dropped or held."


def _signed(value: float, digits: int) -> str:
    return shown(value, Column("", digits=digits, signed=True))


def _percent(saving: Measured | None) -> str:
    if saving is None:
        return "nothing that could be compared"
    value, *interval = shown(saving, Column("", digits=1)).split(" ", 1)
    return " ".join([f"{value} %", *interval])
