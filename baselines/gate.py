"""The gate: keeps a session where its history is cached when it would move back next turn.

A logistic regression on what the router knows at dispatch, fitted by hindsight on the training
split only (SPEC §5; `baselines.fit_gate`), kept as reviewable numbers in JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.simulator.arrays import Bools, Floats, Ints
from carbon_gym.simulator.quotes import Quotes

SCHEMA = 1
Rule = Literal["probability", "expected_value"]

FEATURES = (
    "log_history",
    "log_cost_ratio",
    "log_intensity_ratio",
    "trend_stay",
    "trend_move",
    "log_energy_ratio",
    "model_changes",
    "region_changes",
    "gpu_changes",
    "quality_margin_stay",
    "quality_margin_move",
    "load_stay",
    "load_move",
    "cached_share_stay",
    "cached_share_move",
    "idle_over_ttl",
    "log_turn",
)
"""Columns of `gate_features`. "stay" is the deployment p of the previous turn, "move" the proposed
d*; ratios are stay over move."""

_TINY = 1e-30  # keeps logarithms finite on zero-carbon grids
_LOG_RATIO_BOUND = 10.0  # and the ratios of zero to something within reason


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether to stay, from the probability that the session would move back.

    Attributes:
        rule: "probability": stay if P(back) >= threshold (the paper's); "expected_value": stay if
            the saving of moving now < weight · P(back) · the CO2 of rebuilding at p.
        intercept: Of the logistic regression.
        coefficients: float64 (17,), by `FEATURES`, on the raw features.
        threshold: Of the rule "probability"; above 1: never stays.
        weight: λ of the rule "expected_value"; 0: never stays.
        fitted_for: Digest of the scenario that it was fitted on.
    """

    rule: Rule
    intercept: float
    coefficients: Floats
    threshold: float
    weight: float
    fitted_for: str = ""

    def probability_back(self, features: Floats) -> Floats:
        """P(the session moves back to p next turn), float64 (n,), of features (n, 17)."""
        score = self.intercept + features @ self.coefficients
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(score, -50.0, 50.0))), dtype=np.float64)

    def stays(self, quotes: Quotes, lanes: Ints, stay: Ints, move: Ints) -> Bools:
        """Which of some proposed switches to block.

        Args:
            quotes: Priced turns.
            lanes: int64 (n,), lanes where a switch is proposed.
            stay: int64 (n,), the deployment p of the previous turn.
            move: int64 (n,), the proposed deployment d*.

        Returns:
            bool (n,).
        """
        back = self.probability_back(gate_features(quotes, lanes, stay, move))
        if self.rule == "probability":
            return back >= self.threshold
        saving_g = quotes.co2_g[lanes, stay] - quotes.co2_g[lanes, move]
        return saving_g < self.weight * back * rebuild_co2_g(quotes, lanes, stay)


def rebuild_co2_g(quotes: Quotes, lanes: Ints, stay: Ints) -> Floats:
    """CO2 of prefilling at p next turn what p would then lack, gCO2eq, float64 (n,).

    With caches retained p lacks this turn's prompt and reply (q + ô), with caches evicted on
    leaving the history as well (SPEC §5).
    """
    tokens = quotes.prompt_tokens[lanes] + quotes.predicted_output_tokens[lanes]
    if quotes.evict_on_leave:
        tokens = tokens + quotes.history_tokens[lanes]
    fleet = quotes.fleet
    per_token_g = (
        fleet.energy_kwh_per_token[stay] * quotes.facility_intensity[lanes, fleet.region[stay]]
    )
    return np.asarray(per_token_g * tokens, dtype=np.float64)


def gate_features(quotes: Quotes, lanes: Ints, stay: Ints, move: Ints) -> Floats:
    """The features of some proposed switches, float64 (n, 17), columns as `FEATURES` (SPEC §5).

    Args:
        quotes: Priced turns.
        lanes: int64 (n,).
        stay: int64 (n,), p.
        move: int64 (n,), d*.
    """
    fleet = quotes.fleet
    region_stay, region_move = fleet.region[stay], fleet.region[move]
    history = quotes.history_tokens[lanes].astype(np.float64)
    best = np.where(quotes.model_admissible[lanes], quotes.quality[lanes], 0.0).max(axis=1)

    def log_ratio(stays: Floats, moves: Floats) -> Floats:
        ratio = np.log(np.maximum(stays, _TINY)) - np.log(np.maximum(moves, _TINY))
        return np.asarray(np.clip(ratio, -_LOG_RATIO_BOUND, _LOG_RATIO_BOUND), dtype=np.float64)

    def trend(region: Ints) -> Floats:
        return log_ratio(quotes.intensity[lanes, region], quotes.intensity_hour_ago[lanes, region])

    def margin(deployment: Ints) -> Floats:
        quality = quotes.quality[lanes, fleet.model[deployment]]
        return np.asarray(quality / np.maximum(best, _TINY) - quotes.beta_q, dtype=np.float64)

    def load(deployment: Ints) -> Floats:
        unit = fleet.unit[deployment]
        places = quotes.unit_places[lanes, unit]
        share = quotes.unit_load[lanes, unit] / np.maximum(places, 1)
        return np.where(places > 0, share, 0.0)

    def cached_share(deployment: Ints) -> Floats:
        return np.asarray(quotes.cached_tokens[lanes, deployment] / np.maximum(history, 1.0))

    return np.column_stack(
        (
            np.log1p(history),
            log_ratio(quotes.co2_g[lanes, stay], quotes.co2_g[lanes, move]),
            log_ratio(quotes.intensity[lanes, region_stay], quotes.intensity[lanes, region_move]),
            trend(region_stay),
            trend(region_move),
            log_ratio(fleet.energy_kwh_per_token[stay], fleet.energy_kwh_per_token[move]),
            fleet.model[stay] != fleet.model[move],
            region_stay != region_move,
            fleet.gpu[stay] != fleet.gpu[move],
            margin(stay),
            margin(move),
            load(stay),
            load(move),
            cached_share(stay),
            cached_share(move),
            quotes.idle_s[lanes] / max(quotes.cache_ttl_s, 1.0),
            np.log1p(quotes.turn[lanes]),
        )
    )


def load_gate(path: str | Path, rule: Rule = "probability") -> Gate:
    """Read a gate that `carbon-gym fit-gate` wrote.

    Raises:
        InputError: The file is missing, damaged, or of other features.
    """
    if rule not in get_args(Rule):
        raise InputError(f"gate rule {rule!r} is not known; use {' or '.join(get_args(Rule))}")
    try:
        content: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA or tuple(content["features"]) != FEATURES:
            raise InputError(
                f"{path}: is a gate of another version (schema {content['schema']}); make it anew "
                "with `carbon-gym fit-gate`"
            )
        coefficients = np.array([float(content["coefficients"][name]) for name in FEATURES])
        return Gate(
            rule=rule,
            intercept=float(content["intercept"]),
            coefficients=coefficients,
            threshold=float(content["threshold"]),
            weight=float(content["weight"]),
            fitted_for=str(content["scenario_digest"]),
        )
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such gate; make it with `carbon-gym fit-gate`"
        ) from None
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: is not a gate file ({type(error).__name__}: {error}); make it anew with "
            "`carbon-gym fit-gate`"
        ) from None
