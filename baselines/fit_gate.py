"""Fitting the gate by hindsight on training fleets and tuning it on validation fleets (SPEC §5)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baselines.ccar import CCAR, switches_to_judge
from baselines.gate import FEATURES, SCHEMA, Gate, gate_features
from baselines.narrowing import per_query
from carbon_gym.evaluation import Evaluation
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.parallel import processes
from carbon_gym.simulator.arrays import Floats, Ints
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.run import run_policy

NEVER_THRESHOLD = 2.0
"""A threshold that no probability reaches."""
THRESHOLDS = (
    *(0.1, 0.15, 0.2, 0.225, 0.25, 0.275, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    NEVER_THRESHOLD,
)
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0)
"""λ of the expected-value rule; 0 never stays."""
CALIBRATION_BINS = 10


@dataclass(frozen=True, slots=True, eq=False)
class GateSamples:
    """Proposed switches of the ungated router and what it did at the next turn.

    Attributes:
        features: float64 (n, 17).
        back: bool (n,), the next turn of the session went back to p; False on its last turn.
    """

    features: Floats
    back: np.ndarray


class _Recorder(CCAR):
    """The ungated router, writing down each switch that a gate would be asked about."""

    def reset(self, fleet: Deployments, slots: int) -> None:
        super().reset(fleet, slots)
        self.rows: list[Ints] = []
        self.stays: list[Ints] = []
        self.features: list[Floats] = []

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        choice = super().choose(quotes)
        lanes = switches_to_judge(quotes, choice)
        if len(lanes):
            stay = quotes.previous[lanes]
            self.rows.append(quotes.row[lanes].copy())
            self.stays.append(stay.copy())
            self.features.append(gate_features(quotes, lanes, stay, choice[lanes]))
        return choice


def hindsight_samples(evaluation: Evaluation) -> GateSamples:
    """Replay the ungated router and label each switch by its next turn."""
    recorder = _Recorder()
    run = run_policy(evaluation.scenario, recorder, evaluation.traces, evaluation.grid)
    if not recorder.rows:
        return GateSamples(np.zeros((0, len(FEATURES))), np.zeros(0, dtype=np.bool_))
    offsets = np.cumsum([0, *(trace.sessions for trace in evaluation.traces)])
    session = np.concatenate(
        [trace.session + first for trace, first in zip(evaluation.traces, offsets, strict=False)]
    )
    in_session_order = np.argsort(session, kind="stable")
    following = np.full(len(session), -1, dtype=np.int64)
    same = session[in_session_order][1:] == session[in_session_order][:-1]
    following[in_session_order[:-1][same]] = in_session_order[1:][same]
    rows, stay = np.concatenate(recorder.rows), np.concatenate(recorder.stays)
    next_row = following[rows]
    back = (next_row >= 0) & (run.ledger["deployment"][next_row] == stay)
    return GateSamples(np.concatenate(recorder.features), back)


def fit_gate(
    training: Evaluation,
    validation: Evaluation,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    weights: Sequence[float] = WEIGHTS,
    jobs: int = 1,
    on_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Fit on training fleets, tune threshold and λ on validation fleets.

    Args:
        training: Fleets of the training split.
        validation: Fleets of the validation split.
        thresholds: Tried for the rule "probability"; `NEVER_THRESHOLD` must be among them.
        weights: λ tried for the rule "expected_value"; 0 must be among them.
        jobs: Processes for the tuning runs.
        on_progress: Told what is being done.

    Returns:
        The content of the gate's JSON file.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    on_progress("replaying the ungated router")
    seen, held_out = hindsight_samples(training), hindsight_samples(validation)
    both = len(np.unique(seen.back)) == 2
    intercept, coefficients = -50.0, np.zeros(len(FEATURES))  # never moves back
    if both:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=1000))
        model.fit(seen.features, seen.back)
        scaler, regression = model[0], model[1]
        coefficients = regression.coef_[0] / scaler.scale_
        intercept = float(regression.intercept_[0] - coefficients @ scaler.mean_)
    gate = Gate("probability", intercept, coefficients, NEVER_THRESHOLD, 0.0)

    def auc(samples: GateSamples) -> float | None:
        if not both or len(np.unique(samples.back)) < 2:
            return None
        return round(float(roc_auc_score(samples.back, gate.probability_back(samples.features))), 4)

    content: dict[str, Any] = {
        "schema": SCHEMA,
        "scenario": training.scenario.name,
        "scenario_digest": training.scenario.filtered().digest(),
        "features": list(FEATURES),
        "intercept": intercept,
        "coefficients": dict(zip(FEATURES, coefficients.tolist(), strict=True)),
        "training": {**_provenance(training), **_counts(seen), "auc": auc(seen)},
        "validation": {**_provenance(validation), **_counts(held_out), "auc": auc(held_out)},
        "calibration": calibration(held_out, gate),
    }
    candidates = [Gate("probability", intercept, coefficients, t, 0.0) for t in thresholds]
    candidates += [
        Gate("expected_value", intercept, coefficients, NEVER_THRESHOLD, w) for w in weights
    ]
    totals = _totals(validation, candidates, jobs, on_progress)
    by_threshold = dict(zip(thresholds, totals[: len(thresholds)], strict=True))
    by_weight = dict(zip(weights, totals[len(thresholds) :], strict=True))
    # A tie goes to the gate that stays less, so that one that never pays is off.
    content["threshold"] = min(thresholds, key=lambda t: (by_threshold[t], -t))
    content["weight"] = min(weights, key=lambda w: (by_weight[w], w))
    content["tuning"] = {
        "co2_g_by_threshold": {f"{t:g}": round(g, 4) for t, g in by_threshold.items()},
        "co2_g_by_weight": {f"{w:g}": round(g, 4) for w, g in by_weight.items()},
    }
    return content


def calibration(samples: GateSamples, gate: Gate) -> list[dict[str, float]]:
    """Predicted against observed share of moves back, in bins of equal count."""
    if len(samples.back) == 0:
        return []
    predicted = gate.probability_back(samples.features)
    order = np.argsort(predicted, kind="stable")
    return [
        {
            "predicted": round(float(predicted[part].mean()), 4),
            "observed": round(float(samples.back[part].mean()), 4),
            "switches": len(part),
        }
        for part in np.array_split(order, CALIBRATION_BINS)
        if len(part)
    ]


def _provenance(evaluation: Evaluation) -> dict[str, Any]:
    ids = sorted(name for trace in evaluation.traces for name in trace.session_id)
    return {
        "days": [day.isoformat() for day in evaluation.days],
        "sessions": len(ids),
        "session_ids_sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest(),
    }


def _counts(samples: GateSamples) -> dict[str, Any]:
    return {
        "switches": len(samples.back),
        "base_rate": round(float(samples.back.mean()), 4) if len(samples.back) else None,
    }


def _totals(
    evaluation: Evaluation,
    gates: Sequence[Gate],
    jobs: int,
    on_progress: Callable[[str], None],
) -> list[float]:
    """gCO2eq of the validation fleets under each gate."""
    totals = []
    if jobs <= 1:
        for number, gate in enumerate(gates):
            on_progress(f"tuning {number + 1}/{len(gates)}")
            totals.append(_total(evaluation, gate))
        return totals
    with processes(jobs) as pool:
        for number, total in enumerate(pool.map(_total, [evaluation] * len(gates), gates)):
            on_progress(f"tuning {number + 1}/{len(gates)}")
            totals.append(total)
    return totals


def _total(evaluation: Evaluation, gate: Gate) -> float:
    run = run_policy(evaluation.scenario, CCAR(gate=gate), evaluation.traces, evaluation.grid)
    return float(run.ledger["co2_g"].sum())
