"""What policies do on the fleets of the test split: when they stay, what they keep, and where."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from learned_collect import short
from numpy.typing import NDArray

from carbon_gym.benchmark import evaluation_key, policy_key
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.policy import Policy
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.run import PolicyRun, run_policy

FLEETS = 8
"""Days of the test split."""
FILTERED = ("ccar", "lookahead-places", "learned")
WATCHED: dict[str, tuple[str, ...]] = {
    "sharegpt": FILTERED,
    "congested": FILTERED,
    "sharegpt-budget": ("ccar-budget", "learned"),
}
"""Scenarios, and the policies that are watched there; `learned` is the one of the shipped seeds
that was best on validation."""
QUARTILES = 4
VERSION = 1
"""Of the figures; raise it when they change, so that a rerun measures anew."""

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Entry = dict[str, Any]


class Watched:
    """A policy with a note of every choice; it chooses as it would alone.

    Args:
        policy: Any.
        turns: Of all fleets.

    Attributes:
        load: float64 (turns,), load of the chosen pool before the turn: others over the places it
            takes now, at most 1; NaN where no limit binds.
        cleanest: int64 (turns,), region of the least PUE·CI known at dispatch.
        cleaner: float64 (turns,), PUE·CI of the chosen region over the mean of all regions.
        cheapest: int64 (turns,), the cheapest feasible deployment, best effort included.
        forgone_g: float64 (turns,), estimated CO2 of the choice minus that of the cheapest, gCO2eq.
    """

    def __init__(self, policy: Policy, turns: int) -> None:
        self._policy, self.name = policy, policy.name
        self.load = np.full(turns, np.nan)
        self.cleanest = np.full(turns, NOWHERE)
        self.cleaner = np.full(turns, np.nan)
        self.cheapest = np.full(turns, NOWHERE)
        self.forgone_g = np.full(turns, np.nan)

    def __getattr__(self, name: str) -> Any:
        """What some policies have besides: `foresee`, `accompany`, `unbounded`, ..."""
        return getattr(self._policy, name)

    def reset(self, fleet: Deployments, slots: int) -> None:
        """The policy's."""
        self._policy.reset(fleet, slots)

    def choose(self, quotes: Quotes) -> Ints:
        """The policy's choice, noted."""
        choice = self._policy.choose(quotes)
        cheapest = quotes.cheapest()
        lane = np.flatnonzero(quotes.row != NOWHERE)
        row, chosen, least = quotes.row[lane], choice[lane], cheapest[lane]
        unit, intensity = quotes.fleet.unit[chosen], quotes.facility_intensity[lane]
        places, others = quotes.unit_places[lane, unit], quotes.unit_load[lane, unit]
        load = np.minimum(1.0, others / np.maximum(places, 1))
        mean = intensity.mean(axis=1)
        self.load[row] = np.where(places == NOWHERE, np.nan, load)
        self.cleanest[row] = intensity.argmin(axis=1)
        taken = intensity[np.arange(len(lane)), quotes.fleet.region[chosen]]
        self.cleaner[row] = np.divide(taken, mean, out=np.ones(len(lane)), where=mean > 0)
        self.cheapest[row] = least
        self.forgone_g[row] = quotes.co2_g[lane, chosen] - quotes.co2_g[lane, least]
        return choice


def measure_behaviour(
    known: Mapping[str, Entry],
    fleets: int = FLEETS,
    watched: Mapping[str, Sequence[str]] = WATCHED,
) -> Iterator[tuple[str, Entry]]:
    """Run the policies on fleets of the test split.

    Args:
        known: Entries at hand; what still holds is not run again.
        fleets: Days.
        watched: Policies by scenario.

    Yields:
        "scenario | policy" and its figures.
    """
    for scenario, policies in watched.items():
        evaluation = evaluation_fleets(load_scenario(scenario), split="test", fleets=fleets)
        world = evaluation_key(evaluation)
        for policy in policies:
            text = f"{world} {policy_key(policy, evaluation)} {VERSION}"
            key = hashlib.sha256(text.encode()).hexdigest()[:16]
            name = f"{scenario} | {policy}"
            if known.get(name, {}).get("key") != key:
                yield name, {"key": key, **watch(evaluation, policy)}


