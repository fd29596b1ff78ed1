"""Reading `budget.json` by part, scenario and policy, and writing figures with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from budget_plan import PARTS

from carbon_gym.metrics.equal_quality import EqualQuality, saving_at_equal_quality
from carbon_gym.metrics.guard import Estimate, over_fleets

Record = Mapping[str, Any]
NOTHING = "–"


class Units:
    """The records of some results, looked up by what they are of.

    Args:
        results: Content of `budget.json`.
    """

    def __init__(self, results: Mapping[str, Any]) -> None:
        self._records: dict[tuple[str, ...], Record] = {
            tuple(name.split(" | ")): record for name, record in results["units"].items()
        }

    def has(self, part: str) -> bool:
        """Whether there is anything of a part."""
        return any(name[0] == part for name in self._records)

    def fleets(self) -> str:
        """Number of fleets; several numbers where parts differ."""
        counts = {len(record["co2_g"]) for record in self._records.values()}
        return " or ".join(str(count) for count in sorted(counts)) or "0"

    def scenarios(self, part: str, order: Sequence[str]) -> list[str]:
        """Scenarios of a part: in the given order, then others by name."""
        found = {name[1] for name in self._records if name[0] == part}
        known = [name for name in order if name in found]
        return known + sorted(found - set(known))

    def settings(self, part: str, scenario: str) -> set[str]:
        """Settings of a scenario in a part."""
        return {name[2] for name in self._records if name[:2] == (part, scenario)}

    def get(
        self, part: str, scenario: str, setting: str, family: str, variant: str = ""
    ) -> Record | None:
        """One record, if it is there."""
        return self._records.get((part, scenario, setting, family, variant))

    def curve(self, part: str, scenario: str, setting: str, family: str) -> list[Record]:
        """The variants of a family in the order of their values."""
        chosen = [
            record
            for name, record in self._records.items()
            if name[:4] == (part, scenario, setting, family) and record["value"] is not None
        ]
        return sorted(chosen, key=lambda record: float(record["value"]))


def saving(mine: Record, reference: Record) -> Estimate:
    """Share of the reference's CO2 that is saved, mean over fleets."""
    ours, theirs = (np.array(record["co2_g"]) for record in (mine, reference))
    return over_fleets(1.0 - ours / theirs)


def difference(mine: Record, reference: Record, figure: str) -> Estimate:
    """A figure of a policy minus the reference's, mean over fleets."""
    ours, theirs = (np.array(record[figure]) for record in (mine, reference))
    return over_fleets(ours - theirs)


def at_equal_quality(points: Sequence[Record], reference: Record) -> EqualQuality:
    """Saving at the reference's mean realised quality on each fleet, by interpolation."""
    return saving_at_equal_quality(
        np.array([point["quality_realised"] for point in points]),
        np.array([point["co2_g"] for point in points]),
        np.array(reference["quality_realised"]),
        np.array(reference["co2_g"]),
    )


def shown_equal(found: EqualQuality) -> str:
    """The saving in %, or that the curve does not reach the quality on every fleet."""
    if found["saving"] is not None:
        return percent(found["saving"])
    reached = sum(value is not None for value in found["by_fleet"])
    return f"null ({reached} of {len(found['by_fleet'])} fleets)"


def percent(estimate: Mapping[str, Any], digits: int = 1) -> str:
    """A share in %, with its interval where there is one."""
    return _interval(estimate, 100.0, f".{digits}f")


def thousandths(estimate: Mapping[str, Any]) -> str:
    """A difference of quality in 0.001, signed."""
    return _interval(estimate, 1000.0, "+.1f")


def seconds(estimate: Mapping[str, Any]) -> str:
    """A difference of times, s, signed."""
    return _interval(estimate, 1.0, "+.3f")


def _interval(estimate: Mapping[str, Any], scale: float, form: str) -> str:
    if estimate["mean"] is None:
        return NOTHING
    mean = f"{scale * estimate['mean']:{form}}"
    if estimate["low"] is None:
        return mean
    return f"{mean} [{scale * estimate['low']:{form}}, {scale * estimate['high']:{form}}]"


def share(value: float | None, digits: int = 1) -> str:
    """A share in %."""
    return NOTHING if value is None else f"{100 * value:.{digits}f}"


def number(value: float | None, digits: int = 2) -> str:
    """A number with thousands apart."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A Markdown table.

    Args:
        header: Of the columns.
        rows: Cells.
        words: How many columns at the left hold words; numbers stand at the right.
    """
    rule = "|" + "---|" * words + "---:|" * (len(header) - words)
    lines = [f"| {' | '.join(header)} |", rule]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def over(values: Sequence[float | None], how: Callable[[list[float]], float]) -> float | None:
    """A summary of figures of fleets; None where a fleet has none."""
    known = [value for value in values if value is not None]
    return how(known) if known and len(known) == len(values) else None


def part_of(name: str) -> str:
    """Letter of a part on the page."""
    return "ABCDEF"[PARTS.index(name)]
