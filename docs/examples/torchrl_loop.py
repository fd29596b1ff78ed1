"""TorchRL: PPO over `GymWrapper`, the action mask read from a Dict observation."""

import argparse

import gymnasium
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import ActionMask, DTypeCastTransform, GymWrapper, RewardSum, TransformedEnv
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import carbon_gym  # noqa: F401 (registers the environments)
from carbon_gym.wrappers import DictMaskObservation

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scenario", default="sharegpt")
parser.add_argument("--steps", type=int, default=20_000, help="turns to train on")
parser.add_argument("--rollout", type=int, default=1024, help="turns between updates")
parser.add_argument("--minibatch", type=int, default=256)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

single = gymnasium.make("CarbonRouting-v0", scenario=args.scenario)
single = DictMaskObservation(single, obs_key="observations", mask_key="action_mask")
env = TransformedEnv(GymWrapper(single, categorical_action_encoding=True))
env.append_transform(DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"]))
env.append_transform(ActionMask(mask_key="action_mask"))
env.append_transform(RewardSum())
env.set_seed(args.seed)

features, deployments = single.observation_space["observations"].shape[0], single.action_space.n


def network(outputs: int) -> nn.Sequential:
    """Two hidden layers of 64."""
    return nn.Sequential(
        nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


actor = ProbabilisticActor(
    TensorDictModule(network(deployments), in_keys=["observations"], out_keys=["logits"]),
    in_keys={"logits": "logits", "mask": "action_mask"},
    spec=env.action_spec,
    distribution_class=MaskedCategorical,
    return_log_prob=True,
)
critic = ValueOperator(network(1), in_keys=["observations"])
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2)
optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)

for turns in range(args.rollout, args.steps + 1, args.rollout):
    with torch.no_grad():
        batch = env.rollout(args.rollout, actor, break_when_any_done=False)
    advantage(batch)
    for _ in range(args.epochs):
        for picked in torch.randperm(len(batch)).split(args.minibatch):
            terms = loss(batch[picked])
            sum(term for name, term in terms.items() if name.startswith("loss_")).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
    ended = batch["next", "done"]
    returns = batch["next", "episode_reward"][ended]
    print(f"{turns} turns: mean return {returns.mean():.3f} over {len(returns)} conversations")
env.close()
