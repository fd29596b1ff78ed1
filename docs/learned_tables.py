"""Tables of evaluations: methods beside their reference, on the same fleets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from budget_tables import NOTHING, number, percent, table, thousandths
from numpy.typing import NDArray

from carbon_gym.metrics.guard import Estimate, over_fleets
from carbon_gym.metrics.seeds import WHOLE, SeedInterval, interquartile_interval

VARIANTS = ("ccar", "ccar-no-gate", "ccar-ev")
"""Of CCAR, where quality is filtered: a learned router has to beat the best of them."""
CLAIRVOYANT, LEARNED = "clairvoyant", "learned"
YARDSTICKS = ("lookahead", "lookahead-places")
ORDER = (
    *VARIANTS,
    *("ccar-budget", "ccar-budget-fixed", "ccar-budget-follow"),
    *("ccar-no-pricing", "session-affinity", "faircarbon"),
    *(*YARDSTICKS, LEARNED, CLAIRVOYANT),
)
MAIN, BUDGET = "main", "budget"
REAL = {"real-training-zones": "training zones", "real-other-zones": "other zones"}
ELSEWHERE = {"other-rules": "Under other rules", "other-sizes": "On a fleet of another size"}
"""Parts on fleets unlike those of the trainings, and what their sections are called."""
SCENARIOS = ("sharegpt", "sharechat", "congested", "sharegpt-budget", "sharechat-budget")

Record = Mapping[str, Any]
Floats = NDArray[np.float64]


class Evaluations:
    """Records of methods, looked up by part, scenario and name.

    Args:
        entries: Section "evaluations" of `learned.json`.
    """

    def __init__(self, entries: Mapping[str, Record]) -> None:
        self.records = {tuple(name.split(" | ")): record for name, record in entries.items()}

    def parts(self) -> list[str]:
        """Names of the parts, in the order of the file."""
        return list(dict.fromkeys(part for part, _, _ in self.records))

    def scenarios(self, part: str) -> list[str]:
        """Scenarios of a part: in the order of `SCENARIOS`, then others by name."""
        found = {name[1] for name in self.records if name[0] == part}
        known = [name for name in SCENARIOS if name in found]
        return known + sorted(found - set(known))

    def methods(self, part: str, scenario: str) -> list[str]:
        """Methods there: in the order of `ORDER`, then others as they stand in the file."""
        found = [name[2] for name in self.records if name[:2] == (part, scenario)]
        known = [name for name in ORDER if name in found]
        return known + [name for name in found if name not in known]

    def get(self, part: str, scenario: str, method: str) -> Record | None:
        """One record, if it is there."""
        return self.records.get((part, scenario, method))

    def best_of_ccar(self, part: str, scenario: str) -> str | None:
        """The variant of least CO2 over the fleets, of those at hand."""
        found = [name for name in VARIANTS if self.get(part, scenario, name)]
        by_total = {name: co2(self.records[part, scenario, name]).sum() for name in found}
        return min(found, key=by_total.__getitem__) if found else None


def co2(record: Record) -> Floats:
    """CO2 of the seeds on the fleets, float64 (seeds, fleets), gCO2eq."""
    return np.array([member["co2_g"] for member in record["members"]], dtype=np.float64)


def saving_against(mine: Record, other: Record) -> Estimate:
    """Share of another method's CO2 that is saved, mean over fleets, of the means over seeds."""
    ours, theirs = co2(mine).mean(axis=0), co2(other).mean(axis=0)
    emits = theirs > 0
    return over_fleets(1.0 - ours[emits] / theirs[emits])


def middle_against(mine: Record, other: Record) -> SeedInterval:
    """Interquartile mean of a method's CO2 over another's, with the interval over whole seeds."""
    theirs = co2(other).mean(axis=0)
    emits = theirs > 0
    return interquartile_interval(co2(mine)[:, emits] / theirs[emits], WHOLE)


def way_closed(mine: Record, reference: Record, bound: Record) -> Estimate | None:
    """Share of the way from a reference to a bound; None where the bound is not below everywhere.

    Returns:
        Mean over fleets of (reference − method) / (reference − bound).
    """
    ours, theirs, least = (co2(record).mean(axis=0) for record in (mine, reference, bound))
    if not (least < theirs).all():
        return None
    return over_fleets((theirs - ours) / (theirs - least))


def comparison(found: Evaluations, part: str, scenario: str) -> str:
    """All methods of a scenario beside its reference, and beside the best of CCAR's variants."""
    names = found.methods(part, scenario)
    records = [(name, found.records[part, scenario, name]) for name in names]
    header = (*_HEADER, "way %") if _has_bound(found, part, scenario) else _HEADER
    rows = []
    for name, record in records:
        cells = [f"`{name}`", *figures(record)]
        if len(header) > len(_HEADER):
            cells.append(_way(found, part, scenario, name))
        rows.append(cells)
    turns, fleets, reference = (records[0][1][key] for key in ("turns", "fleets", "reference"))
    lines = [
        f"### {scenario} ({fleets} fleets, {turns:,} turns, reference `{reference}`)",
        table(header, rows),
    ]
    best = found.best_of_ccar(part, scenario)
    if best is not None and not reference.startswith("ccar-budget"):
        lines.append(_beside_best(found, part, scenario, best))
    return "\n\n".join(line for line in lines if line)


