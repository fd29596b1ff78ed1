"""The parts D and E of `docs/budget.md`: disturbed worlds, other levels of quality, capacity."""

from __future__ import annotations

from budget_plan import CAPACITIES, DISTURBED, SWEPT, UNDISTURBED, disturbances
from budget_tables import (
    Record,
    Units,
    at_equal_quality,
    difference,
    number,
    part_of,
    percent,
    saving,
    shown_equal,
    table,
    thousandths,
)

from carbon_gym import load_scenario
from carbon_gym.front import Sweep

INTERPOLATED = "budget at equal quality"
FIXED = "ccar-budget-fixed"


def robustness_part(units: Units) -> str:
    """Part D."""
    lines = [
        f"## {part_of('robustness')}. Where the predictor, the difficulty or the mix is wrong\n\n"
        "    python docs/budget.py --only robustness\n\n"
        "Everything was tuned in the undisturbed world; all policies meet the same disturbed one, "
        "and `ccar` there is the reference. *predictor_sd*: error per turn and model (tuned at "
        "0.03); *+0.05*, *-0.05*: that model is always predicted better or worse than it is; "
        "*session_sd*, *turn_sd*: spread of difficulty (tuned at 0.6 and 0.4); the last: share of "
        f"sessions of these categories, the others in proportion. *{INTERPOLATED}*: "
        "`ccar-budget-fixed` at λ/4, λ/2, λ, 2λ, 4λ, interpolated fleet by fleet at the realised "
        "quality of `ccar` (log CO2 linear in quality, which gives the saving too small rather "
        "than too large as far as the curve is convex); null: the curve does not reach it."
    ]
    for scenario in units.scenarios("robustness", SWEPT):
        rows: list[tuple[str, ...]] = []
        for setting, _ in disturbances(load_scenario(scenario)):
            rows += _disturbed(units, scenario, setting)
        header = ("setting", "policy", "saving %", "Δ realised", "Δ predicted")
        lines.append(f"### {scenario}\n\n{table(header, rows, words=2)}")
    return "\n\n".join(lines)


def _disturbed(units: Units, scenario: str, setting: str) -> list[tuple[str, ...]]:
    ccar = units.get("robustness", scenario, setting, "ccar")
    if ccar is None:
        return []
    rows: list[tuple[str, ...]] = []
    for policy in DISTURBED[1:]:
        record = units.get("robustness", scenario, setting, policy)
        if record is not None:
            differences = [
                thousandths(difference(record, ccar, f"quality_{kind}"))
                for kind in ("realised", "predicted")
            ]
            rows.append((setting, policy, percent(saving(record, ccar)), *differences))
    points = _points(units, "robustness", scenario, setting)
    if len(points) > 1:
        equal = shown_equal(at_equal_quality(points, ccar))
        rows.append((setting, INTERPOLATED, equal, "0", ""))
    return rows


def _points(units: Units, part: str, scenario: str, setting: str) -> list[Record]:
    """`ccar-budget-fixed` at multiples of its λ, in their order."""
    at_tuned = units.get(part, scenario, setting, FIXED)
    others = units.curve(part, scenario, setting, FIXED)
    points = [(float(record["value"]), record) for record in others]
    if at_tuned is not None:
        points.append((1.0, at_tuned))
    return [record for _, record in sorted(points, key=lambda point: point[0])]


def levels_part(units: Units) -> str:
    """Part E."""
    floors = [f"{FIXED}, floor {floor:g}" for floor in Sweep().floors]
    lines = [
        f"## {part_of('levels')}. How much depends on the quality asked for, and on capacity\n\n"
        "    python docs/budget.py --only levels\n\n"
        "Saving of `ccar-budget-fixed` over `ccar` of the same mean *realised* quality, %: `ccar` "
        "at each β_Q, the budget's λ from 0 to 128, interpolated fleet by fleet as in part D; "
        "null: the curve does not reach that quality on every fleet."
    ]
    for scenario in units.scenarios("levels", SWEPT):
        rows = []
        for ccar in units.curve("levels", scenario, UNDISTURBED, "ccar"):
            cells = [f"{ccar['value']:.2f}"]
            cells.append(number(sum(ccar["quality_realised"]) / len(ccar["quality_realised"]), 3))
            cells.append(number(sum(ccar["co2_g"]), 0))
            for family in floors:
                points = units.curve("levels", scenario, UNDISTURBED, family)
                cells.append(shown_equal(at_equal_quality(points, ccar)) if points else "–")
            rows.append(cells)
        header = ("β_Q", "quality", "CO2 g", *(name.split(", ")[1] for name in floors))
        lines.append(f"### {scenario}\n\n{table(header, rows)}")
    rows = []
    for scenario in units.scenarios("levels", SWEPT):
        for setting in CAPACITIES:
            reference = units.get("levels", scenario, setting, "ccar")
            points = _points(units, "levels", scenario, setting)
            if reference is not None and len(points) > 1:
                rows.append([scenario, setting, shown_equal(at_equal_quality(points, reference))])
    if rows:
        lines.append(
            "### Capacity\n\nAt equal realised quality, λ/4 to 4λ as in part D (the scenarios "
            "have the rule `sessions` and c = 0.5).\n\n"
            + table(("scenario", "capacity", "saving %"), rows, words=2)
        )
    return "\n\n".join(lines)
