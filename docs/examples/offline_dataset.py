"""An offline data set: record what a policy decides, look at it, and clone the policy from it.

Prints size and figures of the recording, then how often a small network decides as the policy did
on a day that it has not learned from, beside how often the commonest allowed deployment is right.
Takes about 15 seconds. `carbon-gym record ccar --out runs/ccar` records the same from the command
line, with `--format minari` for Minari as well; docs/datasets.md describes the files.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

from carbon_gym import load_scenario
from carbon_gym.datasets import load_dataset
from carbon_gym.datasets.recorder import record
from carbon_gym.envs.options import resolve
from carbon_gym.evaluation import evaluation_fleets

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scenario", default="sharegpt")
parser.add_argument("--policy", default="ccar")
parser.add_argument("--days", type=int, default=3, help="the last one is held out")
parser.add_argument("--sessions", type=int, default=200, help="conversations a day")
parser.add_argument("--epochs", type=int, default=20)
args = parser.parse_args()
torch.manual_seed(0)

scenario = load_scenario(args.scenario)
fleets = evaluation_fleets(scenario, split="train", fleets=args.days, sessions=args.sessions)
with TemporaryDirectory() as folder:
    record(fleets, args.policy, Path(folder), resolve(scenario=scenario).rules, split="train")
    data = load_dataset(folder)
    observations = torch.from_numpy(np.asarray(data.observations))
    actions, masks, co2_g = (data.column(name) for name in ("actions", "masks", "co2_g"))
    returns = [session.rewards.sum() for session in data.sessions()]
    held_out = len(data.fleets[-1].actions)
print(
    f"{args.policy}: {len(actions):,} turns of {len(returns):,} conversations, "
    f"{observations.shape[1]} numbers each; {1000 * co2_g.mean():.2f} mg a turn, "
    f"mean return {np.mean(returns):.3f}"
)

allowed = masks[np.arange(len(actions)), actions]  # the rest were best effort: no choice to learn
learned = np.flatnonzero(allowed[:-held_out])
tested = np.flatnonzero(allowed[-held_out:]) + len(actions) - held_out
acted, mask = torch.from_numpy(actions), torch.from_numpy(masks)
network = nn.Sequential(
    nn.Linear(observations.shape[1], 128), nn.ReLU(), nn.Linear(128, masks.shape[1])
)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
for _ in range(args.epochs):
    for batch in torch.from_numpy(np.random.default_rng(0).permutation(learned)).split(256):
        logits = network(observations[batch]).masked_fill(~mask[batch], -torch.inf)
        loss = nn.functional.cross_entropy(logits, acted[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():
    logits = network(observations[tested]).masked_fill(~mask[tested], -torch.inf)
agreement = float((logits.argmax(1) == acted[tested]).double().mean())
common = np.bincount(actions[learned], minlength=masks.shape[1])
commonest = float((np.where(masks[tested], common, -1).argmax(1) == actions[tested]).mean())
print(
    f"on {len(tested):,} held-out turns the clone decides as {args.policy} in "
    f"{100 * agreement:.1f} %, the commonest allowed deployment in {100 * commonest:.1f} %"
)
