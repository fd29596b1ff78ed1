"""Every policy against every other on the same fleets, paired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carbon_gym.metrics.intervals import MIN_FLEETS_FOR_T, Interval, paired_t


def versus(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Interval]]:
    """Savings 1 − CO2 of one policy / CO2 of another, mean over fleets with a paired t interval.

    Args:
        rows: Rows of one scenario; those of single fleets are used.

    Returns:
        ``{policy: {other: interval}}``; empty with fewer than five fleets on which all emit.
    """
    co2_g: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["fleet"] != "all":
            co2_g.setdefault(row["policy"], {})[row["fleet"]] = row["co2_g"]
    if not co2_g:
        return {}
    fleets = sorted(set.intersection(*(set(totals) for totals in co2_g.values())))
    totals = {name: np.array([by[f] for f in fleets]) for name, by in co2_g.items()}
    if len(fleets) < MIN_FLEETS_FOR_T or not all((total > 0).all() for total in totals.values()):
        return {}
    return {
        name: {
            other: paired_t(1.0 - mine / theirs)
            for other, theirs in totals.items()
            if other != name
        }
        for name, mine in totals.items()
    }
