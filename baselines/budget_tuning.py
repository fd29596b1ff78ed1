"""Finding λ, its step and its margin on the validation split (SPEC §8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from baselines import POLICIES
from baselines.tuned import SHADOWED
from baselines.tuning import Reference
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import Evaluation
from carbon_gym.simulator.arrays import Floats
from carbon_gym.simulator.run import run_policy

PRICED = (
    "ccar-budget-fixed",
    "ccar-budget",
    "ccar-budget-follow",
    "ccar-budget-sessions",
    "faircarbon-budget",
)
"""The policies that have a λ, in the order in which they are tuned."""
PRICES = (1.0, 128.0)
"""Range of λ that is searched, `scale` of CO2 per unit of quality (ASSUMED)."""
STEPS = (0.01, 0.014, 0.02, 0.028, 0.04, 0.056, 0.08, 0.11)
"""η tried, smallest first: a smaller one follows the noise of single turns less."""
WRONG_BY = 3.0
MOST_DEVIATION = 0.003
"""A λ that starts wrong by `WRONG_BY` should come within this share of the target over each
validation day (ASSUMED: the documents promise 0.005, and other days may be harder)."""
NEARLY_LEAST = 1.25
"""Where no step gets there, one that comes within this factor of the least deviation will do."""
MARGINS = tuple(round(0.0005 * k, 4) for k in range(32))
"""Added to the target, quality; the smallest that suffices is kept."""
SESSION_FLOOR = 0.95
"""Of `ccar-budget-sessions` (ASSUMED: within 5 % of CCAR)."""
_TRIED_AT_ONCE, _ROUNDS, _DIGITS = 8, 3, 3

Options = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """How some options did on the fleets.

    Attributes:
        co2_relative: CO2 over faircarbon's.
        quality: Mean predicted quality over all turns.
        quality_realised: Mean realised quality.
        ttft_p95_s: 95th percentile of TTFT, s.
        quality_by_fleet: float64 (F,), mean predicted quality.
    """

    co2_relative: float
    quality: float
    quality_realised: float
    ttft_p95_s: float
    quality_by_fleet: Floats

    def enough(self, ccar: Reference) -> bool:
        """Whether neither predicted nor realised quality is below CCAR's."""
        return self.quality >= ccar.quality and self.quality_realised >= ccar.quality_realised

    def figures(self) -> dict[str, float]:
        """As the file has them."""
        return {
            "co2_relative": round(self.co2_relative, 5),
            "quality": round(self.quality, 5),
            "quality_realised": round(self.quality_realised, 5),
            "ttft_p95_s": round(self.ttft_p95_s, 5),
        }


def measure_ccar(evaluation: Evaluation, faircarbon: Reference) -> tuple[Reference, float]:
    """CCAR under the filter: the bounds for policies under a budget, and its relative CO2."""
    scenario = evaluation.scenario.filtered()
    policy = make_policy("ccar", scenario)
    ledger = run_policy(scenario, policy, evaluation.traces, evaluation.grid).ledger
    bounds = replace(
        faircarbon,
        quality=float(ledger["quality_predicted"].mean()),
        quality_realised=float(ledger["quality_realised"].mean()),
        ttft_p95_s=float(np.quantile(ledger["ttft_s"], 0.95)),
    )
    return bounds, float(ledger["co2_g"].mean()) / faircarbon.scale_co2_g


def try_options(
    evaluation: Evaluation, ccar: Reference, policy: str, batch: Sequence[Options]
) -> list[Tried]:
    """Run a policy with each of some options, all side by side as lanes.

    Args:
        evaluation: The fleets; the scenario has a budget.
        ccar: Of `measure_ccar`.
        policy: One of `PRICED`.
        batch: Numbers by name, the same names in all.
    """
    fleets = len(evaluation.traces)
    by_lane: Options = {
        name: np.repeat([float(one[name]) for one in batch], fleets) for name in batch[0]
    }
    if policy in SHADOWED:
        by_lane |= _extra(policy)
        by_lane["shadow"] = make_policy("ccar", evaluation.scenario.filtered())
    router = POLICIES[policy](scale_co2_g=ccar.scale_co2_g, **by_lane)
    run = run_policy(evaluation.scenario, router, evaluation.traces * len(batch), evaluation.grid)
    tried = []
    for n, (begin, end) in enumerate(pairwise(run.bounds[::fleets].tolist())):
        ledger = run.ledger[begin:end]
        edges = run.bounds[n * fleets : (n + 1) * fleets + 1] - begin
        by_fleet = [ledger["quality_predicted"][a:b].mean() for a, b in pairwise(edges) if b > a]
        tried.append(
            Tried(
                co2_relative=float(ledger["co2_g"].mean()) / ccar.scale_co2_g,
                quality=float(ledger["quality_predicted"].mean()),
                quality_realised=float(ledger["quality_realised"].mean()),
                ttft_p95_s=float(np.quantile(ledger["ttft_s"], 0.95)),
                quality_by_fleet=np.array(by_fleet),
            )
        )
    return tried


def _extra(policy: str) -> Options:
    """Options of a policy with CCAR in its shadow that are no numbers to be found."""
    floor = {"session_floor": SESSION_FLOOR} if policy == "ccar-budget-sessions" else {}
    return {"follow": True, **floor}


