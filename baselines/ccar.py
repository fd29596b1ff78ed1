"""CCAR: cache-aware carbon routing (SPEC §5; PUBLISHED in kind, §3.7 of the paper)."""

from __future__ import annotations

from baselines.stateless import Stateless
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes


class CCAR(Stateless):
    """Every turn to its cheapest feasible quote, history recomputation priced.

    The gate against switches that would be reversed is not part of this version.

    Args:
        pricing: Price the caches. False blinds the estimates of CO2 and TTFT (C = 0), which
            makes the policy equal to FairCarbon turn by turn.
    """

    def __init__(self, pricing: bool = True) -> None:
        self.pricing = pricing
        self.name = "ccar-no-gate" if pricing else "ccar-no-pricing"

    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest feasible deployment, best effort included."""
        return (quotes if self.pricing else quotes.cache_blind()).cheapest()
