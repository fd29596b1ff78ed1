"""What a policy sees of a turn at dispatch, and the one rule that most policies share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from carbon_gym.fleet.deployments import Deployments
from carbon_gym.simulator import kernels
from carbon_gym.simulator.arrays import (
    Bools,
    Floats,
    Int32s,
    Ints,
    Keys,
    PriceBuffers,
    QuoteBuffers,
    Static,
)


@dataclass(frozen=True, slots=True, eq=False)
class Quotes:
    """One priced turn per lane (SPEC §2-§5). B lanes, D deployments, M models, R regions, U units.

    Arrays are the simulator's buffers: they change at its next quote, so copy what you keep.
    Entries of lanes that are done (``row`` is -1) are stale; whatever a policy answers for them
    is ignored.

    Attributes:
        fleet: The deployments and all that is constant about them.
        row: int64 (B,), index of the turn in the run's ledger, -1 for a lane that is done.
        slot: int64 (B,), index of the session, unique over all lanes of the run.
        session_key: uint64 (B,), who the session is, the same in every run.
        turn: int64 (B,), turn index within the session.
        time_s: float64 (B,), arrival, seconds since the start of the lane's day.
        prompt_tokens: int64 (B,), q.
        history_tokens: int64 (B,), H.
        predicted_output_tokens: float64 (B,), ô.
        previous: int64 (B,), deployment of the session's previous turn, or -1.
        idle_s: float64 (B,), since the session's previous turn, s; inf on its first.
        intensity: float64 (B, R), gCO2eq/kWh known to the router now.
        facility_intensity: float64 (B, R), PUE times `intensity`.
        intensity_hour_ago: float64 (B, R), gCO2eq/kWh, what the router saw an hour before; its
            first value where the series begins later.
        quality: float64 (B, M), predicted, in [0, 1].
        model_admissible: bool (B, M), context fits and q̂ ≥ β_Q · best; under a budget the floor
            stands for β_Q (SPEC §8).
        unit_available: bool (B, U), the capacity unit has room for this turn.
        unit_load: int64 (B, U), other active sessions (rule `sessions`) or turns of the trailing
            slot (rule `turns`).
        unit_places: int64 (B, U), how many of those the unit takes now; -1 without a limit.
        cached_tokens: int32 (B, D), C.
        energy_kwh: float64 (B, D), estimated with ô.
        co2_g: float64 (B, D), estimated, gCO2eq.
        ttft_s: float64 (B, D).
        available: bool (B, D), `unit_available` by deployment.
        admissible: bool (B, D), `model_admissible` by deployment.
        feasible: bool (B, D), available, admissible and ttft ≤ τ: the set F of SPEC §5.
    """

    fleet: Deployments
    row: Ints
    slot: Ints
    session_key: Keys
    turn: Ints
    time_s: Floats
    prompt_tokens: Ints
    history_tokens: Ints
    predicted_output_tokens: Floats
    previous: Ints
    idle_s: Floats
    intensity: Floats
    facility_intensity: Floats
    intensity_hour_ago: Floats
    quality: Floats
    model_admissible: Bools
    unit_available: Bools
    unit_load: Ints
    unit_places: Ints
    cached_tokens: Int32s
    energy_kwh: Floats
    co2_g: Floats
    ttft_s: Floats
    available: Bools
    admissible: Bools
    feasible: Bools
    _static: Static
    _buffers: QuoteBuffers
    _blind: PriceBuffers
    _choice: Ints
    _how: Ints
    _twin: list[Quotes] = field(init=False, repr=False, default_factory=list)
    # of `cache_blind`, made once: a replacement of other fields begins without one
    _filtered: list[Quotes] = field(init=False, repr=False, default_factory=list)
    # of `filtered`, likewise

    @property
    def lanes(self) -> int:
        """Number of lanes B."""
        return len(self.row)

    @property
    def beta_q(self) -> float:
        """Share of the best q̂ that admits a model: β_Q; under a budget the floor."""
        return self._static.beta_q

    @property
    def ttft_bound_s(self) -> float:
        """τ, s."""
        return self._static.ttft_bound_s

    @property
    def cache_ttl_s(self) -> float:
        """Time to live of an idle cache, s."""
        return self._static.cache_ttl_s

    @property
    def evict_on_leave(self) -> bool:
        """Whether a session's cache is dropped where it leaves."""
        return self._static.evict_on_leave

    def cache_blind(self) -> Quotes:
        """The same turns priced with C = 0 everywhere: energy, CO2, TTFT and feasible (SPEC §6).

        `cached_tokens` stays true. The arrays change at the next call of this method.
        """
        kernels.quote_cache_blind(self._static, self._buffers, self._blind)
        if not self._twin:
            self._twin.append(
                replace(
                    self,
                    energy_kwh=self._blind.energy_kwh,
                    co2_g=self._blind.co2_g,
                    ttft_s=self._blind.ttft_s,
                    feasible=self._blind.feasible,
                )
            )
        return self._twin[0]

    def filtered(self) -> Quotes:
        """The same turns with models admitted by the filter β_Q, also under a budget (SPEC §4, §8).

        These quotes themselves where the scenario filters. Else the admissible and feasible arrays
        are others, which change at the next call of this method.
        """
        if self._static.beta_q == self._static.beta_filter:
            return self
        if not self._filtered:
            own = {
                name: getattr(self, name).copy()
                for name in ("model_admissible", "admissible", "feasible")
            }
            self._filtered.append(
                replace(
                    self,
                    **own,
                    _static=self._static._replace(beta_q=self._static.beta_filter),
                    # TTFT as these quotes have it: they may be blind to the caches.
                    _buffers=self._buffers._replace(**own, ttft_s=self.ttft_s),
                    _blind=self._copied_blind(),
                )
            )
        twin = self._filtered[0]
        kernels.admit_anew(twin._static, twin._buffers)
        return twin

    def cheapest(
        self, among: NDArray[np.bool_] | None = None, feasible: NDArray[np.bool_] | None = None
    ) -> Ints:
        """The cheapest feasible deployment of every lane, best effort included (SPEC §5).

        Args:
            among: bool (B, D), deployments to consider; None: all.
            feasible: bool (B, D), what counts as feasible where it is available and admissible;
                None: `feasible`.

        Returns:
            int64 (B,), a fresh array; -1 for lanes that are done and for lanes where `among`
            leaves no admissible deployment.
        """
        admissible = self.admissible if among is None else self.admissible & among
        kernels.cheapest(
            self.fleet.name_rank,
            self.row,
            self.co2_g,
            self.ttft_s,
            self.feasible if feasible is None else feasible,
            self.available,
            admissible,
            self._choice,
            self._how,
        )
        return self._choice.copy()

    def _copied_blind(self) -> PriceBuffers:
        return PriceBuffers(**{k: v.copy() for k, v in self._blind._asdict().items()})

    def copy(self) -> Quotes:
        """A snapshot whose arrays no later quote changes."""
        arrays = {name: getattr(self, name).copy() for name in QuoteBuffers._fields}
        return replace(
            self,
            **arrays,
            _buffers=QuoteBuffers(**arrays),
            _blind=self._copied_blind(),
            _choice=self._choice.copy(),
            _how=self._how.copy(),
        )
