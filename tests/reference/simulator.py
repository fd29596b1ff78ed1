"""The reference simulator: quote one turn on every deployment, then commit the choice.

Units: tokens, seconds, kWh, gCO2eq, gCO2eq/kWh, bytes, UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from . import physics
from .caches import DeploymentCache, Entry
from .capacity import Served, Unit, unit_of, units_with_room
from .records import Outcome, Quote, deployments

if TYPE_CHECKING:
    from carbon_gym.scenario.fleet import Fleet
    from carbon_gym.scenario.schema import Bounds, Caches, Capacity, EnergyProfile, Grid, Quality
    from carbon_gym.workload.trace import Trace


class ScenarioLike(Protocol):
    """The sections that the reference reads."""

    @property
    def fleet(self) -> Fleet: ...
    @property
    def energy(self) -> EnergyProfile: ...
    @property
    def cache(self) -> Caches: ...
    @property
    def capacity(self) -> Capacity: ...
    @property
    def quality(self) -> Quality: ...
    @property
    def bounds(self) -> Bounds: ...
    @property
    def grid(self) -> Grid: ...


class Table(Protocol):
    """Numbers by trace row and model: nested lists or a 2-D array."""

    def __getitem__(self, row: int, /) -> Any: ...


class ReferenceSimulator:
    """Replays a trace, one row after the other.

    Args:
        scenario: Anything with the sections of `ScenarioLike`.
        trace: Rows in the order of events.
        grid_at: Carbon intensity of a zone at an instant (unix s), gCO2eq/kWh, a step function.
        predicted: Predicted quality by row and model, in [0, 1].
        realised: Realised quality by row and model, in [0, 1].
        full_cache: C = H on every turn everywhere (the lower bound's accounting).

    Raises:
        ValueError: A model fits no allowed GPU count.
    """

    def __init__(
        self,
        scenario: ScenarioLike,
        trace: Trace,
        grid_at: Callable[[str, float], float],
        predicted: Table,
        realised: Table,
        *,
        full_cache: bool = False,
    ) -> None:
        self.scenario = scenario
        self.grid_at = grid_at
        self.full_cache = full_cache

        # The trace as plain lists.
        self.rows = len(trace.session)
        self.origin_unix_s = float(trace.origin_unix_s)
        self.session = [int(x) for x in trace.session]
        self.turn = [int(x) for x in trace.turn]
        self.arrival_s = [float(x) for x in trace.arrival_s]
        self.q = [int(x) for x in trace.prompt_tokens]
        self.H = [int(x) for x in trace.history_tokens]
        self.o = [int(x) for x in trace.output_tokens]
        self.o_hat = [float(x) for x in trace.predicted_output_tokens]
        models = range(len(scenario.fleet.models))
        self.predicted = [[float(predicted[i][m]) for m in models] for i in range(self.rows)]
        self.realised = [[float(realised[i][m]) for m in models] for i in range(self.rows)]

        # One item per deployment in each of these lists.
        fleet = scenario.fleet
        self.deployments = deployments(fleet)
        self.model_of: list[int] = []
        self.input_kwh_per_token: list[float] = []
        self.prefill_tokens_per_s: list[float] = []
        self.round_trip_s: list[float] = []
        self.pue: list[float] = []
        self.unit: list[Unit] = []
        self.kv_bytes_per_token: list[int] = []
        self.room_bytes: list[float | None] = []
        self.share_of_unit: dict[Unit, float] = {}
        for m, model in enumerate(fleet.models):
            for gpu in fleet.gpus:
                count = physics.gpu_count(model, gpu, fleet.max_gpus_per_replica)
                e_in = physics.input_kwh_per_token(model, gpu, scenario.energy)
                rate = physics.prefill_tokens_per_s(model, gpu, count)
                room = physics.kv_room_of_replica_bytes(model, gpu, count) * fleet.replicas
                gpu_share = 1.0 / len(fleet.gpus) if gpu.share is None else gpu.share
                for region in fleet.regions:
                    self.model_of.append(m)
                    self.input_kwh_per_token.append(e_in)
                    self.prefill_tokens_per_s.append(rate)
                    self.round_trip_s.append(region.round_trip_s)
                    self.pue.append(region.pue)
                    unit = unit_of(gpu.name, region.zone, scenario.capacity)
                    self.unit.append(unit)
                    by_pool = scenario.capacity.scope == "pool"
                    self.share_of_unit[unit] = gpu_share if by_pool else 1.0
                    self.kv_bytes_per_token.append(physics.kv_bytes_per_token(model))
                    self.room_bytes.append(room if scenario.cache.memory_pressure else None)

        # What changes.
        self.caches = [DeploymentCache(room, scenario.cache.ttl_s) for room in self.room_bytes]
        self.history: list[Served] = []
        self.chosen: list[int] = []

    # ---------------------------------------------------------------- one turn's ingredients

    def cached_tokens(self, i: int, d: int) -> int:
        """C, the history tokens of row i that deployment d could reuse: min(held, H) (SPEC §3)."""
        if self.full_cache:
            return self.H[i]
        held = self.caches[d].held_tokens(self.session[i], self.arrival_s[i])
        return min(held, self.H[i])

    def energy_kwh(self, i: int, d: int, cached: int, output_tokens: float) -> float:
        """e_in·(ρ_c·C + (H - C) + q + ρ_o·o), kWh (SPEC §2)."""
        profile = self.scenario.energy
        weighted_tokens = (
            profile.cached_input_ratio * cached
            + (self.H[i] - cached)
            + self.q[i]
            + profile.output_ratio * output_tokens
        )
        return self.input_kwh_per_token[d] * weighted_tokens

    def ttft_s(self, i: int, d: int, cached: int) -> float:
        """(H - C + q) / prefill rate, plus the region's round trip, s (SPEC §2)."""
        prefill_s = (self.H[i] - cached + self.q[i]) / self.prefill_tokens_per_s[d]
        return prefill_s + self.round_trip_s[d]

    def router_intensity(self, i: int, d: int) -> float:
        """Carbon intensity that the router sees, gCO2eq/kWh: `staleness_s` old (SPEC §2)."""
        now_unix_s = self.origin_unix_s + self.arrival_s[i]
        return self.grid_at(self.deployments[d].region, now_unix_s - self.scenario.grid.staleness_s)

    def account_intensity(self, i: int, d: int) -> float:
        """Carbon intensity at the arrival, gCO2eq/kWh."""
        return self.grid_at(self.deployments[d].region, self.origin_unix_s + self.arrival_s[i])

    def admissible_models(self, i: int, filtered: bool = False) -> list[bool]:
        """Per model: its context fits and q̂ >= β_Q · max q̂ over those that fit (SPEC §1, §4).

        Where the scenario asks for a mean, q̂ >= β_floor · max q̂ instead (SPEC §8), unless
        `filtered` asks for the filter all the same.
        """
        bounds = self.scenario.bounds
        share = bounds.beta_q
        if bounds.quality_constraint == "budget" and not filtered:
            share = bounds.beta_floor
        models = self.scenario.fleet.models
        needed_tokens = self.H[i] + self.q[i] + self.o_hat[i]
        fits = [model.context_tokens >= needed_tokens for model in models]
        if not any(fits):
            largest = max(model.context_tokens for model in models)
            fits = [model.context_tokens == largest for model in models]
        best = max(quality for quality, fit in zip(self.predicted[i], fits, strict=True) if fit)
        bar = share * best
        return [
            fit and quality >= bar for quality, fit in zip(self.predicted[i], fits, strict=True)
        ]

    def available(self, i: int) -> list[bool]:
        """Per deployment: its pool has room for row i (SPEC §3)."""
        room = units_with_room(
            self.share_of_unit,
            self.history,
            self.session[i],
            self.arrival_s[i],
            self.scenario.capacity,
        )
        return [room[unit] for unit in self.unit]

    def served_before(self, i: int) -> list[int]:
        """Deployments of the session's earlier turns, in their order."""
        return [d for j, d in enumerate(self.chosen) if self.session[j] == self.session[i]]

    # --------------------------------------------------------------------------- the verbs

    def quote(self, i: int, filtered: bool = False) -> Quote:
        """Price row i on every deployment with what a router knows at dispatch (SPEC §5).

        `filtered`: by the filter β_Q also where the scenario has a budget, as the paper's routers
        see it.

        Raises:
            ValueError: Row i is not the next one.
        """
        self._require_next(i)
        everywhere = range(len(self.deployments))
        o_hat = self.o_hat[i]
        tau_s = self.scenario.bounds.ttft_s

        cached = [self.cached_tokens(i, d) for d in everywhere]
        # CO2 per kWh of IT energy: PUE_r · CI_r(t).
        price = [self.pue[d] * self.router_intensity(i, d) for d in everywhere]
        energy = [self.energy_kwh(i, d, cached[d], o_hat) for d in everywhere]
        ttft = [self.ttft_s(i, d, cached[d]) for d in everywhere]
        blind_energy = [self.energy_kwh(i, d, 0, o_hat) for d in everywhere]
        blind_ttft = [self.ttft_s(i, d, 0) for d in everywhere]
        available = self.available(i)
        by_model = self.admissible_models(i, filtered)
        admissible = [by_model[self.model_of[d]] for d in everywhere]
        before = self.served_before(i)
        return Quote(
            cached_tokens=cached,
            energy_kwh=energy,
            co2_g=[price[d] * energy[d] for d in everywhere],
            ttft_s=ttft,
            available=available,
            admissible=admissible,
            feasible=[available[d] and admissible[d] and ttft[d] <= tau_s for d in everywhere],
            blind_energy_kwh=blind_energy,
            blind_co2_g=[price[d] * blind_energy[d] for d in everywhere],
            blind_ttft_s=blind_ttft,
            blind_feasible=[
                available[d] and admissible[d] and blind_ttft[d] <= tau_s for d in everywhere
            ],
            previous=before[-1] if before else None,
            first=before[0] if before else None,
        )

    def commit(self, i: int, d: int) -> Outcome:
        """Serve row i on deployment d, account for it and move on (SPEC §2, §3).

        Raises:
            ValueError: Row i is not the next one, or there is no deployment d.
        """
        self._require_next(i)
        if not 0 <= d < len(self.deployments):
            raise ValueError(f"deployment {d} is outside 0..{len(self.deployments) - 1}")
        m = self.model_of[d]
        cached = self.cached_tokens(i, d)
        energy = self.energy_kwh(i, d, cached, self.o[i])
        ttft = self.ttft_s(i, d, cached)
        recompute = 0.0
        if self.turn[i] > 0:
            recompute = self.input_kwh_per_token[d] * (self.H[i] - cached)
        before = self.served_before(i)
        outcome = Outcome(
            deployment=d,
            cached_tokens=cached,
            energy_kwh=energy,
            co2_g=self.pue[d] * self.account_intensity(i, d) * energy,
            ttft_s=ttft,
            recompute_kwh=recompute,
            quality_predicted=self.predicted[i][m],
            quality_realised=self.realised[i][m],
            quality_violation=not self.admissible_models(i)[m],
            ttft_violation=ttft > self.scenario.bounds.ttft_s,
            capacity_violation=not self.available(i)[d],
            switched=bool(before) and before[-1] != d,
        )
        self._remember(i, d)
        return outcome

    def _remember(self, i: int, d: int) -> None:
        now_s = self.arrival_s[i]
        session = self.session[i]
        tokens = self.H[i] + self.q[i] + self.o[i]
        entry = Entry(
            session=session,
            tokens=tokens,
            size_bytes=self.kv_bytes_per_token[d] * tokens,
            last_use_s=now_s,
            last_use_event=i,
        )
        self.caches[d].store(entry, now_s)
        if self.scenario.cache.on_leave == "evict":
            for other, cache in enumerate(self.caches):
                if other != d:
                    cache.drop(session)
        self.history.append(Served(session, now_s, self.unit[d]))
        self.chosen.append(d)

    def _require_next(self, i: int) -> None:
        if i != len(self.chosen) or i >= self.rows:
            raise ValueError(f"row {i} is not next; {len(self.chosen)} of {self.rows} are done")


Policy = Callable[[ReferenceSimulator, int, Quote], int]
"""Chooses a deployment for a row from its quote."""


def run(simulator: ReferenceSimulator, policy: Policy) -> list[Outcome]:
    """Replay all rows of a fresh simulator under a policy."""
    outcomes: list[Outcome] = []
    for i in range(simulator.rows):
        quote = simulator.quote(i)
        outcomes.append(simulator.commit(i, policy(simulator, i, quote)))
    return outcomes
