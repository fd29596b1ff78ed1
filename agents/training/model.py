"""From a configuration to a model of Stable-Baselines3 or sb3-contrib."""

from __future__ import annotations

from typing import Any

from sb3_contrib import QRDQN, MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.utils import LinearSchedule

from agents.scorer import MaskableScorerPolicy, ScorerPolicy
from agents.training.config import Config, OnPolicy
from agents.training.symlog import SymlogMaskableRolloutBuffer, SymlogRolloutBuffer, SymlogValues
from agents.vec_env import CarbonVecEnv

ALGORITHMS: dict[str, type[Any]] = {
    "ppo": PPO,
    "maskable-ppo": MaskablePPO,
    "dqn": DQN,
    "qrdqn": QRDQN,
    "a2c": A2C,
}


def make_model(config: Config, env: CarbonVecEnv) -> BaseAlgorithm:
    """A fresh model.

    Args:
        config: Algorithm, network and hyper-parameters.
        env: To learn in.
    """
    hyper = config.hyper()
    rate: Any = config.learning_rate
    if config.learning_rate_schedule == "linear":
        rate = LinearSchedule(rate, 0.0, 1.0)
    policy, options = _policy(config, env)
    for name in ("policy", "scorer", "warm_start"):
        hyper.pop(name, None)
    if isinstance(config, OnPolicy) and hyper.pop("value_target") == "symlog":
        policy = type(f"Symlog{policy.__name__}", (SymlogValues, policy), {})
        masked = issubclass(policy, MaskableActorCriticPolicy)
        hyper["rollout_buffer_class"] = (
            SymlogMaskableRolloutBuffer if masked else SymlogRolloutBuffer
        )
    if "n_quantiles" in hyper:
        options["n_quantiles"] = hyper.pop("n_quantiles")
    model: BaseAlgorithm = ALGORITHMS[config.algo](
        policy=policy,
        env=env,
        learning_rate=rate,
        gamma=config.gamma,
        seed=config.seed,
        device=config.device,
        policy_kwargs=options,
        **hyper,
    )
    return model


def _policy(config: Config, env: CarbonVecEnv) -> tuple[Any, dict[str, Any]]:
    """The class of the network, and its arguments."""
    masked = config.algo == "maskable-ppo"
    options = {"net_arch": list(config.net_arch)}
    if not isinstance(config, OnPolicy):
        return "MlpPolicy", options
    if config.policy == "scorer":
        sizes = config.scorer.model_dump()
        return MaskableScorerPolicy if masked else ScorerPolicy, {
            "layout": env.env.layout,
            **sizes,
        }
    return MaskableActorCriticPolicy if masked else ActorCriticPolicy, options
