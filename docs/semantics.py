"""Study of the semantics: what CCAR saves under each reading of the paper, and what its gate adds.

Writes `docs/semantics.json` as it goes (rerun to resume) and `docs/semantics.md` from it.

    python docs/semantics.py            # run what is missing, then write the page
    python docs/semantics.py --page     # only write the page again
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from baselines.ccar import CCAR
from baselines.fit_gate import NEVER_THRESHOLD, fit_gate
from baselines.gate import FEATURES, Gate
from carbon_gym import load_scenario, make_policy
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.files import replacing
from carbon_gym.metrics.intervals import paired_t
from carbon_gym.scenario import Scenario
from carbon_gym.simulator.run import run_policy

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "semantics.json"
FIT_FLEETS = 3
TEST_FLEETS = 8
THRESHOLDS = (0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, NEVER_THRESHOLD)
WEIGHTS = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0)
SEARCH_FLEETS = 2
SEARCH_DRAWS = 120
SEARCH_SEED = 2026
POLICY_KEYS = ("faircarbon", "ccar-no-gate", "ccar", "ccar-ev")

Change = dict[str, Any]


def _merge(*changes: Mapping[str, Any]) -> Change:
    merged: Change = {}
    for change in changes:
        for section, keys in change.items():
            merged[section] = {**merged.get(section, {}), **keys}
    return merged


def _capacity(rule: str, scope: str, limit: float | None) -> Change:
    return {"capacity": {"rule": rule, "scope": scope, "limit": limit}}


AXES: dict[str, dict[str, Change]] = {
    "capacity (rule, scope, c)": {
        "none": _capacity("sessions", "pool", None),
        **{
            f"{rule}, {scope}, {limit}": _capacity(rule, scope, limit)
            for rule, scope, limit in (
                ("sessions", "pool", 0.25),
                ("sessions", "pool", 0.5),
                ("sessions", "pool", 0.75),
                ("sessions", "region", 0.25),
                ("sessions", "region", 0.5),
                ("turns", "pool", 0.25),
                ("turns", "pool", 0.5),
                ("turns", "region", 0.25),
                ("turns", "region", 0.5),
            )
        },
    },
    "cache TTL, min": {
        str(minutes): {"cache": {"ttl_s": 60.0 * minutes}} for minutes in (2, 5, 10, 30, 60)
    },
    "spread of difficulty within a session (turn_sd)": {
        str(sd): {"quality": {"turn_sd": sd}} for sd in (0.0, 0.4, 0.8)
    },
    "predictor error (predictor_sd)": {
        str(sd): {"quality": {"predictor_sd": sd}} for sd in (0.0, 0.03, 0.1)
    },
    "β_Q": {str(beta): {"bounds": {"beta_q": beta}} for beta in (0.8, 0.85, 0.9, 0.95)},
}
"""One axis at a time around the default, each for caches retained and evicted."""
ON_LEAVE = ("retain", "evict")


def settings() -> Iterator[tuple[str, str, str, Change]]:
    """(axis, value, on_leave, change) of the one-at-a-time study."""
    for axis, values in AXES.items():
        for (value, change), leave in product(values.items(), ON_LEAVE):
            yield axis, value, leave, _merge(change, {"cache": {"on_leave": leave}})


def search_settings() -> Iterator[tuple[str, Change]]:
    """Random combinations of all axes, for which readings reproduce which published number."""
    rng = random.Random(SEARCH_SEED)
    everything = list(product(ON_LEAVE, *(values.items() for values in AXES.values())))
    for leave, *chosen in rng.sample(everything, SEARCH_DRAWS):
        name = f"{leave}; " + "; ".join(value for value, _ in chosen)
        change = _merge(*(change for _, change in chosen), {"cache": {"on_leave": leave}})
        yield name, change


def _co2(evaluation: Evaluation, policy: Any) -> tuple[np.ndarray, dict[str, float]]:
    """(gCO2eq per fleet for all sessions and for > 30 turns, figures over all turns)."""
    run = run_policy(evaluation.scenario, policy, evaluation.traces, evaluation.grid)
    totals = []
    for f, trace in enumerate(evaluation.traces):
        ledger = run.ledger[run.bounds[f] : run.bounds[f + 1]]
        long = trace.session_turns[trace.session] > 30
        totals.append((ledger["co2_g"].sum(), ledger["co2_g"][long].sum()))
    blocks = getattr(policy, "gate_blocks", np.zeros(1))
    sessions = sum(trace.sessions for trace in evaluation.traces)
    return np.array(totals), {
        "p95_ttft_s": float(np.quantile(run.ledger["ttft_s"], 0.95)),
        "quality": float(run.ledger["quality_predicted"].mean()),
        "blocks_per_session": float(blocks.sum() / sessions),
    }


def study(scenario: Scenario) -> dict[str, Any]:
    """Savings over faircarbon, and over no gate, on test fleets; the gate is fitted anew."""
    gate = fit_gate(
        evaluation_fleets(scenario, split="train", fleets=FIT_FLEETS),
        evaluation_fleets(scenario, split="validation", fleets=FIT_FLEETS),
        thresholds=THRESHOLDS,
        weights=WEIGHTS,
    )
    numbers = np.array([gate["coefficients"][name] for name in FEATURES])
    fitted = (gate["intercept"], numbers, gate["threshold"], gate["weight"])
    test = evaluation_fleets(scenario, split="test", fleets=TEST_FLEETS)
    totals, figures = {}, {}
    for name, policy in (
        ("faircarbon", make_policy("faircarbon")),
        ("ccar-no-gate", CCAR()),
        ("ccar", CCAR(gate=Gate("probability", *fitted))),
        ("ccar-ev", CCAR(gate=Gate("expected_value", *fitted))),
    ):
        totals[name], figures[name] = _co2(test, policy)
    return {
        "figures": figures,
        "saving": {
            name: paired_t(1 - totals[name][:, 0] / totals["faircarbon"][:, 0])
            for name in POLICY_KEYS[1:]
        },
        "saving_long": {
            name: paired_t(1 - totals[name][:, 1] / totals["faircarbon"][:, 1])
            for name in POLICY_KEYS[1:]
        },
        "gate_gain": {
            name: paired_t(1 - totals[name][:, 0] / totals["ccar-no-gate"][:, 0])
            for name in ("ccar", "ccar-ev")
        },
        "threshold": gate["threshold"],
        "weight": gate["weight"],
    }


def search(scenario: Scenario) -> dict[str, float]:
    """Ungated saving on a few test fleets; quick."""
    test = evaluation_fleets(scenario, split="test", fleets=SEARCH_FLEETS)
    fair, fair_figures = _co2(test, make_policy("faircarbon"))
    ours, our_figures = _co2(test, CCAR())
    saving, long = 1 - ours.sum(axis=0) / fair.sum(axis=0)
    return {
        "saving": float(saving),
        "saving_long": float(long),
        "p95_ttft_s": our_figures["p95_ttft_s"],
        "p95_ttft_faircarbon_s": fair_figures["p95_ttft_s"],
    }


def run_all() -> None:
    """Run what `semantics.json` does not have yet."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in ("axes", "search"):
        results.setdefault(part, {})

    def keep() -> None:
        with replacing(RESULTS) as partial:
            partial.write_text(json.dumps(results, indent=1) + "\n")

    done_by_digest = {entry["digest"]: entry for entry in results["axes"].values()}
    for axis, value, leave, change in track(list(settings()), "axes"):
        key = f"{axis} | {value} | {leave}"
        if key in results["axes"]:
            continue
        scenario = load_scenario("sharegpt", name=key, **change)
        digest = scenario.digest()
        if digest not in done_by_digest:
            done_by_digest[digest] = {"digest": digest, **study(scenario)}
        results["axes"][key] = done_by_digest[digest]
        keep()
    for name, change in track(list(search_settings()), "search"):
        if name not in results["search"]:
            results["search"][name] = search(load_scenario("sharegpt", name=name, **change))
            keep()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="only write docs/semantics.md")
    if not parser.parse_args().page:
        run_all()
    from semantics_page import write_page

    write_page(json.loads(RESULTS.read_text()), HERE / "semantics.md")
