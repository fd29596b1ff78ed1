"""What a policy gives on held-out conversations, beside the rule that it has to beat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from agents.training.config import Environment
from carbon_gym.doors import make_policy
from carbon_gym.envs.background import UNDER_BUDGET
from carbon_gym.envs.options import resolve
from carbon_gym.envs.vector import CarbonRoutingVectorEnv
from carbon_gym.scenario.scenario import Scenario

MOST_LANES = 256
"""Conversations side by side; more only leave more lanes idle at the end."""
_COLUMNS = (
    "co2_g",
    "quality_predicted",
    "quality_realised",
    "ttft_s",
    "quality_violation",
    "ttft_violation",
    "capacity_violation",
)
Choose = Callable[[CarbonRoutingVectorEnv, Any], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Figures:
    """What was served, over all turns.

    Attributes:
        co2_g: Sum, gCO2eq.
        quality_predicted: Mean, in [0, 1].
        quality_realised: Mean, in [0, 1].
        ttft_p95_s: 95 % quantile, s.
        quality_violation_rate: Share of the turns, in [0, 1].
        ttft_violation_rate: Share of the turns, in [0, 1].
        capacity_violation_rate: Share of the turns, in [0, 1].
    """

    co2_g: float
    quality_predicted: float
    quality_realised: float
    ttft_p95_s: float
    quality_violation_rate: float
    ttft_violation_rate: float
    capacity_violation_rate: float

    @classmethod
    def of(cls, turns: Any) -> Figures:
        """Those of turns served.

        Args:
            turns: Arrays (N,) by the names of `carbon_gym.simulator.arrays.OUTCOME`: a ledger, or
                a mapping with the seven that are needed.
        """
        return cls(
            co2_g=float(turns["co2_g"].sum()),
            quality_predicted=float(turns["quality_predicted"].mean()),
            quality_realised=float(turns["quality_realised"].mean()),
            ttft_p95_s=float(np.quantile(turns["ttft_s"], 0.95)),
            quality_violation_rate=float(turns["quality_violation"].mean()),
            ttft_violation_rate=float(turns["ttft_violation"].mean()),
            capacity_violation_rate=float(turns["capacity_violation"].mean()),
        )

    def co2_relative(self, reference: Figures) -> float:
        """CO2 as a share of the reference's; 1 where neither emits anything."""
        return self.co2_g / reference.co2_g if reference.co2_g else 1.0

    def missed(self, reference: Figures) -> dict[str, float]:
        """Constraints that are not kept, and by how much.

        Mean predicted quality is no lower, P95 TTFT and the rates of violations no higher than the
        reference's. By how much: the difference, of TTFT as a share of the reference's.
        """
        theirs = asdict(reference)
        gaps = {name: value - theirs[name] for name, value in asdict(self).items()}
        gaps["quality_predicted"] *= -1.0
        gaps["ttft_p95_s"] /= reference.ttft_p95_s or 1.0
        del gaps["co2_g"], gaps["quality_realised"]
        return {name: gap for name, gap in gaps.items() if gap > 1e-9}  # sums in another order


class HeldOut:
    """Conversations of the validation split, as training's environment would give them.

    Args:
        scenario: Fleet and rules.
        environment: Arguments of the environment.
        sessions: Number of conversations, drawn once and for all.

    Attributes:
        name: The reference: ccar, or under a budget ccar-budget-fixed (a λ that moves belongs to a
            whole fleet, not to a conversation).
        reference: What it gives.
    """

    def __init__(self, scenario: Scenario, environment: Environment, sessions: int) -> None:
        arguments = {**environment.arguments(), "scenario": scenario, "split": "validation"}
        arguments["max_turns"] = None
        world = resolve(**arguments).world
        drawn = np.random.default_rng(0).permutation(world.sessions)[:sessions]
        turns = np.diff(world.first)[drawn]
        # The longest first: else they would be what all others wait for.
        self._sessions = drawn[np.argsort(-turns, kind="stable")]
        self._env = CarbonRoutingVectorEnv(
            int(np.clip(turns.sum() // turns.max(), 1, min(MOST_LANES, len(drawn)))),
            autoreset_mode="Disabled",
            copy=False,
            **arguments,
        )
        budget = world.scenario.bounds.quality_constraint == "budget"
        self.name = UNDER_BUDGET if budget else "ccar"
        policy = make_policy(self.name, world.scenario)
        policy.reset(world.fleet, self._env.slots)
        self.reference = self.serve(lambda env, _: policy.choose(env.quotes))

    def serve(self, choose: Choose) -> Figures:
        """Serve all of them, turn by turn; lanes whose conversation ended take the next one.

        Args:
            choose: From the environment and the observations float32 (B, F) to deployments,
                int64 (B,).
        """
        env, lanes = self._env, self._env.num_envs
        playing, to_come = self._sessions[:lanes].copy(), self._sessions[lanes:]
        counted = np.ones(lanes, dtype=np.bool_)
        served: list[list[NDArray[Any]]] = []
        observation, _ = env.reset(seed=0, options={"session": playing})
        while counted.any():
            observation, _, ended, _, info = env.step(choose(env, observation))
            served.append([info[name][counted] for name in _COLUMNS])
            over = ended.nonzero()[0]
            following, to_come = to_come[: len(over)], to_come[len(over) :]
            playing[over[: len(following)]] = following
            counted[over[len(following) :]] = False  # they play theirs again, for nobody
            if len(over):  # `observation` is the environment's own array and changes with it
                env.reset(options={"session": playing, "reset_mask": ended.copy()})
        columns = (np.concatenate(parts) for parts in zip(*served, strict=True))
        return Figures.of(dict(zip(_COLUMNS, columns, strict=True)))


def validate(model: BaseAlgorithm, held_out: HeldOut) -> Figures:
    """What a model gives on held-out conversations, its best action at every turn.

    It draws nothing from the generators that training uses.
    """

    def choose(env: CarbonRoutingVectorEnv, observation: Any) -> NDArray[np.int64]:
        if isinstance(model, MaskablePPO):
            masks = env.action_masks()
            return model.predict(observation, deterministic=True, action_masks=masks)[0]
        return model.predict(observation, deterministic=True)[0]

    return held_out.serve(choose)
