"""Tuning the knobs of baselines on the validation split (SPEC §6, §10)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from baselines.faircarbon import FairCarbon
from baselines.knobs import TUNABLE, TUNABLE_UNDER_BUDGET
from baselines.tuned import MEASURED, SCHEMA
from carbon_gym import draws
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation
from carbon_gym.parallel import processes
from carbon_gym.simulator.run import run_policy

SEED = 20270
"""Of the candidates' draws."""
CANDIDATES = 128
"""Knobs tried per policy."""
_ALL = {**TUNABLE, **TUNABLE_UNDER_BUDGET}
_EDGE_WIDTHS = (0.06, 0.012)
"""Of the rounds that move the edge's knob alone: half width as a share of its range."""
_EDGE_TRIES = 8
_NEAR_WIDTHS = (0.12, 0.04)
"""Of the two rounds near the best so far: sd as a share of every knob's range."""
_LANES, _SESSIONS = 64, 200_000
"""Most lanes, and most sessions, that run side by side: the price of a step of many lanes is
shared by all of them, until their caches no longer fit into the processor's."""
Knobs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reference:
    """The bounds of the tuning on the validation fleets, and what policies are told of faircarbon.

    Quality and TTFT are faircarbon's; for policies under a budget they are CCAR's (SPEC §8).

    Attributes:
        scale_co2_g: Mean CO2 per turn, gCO2eq.
        late_budget: Mean [ttft/τ − 1]⁺ per turn.
        quality: Mean predicted quality.
        ttft_p95_s: 95th percentile of TTFT over all turns, s.
        quality_realised: Mean realised quality; 0 where it is no bound.
    """

    scale_co2_g: float
    late_budget: float
    quality: float
    ttft_p95_s: float
    quality_realised: float = 0.0


@dataclass(frozen=True, slots=True)
class Score:
    """How some knobs did on the validation fleets.

    Attributes:
        co2_relative: CO2 over faircarbon's.
        quality: Mean predicted quality.
        ttft_p95_s: 95th percentile of TTFT over all turns, s.
        quality_realised: Mean realised quality.
    """

    co2_relative: float
    quality: float
    ttft_p95_s: float
    quality_realised: float = 1.0

    def met(self, reference: Reference) -> tuple[bool, bool]:
        """Whether quality is not below, and P95 TTFT not above the reference's."""
        enough = self.quality >= reference.quality
        enough = enough and self.quality_realised >= reference.quality_realised
        return enough, self.ttft_p95_s <= reference.ttft_p95_s


def better_first(score: Score, reference: Reference) -> tuple[int, float]:
    """Sort key of candidates, best first (SPEC §6, §10).

    Those that meet both bounds by CO2; else those of enough quality by P95 TTFT; else by quality.
    """
    enough_quality, fast_enough = score.met(reference)
    if enough_quality and fast_enough:
        return 0, score.co2_relative
    if enough_quality:
        return 1, score.ttft_p95_s
    return 2, -score.quality


def measure_reference(evaluation: Evaluation) -> Reference:
    """Run faircarbon on the fleets."""
    ledger = run_policy(
        evaluation.scenario, FairCarbon(), evaluation.traces, evaluation.grid
    ).ledger
    if not len(ledger) or not ledger["co2_g"].sum() > 0:
        raise InputError(
            f"{evaluation.scenario.name}: faircarbon emits nothing on the validation fleets, so "
            "nothing can be tuned against it; give more --fleets, or a grid that emits"
        )
    late = np.maximum(ledger["ttft_s"] / evaluation.scenario.bounds.ttft_s - 1.0, 0.0)
    return Reference(
        scale_co2_g=float(ledger["co2_g"].mean()),
        late_budget=float(late.mean()),
        quality=float(ledger["quality_predicted"].mean()),
        ttft_p95_s=float(np.quantile(ledger["ttft_s"], 0.95)),
    )


