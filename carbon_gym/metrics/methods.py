"""From the rows of a method's policies to its figures beside a reference, on the same fleets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.metrics.figures import CONSTRAINTS, no_worse
from carbon_gym.metrics.guard import over_fleets
from carbon_gym.metrics.seeds import WHOLE, improvement_interval, interquartile_interval

Row = Mapping[str, Any]
Floats = NDArray[np.float64]


def method_figures(
    scenario: str,
    method: str,
    members: Sequence[tuple[str, int | None]],
    reference: Sequence[str],
    rows: Mapping[str, Sequence[Row]],
) -> dict[str, Any]:
    """What is said of a method, documented key by key in docs/evaluate.md.

    Args:
        scenario: Its name.
        method: The method's name.
        members: Its policies and the seeds that they were trained with.
        reference: The policies that it is compared with.
        rows: By policy, its rows of `carbon_gym.benchmark.compare`: of each fleet and of all.
    """
    policies = [policy for policy, _ in members]
    mine, theirs = _table(rows, policies, "co2_g"), _table(rows, reference, "co2_g")
    emits = (theirs > 0).all(axis=0)
    base = theirs[:, emits].mean(axis=0)
    scores, others = mine[:, emits] / base, theirs[:, emits] / base
    compared = bool(emits.any())
    by_seed = scores.mean(axis=1).tolist() if compared else [None] * len(members)
    kept = [_kept(_pooled(rows, [policy]), _pooled(rows, reference)) for policy in policies]
    seeds: list[dict[str, Any]] = [
        {"policy": policy, "seed": seed, "co2_relative": relative, "constraints_kept": keeps}
        for (policy, seed), relative, keeps in zip(members, by_seed, kept, strict=True)
    ]
    ranked = sorted(seeds, key=lambda member: member["co2_relative"]) if compared else []
    on_the_whole = _kept(_pooled(rows, policies), _pooled(rows, reference))
    return {
        "scenario": scenario,
        "method": method,
        "seeds": len(members),
        "fleets": int(emits.sum()),
        "co2_relative": interquartile_interval(scores) if compared else None,
        "co2_relative_whole_seeds": interquartile_interval(scores, WHOLE) if compared else None,
        "saving": over_fleets(1.0 - scores.mean(axis=0)),
        "best": _short(ranked[0]) if ranked else None,
        "worst": _short(ranked[-1]) if ranked else None,
        "probability_of_improvement": improvement_interval(scores, others) if compared else None,
        "probability_of_improvement_whole_seeds": (
            improvement_interval(scores, others, WHOLE) if compared else None
        ),
        **_beside(rows, policies, reference),
        "constraints": {
            name: {"kept": on_the_whole[name], "seeds_kept": sum(keeps[name] for keeps in kept)}
            for name in CONSTRAINTS
        },
        "constraints_kept": all(on_the_whole.values()),
        "seeds_with_constraints_kept": sum(all(keeps.values()) for keeps in kept),
        "members": seeds,
    }


def _short(member: Mapping[str, Any]) -> dict[str, Any]:
    return {name: member[name] for name in ("policy", "seed", "co2_relative")}


def _beside(
    rows: Mapping[str, Sequence[Row]], policies: Sequence[str], reference: Sequence[str]
) -> dict[str, Any]:
    """Quality, latency and violations over all turns, means over seeds, beside the reference's."""
    ours, theirs = _pooled(rows, policies), _pooled(rows, reference)
    found: dict[str, Any] = {}
    for name in ("quality_predicted", "quality_realised"):
        by_fleet = _table(rows, policies, name).mean(axis=0) - _table(rows, reference, name).mean(
            axis=0
        )
        found[name] = ours[name]
        found[f"{name}_difference"] = ours[name] - theirs[name]
        found[f"{name}_difference_by_fleet"] = over_fleets(by_fleet[np.isfinite(by_fleet)])
    found["ttft_p95_s"] = ours["ttft_p95_s"]
    base = theirs["ttft_p95_s"]
    found["ttft_p95_ratio"] = ours["ttft_p95_s"] / base if base else None
    for kind in ("quality", "ttft", "capacity"):
        name = f"{kind}_violation_rate"
        found[name] = ours[name]
        found[f"{name}_difference"] = ours[name] - theirs[name]
    return found


def _kept(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, bool]:
    """Which constraints are kept."""
    return {name: no_worse(name, ours[name], theirs[name]) for name in CONSTRAINTS}


def _pooled(rows: Mapping[str, Sequence[Row]], policies: Sequence[str]) -> dict[str, float]:
    """Figures over all turns, means over policies."""
    pooled = [next(row for row in rows[name] if row["fleet"] == "all") for name in policies]
    names = (*CONSTRAINTS, "quality_realised")
    return {name: float(np.mean([row[name] for row in pooled])) for name in names}


def _table(rows: Mapping[str, Sequence[Row]], policies: Sequence[str], figure: str) -> Floats:
    """A figure of each fleet, float64 (policies, F); NaN where it does not exist."""
    return np.array(
        [[row[figure] for row in rows[name] if row["fleet"] != "all"] for name in policies],
        dtype=np.float64,
    )
