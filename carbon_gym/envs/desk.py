"""The lanes of an environment: their arrays, allocated once, and the calls that change them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym import draws
from carbon_gym.envs import kernels
from carbon_gym.envs.arrays import STEP, Kit, Lanes, Rules
from carbon_gym.simulator import kernels as physics
from carbon_gym.simulator.allocate import empty_ledger, empty_state, quotes_of
from carbon_gym.simulator.arrays import Bools, Ints, Static, Turns
from carbon_gym.simulator.packed import Packed
from carbon_gym.simulator.quotes import Quotes

_COMPILED = hasattr(kernels.step_lanes, "py_func")


class Desk:
    """Everything mutable of an environment's lanes, and the kernels on it.

    Args:
        static: Fleet and rules; says whether a lane is one session or one fleet.
        turns: What arrives.
        context: float32 (N, C), the part of the observations that no action changes.
        first: int64 (S + 1,), rows of the sessions; where the lane is a fleet, its two ends.
        rules: What the environment adds.
        fleet: The deployments.
        lanes: Number of lanes B.
        slots: Session slots; B where a lane is one session.
        size: Length of an observation.
        same_step: Whether final observations are kept apart.
        threads: Number of threads that step the lanes.
    """

    def __init__(
        self,
        static: Static,
        turns: Turns,
        context: NDArray[np.float32],
        first: Ints,
        rules: Rules,
        fleet: Any,
        *,
        lanes: int,
        slots: int,
        size: int,
        same_step: bool = False,
        threads: int = 1,
    ) -> None:
        self.fleet = fleet
        longest = int(np.diff(first).max(initial=1))
        bounds = np.arange(lanes + 1) * (longest if static.one_session else len(turns.turn))
        state = empty_state(static, fleet, bounds.astype(np.int64), slots)
        out = lanes_of(lanes, size, len(fleet), same_step)
        self._static = static
        self.always = np.ones(lanes, dtype=np.bool_)
        self._drawn = np.full(lanes, -1, dtype=np.int64)
        self._quotes: Quotes | None = None
        self._fresh = False
        self.info: dict[str, Any] | None = None
        self._threads = threads
        self._direct = _COMPILED and threads == 1 and static.one_session
        self._pool: ThreadPoolExecutor | None = None
        ledger = empty_ledger(lanes if static.one_session else len(turns.turn))
        scratch = quotes_of(static, fleet, threads)._buffers
        self._pack(Kit(static, turns, state, scratch, ledger, context, first, rules, out))

    def _pack(self, kit: Kit) -> None:
        self.kit = kit
        self.out, self.state, self.ledger = kit.lanes, kit.state, kit.ledger
        self.observation, self.mask = kit.lanes.observation[0], kit.lanes.mask[0]
        self.words = Packed(kit).words

    # Addresses and threads belong to one process and one object.
    def __getstate__(self) -> dict[str, Any]:
        kept = self.__dict__.copy()
        for name in (
            "words",
            "out",
            "state",
            "ledger",
            "observation",
            "mask",
            "_pool",
            "_quotes",
            "info",
        ):
            del kept[name]
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._pool, self._quotes, self._fresh, self.info = None, None, False, None
        self._pack(self.kit)

    def __deepcopy__(self, memo: dict[int, Any]) -> Desk:
        other = object.__new__(Desk)
        kept = self.__getstate__()
        shared = {"kit", "fleet", "_static"}
        copied = {k: v if k in shared else copy.deepcopy(v, memo) for k, v in kept.items()}
        kit = self.kit  # what never changes is shared
        own = {name: copy.deepcopy(getattr(kit, name), memo) for name in _MUTABLE}
        copied["kit"] = kit._replace(**own)
        other.__setstate__(copied)
        return other

    @property
    def lanes(self) -> int:
        """Number of lanes B."""
        return len(self.always)

    def seed(self, seeds: list[int], chosen: Bools | None = None) -> None:
        """Key the draws of the (chosen) lanes by their seeds; their episodes count from 0."""
        of = np.flatnonzero(self.always if chosen is None else chosen)
        keys = [draws.key_of_text(f"episode/{seed}") for seed in seeds]
        self.out.stream[of] = np.array(keys, dtype=np.uint64)
        self.out.episode[of] = 0

    def begin(self, sessions: Ints | None = None, chosen: Bools | None = None) -> None:
        """Begin an episode in the chosen lanes (None: all), of the sessions named or drawn."""
        self._fresh = False
        sessions = self._drawn if sessions is None else sessions
        chosen = self.always if chosen is None else chosen
        self._over_threads(kernels.begin_lanes, sessions, chosen)

    def step(self, actions: Ints, autoreset: int) -> None:
        """Serve one turn of every lane; actions int64 (B,) in range."""
        self._fresh = False
        if self._direct:  # the shortest way: it is taken once a turn
            kernels.step_lanes(self.words, actions, 0, len(self.always), 0, autoreset)
        elif self._static.one_session:
            self._over_threads(kernels.step_lanes, actions, after=(autoreset,))
        else:
            kernels.step_fleet(self.words, actions)

    def refused_lane(self, actions: Ints, autoreset: int) -> int:
        """First lane that cannot take its action, or NOWHERE."""
        return int(kernels.refused_lane(self.words, actions, autoreset))

    def warm(self, served: Ints, until: int) -> None:
        """Serve the fleet's turns before row `until` where they were `served`."""
        self._fresh = False
        kernels.warm_fleet(self.words, served, until)

    def quotes(self) -> Quotes:
        """The quotes of every lane's current turn, made when they are first asked for."""
        if self._quotes is None:
            self._quotes = quotes_of(self._static, self.fleet, self.lanes)
        if not self._fresh:
            kit = self.kit
            buffers = self._quotes._buffers
            physics.quote(kit.static, kit.turns, kit.state, kit.ledger, buffers)
            self._fresh = True
        return self._quotes

    def _over_threads(
        self, call: Callable[..., None], *before: Any, after: tuple[Any, ...] = ()
    ) -> None:
        if self._threads > 1:
            pool = self._pool = self._pool or ThreadPoolExecutor(self._threads)
            edges = [self.lanes * k // self._threads for k in range(self._threads + 1)]
            jobs = [
                pool.submit(call, self.words, *before, edges[k], edges[k + 1], k, *after)
                for k in range(self._threads)
            ]
            for job in jobs:
                job.result()
        elif _COMPILED:
            call(self.words, *before, 0, self.lanes, 0, *after)
        else:
            with np.errstate(over="ignore"):  # of the draws' unsigned numbers
                call(self.words, *before, 0, self.lanes, 0, *after)

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def lanes_of(lanes: int, size: int, deployments: int, same_step: bool = False) -> Lanes:
    """Outputs and clocks of lanes before their first turn; arguments as of `Desk`."""
    kept = lanes if same_step else 1
    return Lanes(
        observation=np.zeros((lanes, size), dtype=np.float32),
        mask=np.ones((lanes, deployments), dtype=np.int8),
        reward=np.zeros(lanes),
        terminated=np.zeros(lanes, dtype=np.bool_),
        truncated=np.zeros(lanes, dtype=np.bool_),
        step=np.zeros(lanes, dtype=STEP),
        acted=np.zeros(lanes, dtype=np.bool_),
        ended=np.zeros(lanes, dtype=np.bool_),
        final_observation=np.zeros((kept, size), dtype=np.float32),
        final_mask=np.ones((kept, deployments), dtype=np.int8),
        forced=np.zeros(lanes, dtype=np.int64),
        stream=np.zeros(lanes, dtype=np.uint64),
        episode=np.zeros(lanes, dtype=np.int64),
        upcoming=np.zeros(lanes, dtype=np.int64),
        session=np.zeros(lanes, dtype=np.int64),
        steps=np.zeros(lanes, dtype=np.int64),
        known=np.zeros(lanes, dtype=np.int64),
        episode_return=np.zeros(lanes),
        episode_co2_g=np.zeros(lanes),
    )


_MUTABLE = ("state", "scratch", "ledger", "lanes")
