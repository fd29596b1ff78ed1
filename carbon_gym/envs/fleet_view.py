"""What an environment would show of the turns of a simulator's fleets, for routers that learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from carbon_gym.doors import our_package
from carbon_gym.envs import kernels
from carbon_gym.envs.arrays import MASK_FEASIBLE, Kit, Rules
from carbon_gym.envs.context import context_of
from carbon_gym.envs.desk import lanes_of
from carbon_gym.envs.layout import ObservationLayout
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.simulator.allocate import quotes_of
from carbon_gym.simulator.packed import Packed
from carbon_gym.simulator.simulator import Simulator


def _rules(scenario: Scenario) -> Rules:
    """Of those only the mask and the stake count: no reward is computed here."""
    return Rules(
        co2_scale_g=1.0,
        stake_g=our_package("baselines").scale_co2_g(scenario),
        quality_weight=0.0,
        ttft_weight=0.0,
        capacity_weight=0.0,
        budget=False,
        quality_target=0.0,
        mask=MASK_FEASIBLE,
        max_turns=0,
    )


class FleetView:
    """The observations of `CarbonRoutingFleet-v0`, for all lanes of a simulator at once.

    It reads the simulator's state; `reset` resets both.

    Args:
        simulator: Its lanes are fleets.
        layout: Of the observations; None: one is made.
        rules: For the reward, if someone steps the kit's lanes by the kernels of `envs`.

    Attributes:
        simulator: As given.
        layout: Of the observations.
        observation: float32 (B, n), as of the last `observe`; rows of lanes that are done are
            stale.
        mask: int8 (B, D), the feasible deployments; the one of best effort alone where there is
            none.
        kit: All that the kernels of `carbon_gym.envs` need.
        words: The kit, packed.
    """

    def __init__(
        self,
        simulator: Simulator,
        layout: ObservationLayout | None = None,
        rules: Rules | None = None,
    ) -> None:
        self.layout = layout or ObservationLayout(simulator.fleet)
        self.simulator = simulator
        static, lanes = simulator._static, simulator.lanes
        origin_unix_s = np.repeat(simulator.origin_unix_s, np.diff(simulator.bounds))
        out = lanes_of(lanes, self.layout.size, len(simulator.fleet))
        out.known[:] = simulator.bounds[1:]
        self.kit = Kit(
            static,
            simulator._turns,
            simulator._state,
            quotes_of(static, simulator.fleet, 1)._buffers,
            simulator.ledger,
            context_of(static, simulator._turns, origin_unix_s),
            simulator.bounds,
            rules or _rules(simulator.scenario),
            out,
        )
        self.observation: NDArray[np.float32] = out.observation
        self.mask: NDArray[np.int8] = out.mask
        self.words = Packed(self.kit).words

    def reset(self) -> None:
        """Start the simulator again, and look at it."""
        self.simulator.reset()
        self.kit = self.kit._replace(state=self.simulator._state, ledger=self.simulator.ledger)
        self.words = Packed(self.kit).words

    def observe(self) -> None:
        """Write observation and mask of every lane's current turn."""
        kernels.observe_fleets(self.words)