def watch(evaluation: Evaluation, policy: str) -> Entry:
    """One policy on the fleets of an evaluation: figures for `learned.json`."""
    turns = sum(trace.turns for trace in evaluation.traces)
    noted = Watched(make_policy(policy, evaluation.scenario), turns)
    run = run_policy(evaluation.scenario, noted, evaluation.traces, evaluation.grid)
    return dict(short(_figures(evaluation, noted, run)))


def _figures(evaluation: Evaluation, noted: Watched, run: PolicyRun) -> Entry:
    fleet, ledger, traces = Deployments.of(evaluation.scenario), run.ledger, evaluation.traces
    turn, history, prompt, output = (
        np.concatenate([getattr(trace, name) for trace in traces])
        for name in ("turn", "history_tokens", "prompt_tokens", "output_tokens")
    )
    first = np.cumsum([0, *(trace.sessions for trace in traces)])
    session = np.concatenate(
        [trace.session + begin for trace, begin in zip(traces, first[:-1], strict=True)]
    )
    tokens = history + prompt + output
    served = ledger["deployment"] != NOWHERE
    place = np.where(served, ledger["deployment"], 0)
    clean = served & (fleet.region[place] == noted.cleanest)
    later, stays = turn > 0, ~ledger["switched"]
    size, asked = quartiles(tokens), np.bincount(session, weights=tokens)
    sessions = quartiles(asked)[session]
    differs = served & (ledger["deployment"] != noted.cheapest)
    limited = np.isfinite(noted.load)
    forgone = float(noted.forgone_g[served].sum())
    return {
        "fleets": len(traces),
        "turns": len(ledger),
        "sessions": len(asked),
        "co2_g": float(ledger["co2_g"].sum()),
        "stays": _mean(stays[later]),
        "stays_by_turn_size": [_mean(stays[later & (size == q)]) for q in range(QUARTILES)],
        "moves_per_session": float(ledger["switched"].sum() / max(len(asked), 1)),
        "history_cached": float(ledger["cached_tokens"].sum() / max(history.sum(), 1)),
        "turns_by_model": _shares(fleet.models, fleet.model[place], served),
        "tokens_by_model": _shares(fleet.models, fleet.model[place], served * tokens),
        "cached_by_model": _shares(
            fleet.models, fleet.model[place], served * ledger["cached_tokens"]
        ),
        "turns_by_gpu": _shares(fleet.gpus, fleet.gpu[place], served),
        "tokens_by_gpu": _shares(fleet.gpus, fleet.gpu[place], served * tokens),
        "clean": _mean(clean),
        "clean_tokens": float((clean * tokens).sum() / max(tokens.sum(), 1)),
        "clean_by_turn_size": [_mean(clean[size == q]) for q in range(QUARTILES)],
        "clean_by_session_size": [_mean(clean[sessions == q]) for q in range(QUARTILES)],
        "clean_places_by_session_size": [
            float(clean[sessions == q].sum() / max(clean.sum(), 1)) for q in range(QUARTILES)
        ],
        "intensity": _mean(noted.cleaner[served]),
        "intensity_by_token": float(
            (noted.cleaner[served] * tokens[served]).sum() / max(tokens[served].sum(), 1)
        ),
        "load": _mean(noted.load[limited]) if limited.any() else None,
        "limited": _mean(limited),
        "differs": _mean(differs),
        "forgone": forgone / max(float(ledger["co2_g"].sum()), 1e-12),
        "forgone_mg_where_it_differs": 1e3
        * float(noted.forgone_g[differs].sum())
        / max(int(differs.sum()), 1),
    }


def quartiles(sizes: NDArray[Any]) -> Rows:
    """The quarter that each size is in by rank, 0 the smallest; equal sizes may be parted.

    Args:
        sizes: (n,).

    Returns:
        int64 (n,), in 0..3.
    """
    rank = np.empty(len(sizes), dtype=np.int64)
    rank[np.argsort(sizes, kind="stable")] = np.arange(len(sizes))
    return rank * QUARTILES // max(len(sizes), 1)


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None


def _shares(names: Sequence[str], index: Rows, weights: NDArray[Any]) -> dict[str, float]:
    """Share of the weights by name."""
    sums = np.bincount(index, weights=weights, minlength=len(names))
    return dict(zip(names, (sums / max(float(sums.sum()), 1e-12)).tolist(), strict=True))
