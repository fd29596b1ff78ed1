"""The front: CO2 against mean realised quality, every family of policies along its own knob."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.benchmark import evaluation_key, policy_key
from carbon_gym.doors import make_policy, our_package
from carbon_gym.evaluation import Evaluation
from carbon_gym.parallel import in_processes
from carbon_gym.policy import Policy
from carbon_gym.scenario import Scenario, load_scenario
from carbon_gym.simulator.run import run_policy

REFERENCE = "ccar"
"""At the scenario's own β_Q it is what every point is compared with."""
FILTERED = (
    REFERENCE,
    "faircarbon",
    "session-affinity",
    "gar-eps",
    "gar-pd",
    "cedar",
    "cache-aware",
)
"""Swept over β_Q unless other policies are named."""
UNFILTERED = ("largest-model", "smallest-model", "carbon-greedy", "session-hash")
"""No bound on quality moves them: one point each; the first two unless others are named."""
PRICED = ("ccar-budget-fixed", "faircarbon-budget", "gar-pd-budget")
"""Under the budget, swept over λ or their CO2 budget. Others with a budget have a target of their
own: one point each, if named."""
ORDER = (*FILTERED, *UNFILTERED, *PRICED)
"""In tables and pictures; other policies follow by name."""
FLOOR = 0.7
"""β_floor of the families that are swept at one floor only (ASSUMED, as in SPEC §8)."""

Figures = dict[str, Any]
OnTurns = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Sweep:
    """The values of the knobs (all ASSUMED: what it takes to see the curve bend).

    Attributes:
        beta_q: β_Q of the filter.
        lambdas: λ of the budget, `scale` of CO2 per unit of quality; steps of about √2.
        floors: β_floor of `ccar-budget-fixed`, a family each.
        co2_budgets: Of `gar-pd-budget`, share of faircarbon's mean CO2 per turn.
    """

    beta_q: tuple[float, ...] = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
    lambdas: tuple[float, ...] = (0, 1, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16, 23, 32, 45, 64, 91, 128)
    floors: tuple[float, ...] = (0.0, 0.7, 0.8)
    co2_budgets: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6)


@dataclass(frozen=True, slots=True)
class Point:
    """A policy at one value of its knob.

    Attributes:
        family: The curve that it belongs to.
        policy: Name of the policy.
        knob: What is swept, None for a single point.
        value: Its value.
        bounds: Changes to the scenario's bounds.
        options: Options of the policy.
    """

    family: str
    policy: str
    knob: str | None = None
    value: float | None = None
    bounds: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Unique within a scenario."""
        return self.family if self.knob is None else f"{self.family}, {self.knob} = {self.value:g}"

    def to_dict(self) -> dict[str, Any]:
        """Its fields, as `front.json` has them."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Point:
        """The point of a record of `front.json`."""
        return cls(**{name: record[name] for name in cls.__slots__})


def reference_point(scenario: Scenario) -> Point:
    """CCAR at the scenario's own β_Q."""
    return _filtered(REFERENCE, scenario.bounds.beta_q)


def front_points(
    scenario: Scenario, policies: Sequence[str] | None = None, sweep: Sweep | None = None
) -> list[Point]:
    """What is run, family by family; the reference is always there.

    Args:
        scenario: Only its β_Q counts: the points set the constraint themselves.
        policies: Names; None: every family.
        sweep: Values of the knobs; None: the default.
    """
    sweep = sweep or Sweep()
    names = list(dict.fromkeys(policies or (*FILTERED, *UNFILTERED[:2], *PRICED)))
    if REFERENCE not in names:
        return [reference_point(scenario), *(p for name in names for p in _family(name, sweep))]
    with_own = replace(sweep, beta_q=tuple(sorted({*sweep.beta_q, scenario.bounds.beta_q})))
    return [
        point for name in names for point in _family(name, with_own if name == REFERENCE else sweep)
    ]


def _family(name: str, sweep: Sweep) -> list[Point]:
    if name in UNFILTERED:
        return [Point(name, name, bounds={"quality_constraint": "filter"})]
    if name == "ccar-budget-fixed":
        return [
            _priced(f"{name}, floor {floor:g}", name, value, floor)
            for floor in sweep.floors
            for value in sweep.lambdas
        ]
    if name == "faircarbon-budget":
        return [_priced(name, name, value, FLOOR) for value in sweep.lambdas]
    if name == "gar-pd-budget":
        knob = "co2_budget"
        return [
            Point(name, name, knob, value, _budget(FLOOR), {knob: value})
            for value in sweep.co2_budgets
        ]
    if name in our_package("baselines").BUDGETED:
        return [Point(name, name, bounds=_budget(FLOOR))]
    return [_filtered(name, value) for value in sweep.beta_q]


