"""How wide the clairvoyant's search must be: the width doubled until the total stands (SPEC §6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from baselines.clairvoyant import Clairvoyant, cheapest_seeds, registry_seeds
from baselines.lower_bound import LowerBound
from carbon_gym.evaluation import Evaluation
from carbon_gym.simulator.foresight import foresight
from carbon_gym.simulator.run import run_policy
from carbon_gym.simulator.simulator import Simulator

CONVERGED = 0.001
"""Relative improvement of the total below which a doubling ends the study (SPEC §6)."""
MAX_WIDTH = 4096


def converge(
    evaluation: Evaluation, on_progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Double the width from 1 until the total CO2 improves by less than 0.1 %.

    Args:
        evaluation: The fleets; capacity and memory pressure are taken away.
        on_progress: Told what is being done.

    Returns:
        `rows`, one per width, and what they stand on: `width`, the last one; the totals of the
        seeds (each session by the cheapest online plan that keeps the rules) and of the lower
        bound, gCO2eq; days, sessions, turns, digest of the scenario. Seconds are those of the
        processor, for planning, seeds and run together.
    """
    scenario = evaluation.scenario.filtered()  # the clairvoyant knows no budget
    traces, grid = evaluation.traces, evaluation.grid
    turns = sum(trace.turns for trace in traces)
    on_progress("seeds and bounds")
    run_policy(scenario, Clairvoyant(width=1), traces[:1], grid)  # compiles
    simulator = Simulator(scenario, traces, grid, unbounded=True)
    seeds = registry_seeds(simulator)
    slots = np.arange(simulator.slots)
    _, by_seed_g = cheapest_seeds(simulator, foresight(simulator), slots, seeds)
    bound = run_policy(scenario, LowerBound(), traces, grid)
    rows: list[dict[str, Any]] = []
    width, before_g = 1, None
    while True:
        on_progress(f"width {width}")
        policy = Clairvoyant(width=width)
        began = time.process_time()
        run = run_policy(scenario, policy, traces, grid)
        seconds = time.process_time() - began
        total_g = float(run.ledger["co2_g"].sum())
        better = None if not before_g else 1.0 - total_g / before_g
        rows.append(
            {
                "width": width,
                "co2_g": total_g,
                "improvement_percent": None if better is None else 100.0 * better,
                "searched_co2_g": float(policy.searched_co2_g.sum()),
                "seeded_sessions": int(policy.seeded.sum()),
                "proven_sessions_percent": 100.0 * float(policy.proven.mean()),
                "proven_co2_percent": _percent(policy.planned_co2_g[policy.proven].sum(), total_g),
                "seconds": seconds,
                "us_per_turn": 1e6 * seconds / max(turns, 1),
            }
        )
        if total_g == 0.0 or (better is not None and better < CONVERGED) or width >= MAX_WIDTH:
            break
        width, before_g = 2 * width, total_g
    return {
        "scenario": scenario.name,
        "scenario_digest": scenario.digest(),
        "days": [day.isoformat() for day in evaluation.days],
        "sessions": simulator.slots,
        "turns": turns,
        "width": width,
        "seeds": [seed.name for seed in seeds],
        "seeds_co2_g": float(by_seed_g.sum()),
        "lower_bound_co2_g": float(bound.ledger["co2_g"].sum()),
        "rows": rows,
    }


def markdown(study: dict[str, Any]) -> str:
    """One scenario's study as a section of Markdown."""
    lines = [
        f"## {study['scenario']}",
        "",
        f"{len(study['days'])} fleets, {study['sessions']:,} sessions, {study['turns']:,} turns; "
        f"seeds alone {study['seeds_co2_g']:,.2f} g, lower bound "
        f"{study['lower_bound_co2_g']:,.2f} g. Converged at width {study['width']}.",
        "",
        "| width | gCO2eq | improvement % | before seeds g | sessions by a seed | proven, % of "
        "sessions | proven, % of CO2 | s | µs/turn |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in study["rows"]:
        better = row["improvement_percent"]
        lines.append(
            f"| {row['width']} | {row['co2_g']:,.2f} | {'' if better is None else f'{better:.3f}'} "
            f"| {row['searched_co2_g']:,.2f} | {row['seeded_sessions']} | "
            f"{row['proven_sessions_percent']:.2f} | {row['proven_co2_percent']:.1f} | "
            f"{row['seconds']:.1f} | {row['us_per_turn']:.1f} |"
        )
    return "\n".join(lines) + "\n"


def _percent(part: float, whole: float) -> float:
    return 100.0 * float(part) / whole if whole else 100.0
