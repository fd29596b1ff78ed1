"""SPEC §6's baselines once more, turn by turn in plain Python, for comparison with the fast ones.

A `Dispatch` holds what a router sees of one turn as lists; a rule is an object with a method
`choose(dispatch) -> deployment`. Written from the specification, not from `baselines`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field

from carbon_gym.simulator import Quotes

Key = tuple[float, ...]


@dataclass
class Dispatch:
    """One turn; lists run over deployments, `quality` and `fits` over models."""

    names: list[tuple[str, str, str]]
    params_billion: list[float]
    available: list[bool]
    admissible: list[bool]
    co2_g: list[float]
    ttft_s: list[float]
    blind_co2_g: list[float]
    blind_ttft_s: list[float]
    cached_tokens: list[int]
    quality: list[float]
    fits: list[bool]
    intensity: list[float]
    load: list[int]
    prompt_and_history: int
    previous: int | None
    session: int
    key: int
    tau_s: float

    @property
    def everywhere(self) -> range:
        return range(len(self.names))


def dispatch_of(quotes: Quotes, lane: int = 0) -> Dispatch:
    """What the quotes say of one lane."""
    fleet, b = quotes.fleet, lane
    blind = quotes.cache_blind()
    everywhere = range(len(fleet))
    needed = float(
        quotes.history_tokens[b] + quotes.prompt_tokens[b] + quotes.predicted_output_tokens[b]
    )
    context = fleet.context_tokens.tolist()
    enough = [tokens >= needed for tokens in context]
    by_model = enough if any(enough) else [tokens == max(context) for tokens in context]
    model, region = fleet.model.tolist(), fleet.region.tolist()
    return Dispatch(
        names=[fleet.triple(d) for d in everywhere],
        params_billion=[float(fleet.params_billion[m]) for m in model],
        available=quotes.available[b].tolist(),
        admissible=quotes.admissible[b].tolist(),
        co2_g=quotes.co2_g[b].tolist(),
        ttft_s=quotes.ttft_s[b].tolist(),
        blind_co2_g=blind.co2_g[b].tolist(),
        blind_ttft_s=blind.ttft_s[b].tolist(),
        cached_tokens=quotes.cached_tokens[b].tolist(),
        quality=[float(quotes.quality[b, m]) for m in model],
        fits=[by_model[m] for m in model],
        intensity=[float(quotes.facility_intensity[b, r]) for r in region],
        load=[int(quotes.unit_load[b, u]) for u in fleet.unit.tolist()],
        prompt_and_history=int(quotes.history_tokens[b] + quotes.prompt_tokens[b]),
        previous=None if quotes.previous[b] < 0 else int(quotes.previous[b]),
        session=int(quotes.slot[b]),
        key=int(quotes.session_key[b]),
        tau_s=quotes.ttft_bound_s,
    )


@dataclass
class Rule:
    """Counts in `happened` which of its branches were taken."""

    happened: Counter[str] = field(default_factory=Counter)

    def choose(self, turn: Dispatch) -> int:
        raise NotImplementedError

    def best_effort(self, turn: Dispatch, allowed: list[int], blind: bool) -> int:
        """Shortest TTFT of those with room, else anywhere; ties: CO2, name (SPEC §5, §10)."""
        with_room = [d for d in allowed if turn.available[d]]
        self.happened["late" if with_room else "overfull"] += 1
        co2_g = turn.blind_co2_g if blind else turn.co2_g
        ttft_s = turn.blind_ttft_s if blind else turn.ttft_s
        return min(with_room or allowed, key=lambda d: (ttft_s[d], co2_g[d], turn.names[d]))

    def within_bounds(self, turn: Dispatch, allowed: list[int], blind: bool) -> list[int]:
        """Those with room and in time."""
        ttft_s = turn.blind_ttft_s if blind else turn.ttft_s
        return [d for d in allowed if turn.available[d] and ttft_s[d] <= turn.tau_s]


def admissible(turn: Dispatch) -> list[int]:
    return [d for d in turn.everywhere if turn.admissible[d]]


@dataclass
class PlainGarEps(Rule):
    epsilon: float = 0.1
    region: str = "home"
    home: dict[int, str] = field(default_factory=dict)

    def choose(self, turn: Dispatch) -> int:
        best = max(turn.quality[d] for d in turn.everywhere if turn.fits[d])
        allowed = [d for d in admissible(turn) if turn.quality[d] >= best - self.epsilon]
        bound = {self.home.get(turn.session, "")}
        if self.region == "cleanest":
            lowest = min(turn.intensity)
            bound = {turn.names[d][2] for d in turn.everywhere if turn.intensity[d] == lowest}
        inside = [d for d in turn.everywhere if turn.names[d][2] in bound]
        if any(turn.available[d] for d in inside):
            self.happened["bound"] += 1
            allowed = [d for d in allowed if d in inside]
        elif inside:
            self.happened["home full"] += 1
        feasible = self.within_bounds(turn, allowed, blind=True)
        if feasible:
            chosen = min(
                feasible, key=lambda d: (turn.blind_co2_g[d], turn.blind_ttft_s[d], turn.names[d])
            )
        else:
            chosen = self.best_effort(turn, allowed, blind=True)
        self.home.setdefault(turn.session, turn.names[chosen][2])
        return chosen


def lateness(ttft_s: float, tau_s: float) -> float:
    return max(ttft_s / tau_s - 1.0, 0.0)


@dataclass
class Weighing(Rule):
    """Least of a weighted cost among room ∧ admissible; τ is no bound."""

    def cost(self, turn: Dispatch, d: int) -> float:
        raise NotImplementedError

    def choose(self, turn: Dispatch) -> int:
        allowed = [d for d in admissible(turn) if turn.available[d]]
        if not allowed:
            return self.best_effort(turn, admissible(turn), blind=True)
        chosen = min(
            allowed,
            key=lambda d: (
                self.cost(turn, d),
                turn.blind_co2_g[d],
                turn.blind_ttft_s[d],
                turn.names[d],
            ),
        )
        self.happened["too late"] += turn.blind_ttft_s[chosen] > turn.tau_s
        return chosen


@dataclass
class PlainCedar(Weighing):
    scale_co2_g: float = 1.0
    alpha: float = 1.0
    eta: float = 1.0
    gamma: float = 1.0

    def cost(self, turn: Dispatch, d: int) -> float:
        changed = turn.previous is not None and turn.previous != d
        return (
            self.alpha * lateness(turn.blind_ttft_s[d], turn.tau_s)
            + self.gamma * (turn.blind_co2_g[d] / self.scale_co2_g)
            + self.eta * changed
        )

    def choose(self, turn: Dispatch) -> int:
        chosen = super().choose(turn)
        cheapest = PlainCedar(scale_co2_g=self.scale_co2_g, alpha=self.alpha, eta=0.0)
        self.happened["stayed"] += chosen == turn.previous != Weighing.choose(cheapest, turn)
        return chosen


@dataclass
class PlainGarPd(Weighing):
    scale_co2_g: float = 1.0
    late_budget: float = 0.0
    co2_price: float = 1.0
    co2_step: float = 0.0
    late_price: float = 1.0
    late_step: float = 0.0

    def cost(self, turn: Dispatch, d: int) -> float:
        return (
            self.co2_price * (turn.blind_co2_g[d] / self.scale_co2_g)
            + self.late_price * lateness(turn.blind_ttft_s[d], turn.tau_s)
            - turn.quality[d]
        )

    def choose(self, turn: Dispatch) -> int:
        d = super().choose(turn)
        spent = turn.co2_g[d] / self.scale_co2_g - 1.0
        late = lateness(turn.ttft_s[d], turn.tau_s) - self.late_budget
        self.happened["saved" if spent < 0 else "overspent"] += 1
        self.co2_price = max(self.co2_price + self.co2_step * spent, 0.0)
        self.late_price = max(self.late_price + self.late_step * late, 0.0)
        return d


@dataclass
class PlainCacheAware(Rule):
    def choose(self, turn: Dispatch) -> int:
        feasible = self.within_bounds(turn, admissible(turn), blind=False)
        if not feasible:
            return self.best_effort(turn, admissible(turn), blind=False)
        most = max(turn.cached_tokens[d] for d in feasible)
        if most > 0 and 2 * most >= turn.prompt_and_history:
            self.happened["followed"] += 1
            tied = [d for d in feasible if turn.cached_tokens[d] == most]
        else:
            self.happened["small hit"] += most > 0
            shortest = min(turn.ttft_s[d] for d in feasible)
            tied = [d for d in feasible if turn.ttft_s[d] == shortest]
        self.happened["load decided"] += len({turn.load[d] for d in tied}) > 1
        return min(tied, key=lambda d: (turn.load[d], turn.co2_g[d], turn.ttft_s[d], turn.names[d]))


@dataclass
class PlainCarbonGreedy(Rule):
    def choose(self, turn: Dispatch) -> int:
        with_room = [d for d in turn.everywhere if turn.available[d]]
        if not with_room:
            return self.best_effort(turn, list(turn.everywhere), blind=False)
        self.happened["below quality"] += not all(turn.admissible[d] for d in with_room)
        return min(with_room, key=lambda d: (turn.co2_g[d], turn.ttft_s[d], turn.names[d]))


@dataclass
class PlainLeastTtft(Rule):
    def choose(self, turn: Dispatch) -> int:
        return self.best_effort(turn, admissible(turn), blind=False)


@dataclass
class PlainSingleModel(Rule):
    largest: bool = True

    def choose(self, turn: Dispatch) -> int:
        size = max(turn.params_billion) if self.largest else min(turn.params_billion)
        sized = [d for d in turn.everywhere if turn.params_billion[d] == size]
        name = min(turn.names[d][0] for d in sized)
        mine = [d for d in sized if turn.names[d][0] == name]
        with_room = [d for d in mine if turn.available[d]]
        if not with_room:
            return self.best_effort(turn, mine, blind=True)
        return min(
            with_room, key=lambda d: (turn.blind_co2_g[d], turn.blind_ttft_s[d], turn.names[d])
        )


MASK = 2**64 - 1


def mix(bits: int) -> int:
    """SplitMix64's finalizer in Python's integers."""
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def keyed_bits(seed: int, stream: str, session_key: int, turn: int, component: int) -> int:
    """`carbon_gym.draws.bits` for one key."""
    state = seed ^ text_key(stream)
    for part in (0, session_key, turn, component):
        state = mix(((state ^ part) + 0x9E3779B97F4A7C15) & MASK)
    return state


def text_key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@dataclass
class PlainSessionHash(Rule):
    def choose(self, turn: Dispatch) -> int:
        pools = {turn.names[d][1:]: turn.available[d] for d in turn.everywhere}
        with_room = [pool for pool, room in pools.items() if room]
        self.happened["full pool" if len(with_room) < len(pools) else "all free"] += 1
        self.happened["overfull"] += not with_room
        pool = max(
            with_room or list(pools),
            key=lambda pool: keyed_bits(0, "session-hash", turn.key, 0, text_key("\n".join(pool))),
        )
        here = [d for d in turn.everywhere if turn.names[d][1:] == pool and turn.fits[d]]
        self.happened["short context"] += len(here) < len({name[0] for name in turn.names})
        return min(here, key=lambda d: (-turn.params_billion[d], turn.names[d]))
