"""Writes `docs/budget.md` from `docs/budget.json`: introduction, parts A, B, C and F."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from budget_picture import PICTURE, draw_running
from budget_plan import MAIN, POLICIES, REAL, REAL_START, SESSION_FLOORS, STARTS, UNDISTURBED, WRONG
from budget_sweeps import levels_part, robustness_part
from budget_tables import (
    NOTHING,
    Record,
    Units,
    difference,
    number,
    over,
    part_of,
    percent,
    saving,
    seconds,
    share,
    table,
    thousandths,
)

from carbon_gym.files import replacing
from carbon_gym.scenario.schema import CATEGORIES

CONCLUSIONS = "budget_conclusions.md"
INTRODUCTION = """# Quality as a budget: the same mean quality for less carbon

The paper admits models query by query (`ccar` and all its rivals: those that are predicted to
reach 85 % of the best). A budget asks for the mean instead: the least CO2 at the mean quality that
`ccar` reaches, with a floor of 70 % on every query. This page measures what that saves, what holds
the mean where it should be, who pays for it, and where it stops working. It is made by

    python docs/budget.py

which writes its figures to `docs/budget.json` as it goes; `--only PART` runs one part.

Method: {fleets} fleets (days) of the test split in every world, the same for all policies. Every
knob was tuned on validation fleets of the undisturbed scenario, then kept
(`carbon-gym tune-baselines`). *saving*: CO2 against `ccar` on the same fleets, %; *Δ realised*,
*Δ predicted*: mean quality minus `ccar`'s, in 0.001, quality from 0 to 1; intervals are paired 95 %
t intervals over fleets; *P95*: of time to first token over all turns, s; *Δ P95*:
a fleet's minus `ccar`'s; *viol.*: turns below the floor of quality / beyond the bound of TTFT /
beyond capacity, %. λ is what a unit of quality is worth, in units of faircarbon's mean CO2 per
turn.

