"""What the two scalar environments share: one lane, one step, one mask."""

from __future__ import annotations

import operator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from carbon_gym.envs.arrays import RESET_NEVER
from carbon_gym.envs.desk import Desk
from carbon_gym.envs.information import scalar_info
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.envs.options import RENDER_MODES, Options
from carbon_gym.envs.record import Record
from carbon_gym.envs.render import Viewer
from carbon_gym.simulator.quotes import Quotes

Observed = NDArray[np.float32] | dict[str, NDArray[np.float32]]


def observation_space(layout: ObservationLayout, form: str) -> spaces.Space[Any]:
    """The space of one observation: a flat Box, or its blocks by name."""
    if form == "flat":
        return spaces.Box(layout.low, layout.high, dtype=np.float32)
    low, high = layout.by_block(layout.low), layout.by_block(layout.high)
    return spaces.Dict({k: spaces.Box(low[k], high[k], dtype=np.float32) for k in low})


class LaneEnv(gymnasium.Env[Any, Any]):
    """What both environments share: one lane, one step, one mask."""

    metadata = {  # noqa: RUF012 (as gymnasium declares it)
        "render_modes": list(RENDER_MODES),
        "render_fps": 2,
    }

    def __init__(self, options: Options) -> None:
        self.options = options
        self.world = options.world
        self.render_mode = options.render_mode
        self.layout = ObservationLayout(self.world.fleet)
        self.observation_space = observation_space(self.layout, options.observation)
        self.action_space = spaces.Discrete(len(self.world.fleet))
        self._deployments = len(self.world.fleet)
        self._action = np.zeros(1, dtype=np.int64)
        self._desk: Desk | None = None
        self._viewer: Viewer | None = None
        if self.render_mode is not None:
            self._viewer = Viewer(self.render_mode, self.metadata["render_fps"])

    @property
    def quotes(self) -> Quotes:
        """The priced turn to be served, as a policy sees it: one lane (`Quotes`)."""
        return self._begun().quotes()

    @property
    def slots(self) -> int:
        """Number of session slots, for `Policy.reset`."""
        return self.world.simulator.slots

    def action_masks(self) -> NDArray[np.bool_]:
        """The mask as bool (D,): allowed actions of the last observation; all before `reset`."""
        if self._desk is None:
            return np.ones(self._deployments, dtype=np.bool_)
        return np.asarray(self._desk.out.mask[0], dtype=np.bool_)

    def step(self, action: Any) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Serve the turn on a deployment.

        Args:
            action: Deployment index: int, numpy integer or array of one of them.

        Raises:
            RuntimeError: The episode is over, or `reset` was never called.
            ValueError: The action is no deployment.
        """
        desk = self._desk
        if desk is None or desk.out.ended[0]:
            raise RuntimeError("the episode is over; call reset() before the next step()")
        chosen = self._checked(action)
        at = self._ledger_row(desk)
        self._action[0] = chosen
        desk.step(self._action, RESET_NEVER)
        out = desk.out
        info = scalar_info(desk, at, self.layout.names)
        if self.render_mode is not None:
            self._watch(info)
        return (
            self._observed(desk),
            out.reward.item(),
            out.terminated.item(),
            out.truncated.item(),
            info,
        )

    def _checked(self, action: Any) -> int:
        try:
            chosen = operator.index(action)
        except TypeError:
            chosen = _index_in(action)
        if not 0 <= chosen < self._deployments:
            raise ValueError(
                f"deployment {chosen} does not exist; choose from 0 to {self._deployments - 1}"
            )
        return chosen

    def _observed(self, desk: Desk) -> Observed:
        observation: NDArray[np.float32] = desk.observation.copy()
        if self.options.observation == "flat":
            return observation
        return self.layout.by_block(observation)

    def _ledger_row(self, desk: Desk) -> int:
        return 0

    def _begun(self) -> Desk:
        if self._desk is None:
            raise RuntimeError("call reset() first: no turn has arrived yet")
        return self._desk

    def render(self) -> Any:
        """The episode as the render mode shows it; nothing of the environment changes.

        Returns:
            "ansi": the lines that have not been given out since `reset`: a headline of the
            episode, then one a turn served; "" if there is nothing new. "rgb_array": a frame,
            uint8 (720, 1280, 3). "human": None; the window is up to date after every `reset` and
            `step` anyway.

        Raises:
            RuntimeError: `reset` was never called.
            InputError: "human" where no window can be opened.
        """
        self._begun()
        if self._viewer is None:
            gymnasium.logger.warn(
                "render() does nothing without a render_mode; give one to gymnasium.make: "
                + ", ".join(repr(mode) for mode in RENDER_MODES)
            )
            return None
        return self._viewer.render()

    def _watch(self, info: dict[str, Any]) -> None:
        """Show a turn just served."""
        if self._viewer is not None:
            self._viewer.add(info)

    def _watch_reset(self) -> None:
        """Show a new episode."""
        if self._viewer is not None:
            self._viewer.begin(self._record(self._begun()))

    def _record(self, desk: Desk) -> Record:
        """What is shown of the episode that begins."""
        raise NotImplementedError

    def close(self) -> None:
        """Free the lane, and close the window."""
        self._desk = None
        if self._viewer is not None:
            self._viewer.close()


def _index_in(action: Any) -> int:
    array = np.asarray(action)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"action {action!r} is no deployment; give one integer, the index of a deployment"
        )
    return int(array.reshape(()))