def scores_of(
    evaluation: Evaluation, reference: Reference, policy: str, batch: Sequence[Knobs]
) -> list[Score]:
    """Run a policy with each of some knobs on the fleets, all side by side as lanes.

    Args:
        evaluation: The fleets.
        reference: faircarbon's figures.
        policy: One of `TUNABLE` or `TUNABLE_UNDER_BUDGET`.
        batch: Knobs; those that are words must be the same in all.
    """
    fleets = len(evaluation.traces)
    options: Knobs = {
        name: value
        if isinstance(value, str)
        else np.repeat([float(knobs[name]) for knobs in batch], fleets)
        for name, value in batch[0].items()
    }
    options |= {name: getattr(reference, name) for name in MEASURED[policy]}
    run = run_policy(
        evaluation.scenario,
        _ALL[policy].build(**options),
        evaluation.traces * len(batch),
        evaluation.grid,
    )
    scores = []
    for begin, end in pairwise(run.bounds[::fleets].tolist()):
        ledger = run.ledger[begin:end]
        scores.append(
            Score(
                co2_relative=float(ledger["co2_g"].mean()) / reference.scale_co2_g,
                quality=float(ledger["quality_predicted"].mean()),
                ttft_p95_s=float(np.quantile(ledger["ttft_s"], 0.95)),
                quality_realised=float(ledger["quality_realised"].mean()),
            )
        )
    return scores


Scorer = Callable[[str, Sequence[Knobs]], Iterator[tuple[int, Score]]]
"""Of a policy and knobs: (number of the knobs, their score), in any order."""


