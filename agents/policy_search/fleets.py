"""What a search measures routers on: fleets of one split, and the rule that it has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from baselines.settings import reference_of, setting_of
from baselines.tuned import budget_of
from carbon_gym.doors import make_policy
from carbon_gym.envs.fleet_view import FleetView
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.metrics.figures import Figures
from carbon_gym.policy import Policy
from carbon_gym.router.amplify import amplify_all, qualities_of
from carbon_gym.router.plan import plan_of
from carbon_gym.router.rollout import serve_fleets
from carbon_gym.router.weights import Weights
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.scenario.schema import Split
from carbon_gym.simulator.run import run_policy
from carbon_gym.simulator.simulator import Simulator

PER_QUALITY, PER_TTFT, PER_RATE = 100.0, 2.0, 50.0
"""What is added to a router's relative CO2 per unit of quality, per share of P95 TTFT and per unit
of a violation's rate by which it misses the reference (ASSUMED: more than breaking it can save)."""
WORTH = 0.6
"""What a unit of quality costs a router under a budget near its target, as a share of the price
that validation found for `ccar-budget-fixed` (DERIVED: look-ahead rules of several prices,
validation: 10 to 12 times the reference's CO2 where that price is 17 to 19)."""


@dataclass(frozen=True, eq=False)
class Group:
    """Fleets of one scenario that are served together, and what the reference gives on them.

    Attributes:
        laid: The fleets.
        view: Of a simulator of them.
        reference: What the reference gives.
        price: What a unit of mean quality is worth, as a share of the reference's CO2: under a
            budget `WORTH` of what validation found; 0 where quality is filtered.
        queue: Under a budget the options of `RouterPolicy` by which a router's mean quality is
            held at its target; else empty.
    """

    laid: Evaluation
    view: FleetView
    reference: Figures
    price: float
    queue: dict[str, float]


class Fleets:
    """Groups of fleets of a split, of one or more scenarios alike.

    Args:
        scenarios: Rules and workloads.
        split: Of sessions and days.
        groups: Number of groups; each has other days and sessions.
        each: Fleets of every scenario in a group.
    """

    def __init__(self, scenarios: Sequence[Scenario], split: Split, groups: int, each: int) -> None:
        self.scenarios, self.split = tuple(scenarios), split
        self.each, self.groups = each, groups
        self._laid = [
            evaluation_fleets(scenario, split=split, fleets=groups * each)
            for scenario in self.scenarios
        ]
        self._made: dict[tuple[int, int], Group] = {}
        self._layouts: dict[int, ObservationLayout] = {}

    def group(self, number: int) -> list[Group]:
        """Group `number`, counted round: one entry per scenario."""
        wanted = number % self.groups
        return [self._group(k, wanted) for k in range(len(self.scenarios))]

    def turns(self, number: int) -> int:
        """Turns of a group."""
        return sum(len(group.view.simulator.ledger) for group in self.group(number))

    def serve(self, number: int, weights: Weights) -> list[Figures]:
        """What a scorer gives on a group, by scenario."""
        found = []
        for group in self.group(number):
            group.view.reset()
            serve_fleets(group.view, weights, **group.queue)
            found.append(Figures.of(group.view.simulator.ledger))
        return found

    def serve_policies(self, number: int, policies: Sequence[Policy]) -> list[Figures]:
        """What a policy per scenario gives on a group."""
        return [
            _figures(group.laid, policy)
            for group, policy in zip(self.group(number), policies, strict=True)
        ]

    def cost(self, number: int, figures: Sequence[Figures], margin: float = 0.0) -> float:
        """Mean over scenarios of `cost` on a group."""
        costs = [
            cost(found, group.reference, margin, group.price)
            for found, group in zip(figures, self.group(number), strict=True)
        ]
        return float(np.mean(costs))

    def _group(self, scenario: int, number: int) -> Group:
        key = scenario, number
        if key not in self._made:
            whole = self._laid[scenario]
            part = slice(number * self.each, (number + 1) * self.each)
            laid = replace(whole, traces=whole.traces[part], days=whole.days[part])
            name = reference_of(laid.scenario)
            policy = make_policy(name, laid.scenario)
            simulator = Simulator(laid.scenario, laid.traces, laid.grid)
            view = FleetView(simulator, self._layouts.get(scenario))
            self._layouts[scenario] = view.layout
            reference, price, queue = _figures(laid, policy), 0.0, {}
            if setting_of(laid.scenario) == "budget" and reference.co2_g:
                queue = budget_of(laid.scenario)
                price = WORTH * queue.pop("price_g") * len(simulator.ledger) / reference.co2_g
            self._made[key] = Group(laid, view, reference, price, queue)
        return self._made[key]


def cost(figures: Figures, reference: Figures, margin: float = 0.0, price: float = 0.0) -> float:
    """CO2 as a share of the reference's, and a price for each constraint that is missed.

    Under a budget a queue holds the mean quality near its target; what is left over at the end of
    a day, more or less than the reference's, counts at its price.

    Args:
        figures: A router's.
        reference: The rule's on the same turns.
        margin: By how much mean predicted quality shall lie above the reference's.
        price: As of `Group`; 0: quality is filtered.
    """
    below = reference.quality_predicted + margin - figures.quality_predicted
    late = figures.ttft_p95_s / (reference.ttft_p95_s or 1.0) - 1.0
    rates = sum(
        max(float(getattr(figures, name)) - float(getattr(reference, name)), 0.0)
        for name in ("quality_violation_rate", "ttft_violation_rate", "capacity_violation_rate")
    )
    missed = price * below if price else PER_QUALITY * max(below, 0.0)
    missed += PER_TTFT * max(late, 0.0) + PER_RATE * rates
    return figures.co2_relative(reference) + missed


def _figures(laid: Evaluation, policy: Policy) -> Figures:
    return Figures.of(run_policy(laid.scenario, policy, laid.traces, laid.grid).ledger)


def decisions(
    group: Group, policy: Policy
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64]]:
    """What a policy sees and does on a group.

    Returns:
        Observations (N, n), masks (N, D) and actions (N,), turn after turn.
    """
    view, simulator = group.view, group.view.simulator
    view.reset()
    if hasattr(policy, "accompany"):
        policy.accompany(simulator)
    policy.reset(simulator.fleet, simulator.slots)
    rows, deployments = len(simulator.ledger), len(simulator.fleet)
    seen = np.empty((rows, view.layout.size), dtype=np.float32)
    masks = np.empty((rows, deployments), dtype=np.bool_)
    done = np.empty(rows, dtype=np.int64)
    at = 0
    while not simulator.done:
        quotes = simulator.quote()
        view.observe()
        factor = getattr(policy, "factor", None)
        if factor is not None:  # of the queue's: what a router would see under it
            amplify_all(view.observation, *qualities_of(plan_of(view.layout)), factor)
        chosen = policy.choose(quotes)
        live = np.flatnonzero(quotes.row >= 0)
        part = slice(at, at + len(live))
        seen[part], masks[part] = view.observation[live], view.mask[live]
        done[part] = chosen[live]
        at += len(live)
        simulator.commit(chosen)
    return seen, masks, done