`ccar-budget` moves λ towards an absolute target, `ccar-budget-fixed` keeps λ, `ccar-budget-follow`
moves it towards what CCAR would give the same turns, `ccar-budget-sessions` also keeps every
session's mean at 95 % of that; `faircarbon-budget` and `gar-pd-budget` know no caches.
"""


def write_page(results: Mapping[str, Any], folder: Path) -> None:
    """Write the page and its picture.

    Args:
        results: Content of `budget.json`.
        folder: Where to; `budget_conclusions.md` is read there, where it is.
    """
    units = Units(results)
    if units.has("wrong-lambda"):
        draw_running(units, folder / PICTURE)
    conclusions = folder / CONCLUSIONS
    last = conclusions.read_text(encoding="utf-8") if conclusions.exists() else ""
    with replacing(folder / "budget.md") as partial:
        partial.write_text(page(results, last), encoding="utf-8")


def page(results: Mapping[str, Any], conclusions: str = "") -> str:
    """The page: a section for each part that was run, then the conclusions."""
    units = Units(results)
    sections = {
        "main": _main_part,
        "wrong-lambda": _wrong_part,
        "guard": _guard_part,
        "robustness": robustness_part,
        "levels": levels_part,
        "real": _real_part,
    }
    parts = [INTRODUCTION.format(fleets=units.fleets())]
    parts += [section(units) for part, section in sections.items() if units.has(part)]
    return "\n\n".join(part.strip() for part in [*parts, conclusions] if part.strip()) + "\n"


def _heading(part: str, title: str) -> str:
    return f"## {part_of(part)}. {title}\n\n    python docs/budget.py --only {part}"


def _main_part(units: Units) -> str:
    lines = [_heading("main", "What the budget saves")]
    for scenario in units.scenarios("main", MAIN):
        lines.append(_comparison(units, "main", scenario, UNDISTURBED))
    lines.append(_sources(units, "main", MAIN, UNDISTURBED))
    return "\n\n".join(lines)


def _real_part(units: Units) -> str:
    lines = [
        f"## {part_of('real')}. On measured conversations and grids\n\n"
        "    python docs/budget.py --only real --conversations TURNS.csv.gz --grid GRID.csv.gz\n\n"
        "Turns of real conversations (`sharegpt_turns.csv.gz` of [data.md](data.md)) on the "
        f"measured hours from {REAL_START} on (`em_hourly_2021_2023_lca.csv.gz`), every session; "
        "knobs of the generated validation split."
    ]
    for scenario in units.scenarios("real", REAL):
        lines.append(_comparison(units, "real", scenario, "measured"))
    lines.append(_sources(units, "real", REAL, "measured"))
    return "\n\n".join(lines)


def _comparison(units: Units, part: str, scenario: str, setting: str) -> str:
    header = (
        *("policy", "CO2 g", "saving %", "Δ realised", "Δ predicted"),
        *("P95 s", "Δ P95 s", "viol. %"),
    )
    ccar = units.get(part, scenario, setting, "ccar")
    rows = []
    for policy in POLICIES:
        record = units.get(part, scenario, setting, policy)
        if record is None or ccar is None:
            continue
        compared, later = [NOTHING] * 3, NOTHING
        if policy != "ccar":
            compared = [
                percent(saving(record, ccar)),
                thousandths(difference(record, ccar, "quality_realised")),
                thousandths(difference(record, ccar, "quality_predicted")),
            ]
            later = seconds(difference(record, ccar, "ttft_p95_s"))
        names = ("quality_violation_rate", "ttft_violation_rate", "capacity_violation_rate")
        rows.append(
            (
                policy,
                number(sum(record["co2_g"]), 0),
                *compared,
                number(record["ttft_p95_all_s"], 3),
                later,
                " / ".join(share(record[name]) for name in names),
            )
        )
    turns = "" if ccar is None else f" ({ccar['turns']:,} turns)"
    return f"### {scenario}{turns}\n\n{table(header, rows)}"


def _sources(units: Units, part: str, order: Sequence[str], setting: str) -> str:
    """What comes from the budget, and what from the caches."""
    pairs = (
        ("ccar", "faircarbon"),
        ("faircarbon-budget", "faircarbon"),
        ("ccar-budget", "faircarbon"),
        ("ccar-budget", "faircarbon-budget"),
    )
    rows = []
    for scenario in units.scenarios(part, order):
        found = {name: units.get(part, scenario, setting, name) for pair in pairs for name in pair}
        savings = [
            NOTHING
            if (mine := found[a]) is None or (other := found[b]) is None
            else percent(saving(mine, other))
            for a, b in pairs
        ]
        rows.append((scenario, *savings))
    header = ("scenario", "caches", "budget", "both", "caches under the budget")
    return (
        "### What comes from the budget and what from the caches\n\n"
        "Saving, %. *caches*: `ccar` over `faircarbon`; *budget*: `faircarbon-budget` over "
        "`faircarbon`; *both*: `ccar-budget` over `faircarbon`; *caches under the budget*: "
        "`ccar-budget` over `faircarbon-budget`. The qualities are those of the tables above.\n\n"
        + table(header, rows)
    )


def _wrong_part(units: Units) -> str:
    lines = [
        _heading("wrong-lambda", "A λ that starts wrong"),
        "*off*: the day's mean predicted quality against its target (`ccar-budget-follow`: against "
        "what CCAR gave the same turns; `ccar-budget-fixed`: the target of `ccar-budget`), %: mean "
        "of the fleets and the worst. *lowest*: how far the running mean lies below its target at "
        "worst after that many turns, worst fleet, % of the target (0: never below). *settled*: "
        "turns after which the running mean stays within 0.5 % for good, median and worst fleet "
        "(–: never). *CO2*: against the same policy started at λ, %. *bound*: what the docstring "
        "of `CcarBudget` proves for the shortfall of a mean over that many turns in a row, as long "
        "as λ stays below its upper end.",
    ]
    for scenario in units.scenarios("wrong-lambda", MAIN):
        lines.append(_wrong_table(units, scenario))
    lines.append(f"![Running mean of predicted quality for three starts]({PICTURE})")
    return "\n\n".join(lines)


def _wrong_table(units: Units, scenario: str) -> str:
    header = (
        *("policy", "start", "off, mean", "off, worst", "lowest, 1,000", "5,000", "at the end"),
        *("settled", "worst", "CO2 %"),
    )
    rows, bounds = [], []
    for policy in WRONG:
        curve = units.curve("wrong-lambda", scenario, UNDISTURBED, policy)
        right = next((record for record in curve if record["value"] == STARTS[1]), None)
        for record in curve:
            running = record["running"]
            end, settled = running["end"], running["settled"]
            worst = max(end, key=abs)
            factor = record["value"]
            start = f"λ / {1 / factor:.0f}" if factor < 1 else f"{factor:.0f} λ".removeprefix("1 ")
            dearer = NOTHING if right is None else percent(_negated(saving(record, right)))
            rows.append(
                (
                    policy,
                    start,
                    f"{100 * sum(end) / len(end):+.2f}",
                    f"{100 * worst:+.2f}",
                    *(_below(running[f"lowest_after_{n}"]) for n in (1000, 5000)),
                    _below(end),
                    *_settled(settled),
                    NOTHING if record is right else dearer,
                )
            )
        if right is not None and all(right["running"]["bound"].values()):
            shown = ", ".join(
                f"{1000 * bound:.0f} over {int(turns):,}"
                for turns, bound in right["running"]["bound"].items()
            )
            bounds.append(f"`{policy}` {shown}")
    told = f"\n\nBound, 0.001: {'; '.join(bounds)} turns." if bounds else ""
    return f"### {scenario}\n\n{table(header, rows, words=2)}{told}"


def _negated(estimate: Mapping[str, Any]) -> dict[str, Any]:
    """More CO2 instead of a saving."""
    if estimate["low"] is None:
        return {**estimate, "mean": -estimate["mean"]}
    return {"mean": -estimate["mean"], "low": -estimate["high"], "high": -estimate["low"]}


def _below(away: Sequence[float | None]) -> str:
    """The worst fleet's shortfall, % of the target."""
    lowest = over(away, min)
    return NOTHING if lowest is None else f"{100 * max(0.0, -lowest):.2f}"