def _filtered(name: str, beta_q: float) -> Point:
    bounds = {"quality_constraint": "filter", "beta_q": beta_q}
    return Point(name, name, "beta_q", beta_q, bounds)


def _priced(family: str, name: str, price: float, floor: float) -> Point:
    """A fixed λ: without a step no target moves it."""
    options = {"lambda_start": float(price), "eta": 0.0}
    return Point(family, name, "lambda_start", float(price), _budget(floor), options)


def _budget(floor: float) -> dict[str, Any]:
    return {"quality_constraint": "budget", "beta_floor": floor}


def scenario_at(scenario: Scenario, point: Point) -> Scenario:
    """The scenario under the bounds of a point; traces and grid do not depend on them."""
    return load_scenario(scenario, bounds=point.bounds)


def policy_at(scenario: Scenario, point: Point) -> Policy:
    """The policy of a point.

    Raises:
        InputError: Unknown name or option, or its gate or knobs are missing.
    """
    return make_policy(point.policy, scenario_at(scenario, point), **point.options)


def point_keys(evaluation: Evaluation, points: Iterable[Point]) -> dict[str, str]:
    """By id, a hash of all that a point's figures depend on."""
    fleets = evaluation_key(evaluation)
    keys = {}
    for point in points:
        there = replace(evaluation, scenario=scenario_at(evaluation.scenario, point))
        policy = policy_key(point.policy, there)
        rest = json.dumps([point.to_dict(), fleets, policy], sort_keys=True)
        keys[point.id] = hashlib.sha256(rest.encode()).hexdigest()[:16]
    return keys


def turns_to_serve(evaluation: Evaluation, points: Iterable[Point]) -> int:
    """Turns that `run_points` will serve, for a progress bar."""
    return len(list(points)) * sum(trace.turns for trace in evaluation.traces)


def run_points(
    evaluation: Evaluation,
    points: Sequence[Point],
    *,
    jobs: int = 1,
    on_turns: OnTurns | None = None,
) -> Iterator[tuple[Point, list[Figures]]]:
    """Run points.

    Args:
        evaluation: The fleets.
        points: What to run.
        jobs: Processes; 1 runs in this one.
        on_turns: Called with the number of turns served since its last call.

    Yields:
        A point and its figures, of each fleet and then of all turns (``"fleet": "all"``), in the
        order in which they are done.
    """
    if jobs <= 1 or len(points) <= 1:
        for point in points:
            yield point, _figures_of_point(evaluation, point, on_turns)
        return
    turns = turns_to_serve(evaluation, points[:1])
    for point, figures in in_processes(_figures_of_point, evaluation, points, jobs):
        yield point, figures
        if on_turns is not None:
            on_turns(turns)


def _figures_of_point(
    evaluation: Evaluation, point: Point, on_turns: OnTurns | None = None
) -> list[Figures]:
    run = run_policy(
        scenario_at(evaluation.scenario, point),
        policy_at(evaluation.scenario, point),
        evaluation.traces,
        evaluation.grid,
        on_turns=on_turns,
    )
    fleets = [run.ledger[begin:end] for begin, end in pairwise(run.bounds.tolist())]
    figures = [_figures(number, ledger) for number, ledger in enumerate(fleets)]
    return [*figures, _figures("all", run.ledger)]


def _figures(fleet: int | str, ledger: NDArray[np.void]) -> Figures:
    """What the front keeps of an account: gCO2eq, s, shares of turns; None without a turn."""
    turns = len(ledger)
    means = (
        "quality_realised",
        "quality_predicted",
        "quality_violation",
        "ttft_violation",
        "capacity_violation",
    )
    mean = {name: float(ledger[name].mean()) if turns else None for name in means}
    return {
        "fleet": fleet,
        "turns": turns,
        "co2_g": float(ledger["co2_g"].sum()),
        "quality_realised": mean["quality_realised"],
        "quality_predicted": mean["quality_predicted"],
        "ttft_p95_s": float(np.quantile(ledger["ttft_s"], 0.95)) if turns else None,
        "quality_violation_rate": mean["quality_violation"],
        "ttft_violation_rate": mean["ttft_violation"],
        "capacity_violation_rate": mean["capacity_violation"],
    }
