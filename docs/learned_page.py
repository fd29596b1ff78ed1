"""Writes `docs/learned-routers.md` from `docs/learned.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from budget_tables import NOTHING, number, percent, share, table, thousandths
from learned_equal import equal_quality_part, equal_quality_said
from learned_picture import PICTURE, draw_curves
from learned_tables import (
    BUDGET,
    ELSEWHERE,
    LEARNED,
    MAIN,
    REAL,
    YARDSTICKS,
    Evaluations,
    agreeing,
    comparison,
    saving_against,
    side_by_side,
    signs,
)
from learned_trainings import (
    ended,
    searches,
    seconds,
    span,
    training_part,
    tried_part,
    until_better,
)

from carbon_gym.files import replacing

PAGE, CONCLUSIONS = "learned-routers.md", "learned_conclusions.md"
INTRODUCTION = """# Learned routers, judged on held-out fleets

CCAR serves first come, first served: it prices the present turn, not what a cache is worth to the
turns after it, nor what a place in a clean pool is worth to others. Three ways of looking further
are compared with it on whole fleets on which nothing was trained or chosen: `lookahead`, a
linear rule of eleven weights; `lookahead-places`, the same with three more, a price of a place in a
pool; `learned`, a small network that scores every deployment, five trainings for each of the
settings filter, congested and budget. How they are trained is said in [training.md](training.md),
what the figures are in [evaluate.md](evaluate.md). This page is made by

    python docs/learned.py --evaluations runs/study --trainings runs/learned
    python docs/learned.py --behaviour --equal-quality

