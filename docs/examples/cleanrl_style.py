"""PPO with action masks in one file, over the native vector environment."""

import argparse
import time

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import carbon_gym  # noqa: F401 (registers the environments)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scenario", default="sharegpt")
parser.add_argument("--steps", type=int, default=100_000, help="turns to train on")
parser.add_argument("--lanes", type=int, default=64, help="conversations side by side")
parser.add_argument("--rollout", type=int, default=128, help="turns of a lane between updates")
parser.add_argument("--minibatch", type=int, default=2048)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--learning-rate", type=float, default=3e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.95)
parser.add_argument("--clip", type=float, default=0.2)
parser.add_argument("--entropy", type=float, default=0.01)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

# SameStep: a lane that ended begins again at once, so that every row of a rollout is a turn.
env = gymnasium.make_vec(
    "CarbonRouting-v0",
    num_envs=args.lanes,
    scenario=args.scenario,
    autoreset_mode="SameStep",
    copy=False,
)
features, deployments = env.single_observation_space.shape[0], env.single_action_space.n


def network(outputs: int, gain: float) -> nn.Sequential:
    """Two hidden layers of 64, orthogonal weights, the last scaled by `gain`."""
    linear = nn.Linear(features, 64), nn.Linear(64, 64), nn.Linear(64, outputs)
    for layer, scale in zip(linear, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(linear[0], nn.Tanh(), linear[1], nn.Tanh(), linear[2])


actor, critic = network(deployments, 0.01), network(1, 1.0)
parameters = [*actor.parameters(), *critic.parameters()]
optimizer = torch.optim.Adam(parameters, lr=args.learning_rate, eps=1e-5)


def policy(observation: torch.Tensor, mask: torch.Tensor) -> Categorical:
    """The distribution over the allowed deployments."""
    logits = actor(observation)
    return Categorical(logits=logits.masked_fill(~mask, torch.finfo(logits.dtype).min))


shape = (args.rollout, args.lanes)
observations = torch.zeros(*shape, features)
masks = torch.zeros(*shape, deployments, dtype=torch.bool)
actions = torch.zeros(shape, dtype=torch.int64)
log_probs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))

observation, info = env.reset(seed=args.seed)
total, finished = np.zeros(args.lanes), []
began = time.perf_counter()
for update in range(1, max(args.steps // (args.rollout * args.lanes), 1) + 1):
    for t in range(args.rollout):
        # The environment's arrays change with the next step: these rows are copies.
        observations[t] = torch.from_numpy(observation)
        masks[t] = torch.from_numpy(info["action_mask"]).bool()
        with torch.no_grad():
            chosen = policy(observations[t], masks[t])
            actions[t] = chosen.sample()
            log_probs[t] = chosen.log_prob(actions[t])
            values[t] = critic(observations[t])[:, 0]
        observation, reward, terminated, truncated, info = env.step(actions[t].numpy())
        done = terminated | truncated  # only terminated, unless max_turns is set
        rewards[t], dones[t] = torch.from_numpy(reward), torch.from_numpy(done)
        total += reward
        finished += total[done].tolist()
        total[done] = 0.0

    with torch.no_grad():  # generalised advantage estimation
        following = critic(torch.from_numpy(observation))[:, 0]
        advantages, last = torch.zeros(shape), torch.zeros(args.lanes)
        for t in reversed(range(args.rollout)):
            goes_on = 1.0 - dones[t]
            error = rewards[t] + args.gamma * following * goes_on - values[t]
            last = error + args.gamma * args.gae_lambda * goes_on * last
            advantages[t], following = last, values[t]
        returns = advantages + values

    rows = args.rollout * args.lanes
    flat = [x.reshape(rows, -1) for x in (observations, masks)]
    flat += [x.reshape(rows) for x in (actions, log_probs, advantages, returns)]
    for _ in range(args.epochs):
        for picked in torch.randperm(rows).split(args.minibatch):
            seen, allowed, taken, old, advantage, target = (x[picked] for x in flat)
            now = policy(seen, allowed)
            ratio = (now.log_prob(taken) - old).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = ratio.clamp(1.0 - args.clip, 1.0 + args.clip)
            gain = torch.min(ratio * advantage, clipped * advantage).mean()
            miss = 0.5 * (critic(seen)[:, 0] - target).square().mean()
            loss = miss - gain - args.entropy * now.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()

    if finished:
        rate = update * rows / (time.perf_counter() - began)
        print(f"{update * rows} turns: mean return {np.mean(finished):.3f}, {rate:,.0f} turns/s")
    finished = []
env.close()