def _settled(turns: Sequence[int | None]) -> tuple[str, str]:
    """Median and worst of the fleets; a fleet that never settles is the worst of all."""
    ranked = sorted(math.inf if value is None else value for value in turns)
    middle = (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
    median, worst = (
        number(value if math.isfinite(value) else None, 0) for value in (middle, ranked[-1])
    )
    return median, worst


def _guard_part(units: Units) -> str:
    lines = [
        _heading("guard", "Who pays"),
        "From the runs of part A. *categories*: Δ realised. *< 95 %*: sessions whose mean quality "
        "is below 95 % of what CCAR gives the same session, %; *1 %*, *least*: the 1 % quantile "
        "and the smallest of that ratio; each for realised / predicted quality. *lowest tenth*: Δ "
        "realised of session means over the tenth of sessions that CCAR serves worst, and over the "
        "tenth that the policy itself serves worst.",
    ]
    for scenario in units.scenarios("main", MAIN):
        lines.append(_guard_tables(units, scenario))
    header = ("scenario", "promise", "saving %", "Δ realised", "< 95 %", "least")
    rows: list[tuple[str, ...]] = []
    for scenario in units.scenarios("guard", MAIN):
        follow = units.get("main", scenario, UNDISTURBED, "ccar-budget-follow")
        promises = [("none (follow)", follow)]
        for floor in SESSION_FLOORS:
            variant = f"session_floor = {floor:g}"
            found = units.get("guard", scenario, UNDISTURBED, "ccar-budget-sessions", variant)
            promises.append((f"{floor:g}", found))
        ccar = units.get("main", scenario, UNDISTURBED, "ccar")
        for promise, record in promises:
            if record is not None and ccar is not None:
                rows.append((scenario, promise, *_promise(record, ccar)))
    lines.append(
        "### The price of a promise to every session\n\n`ccar-budget-follow`, and with the promise "
        "that a session's mean predicted quality is kept at a share of what CCAR gives it "
        "(`session_floor` of `ccar-budget-sessions`; the other knobs are those tuned for 0.95).\n\n"
        + table(header, rows, words=2)
    )
    return "\n\n".join(lines)


def _promise(record: Record, ccar: Record) -> tuple[str, ...]:
    ratio = record["versus_ccar"]["session_quality_ratio"]
    return (
        percent(saving(record, ccar)),
        thousandths(difference(record, ccar, "quality_realised")),
        _both(ratio, "below_95_percent", 100.0, 2),
        _both(ratio, "smallest", 1.0, 2),
    )


def _guard_tables(units: Units, scenario: str) -> str:
    by_category: list[tuple[str, ...]] = []
    sessions: list[tuple[str, ...]] = []
    for policy in POLICIES[2:]:
        record = units.get("main", scenario, UNDISTURBED, policy)
        if record is None:
            continue
        versus = record["versus_ccar"]
        found = versus["quality_realised_difference_by_category"]
        by_category.append((policy, *(thousandths(found[name]) for name in CATEGORIES)))
        ratio, low = versus["session_quality_ratio"], versus["low_decile_difference"]
        sessions.append(
            (
                policy,
                _both(ratio, "below_95_percent", 100.0, 2),
                _both(ratio, "p01", 1.0, 3),
                _both(ratio, "smallest", 1.0, 2),
                thousandths(low["of_ccar"]),
                thousandths(low["own"]),
            )
        )
    header = ("policy", "< 95 %", "1 %", "least", "lowest tenth: CCAR's", "its own")
    return (
        f"### {scenario}\n\n{table(('policy', *CATEGORIES), by_category)}\n\n"
        f"{table(header, sessions)}"
    )


def _both(ratio: Mapping[str, Any], name: str, scale: float, digits: int) -> str:
    return " / ".join(
        number(None if (value := ratio[kind][name]) is None else scale * value, digits)
        for kind in ("realised", "predicted")
    )