class BudgetTuning:
    """The knobs of the policies of `PRICED` on some fleets, one after the other.

    Args:
        evaluation: Validation fleets; the scenario has a budget.
        ccar: Of `measure_ccar`.
        on_try: Called after each run of the fleets.
    """

    def __init__(
        self, evaluation: Evaluation, ccar: Reference, on_try: Callable[[], None] = lambda: None
    ) -> None:
        self._evaluation, self._ccar, self._on_try = evaluation, ccar, on_try

    def tune(self, policy: str, done: dict[str, Any]) -> dict[str, Any]:
        """A policy's part of the file.

        Args:
            policy: One of `PRICED`.
            done: Parts of the file so far: `ccar-budget` begins at the λ of `ccar-budget-fixed`,
                and those with CCAR in their shadow take λ and η of `ccar-budget`.
        """
        if policy == "ccar-budget-fixed":
            price, tried, tries = self._price(policy)
            return self._part({"lambda_start": price}, tried, tries, ["lambda_start"])
        tries, deviation = [], None
        if policy in SHADOWED:
            knobs = {key: done["ccar-budget"]["knobs"][key] for key in ("lambda_start", "eta")}
        else:
            fixed = done.get("ccar-budget-fixed") if policy == "ccar-budget" else None
            price = fixed["knobs"]["lambda_start"] if fixed else self._price(policy)[0]
            eta, deviation, tries = self._step(policy, price)
            knobs = {"lambda_start": price, "eta": eta}
        margin, tried, more = self._margin(policy, knobs)
        knobs["margin"] = margin
        if policy in SHADOWED:
            knobs |= _extra(policy)
        columns = ["lambda_start", "eta", "margin"]
        part = self._part(knobs, tried, [*tries, *more], columns)
        if deviation is not None:
            part["worst_deviation"] = round(deviation, 5)  # of a day, λ wrong by WRONG_BY or right
        return part

    def _part(
        self, knobs: Options, tried: Tried, tries: list[list[float]], columns: list[str]
    ) -> dict[str, Any]:
        return {
            "knobs": knobs,
            "met": {
                "quality": tried.enough(self._ccar),
                "ttft_p95": tried.ttft_p95_s <= self._ccar.ttft_p95_s,
            },
            **tried.figures(),
            "columns": [*columns, *tried.figures()],
            "tried": tries,
        }

    def _try(self, policy: str, batch: Sequence[Options]) -> list[Tried]:
        found: list[Tried] = []
        for begin in range(0, len(batch), _TRIED_AT_ONCE):
            part = batch[begin : begin + _TRIED_AT_ONCE]
            found += try_options(self._evaluation, self._ccar, policy, part)
            self._on_try()
        return found

    def _price(self, policy: str) -> tuple[float, Tried, list[list[float]]]:
        """The least fixed λ of enough quality, by ever finer grids."""
        low, high = PRICES
        tries: list[list[float]] = []
        kept: tuple[float, Tried] | None = None
        for _ in range(_ROUNDS):
            grid = [float(f"{x:.{_DIGITS + 1}g}") for x in np.geomspace(low, high, _TRIED_AT_ONCE)]
            found = self._try(policy, [{"lambda_start": price} for price in grid])
            tries += [
                [price, *one.figures().values()] for price, one in zip(grid, found, strict=True)
            ]
            enough = [one.enough(self._ccar) for one in found]
            if not any(enough):  # the largest comes nearest
                return grid[-1], found[-1], tries
            at = enough.index(True)
            kept = grid[at], found[at]
            if at == 0:
                break
            low, high = grid[at - 1], grid[at]
        assert kept is not None
        return *kept, tries

    def _step(self, policy: str, price: float) -> tuple[float, float, list[list[float]]]:
        """The smallest η that mends a wrong λ within each day, or nearly."""
        target = self._ccar.quality
        tries: list[list[float]] = []
        deviation: dict[float, float] = {}
        starts = [(eta, price * by) for eta in STEPS for by in (1.0 / WRONG_BY, 1.0, WRONG_BY)]
        found = self._try(
            policy,
            [
                {"lambda_start": start, "eta": eta, "quality_target": target}
                for eta, start in starts
            ],
        )
        for (eta, start), one in zip(starts, found, strict=True):
            tries.append([start, eta, 0.0, *one.figures().values()])
            away = float(np.abs(one.quality_by_fleet / target - 1.0).max())
            deviation[eta] = max(deviation.get(eta, 0.0), away)
        enough = max(MOST_DEVIATION, NEARLY_LEAST * min(deviation.values()))
        eta = next(eta for eta in STEPS if deviation[eta] <= enough)
        return eta, deviation[eta], tries

    def _margin(self, policy: str, knobs: Options) -> tuple[float, Tried, list[list[float]]]:
        """The smallest margin of enough quality; the largest where none suffices."""
        target = self._ccar.quality
        found: list[Tried] = []
        while len(found) < len(MARGINS) and not any(one.enough(self._ccar) for one in found):
            margins = MARGINS[len(found) : len(found) + _TRIED_AT_ONCE]
            if policy in SHADOWED:
                batch = [{**knobs, "margin": margin} for margin in margins]
            else:
                batch = [{**knobs, "quality_target": min(1.0, target + m)} for m in margins]
            found += self._try(policy, batch)
        at = next((k for k, one in enumerate(found) if one.enough(self._ccar)), len(found) - 1)
        tries = [
            [knobs["lambda_start"], knobs["eta"], margin, *one.figures().values()]
            for margin, one in zip(MARGINS, found, strict=False)
        ]
        return MARGINS[at], found[at], tries