def side_by_side(found: Evaluations, part: str) -> str:
    """All methods of all scenarios of a part in one table."""
    rows = [
        (scenario, f"`{method}`", *figures(found.records[part, scenario, method]))
        for scenario in found.scenarios(part)
        for method in found.methods(part, scenario)
    ]
    return table(("scenario", *_HEADER), rows, words=2)


_HEADER = (
    *("method", "seeds", "saving %", "CO2", "P"),
    *("Δ predicted", "Δ realised", "P95", "not kept"),
)


def figures(record: Record) -> list[str]:
    """Cells of a method."""
    probability = record["probability_of_improvement"]
    return [
        str(record["seeds"]),
        percent(record["saving"]),
        interval(wider(record["co2_relative"], record["co2_relative_whole_seeds"])),
        NOTHING if probability is None else f"{probability['value']:.2f}",
        thousandths(record["quality_predicted_difference_by_fleet"]),
        thousandths(record["quality_realised_difference_by_fleet"]),
        number(record["ttft_p95_ratio"], 3),
        _broken(record),
    ]


def _broken(record: Record) -> str:
    """Constraints that are not kept over all turns, and by how many seeds all are."""
    short = {"quality_predicted": "q", "ttft_p95_s": "P95"}
    names = [short.get(name, name.removesuffix("_violation_rate")) for name in record["broken"]]
    shown = ", ".join(names) or NOTHING
    if record["seeds"] == 1:
        return shown
    return f"{shown} ({record['seeds_with_constraints_kept']} of {record['seeds']} keep all)"


def wider(one: SeedInterval | None, other: SeedInterval | None) -> SeedInterval | None:
    """Of the two intervals over seeds the wider one: that is to be believed (evaluate.md)."""
    known = [found for found in (one, other) if found is not None]
    return max(known, key=_width) if known else None


def _width(found: SeedInterval) -> float:
    return -1.0 if found["low"] is None or found["high"] is None else found["high"] - found["low"]


def interval(found: SeedInterval | None, digits: int = 3) -> str:
    """A figure with its interval over seeds."""
    if found is None:
        return NOTHING
    shown = f"{found['value']:.{digits}f}"
    if found["low"] is None:
        return shown
    return f"{shown} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"


def _has_bound(found: Evaluations, part: str, scenario: str) -> bool:
    """The clairvoyant plans under the filter: it bounds nothing where quality is a budget."""
    bound = found.get(part, scenario, CLAIRVOYANT)
    return bound is not None and not bound["reference"].startswith("ccar-budget")


def _way(found: Evaluations, part: str, scenario: str, method: str) -> str:
    bound, mine = (found.records[part, scenario, name] for name in (CLAIRVOYANT, method))
    reference = found.get(part, scenario, bound["reference"])
    if reference is None or method in (bound["reference"], CLAIRVOYANT):
        return NOTHING
    closed = way_closed(mine, reference, bound)
    return NOTHING if closed is None else percent(closed)


def _beside_best(found: Evaluations, part: str, scenario: str, best: str) -> str:
    other = found.records[part, scenario, best]
    said = []
    for name in (*YARDSTICKS, LEARNED):
        mine = found.get(part, scenario, name)
        if mine is None:
            continue
        text = f"`{name}` {percent(saving_against(mine, other))} %"
        if mine["seeds"] > 1:
            text += f" (over whole seeds CO2 {interval(middle_against(mine, other))})"
        said.append(text)
    if not said:
        return ""
    return f"Saving against the best of CCAR's variants here, `{best}`: {', '.join(said)}."


def signs(found: Evaluations) -> str:
    """The saving against the reference on generated and on real input, and whether signs agree."""
    rows = []
    for scenario, method, cells in _same_method(found):
        said = [NOTHING if cell is None else percent(cell["saving"]) for cell in cells]
        rows.append((scenario, f"`{method}`", *said, "yes" if agree(cells) else "no"))
    if not rows:
        return ""
    return table(("scenario", "method", "generated", *REAL.values(), "same sign"), rows, words=2)


def agreeing(found: Evaluations) -> tuple[int, int]:
    """How many pairs of a scenario and a method have the same sign everywhere, of how many."""
    cells = [cells for _, _, cells in _same_method(found)]
    return sum(agree(of) for of in cells), len(cells)


def _same_method(found: Evaluations) -> Iterable[tuple[str, str, Sequence[Record | None]]]:
    """Scenario, method, and its records on generated and on real input, where it has both."""
    for scenario in dict.fromkeys(name for part in REAL for name in found.scenarios(part)):
        for method in (*YARDSTICKS, LEARNED):
            generated = found.get(MAIN, scenario, method) or found.get(BUDGET, scenario, method)
            real = [found.get(part, scenario, method) for part in REAL]
            if generated is not None and any(real):
                yield scenario, method, (generated, *real)


def agree(cells: Sequence[Record | None]) -> bool:
    """Whether all savings that are there have the same sign."""
    means = [cell["saving"]["mean"] for cell in cells if cell is not None]
    return len({mean > 0 for mean in means if mean is not None}) == 1