from the folders of `carbon-gym evaluate` and `carbon-gym train`; figures are in
`docs/learned.json`."""
COLUMNS = """*saving*: CO2 against the reference on the same fleets, %, mean over fleets of the mean
over seeds, with the paired 95 % t interval over fleets: other days. *CO2*: interquartile mean over
seeds and fleets, reference = 1, with the wider of the two 95 % intervals over seeds: other
trainings. *P*: probability of improvement. *Δ*: mean quality minus the reference's, in 0.001.
*P95*: TTFT over the reference's. *not kept*: what is worse than the reference over all turns, of
predicted quality, P95 TTFT and the rates of violations. *way*: share of the way from the reference
to `clairvoyant`, which knows every session to its end and is free of capacity, so that no router
may reach it where capacity binds."""

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
Row = Mapping[str, Any]
Shown = Callable[[Row], str]


def write_page(results: Results, folder: Path) -> None:
    """Write the page and its picture.

    Args:
        results: Content of `learned.json`.
        folder: Where to; `learned_conclusions.md` is read there, where it is.
    """
    if curves := searches(results):
        draw_curves(curves, folder / PICTURE)
    conclusions = folder / CONCLUSIONS
    last = conclusions.read_text(encoding="utf-8") if conclusions.exists() else ""
    with replacing(folder / PAGE) as partial:
        partial.write_text(page(results, last), encoding="utf-8")


def page(results: Results, conclusions: str = "") -> str:
    """The page: what was found, a section for everything that was collected, the conclusions."""
    found = Evaluations(results["evaluations"])
    parts = [INTRODUCTION, _found(results, found), _main(found), _budget(results, found)]
    parts += [_real(found), _elsewhere(found), training_part(results), tried_part(results, found)]
    parts += [_behaviour(results), conclusions]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _found(results: Results, found: Evaluations) -> str:
    """Five lines at most."""
    congested = [name for name in found.scenarios(MAIN) if name.startswith("congested")]
    filtered = [name for name in found.scenarios(MAIN) if name not in congested]
    lines = [
        _said(found, MAIN, filtered, "Against the best of CCAR's variants"),
        _said(found, MAIN, congested, "Where capacity is counted by turns"),
        _said(found, BUDGET, found.scenarios(BUDGET), "Where quality is a budget"),
        equal_quality_said(results["equal_quality"]),
    ]
    same, of = agreeing(found)
    if of:
        lines.append(
            f"On real input the saving has the sign that it has on generated fleets in {same} of "
            f"{of} cases."
        )
    shipped = [one for one in searches(results) if ended(one)]
    if shipped:
        whole, better = (span([how(one) for one in shipped]) for how in (seconds, until_better))
        lines.append(
            f"{len(shipped)} trainings took {whole} s each; a trained network is "
            f"better than faircarbon on validation after {better} s."
        )
    said = [f"- {line}" for line in lines if line]
    return "\n".join(["## What was found", "", *said]) if said else ""


def _said(found: Evaluations, part: str, scenarios: Sequence[str], begin: str) -> str:
    said = []
    for scenario in scenarios:
        reference = found.best_of_ccar(part, scenario) if part == MAIN else None
        savings = []
        for method in (LEARNED, *YARDSTICKS[::-1]):
            mine = found.get(part, scenario, method)
            if mine is not None:
                other = found.records[part, scenario, reference or mine["reference"]]
                savings.append(f"`{method}` {percent(saving_against(mine, other))} %")
                named = reference or mine["reference"]
        if savings:
            said.append(f"on {scenario} {', '.join(savings)} below `{named}`")
    return f"{begin}: {'; '.join(said)}." if said else ""


def readme_table(found: Evaluations) -> str:
    """What the README says of the learned routers: every scenario of generated fleets."""
    rows = []
    for part in (MAIN, BUDGET):
        for scenario in found.scenarios(part):
            learned = found.get(part, scenario, LEARNED)
            if learned is None:
                continue
            best = found.best_of_ccar(part, scenario) if part == MAIN else None
            against = best or learned["reference"]
            other = found.records[part, scenario, against]
            places = found.get(part, scenario, YARDSTICKS[-1])
            rows.append(
                (
                    scenario,
                    f"`{against}`",
                    percent(saving_against(learned, other)),
                    NOTHING if places is None else percent(saving_against(places, other)),
                    thousandths(learned["quality_predicted_difference_by_fleet"]),
                    number(learned["ttft_p95_ratio"]),
                    f"{learned['seeds_with_constraints_kept']} of {learned['seeds']}",
                )
            )
    header = (
        *("scenario", "against", "`learned` saves, %", f"`{YARDSTICKS[-1]}` saves, %"),
        *("quality, 0.001", "P95 TTFT", "seeds that keep all"),
    )
    return table(header, rows, words=2)


def _main(found: Evaluations) -> str:
    scenarios = found.scenarios(MAIN)
    if not scenarios:
        return ""
    lines = ["## On held-out fleets", COLUMNS]
    return "\n\n".join([*lines, *(comparison(found, MAIN, name) for name in scenarios)])


def _budget(results: Results, found: Evaluations) -> str:
    scenarios = found.scenarios(BUDGET)
    if not scenarios:
        return ""
    lines = [
        "## Under a budget",
        "The mean of quality counts; what routers are compared at is the realised mean "
        "([budget.md](budget.md)).",
    ]
    lines += [comparison(found, BUDGET, name) for name in scenarios]
    lines += [part for part in [equal_quality_part(results["equal_quality"])] if part]
    return "\n\n".join(lines)


def _real(found: Evaluations) -> str:
    parts = [part for part in REAL if found.scenarios(part)]
    if not parts:
        return ""
    lines = [
        "## On real conversations and grids",
        "The same routers, not trained anew: conversations of the test hash, measured days of "
        "2023, in the zones of the training and in four others ([data.md](data.md)).",
    ]
    for part in parts:
        lines += [f"### In the {REAL[part]}", side_by_side(found, part)]
    said = signs(found)
    if said:
        lines += ["### The same signs", "Saving against the reference, %.", said]
    return "\n\n".join(lines)


def _elsewhere(found: Evaluations) -> str:
    parts = [part for part in ELSEWHERE if found.scenarios(part)]
    if not parts:
        return ""
    lines = ["## On fleets unlike those of the trainings"]
    for part in parts:
        lines += [f"### {ELSEWHERE[part]}", side_by_side(found, part)]
    return "\n\n".join(lines)


def _behaviour(results: Results) -> str:
    by_scenario: dict[str, dict[str, Row]] = {}
    for name, entry in results["behaviour"].items():
        scenario, policy = name.split(" | ")
        by_scenario.setdefault(scenario, {})[policy] = entry
    if not by_scenario:
        return ""
    lines = ["## What a learned router does differently", READING]
    for scenario, policies in by_scenario.items():
        one = next(iter(policies.values()))
        lines += [
            f"### {scenario} ({one['fleets']} fleets, {one['turns']:,} turns, "
            f"{one['sessions']:,} sessions)",
            table(
                ("", *(f"`{policy}`" for policy in policies)),
                [
                    (title, *(shown(entry) for entry in policies.values()))
                    for title, shown in _rows_of(one)
                ],
            ),
        ]
    return "\n\n".join(lines)


READING = """Fleets of the test split; `learned` is the one of the shipped seeds that was best on
validation. Shares are %, a turn's size is H + q + o, a session's the sum over its turns; quarters
are by rank, the smallest first. *cached*: of all history tokens found cached, those found on that
model: what it keeps warm. *clean region*: that of the least PUE·CI known at dispatch.
*intensity*: PUE·CI of the chosen region over the mean of all regions. *load*: others over places of
the chosen pool before the turn, mean over turns where a limit binds. *cheapest*: the feasible
deployment of the least estimated CO2 of this turn; *forgone*: what the choice emits beyond it,
by the same estimate."""


def _rows_of(one: Row) -> list[tuple[str, Shown]]:
    """Titles, and what they show of an entry."""

    def of(key: str) -> Shown:
        return lambda entry: share(entry[key])

    def quarters(key: str) -> Shown:
        return lambda entry: " / ".join(share(value, 0) for value in entry[key])

    def together(name: str, *shares: str, by: str = "model") -> Shown:
        return lambda entry: " / ".join(share(entry[f"{of}_by_{by}"][name]) for of in shares)

    return [
        ("CO2, g", lambda entry: number(entry["co2_g"], 0)),
        ("later turns that stay", of("stays")),
        ("of these, by size of the turn", quarters("stays_by_turn_size")),
        ("moves per session", lambda entry: number(entry["moves_per_session"])),
        ("history tokens found cached", of("history_cached")),
        *(
            (f"{name}: turns / tokens / cached", together(name, "turns", "tokens", "cached"))
            for name in one["turns_by_model"]
        ),
        *(
            (f"{name}: turns / tokens", together(name, "turns", "tokens", by="gpu"))
            for name in one["turns_by_gpu"]
        ),
        ("turns in the clean region", of("clean")),
        ("tokens in the clean region", of("clean_tokens")),
        ("in the clean region, by size of the turn", quarters("clean_by_turn_size")),
        ("in the clean region, by size of the session", quarters("clean_by_session_size")),
        ("whose the turns in the clean region are", quarters("clean_places_by_session_size")),
        ("intensity, mean over turns", lambda entry: number(entry["intensity"], 3)),
        ("intensity, mean over tokens", lambda entry: number(entry["intensity_by_token"], 3)),
        ("load", of("load")),
        ("turns that do not go to the cheapest", of("differs")),
        ("forgone there, mg a turn", lambda entry: number(entry["forgone_mg_where_it_differs"], 1)),
        ("forgone, of all CO2", of("forgone")),
    ]
