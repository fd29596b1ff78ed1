"""RLlib: PPO with two workers, the action mask read from a Dict observation.

`ray[rllib]` pins its own Gymnasium: run it in an environment of its own, ``nox -s rllib``.
"""

import argparse
from typing import Any

import gymnasium
import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env

Batch = dict[str, Any]


class MaskedModule(DefaultPPOTorchRLModule):  # type: ignore[misc]
    """PPO's networks over the observation; what the mask forbids is never drawn."""

    def __init__(self, *, observation_space: gymnasium.spaces.Dict, **kwargs: Any) -> None:
        super().__init__(observation_space=observation_space["observations"], **kwargs)

    def _forward(self, batch: Batch, **kwargs: Any) -> Batch:
        return masked(batch, super()._forward(without_mask(batch), **kwargs))

    def _forward_train(self, batch: Batch, **kwargs: Any) -> Batch:
        return masked(batch, super()._forward_train(without_mask(batch), **kwargs))

    def compute_values(self, batch: Batch, embeddings: Any = None) -> Any:
        """Values of the observations."""
        return super().compute_values(without_mask(batch), embeddings)


def without_mask(batch: Batch) -> Batch:
    """The batch as the networks want it."""
    return {**batch, Columns.OBS: batch[Columns.OBS]["observations"]}


def masked(batch: Batch, output: Batch) -> Batch:
    """The output with the lowest number as logit of forbidden actions."""
    logits, mask = output[Columns.ACTION_DIST_INPUTS], batch[Columns.OBS]["action_mask"]
    lowest = torch.finfo(logits.dtype).min
    return {**output, Columns.ACTION_DIST_INPUTS: logits.masked_fill(mask == 0, lowest)}


def make(config: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """An environment whose observation is a dict with the mask; runs in every worker."""
    import carbon_gym  # noqa: F401 (registers the environments)
    from carbon_gym.wrappers import DictMaskObservation

    env = gymnasium.make("CarbonRouting-v0", **config)
    return DictMaskObservation(env, obs_key="observations", mask_key="action_mask")


def main() -> None:
    """Train for some iterations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="sharegpt")
    parser.add_argument("--steps", type=int, default=40_000, help="turns to train on")
    parser.add_argument("--workers", type=int, default=2, help="processes that play")
    parser.add_argument("--batch", type=int, default=4000, help="turns between updates")
    args = parser.parse_args()

    register_env("carbon", make)
    config = (
        PPOConfig()
        .environment("carbon", env_config={"scenario": args.scenario})
        .env_runners(num_env_runners=args.workers, num_envs_per_env_runner=4)
        .training(train_batch_size_per_learner=args.batch, minibatch_size=args.batch // 8)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=MaskedModule))
    )
    ray.init(num_cpus=args.workers, include_dashboard=False)
    algorithm = config.build_algo()
    turns = 0
    while turns < args.steps:
        played = algorithm.train()["env_runners"]
        turns = played["num_env_steps_sampled_lifetime"]
        print(f"{turns:.0f} turns: mean return {played['episode_return_mean']:.3f}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
