"""FairCarbon: carbon-aware, blind to caches (SPEC §6; reconstructed)."""

from __future__ import annotations

from baselines.narrowing import per_query
from baselines.stateless import Stateless
from carbon_gym.simulator.arrays import Ints
from carbon_gym.simulator.quotes import Quotes


class FairCarbon(Stateless):
    """``argmin PUE_r · CI_r · e_in · (H + q + ρ_o·ô)`` over F, turns taken as independent.

    CO2 and TTFT are those without any cache (C = 0), so that its action space is CCAR's and the
    caches are all that sets the two apart.
    """

    name = "faircarbon"

    @per_query
    def choose(self, quotes: Quotes) -> Ints:
        """The cheapest deployment by the cache-blind estimate, best effort included."""
        return quotes.cache_blind().cheapest()
