"""What a policy gives on held-out conversations and fleets, beside the rule that it has to beat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm

from agents.export import router_weights
from agents.network import Network
from agents.scorer import MaskableScorerPolicy, ScorerPolicy
from agents.training.config import Environment
from agents.vec_env import CarbonVecEnv
from carbon_gym.doors import make_policy
from carbon_gym.envs.background import UNDER_BUDGET
from carbon_gym.envs.options import resolve
from carbon_gym.envs.vector import CarbonRoutingVectorEnv
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.metrics.figures import Figures
from carbon_gym.policy import Policy
from carbon_gym.router import Router
from carbon_gym.router.plan import signature
from carbon_gym.router.policy import RouterPolicy
from carbon_gym.scenario.scenario import Scenario
from carbon_gym.simulator.run import run_policy

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


class HeldOut:
    """Conversations of the validation split, as training's environment would give them.

    Args:
        scenario: Fleet and rules.
        environment: Arguments of the environment.
        sessions: Number of conversations, drawn once and for all.

    Attributes:
        scenario: As the environment's arguments change it.
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
        self.scenario = world.scenario
        self.name = UNDER_BUDGET if _budget(self.scenario) else "ccar"
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


class HeldOutFleets:
    """Whole fleets of the validation split, side by side: what is to be good in the end.

    Here the sessions share capacity and memory with one another, and with what the policy itself
    has done; a lone conversation meets the traffic of another policy.

    Args:
        scenario: Fleet and rules: `HeldOut.scenario`.
        fleets: Number of fleets, at least 1.

    Attributes:
        name: The reference: ccar, or under a budget ccar-budget.
        reference: What it gives.
    """

    def __init__(self, scenario: Scenario, fleets: int) -> None:
        self._laid = evaluation_fleets(scenario, split="validation", fleets=fleets)
        self.name = "ccar-budget" if _budget(scenario) else "ccar"
        self.reference = self.serve(make_policy(self.name, scenario))

    def serve(self, policy: Policy) -> Figures:
        """Serve all of them."""
        laid = self._laid
        return Figures.of(run_policy(laid.scenario, policy, laid.traces, laid.grid).ledger)


def validate_fleets(model: BaseAlgorithm, fleets: HeldOutFleets) -> Figures:
    """What a model gives on whole fleets as `carbon_gym.make_policy` would serve them.

    That is, by its best action among the feasible deployments, whatever it learned with. It draws
    nothing from the generators that training uses.
    """
    env = model.get_env()
    assert isinstance(env, CarbonVecEnv)
    layout = env.env.layout
    router: Any
    if isinstance(model.policy, ScorerPolicy | MaskableScorerPolicy):
        # As it would be exported, on NumPy: a few times as fast as torch (measured).
        weights = router_weights(model.policy.state_dict())
        router = Router(weights, {"layout": signature(layout), "recipe": {}})
    else:
        router = Network(model.policy, layout)
    return fleets.serve(RouterPolicy(router, "model"))


def _budget(scenario: Scenario) -> bool:
    return scenario.bounds.quality_constraint == "budget"


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
