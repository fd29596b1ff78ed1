"""`CarbonRouting-v0` for many conversations at once, on the same kernels."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from carbon_gym.envs.arrays import RESET_NEVER, RESET_NEXT_STEP, RESET_SAME_STEP, Lanes
from carbon_gym.envs.information import vector_info
from carbon_gym.envs.lane import observation_space
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.envs.options import Arguments, check_count, resolve
from carbon_gym.envs.routing import asked_sessions, desk_of
from carbon_gym.errors import InputError
from carbon_gym.simulator.quotes import Quotes

_RESETS = {
    AutoresetMode.NEXT_STEP: RESET_NEXT_STEP,
    AutoresetMode.SAME_STEP: RESET_SAME_STEP,
    AutoresetMode.DISABLED: RESET_NEVER,
}
Observed = NDArray[np.float32] | dict[str, NDArray[np.float32]]


class CarbonRoutingVectorEnv(VectorEnv[Any, Any, Any]):
    """Conversations side by side; see `carbon_gym.envs.routing.CarbonRoutingEnv`.

    Lane i is, bit for bit, the scalar environment seeded with ``seed + i``.

    Args:
        num_envs: Number of lanes B.
        autoreset_mode: What becomes of a lane whose conversation ended: "NextStep" (its next step
            begins another, whatever the action), "SameStep" (it begins another at once; the last
            observation stands in ``info["final_obs"]``, its mask and the turn's outcome in
            ``info["final_info"]``) or "Disabled" (`reset` with
            ``options={"reset_mask": ...}``).
        copy: Whether what is returned may be kept. False: observations, rewards, flags and info
            are the environment's own arrays, and change with the next call.
        threads: Threads that share the lanes.
        max_episode_steps: Steps after which an episode is truncated.
        **arguments: Those of the scalar environment, but no render mode.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        threads: int = 1,
        max_episode_steps: int | None = None,
        **arguments: Unpack[Arguments],
    ) -> None:
        check_count("num_envs", num_envs)
        check_count("threads", threads)
        mode = arguments.get("render_mode")
        if mode is not None:
            raise InputError(
                f"render_mode = {mode!r}: the vector environment draws nothing; render a scalar one"
            )
        limits = [it for it in (arguments.get("max_turns"), max_episode_steps) if it is not None]
        arguments["max_turns"] = min(limits) if limits else None
        self.options = resolve(**arguments)
        self.autoreset_mode = _mode(autoreset_mode)
        self._autoreset = _RESETS[self.autoreset_mode]
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.num_envs = num_envs
        self.world = self.options.world
        self.copy = copy
        self.layout = ObservationLayout(self.world.fleet)
        self.single_observation_space = observation_space(self.layout, self.options.observation)
        self.single_action_space = spaces.Discrete(len(self.world.fleet))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._desk = desk_of(
            self.options,
            self.layout,
            lanes=num_envs,
            same_step=self._autoreset == RESET_SAME_STEP,
            threads=min(threads, num_envs),
        )
        self._seeded = self._begun = False

    @property
    def quotes(self) -> Quotes:
        """The priced turns to be served, as a policy sees them; row -1 for lanes that ended."""
        self._check_begun()
        return self._desk.quotes()

    @property
    def lanes(self) -> Lanes:
        """Outputs and clocks of the lanes: the environment's own arrays, to be read only."""
        return self._desk.out

    @property
    def slots(self) -> int:
        """Number of session slots, for `Policy.reset`."""
        return self.world.simulator.slots

    def action_masks(self) -> NDArray[np.bool_]:
        """The masks as bool (B, D); all allowed before `reset`."""
        return np.asarray(self._desk.out.mask, dtype=np.bool_)

    def reset(
        self,
        *,
        seed: int | list[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observed, dict[str, Any]]:
        """Begin an episode in every lane, or in those of ``options["reset_mask"]``, bool (B,).

        Args:
            seed: Lane i gets ``seed + i``, or ``seed[i]``; None: the draws go on.
            options: "reset_mask"; "session", an index or int (B,), names the conversations.
        """
        chosen = self._chosen(options)
        self._seed(seed, chosen)
        desk = self._desk
        desk.begin(asked_sessions(options, self.num_envs, self.world.sessions), chosen)
        self._begun = self._begun or bool(chosen.all())
        info = {
            "action_mask": self._kept(desk.out.mask),
            "_action_mask": self._kept(desk.always),
            "session": self._kept(desk.out.session),
            "_session": chosen.copy(),
        }
        return self._observed(desk.out.observation), info

    def step(
        self, actions: Any
    ) -> tuple[Observed, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Serve one turn of every lane.

        Args:
            actions: Integers (B,), deployment indices.

        Raises:
            RuntimeError: Before `reset`, or a lane ended and nothing resets it.
            ValueError: An action is no deployment; nothing was served.
        """
        out = self.serve(actions)
        info = vector_info(self._desk, self.copy)
        if self._autoreset == RESET_SAME_STEP:
            self._add_final(info)
        return (
            self._observed(out.observation),
            self._kept(out.reward),
            self._kept(out.terminated),
            self._kept(out.truncated),
            info,
        )

    def serve(self, actions: Any) -> Lanes:
        """As `step`, for adapters: returns the lanes' own arrays alone."""
        self._check_begun()
        self._desk.step(self._checked(actions), self._autoreset)
        return self._desk.out

    def _add_final(self, info: dict[str, Any]) -> None:
        out = self._desk.out
        ended = out.terminated | out.truncated
        if ended.any():
            last = {
                key: ended if key.startswith("_") else value
                for key, value in info.items()
                if key.lstrip("_") != "session"  # that of the episode that has begun
            }
            last["action_mask"] = self._kept(out.final_mask)
            info["final_info"], info["final_obs"] = last, self._observed(out.final_observation)
            info["_final_obs"] = info["_final_info"] = ended

    def _observed(self, observation: NDArray[np.float32]) -> Observed:
        kept = self._kept(observation)
        return kept if self.options.observation == "flat" else self.layout.by_block(kept)

    def _kept(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy() if self.copy else array

    def _checked(self, actions: Any) -> NDArray[np.int64]:
        given = np.asarray(actions)
        if given.dtype.kind not in "iu" or given.shape != (self.num_envs,):
            raise ValueError(
                f"actions are {given.dtype} of shape {given.shape}; give integers of shape "
                f"({self.num_envs},)"
            )
        chosen = np.ascontiguousarray(given, dtype=np.int64)
        lane = self._desk.refused_lane(chosen, self._autoreset)
        if lane < 0:
            return chosen
        last = len(self.world.fleet) - 1
        if 0 <= chosen[lane] <= last:
            raise RuntimeError(
                f"lane {lane}: its episode is over; reset it with options={{'reset_mask': ...}}"
            )
        raise ValueError(
            f"lane {lane}: deployment {chosen[lane]} does not exist; choose from 0 to {last}"
        )

    def _chosen(self, options: dict[str, Any] | None) -> NDArray[np.bool_]:
        asked = None if options is None else options.get("reset_mask")
        if asked is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        chosen = np.asarray(asked)
        if chosen.dtype != np.bool_ or chosen.shape != (self.num_envs,):
            raise ValueError(
                f"options: reset_mask is {chosen.dtype} of shape {chosen.shape}; give bool of "
                f"shape ({self.num_envs},)"
            )
        if not self._begun and not chosen.all():
            raise RuntimeError("the first reset() must begin every lane; leave out reset_mask")
        return chosen

    def _seed(self, seed: int | list[int | None] | None, chosen: NDArray[np.bool_]) -> None:
        if seed is None and self._seeded:
            return
        if seed is None:
            seed = _any_seed()
        if isinstance(seed, int | np.integer):
            seeds: list[int | None] = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds were given for {self.num_envs} lanes")
        for said in seeds:
            if said is not None and (not isinstance(said, int | np.integer) or said < 0):
                raise ValueError(f"seed {said!r} is not allowed; give whole numbers from 0")
        if not self._seeded:  # lanes that are given none differ from one another too
            fresh = _any_seed()
            seeds = [fresh + i if said is None else said for i, said in enumerate(seeds)]
        wanted = np.array([s is not None for s in seeds]) & chosen
        given = [s for s, w in zip(seeds, wanted, strict=True) if w and s is not None]
        self._desk.seed(given, wanted)
        self._seeded = True

    def _check_begun(self) -> None:
        if not self._begun:
            raise RuntimeError("call reset() first: no turn has arrived yet")

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads."""
        if hasattr(self, "_desk"):  # not if the arguments were refused
            self._desk.close()


def _mode(said: str | AutoresetMode) -> AutoresetMode:
    try:
        return AutoresetMode(said)
    except ValueError:
        known = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise InputError(f"autoreset_mode = {said!r} is not allowed; use one of {known}") from None


def _any_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])
