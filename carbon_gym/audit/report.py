"""The report of an audit: one page for an engineer, and all figures folded below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from carbon_gym.audit.cases import SAME_QUALITY
from carbon_gym.audit.findings import PER, PERCENT, Findings, Pair
from carbon_gym.audit.pictures import emissions_picture, kinds_picture, tornado_picture
from carbon_gym.audit.tables import (
    KINDS,
    assumptions_table,
    emissions_table,
    kind_table,
    overview_table,
    price_table,
    ranked,
    savings_table,
    service_table,
)
from carbon_gym.report.document import Column, Document, Measured, Section
from carbon_gym.report.document_cells import shown

PRESENT = {
    "session-affinity": "begins a session where a turn costs least CO2 and keeps it there while "
    "that is feasible",
    "session-hash": "takes the pool by a hash of the session and there the largest model",
    "least-ttft": "takes the shortest time to the first token, caches counted",
}
"""What each of the present rules does."""
ROUTERS = {
    "ccar": "least CO2 with the caches priced, quality filtered query by query",
    "learned": "a trained router under the same bounds",
    "ccar-budget": "as `ccar`, but with its quality as a mean over turns",
    "learned-budget": "a trained router under that budget",
    SAME_QUALITY: "`ccar-budget` that aims at the quality of the present rule",
}
"""What each router is, in words."""
NOT_MODELLED = (
    "Not modelled: queueing, batching, network beyond a fixed round trip, moving caches between "
    "regions, embodied carbon, idle power. Emissions are those of average carbon intensity and not "
    "what the grid would emit at the margin."
)
_TOP = 3
_OFTEN = 0.01
"""Share of turns from which on a broken bound is said on the first lines (ASSUMED)."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What the reader has to know of the input.

    Attributes:
        drawn: What was drawn, dropped, held or dealt; one sentence each.
        borrowed: Which gates, knobs and routers were made for other rules.
        own_knobs: Whether scale and target of the budgets were taken from these turns.
        doubts: Numbers of the fleet that look like another unit.
    """

    drawn: Sequence[str]
    borrowed: Sequence[str] = ()
    own_knobs: bool = False
    doubts: Sequence[str] = ()


def report_of(
    findings: Findings, days: Sequence[str], notes: Notes, facts: Mapping[str, str]
) -> Document:
    """The document.

    Args:
        findings: Of all cases.
        days: Of the grid, as 2023-05-08.
        notes: Of the input.
        facts: Shown at the end.
    """
    return Document(
        f"What {findings.present} emits, and what other routers would",
        [_summary(findings, days), overview_table(findings), _routers(), price_table(findings)],
        [
            Section("where", "Where the saving comes from", [kinds_picture(findings)]),
            Section(
                "assumptions",
                "Which assumptions matter most",
                [_matter(findings), tornado_picture(findings)],
            ),
            Section("reading", "How to read it", [_reading(findings, notes)]),
            Section(
                "figures",
                "All figures",
                [
                    emissions_picture(findings),
                    emissions_table(findings),
                    savings_table(findings),
                    service_table(findings),
                    *(kind_table(findings, kind) for kind in KINDS),
                    assumptions_table(findings),
                ],
                folded=True,
            ),
            Section("notes", "Notes", [_listed([*notes.drawn, *notes.borrowed])], folded=True),
        ],
        facts,
        one_page=True,
    )


def _summary(findings: Findings, days: Sequence[str]) -> str:
    now, same = findings.now, findings.routers[SAME_QUALITY]
    each = now["co2_g"] * PER / now["turns"]
    span = days[0] if len(days) == 1 else f"{len(days)} days from {min(days)} to {max(days)}"
    others = [name for name in findings.routers if name != SAME_QUALITY]
    best = max(others, key=lambda name: _saved(findings, name))
    kept, moved = (
        _signed(pair.mine["quality_realised"] - now["quality_realised"], 3)
        for pair in (same, findings.routers[best])
    )
    return (
        f"On {now['turns']:,} turns of {now['sessions']:,} sessions, {span}, the present rule, "
        f"**{findings.present}**, emits **{now['co2_g']:,.1f} g** of CO2 with "
        f"{now['energy_kwh']:,.3f} kWh: {each:,.2f} g per {PER:,} turns. On the same turns and the "
        f"same fleet, a router that aims at the quality of now, {now['quality_realised']:.3f}, "
        f"would save **{_percent(same.saving)}** (`{SAME_QUALITY}`, quality {kept}"
        f"{_missed(same)}). Of the others `{best}` saves most, "
        f"{_percent(findings.routers[best].saving)} (quality {moved}).{_broken(findings)}"
    )


def _missed(same: Pair) -> str:
    """Whether the router falls short of the quality that it aims at, beyond chance."""
    change = same.reduction("quality_realised", -1.0 / same.mine["turns"])
    missed = change is not None and change.high is not None and change.high < 0
    return ": it misses its aim, so that part of the saving is quality" if missed else ""


def _broken(findings: Findings) -> str:
    """What the present rule does that no router here would: it makes their task harder."""
    rates = {"quality": "the bound on quality", "capacity": "the capacity"}
    said = [
        f"{words} on {PERCENT * findings.now[f'{kind}_violation_rate']:.1f} % of turns"
        for kind, words in rates.items()
        if findings.now[f"{kind}_violation_rate"] >= _OFTEN
    ]
    if not said:
        return ""
    broken = " and ".join(said)
    return f" The present rule breaks {broken}; the others keep to what it breaks where they can."


def _saved(findings: Findings, router: str) -> float:
    saving = findings.routers[router].saving
    return float("-inf") if saving is None else saving.value


def _routers() -> str:
    return "; ".join(f"`{name}`: {words}" for name, words in ROUTERS.items()) + "."


def _matter(findings: Findings) -> str:
    first = [assumption.name for assumption, _ in ranked(findings)[:_TOP]]
    return (
        f"`ccar` saves {_percent(findings.base.saving)} here. Moved alone, these move that saving "
        f"most: {'; '.join(first)}. Find out your own values of them first."
    )


def _reading(findings: Findings, notes: Notes) -> str:
    rule = PRESENT.get(findings.present, "goes where the log says, whatever bound that breaks")
    text = (
        "All routers serve the same turns in a simulation of the fleet; so does the present rule, "
        f"which {rule}: what it emits is a computed figure, not a metered one. "
    )
    if notes.own_knobs:
        text += (
            "Nothing was tuned for this fleet: what `ccar-budget` pays for quality and the quality "
            "that both budgets aim at (CCAR's) are taken from these very turns, which in service "
            "are yet to come. "
        )
    if notes.borrowed:
        text += "Gates, knobs or trained routers were made for other fleets or turns: see Notes. "
    text += NOT_MODELLED
    if notes.doubts:
        text += f"\n\n**Check these numbers of the fleet first**: {'; '.join(notes.doubts)}."
    return text


def _listed(notes: Sequence[str]) -> str:
    return "\n".join(f"- {note}" for note in notes) or "Nothing was drawn, dropped or held."


def _signed(value: float, digits: int) -> str:
    return shown(value, Column("", digits=digits, signed=True))


def _percent(saving: Measured | None) -> str:
    if saving is None:
        return "nothing that could be compared"
    value, *interval = shown(saving, Column("", digits=1)).split(" ", 1)
    return " ".join([f"{value} %", *interval])
