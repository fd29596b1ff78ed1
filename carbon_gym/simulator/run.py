"""Running a policy over fleets: the loop around quote → choose → commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.grid.series import GridSeries
from carbon_gym.policy import Policy
from carbon_gym.quality.predictor import QualityPredictor
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.simulator.simulator import Simulator
from carbon_gym.workload.trace import Trace

_REPORT_EVERY_STEPS = 500


@dataclass(frozen=True, slots=True, eq=False)
class PolicyRun:
    """What a policy did on some fleets.

    Attributes:
        policy: Its name.
        ledger: Structured array (N,) of `carbon_gym.simulator.arrays.OUTCOME`, fleet after fleet.
        bounds: int64 (F + 1,), fleet f owns the rows ``bounds[f]:bounds[f + 1]``.
        decision_us: Mean time of the policy's own choice, microseconds per turn; its first choice,
            which may compile, is left out where there are more. What a policy foresees is counted.
        gate_proposals: int64 (K,), how often the policy's gate was asked, by session slot, fleet
            after fleet; None for a policy without one.
        gate_blocks: int64 (K,), how often it stayed.
    """

    policy: str
    ledger: NDArray[np.void]
    bounds: NDArray[np.int64]
    decision_us: float
    gate_proposals: NDArray[np.int64] | None = None
    gate_blocks: NDArray[np.int64] | None = None


def run_policy(
    scenario: Scenario,
    policy: Policy,
    traces: Sequence[Trace],
    grid: GridSeries,
    *,
    predictor: QualityPredictor | None = None,
    on_turns: Callable[[int], None] | None = None,
) -> PolicyRun:
    """Serve every turn of the traces by one policy; the fleets run side by side as lanes.

    Args:
        scenario: Fleet and rules.
        policy: Chooses; its `reset` is called first. Bounds may ask for what no router has:
            ``full_cache = True``: accounted as if every history were cached; ``unbounded =
            True``: no capacity, no memory pressure; a method ``foresee(simulator)``: called
            before `reset`, sees all turns to come. A router that needs a second run of the same
            turns beside its own has a method ``accompany(simulator)``, called likewise.
        traces: One per fleet.
        grid: Carbon intensity.
        predictor: Quality predictor; None: the scenario's.
        on_turns: Called now and then with the number of turns served since its last call.

    Returns:
        The account.
    """
    simulator = Simulator(
        scenario,
        traces,
        grid,
        predictor=predictor,
        unbounded=bool(getattr(policy, "unbounded", False)),
        full_cache=bool(getattr(policy, "full_cache", False)),
    )
    foreseeing_s = 0.0
    if hasattr(policy, "foresee"):
        started = time.perf_counter()
        policy.foresee(simulator)
        foreseeing_s = time.perf_counter() - started
    if hasattr(policy, "accompany"):
        policy.accompany(simulator)
    policy.reset(simulator.fleet, simulator.slots)
    deciding_s = first_s = 0.0
    steps = reported = first_turns = 0
    quotes = simulator.quote()
    while not simulator.done:
        started = time.perf_counter()
        try:
            actions = policy.choose(quotes)
        except Exception as error:
            error.add_note(f"carbon-gym: in choose() of policy {policy.name!r}, step {steps}")
            raise
        deciding_s += time.perf_counter() - started
        try:
            quotes = simulator.step(actions)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"policy {policy.name!r}: what choose() gave at step {steps} cannot be served "
                f"({error}); give one deployment index per lane, int64"
            ) from None
        if steps == 0:
            first_s, first_turns = deciding_s, simulator.turns_served
        steps += 1
        if on_turns is not None and steps % _REPORT_EVERY_STEPS == 0:
            served = simulator.turns_served
            on_turns(served - reported)
            reported = served
    turns = len(simulator.ledger)
    if on_turns is not None:
        on_turns(turns - reported)
    if turns > first_turns:
        deciding_s, timed_turns = deciding_s - first_s, turns - first_turns
    else:
        timed_turns = turns
    return PolicyRun(
        policy=policy.name,
        ledger=simulator.ledger,
        bounds=simulator.bounds,
        decision_us=1e6 * (deciding_s / max(timed_turns, 1) + foreseeing_s / max(turns, 1)),
        gate_proposals=getattr(policy, "gate_proposals", None),
        gate_blocks=getattr(policy, "gate_blocks", None),
    )
