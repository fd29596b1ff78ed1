"""ccar-budget: CCAR's prices under a budget of quality instead of a filter (SPEC §8)."""

from __future__ import annotations

import numpy as np

from baselines.ccar import CCAR
from baselines.narrowing import least, pick
from baselines.stateless import MOST, Knob, by_lane, positive, within
from carbon_gym.errors import InputError
from carbon_gym.fleet.deployments import Deployments
from carbon_gym.policy import Policy
from carbon_gym.quality.queue import QualityQueue
from carbon_gym.simulator.arrays import NOWHERE, Bools, Floats, Ints
from carbon_gym.simulator.quotes import Quotes
from carbon_gym.simulator.shadow import shadow_of
from carbon_gym.simulator.simulator import Simulator


class CcarBudget:
    """``argmin estimated co2 − λ·scale·q̂`` over F, admissible from the floor on (SPEC §8).

    No gate. With η > 0 every fleet has its own λ, which a virtual queue moves from its start until
    the mean is the target; how, and what that bounds: `carbon_gym.quality.queue.QualityQueue`.

    With `follow` or `session_floor` the router keeps CCAR in its shadow: a second account of caches
    and loads, as if CCAR had served every turn so far. With `follow` the target of a turn is the q̂
    that CCAR gives it there, plus `margin`, whatever the mix of queries and the day: no target has
    to be known beforehand. With `session_floor` a session's summed q̂ is kept at that share of what
    CCAR has given it, at every turn; where no feasible deployment does, the one of the best quality
    is taken.

    Args:
        scale_co2_g: faircarbon's mean CO2 per turn on validation, gCO2eq.
        lambda_start: λ, or where it starts (then above 0): `scale` of CO2 per unit of quality; one
            value or one per lane.
        quality_target: Mean predicted quality to reach; needed if `eta` is above 0, unless it
            follows CCAR. One value or one per lane.
        eta: η, step of ln λ per unit of quality and turn; 0 keeps λ. One value or one per lane.
        pricing: Price the caches. False blinds the estimates of CO2 and TTFT (C = 0).
        follow: Take what CCAR gives a turn for its target.
        margin: Added to that; one value or one per lane.
        session_floor: Share of CCAR's mean predicted quality that every session keeps; None: no
            such promise. It and `follow` need a run over whole fleets
            (`carbon_gym.simulator.run.run_policy`).
        shadow: The router in the shadow; None: CCAR without a gate.
        name: In tables.

    Attributes:
        price: float64 (B,), λ now; None before the first turn.
    """

    def __init__(
        self,
        scale_co2_g: float,
        lambda_start: Knob,
        quality_target: Knob | None = None,
        eta: Knob = 0.0,
        pricing: bool = True,
        follow: bool = False,
        margin: Knob = 0.0,
        session_floor: float | None = None,
        shadow: Policy | None = None,
        name: str = "ccar-budget",
    ) -> None:
        self.name = name
        self.scale_co2_g = positive(name, scale_co2_g=scale_co2_g)
        self.lambda_start = within(name, 0.0, MOST, lambda_start=lambda_start)
        self.eta = within(name, 0.0, 1.0, eta=eta)
        if quality_target is None and not follow and np.any(np.asarray(eta) > 0.0):
            raise InputError(f"{name}: eta = {eta} needs a quality_target; give one from 0 to 1")
        if np.any((np.asarray(self.lambda_start) == 0.0) & (np.asarray(eta) > 0.0)):
            raise InputError(
                f"{name}: lambda_start = 0 never moves; give a number above 0, or eta = 0"
            )
        self.quality_target = within(
            name, 0.0, 1.0, quality_target=0.0 if quality_target is None else quality_target
        )
        self.pricing = pricing
        self.follow = follow
        self.margin = within(name, -1.0, 1.0, margin=margin)
        self.session_floor = session_floor
        if session_floor is not None:
            within(name, 0.0, 1.0, session_floor=session_floor)
        self._beside: Policy = CCAR() if shadow is None else shadow
        self.price: Floats | None = None
        self._shadow: _Shadow | None = None
        self._next_shadow: _Shadow | None = None

    def accompany(self, simulator: Simulator) -> None:
        """Take CCAR into the shadow, if something depends on it."""
        if self.follow or self.session_floor is not None:
            self._next_shadow = _Shadow(simulator, self._beside)

    def reset(self, fleet: Deployments, slots: int) -> None:
        """Set λ back to its start and forget the sessions."""
        self.price = None
        self._given = np.zeros(slots)  # summed q̂ by session
        self._shadow, self._next_shadow = self._next_shadow, None  # never that of another run
        if self._shadow is not None:
            self._shadow.reset(slots)

    def choose(self, quotes: Quotes) -> Ints:
        """The best price-weighted deployment, best effort included; then λ moves."""
        if self.price is None:
            self.price = np.full(quotes.lanes, self.lambda_start, dtype=np.float64)
            self._queue = QualityQueue(quotes.lanes, self.eta)
        seen = quotes if self.pricing else quotes.cache_blind()
        quality = quotes.quality[:, quotes.fleet.model]
        allowed, target = seen.feasible, self.quality_target
        if self.follow or self.session_floor is not None:
            theirs, theirs_so_far = self._serve_shadow(quotes)
            target = theirs + self.margin if self.follow else target
            if self.session_floor is not None:
                allowed = self._fair(quotes, allowed, quality, theirs_so_far)
        cost = seen.co2_g - by_lane(self.price * self.scale_co2_g) * quality
        choice = pick(seen, least(allowed, cost))
        self._account(quotes, choice, quality, target)
        return choice

    def _serve_shadow(self, quotes: Quotes) -> tuple[Floats, Floats]:
        if self._shadow is None:
            raise InputError(
                f"{self.name}: keeps CCAR in its shadow, which only a run over whole fleets gives; "
                "use run_policy, or leave out follow and session_floor"
            )
        return self._shadow.serve(quotes)

    def _fair(self, quotes: Quotes, feasible: Bools, quality: Floats, theirs: Floats) -> Bools:
        """Feasible deployments that keep the promise, or the best ones where none does."""
        assert self.session_floor is not None
        live = quotes.row != NOWHERE
        needed = np.full(quotes.lanes, -np.inf)
        needed[live] = self.session_floor * theirs[live] - self._given[quotes.slot[live]]
        keep = feasible & (quality >= needed[:, None] - _ROUNDING)
        return np.where(keep.any(axis=1, keepdims=True), keep, least(feasible, -quality))

    def _account(self, quotes: Quotes, choice: Ints, quality: Floats, target: Knob) -> None:
        live = quotes.row != NOWHERE
        got = quality[np.arange(quotes.lanes), np.maximum(choice, 0)]
        if self.session_floor is not None:
            self._given[quotes.slot[live]] += got[live]
        self._queue.account(live, target, got)
        self.price = self.lambda_start * self._queue.factor


_ROUNDING = 1e-9
"""Sums of the same qualities in another order differ in their last digits."""


class _Shadow:
    """Another router beside a run: what it would have given each session so far."""

    def __init__(self, simulator: Simulator, router: Policy) -> None:
        self._simulator = shadow_of(simulator)
        self._router = router

    def reset(self, slots: int) -> None:
        self._simulator.reset()
        self._router.reset(self._simulator.fleet, slots)
        self._given = np.zeros(slots)

    def serve(self, quotes: Quotes) -> tuple[Floats, Floats]:
        """Serve the same turns: q̂ of each lane's turn, and summed over its session so far, (B,)."""
        own = self._simulator.quote()
        if not np.array_equal(own.row, quotes.row):
            raise RuntimeError("the shadow serves other turns than the run it accompanies")
        choice = self._router.choose(own)
        live = own.row != NOWHERE
        model = own.fleet.model[np.maximum(choice, 0)]
        got = own.quality[np.arange(own.lanes), model]
        self._given[own.slot[live]] += got[live]
        self._simulator.commit(choice)
        return got, self._given[own.slot]
