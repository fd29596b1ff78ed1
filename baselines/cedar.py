"""CEDAR: lateness, CO2 and change, weighed against each other (SPEC §6)."""

from __future__ import annotations

import numpy as np

from baselines.narrowing import least, per_query, pick
from baselines.stateless import MOST, Knob, Stateless, by_lane, positive, within
from carbon_gym.simulator.arrays import NOWHERE, Ints
from carbon_gym.simulator.quotes import Quotes


class Cedar(Stateless):
    """``argmin α·[ttft/τ − 1]⁺ + γ·co2/scale + η·1[changed]``, blind to caches (C = 0).

    The reward of a GreenSys'26 paper taken turn by turn (weights ASSUMED, tuned on validation).
    It chooses among the admissible deployments with room; τ is a price here, not a bound.
    Changed means another deployment than the session's previous turn had; a first turn changes
    nothing.

    Args:
        scale_co2_g: faircarbon's mean CO2 per turn on validation, gCO2eq.
        alpha: α, price of a TTFT one τ beyond τ.
        eta: η, price of a change.
        gamma: γ, price of `scale` of CO2; only the ratios of the three matter. Each price is one
            value or one per lane.
    """

    name = "cedar"

    def __init__(self, scale_co2_g: float, alpha: Knob, eta: Knob, gamma: Knob = 1.0) -> None:
        self.scale_co2_g = positive(self.name, scale_co2_g=scale_co2_g)
        self.alpha = within(self.name, 0.0, MOST, alpha=alpha)
        self.eta = within(self.name, 0.0, MOST, eta=eta)
        self.gamma = within(self.name, 0.0, MOST, gamma=gamma)

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """The deployment of least weighted cost."""
        blind = quotes.cache_blind()
        allowed = quotes.available & quotes.admissible
        previous = quotes.previous[:, None]
        changed = (previous != NOWHERE) & (previous != np.arange(allowed.shape[1]))
        cost = (
            by_lane(self.alpha) * np.maximum(blind.ttft_s / quotes.ttft_bound_s - 1.0, 0.0)
            + by_lane(self.gamma) * (blind.co2_g / self.scale_co2_g)
            + by_lane(self.eta) * changed
        )
        return pick(blind, least(allowed, cost), feasible=allowed)