@contextmanager
def scorer(evaluation: Evaluation, reference: Reference, jobs: int = 1) -> Iterator[Scorer]:
    """A `Scorer` that runs in this process, or in `jobs` others."""
    size = _batch_size(evaluation)
    if jobs <= 1:

        def here(policy: str, tried: Sequence[Knobs]) -> Iterator[tuple[int, Score]]:
            for batch in _batches(tried, size):
                chosen = [tried[number] for number in batch]
                yield from zip(batch, scores_of(evaluation, reference, policy, chosen), strict=True)

        yield here
        return
    with processes(jobs, _set_up, (evaluation, reference)) as pool:

        def there(policy: str, tried: Sequence[Knobs]) -> Iterator[tuple[int, Score]]:
            share = -(-len(tried) // jobs)  # no process should wait for another
            pending = {
                pool.submit(_score_here, policy, [tried[number] for number in batch]): batch
                for batch in _batches(tried, min(size, share))
            }
            for done in as_completed(pending):
                yield from zip(pending[done], done.result(), strict=True)

        yield there


def _batch_size(evaluation: Evaluation) -> int:
    sessions = sum(trace.sessions for trace in evaluation.traces)
    by_lanes = _LANES // len(evaluation.traces)
    return max(1, min(by_lanes, _SESSIONS // max(sessions, 1)))


def _batches(tried: Sequence[Knobs], size: int) -> Iterator[list[int]]:
    """Numbers of knobs that can run side by side, at most `size` at a time."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for number, knobs in enumerate(tried):
        words = tuple(value for value in knobs.values() if isinstance(value, str))
        alike.setdefault(words, []).append(number)
    for numbers in alike.values():
        for begin in range(0, len(numbers), size):
            yield numbers[begin : begin + size]


_HERE: list[tuple[Evaluation, Reference]] = []  # of a worker process


def _set_up(evaluation: Evaluation, reference: Reference) -> None:
    _HERE[:] = [(evaluation, reference)]


def _score_here(policy: str, batch: Sequence[Knobs]) -> list[Score]:
    return scores_of(*_HERE[0], policy, batch)


def tune(
    policy: str,
    reference: Reference,
    score: Scorer,
    *,
    candidates: int = CANDIDATES,
    seed: int = SEED,
    on_candidate: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Search the knobs of a policy.

    Half of the candidates are drawn evenly over all ranges, the rest in two rounds ever nearer
    to the best so far; where the policy has an edge, the last of them move that knob alone. Draws
    are keyed by (seed, policy, candidate, knob).

    Args:
        policy: One of `TUNABLE` or `TUNABLE_UNDER_BUDGET`.
        reference: faircarbon's figures.
        score: Of `scorer`.
        candidates: Number of knobs tried.
        seed: Of the draws.
        on_candidate: Called after each one.

    Returns:
        The policy's part of the file: knobs, figures, bounds met, all candidates tried.
    """
    knobs, edge = _ALL[policy].knobs, _ALL[policy].edge
    tried: list[tuple[list[float], Knobs, Score]] = []

    def best() -> tuple[list[float], Knobs, Score]:
        return min(tried, key=lambda one: better_first(one[2], reference))

    def try_all(places: Sequence[list[float]]) -> None:
        values = [
            {knob.name: knob.at(share) for knob, share in zip(knobs, place, strict=True)}
            for place in places
        ]
        scores: dict[int, Score] = {}
        for number, found in score(policy, values):
            scores[number] = found
            on_candidate()
        tried.extend(
            (place, chosen, scores[number])
            for number, (place, chosen) in enumerate(zip(places, values, strict=True))
        )

    moved = _EDGE_TRIES * len(_EDGE_WIDTHS)
    if edge is None or candidates < 2 * moved:  # too few to spend them on the edge
        edge, moved = None, 0
    for begin, end, width in _rounds(candidates - moved):
        centre = best()[0] if tried else []
        places = []
        for number in range(begin, end):
            if width is None:
                place = [_uniform(seed, policy, number, k) for k in range(len(knobs))]
            else:
                drawn = [_normal(seed, policy, number, k) for k in range(len(knobs))]
                place = [
                    min(max(c + width * z, 0.0), 1.0) for c, z in zip(centre, drawn, strict=True)
                ]
            places.append(place)
        try_all(places)
    for width in _EDGE_WIDTHS if edge else ():
        centre, at = best()[0], [knob.name for knob in knobs].index(edge or "")
        steps = np.linspace(-width, width, _EDGE_TRIES)
        moves = [min(max(centre[at] + float(step), 0.0), 1.0) for step in steps]
        try_all([[*centre[:at], move, *centre[at + 1 :]] for move in moves])
    _, chosen, found = best()
    met = found.met(reference)
    return {
        "knobs": chosen,
        "met": {"quality": met[0], "ttft_p95": met[1]},
        **_figures(found),
        "columns": [*chosen, *_figures(found)],
        "tried": [[*values.values(), *_figures(figures).values()] for _, values, figures in tried],
    }


def _rounds(candidates: int) -> list[tuple[int, int, float | None]]:
    """(first, stop, width) of each round; width None: all over the ranges."""
    first = (candidates + 1) // 2
    second = first + (candidates - first + 1) // 2
    wide, narrow = _NEAR_WIDTHS
    return [(0, first, None), (first, second, wide), (second, candidates, narrow)]


def _uniform(seed: int, policy: str, number: int, knob: int) -> float:
    return float(draws.uniform(seed, f"tune {policy}", number, 0, knob))


def _normal(seed: int, policy: str, number: int, knob: int) -> float:
    return float(draws.normal(seed, f"tune {policy}", number, 0, knob))


def _figures(score: Score) -> dict[str, float]:
    return {
        "co2_relative": round(score.co2_relative, 5),
        "quality": round(score.quality, 5),
        "ttft_p95_s": round(score.ttft_p95_s, 5),
    }


def heading(evaluation: Evaluation, reference: Reference, seed: int) -> dict[str, Any]:
    """What a file of knobs says before the policies: where the figures come from."""
    ids = sorted(name for trace in evaluation.traces for name in trace.session_id)
    return {
        "schema": SCHEMA,
        "scenario": evaluation.scenario.name,
        "scenario_digest": evaluation.scenario.filtered().digest(),
        "split": "validation",
        "days": [day.isoformat() for day in evaluation.days],
        "sessions": len(ids),
        "turns": sum(trace.turns for trace in evaluation.traces),
        "session_ids_sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest(),
        "seed": seed,
        "faircarbon": {
            "scale_co2_g": reference.scale_co2_g,
            "late_budget": reference.late_budget,
            "quality": reference.quality,
            "ttft_p95_s": reference.ttft_p95_s,
        },
    }
