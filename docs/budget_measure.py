"""Measuring one unit of the study of the budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from budget_plan import Unit, World
from numpy.typing import NDArray

from baselines import tuned_options
from baselines.ccar_budget import CcarBudget
from carbon_gym.benchmark import evaluation_key, fleet_accounts, policy_key
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.metrics.guard import Served, quality_by_category, versus_ccar
from carbon_gym.quality.queue import most_shortfall
from carbon_gym.simulator.run import PolicyRun, run_policy

VERSION = 1
"""Of the figures; raise it when they change, so that a rerun measures anew."""
BAND = 0.005
"""Share of the target within which the running mean is to stay (issue 5)."""
AFTER_TURNS = (1000, 5000)
"""Turns after which the lowest running mean is looked for."""
CURVE_POINTS, CURVE_BEGINS = 60, 200
DIGITS = 6

Floats = NDArray[np.float64]
Record = dict[str, Any]


class _Ccar(NamedTuple):
    """CCAR in a world, fleet by fleet: what the users got, and q̂ of each turn."""

    served: Sequence[Served]
    quality: Sequence[Floats]


def measure(unit: Unit, known: str | None = None) -> Record | None:
    """Run a unit.

    Args:
        unit: What to run.
        known: Key of the record at hand.

    Returns:
        Its record for `budget.json`; None if the one at hand still holds.
    """
    evaluation = _evaluation(unit.world)
    key = _key(unit, evaluation)
    if key == known:
        return None
    scenario = evaluation.scenario
    options = json.loads(unit.options)
    if unit.price is not None:
        tuned = tuned_options(unit.policy, scenario)["lambda_start"]
        options["lambda_start"] = unit.price * tuned
    policy = make_policy(unit.policy, scenario, **options)
    run = run_policy(scenario, policy, evaluation.traces, evaluation.grid)
    record = {"key": key, "value": unit.value, **_figures(run)}
    if unit.measure == "guard":
        served = [account.served() for account in fleet_accounts(evaluation, run)]
        record["quality_by_category"] = quality_by_category(served)
        record["versus_ccar"] = versus_ccar(served, _ccar(unit.world).served)
    if unit.measure == "running":
        assert isinstance(policy, CcarBudget)
        record["running"] = _running(unit, policy, run)
    return dict(_short(record))


def _key(unit: Unit, evaluation: Evaluation) -> str:
    rest = [unit.options, unit.price, unit.value, unit.measure, VERSION]
    parts = [evaluation_key(evaluation), policy_key(unit.policy, evaluation), json.dumps(rest)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def _evaluation(world: World) -> Evaluation:
    rules = world.rules()
    if world.start is None:
        return evaluation_fleets(rules, split="test", fleets=world.fleets)
    start = date.fromisoformat(world.start)
    return evaluation_fleets(rules, fleets=world.fleets, start=start)


@lru_cache(maxsize=1)
def _ccar(world: World) -> _Ccar:
    evaluation = _evaluation(world)
    policy = make_policy("ccar", evaluation.scenario)
    run = run_policy(evaluation.scenario, policy, evaluation.traces, evaluation.grid)
    served = [account.served() for account in fleet_accounts(evaluation, run)]
    return _Ccar(served, [ledger["quality_predicted"] for ledger in _by_fleet(run)])


def _by_fleet(run: PolicyRun) -> list[NDArray[np.void]]:
    return [run.ledger[begin:end] for begin, end in pairwise(run.bounds.tolist())]


def _figures(run: PolicyRun) -> Record:
    """Lists hold a number for each fleet; what is not in lists is of all turns."""
    fleets = _by_fleet(run)
    rates = ("quality_violation", "ttft_violation", "capacity_violation")
    return {
        "turns": len(run.ledger),
        "co2_g": [float(ledger["co2_g"].sum()) for ledger in fleets],
        "quality_realised": [float(ledger["quality_realised"].mean()) for ledger in fleets],
        "quality_predicted": [float(ledger["quality_predicted"].mean()) for ledger in fleets],
        "ttft_p95_s": [float(np.quantile(ledger["ttft_s"], 0.95)) for ledger in fleets],
        "ttft_p95_all_s": float(np.quantile(run.ledger["ttft_s"], 0.95)),
        **{f"{name}_rate": float(run.ledger[name].mean()) for name in rates},
    }


def _running(unit: Unit, policy: CcarBudget, run: PolicyRun) -> Record:
    """The running mean of q̂ against that of its target, as shares of the target.

    A policy that follows CCAR is held against what CCAR gives the same turns; the one of fixed λ
    against the target of `ccar-budget`.
    """
    got = [ledger["quality_predicted"] for ledger in _by_fleet(run)]
    if policy.follow:
        wanted = [quality + policy.margin for quality in _ccar(unit.world).quality]
    else:
        options = tuned_options("ccar-budget", unit.world.rules())
        wanted = [np.full(len(quality), options["quality_target"]) for quality in got]
    away = [np.cumsum(a) / np.cumsum(b) - 1.0 for a, b in zip(got, wanted, strict=True)]
    turns = min(len(fleet) for fleet in away)
    begin = max(1, min(CURVE_BEGINS, turns // 10))  # the first turns swing beyond the picture
    shown = np.unique(np.geomspace(begin, turns, CURVE_POINTS).astype(int))
    curves = np.array([fleet[shown - 1] for fleet in away])
    eta = float(np.max(policy.eta))
    return {
        "target": [float(fleet.mean()) for fleet in wanted],
        "end": [float(fleet[-1]) for fleet in away],
        **{
            f"lowest_after_{after}": [
                float(fleet[after - 1 :].min()) if len(fleet) >= after else None for fleet in away
            ]
            for after in AFTER_TURNS
        },
        "settled": [_settled(fleet) for fleet in away],
        "bound": {
            str(n): most_shortfall(eta, n) if eta > 0 else None for n in (*AFTER_TURNS, turns)
        },
        "curve": {
            "turns": shown.tolist(),
            "mean": curves.mean(axis=0).tolist(),
            "low": curves.min(axis=0).tolist(),
            "high": curves.max(axis=0).tolist(),
        },
    }


def _settled(away: Floats) -> int | None:
    """Turns after which the running mean stays within the band for good; None: never."""
    outside = np.flatnonzero(np.abs(away) > BAND)
    if len(outside) == 0:
        return 1
    return None if outside[-1] == len(away) - 1 else int(outside[-1]) + 2


def _short(value: Any) -> Any:
    """The same with fewer digits, so that the file can be reviewed."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_short(part) for part in value]
    return value
