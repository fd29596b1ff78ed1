"""GAR-PD: quality against CO2 and lateness, their prices learned online (SPEC §6)."""

from __future__ import annotations

import numpy as np

from baselines.narrowing import least, pick
from baselines.stateless import MOST, Knob, by_lane, positive, within
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator.arrays import Floats, Ints
from carbon_gym.simulator.quotes import Quotes


class GarPd:
    """``argmax q̂ − λ·co2/scale − μ·[ttft/τ − 1]⁺``, a primal-dual rule blind to caches (C = 0).

    Reconstructed from the abstract of arXiv 2605.11603. It chooses among the admissible
    deployments with room; τ is a price here, not a bound. Every fleet has its own λ and μ. After
    each turn they rise by a step times what the turn spent above the budget, and fall by what it
    left: the budget of a turn is `scale` of CO2 and `late_budget` of lateness, both the means of
    faircarbon on validation. Blind is the choice, not the meter: spent is what the chosen quote
    costs with its true cache. Under a quality budget (SPEC §8) the floor stands for the filter
    β_Q, and `co2_budget` is what sets the mean quality that the rule reaches.

    Args:
        scale_co2_g: faircarbon's mean CO2 per turn on validation, gCO2eq.
        late_budget: faircarbon's mean [ttft/τ − 1]⁺ per turn on validation.
        lambda_start: λ at a fleet's first turn, quality per `scale` of CO2.
        lambda_step: Step of λ, quality per `scale` of CO2 and turn.
        mu_start: μ at a fleet's first turn, quality per τ of lateness.
        mu_step: Step of μ, quality per τ of lateness and turn. Each of the four is one value or
            one per lane.
        co2_budget: Budget of CO2 of a turn, in `scale`; one value or one per lane.
        filtered: Keep the filter β_Q also in a scenario with a quality budget.
        name: In tables.
    """

    def __init__(
        self,
        scale_co2_g: float,
        late_budget: float,
        lambda_start: Knob,
        lambda_step: Knob,
        mu_start: Knob,
        mu_step: Knob,
        co2_budget: Knob = 1.0,
        filtered: bool = True,
        name: str = "gar-pd",
    ) -> None:
        self.name = name
        self.filtered = filtered
        self.co2_budget = within(self.name, 0.0, MOST, co2_budget=co2_budget)
        self.scale_co2_g = positive(self.name, scale_co2_g=scale_co2_g)
        self.late_budget = within(self.name, 0.0, MOST, late_budget=late_budget)
        self.lambda_start = within(self.name, 0.0, MOST, lambda_start=lambda_start)
        self.lambda_step = within(self.name, 0.0, MOST, lambda_step=lambda_step)
        self.mu_start = within(self.name, 0.0, MOST, mu_start=mu_start)
        self.mu_step = within(self.name, 0.0, MOST, mu_step=mu_step)
        self._co2_price: Floats | None = None  # λ (B,)
        self._late_price: Floats | None = None  # μ (B,)

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Set the prices back to their start."""
        self._co2_price = self._late_price = None

    def choose(self, quotes: Quotes) -> Ints:
        """The best price-weighted deployment; then the prices move."""
        quotes = quotes.filtered() if self.filtered else quotes
        if self._co2_price is None or self._late_price is None:
            self._co2_price = np.full(quotes.lanes, self.lambda_start, dtype=np.float64)
            self._late_price = np.full(quotes.lanes, self.mu_start, dtype=np.float64)
        blind = quotes.cache_blind()
        allowed = quotes.available & quotes.admissible
        cost = (
            by_lane(self._co2_price) * (blind.co2_g / self.scale_co2_g)
            + by_lane(self._late_price) * np.maximum(blind.ttft_s / quotes.ttft_bound_s - 1.0, 0.0)
            - quotes.quality[:, quotes.fleet.model]
        )
        choice = pick(blind, least(allowed, cost), feasible=allowed)
        lanes, chosen = np.arange(quotes.lanes), np.maximum(choice, 0)  # a lane that is done: any
        spent = quotes.co2_g[lanes, chosen] / self.scale_co2_g - self.co2_budget
        late = np.maximum(quotes.ttft_s[lanes, chosen] / quotes.ttft_bound_s - 1.0, 0.0)
        late -= self.late_budget
        self._co2_price = np.maximum(self._co2_price + self.lambda_step * spent, 0.0)
        self._late_price = np.maximum(self._late_price + self.mu_step * late, 0.0)
        return choice
