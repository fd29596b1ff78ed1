"""sb3-contrib: MaskablePPO, which chooses among the feasible deployments only."""

import argparse

from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy

from agents import CarbonVecEnv

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scenario", default="sharegpt")
parser.add_argument("--steps", type=int, default=500_000, help="turns to train on")
parser.add_argument("--lanes", type=int, default=64, help="conversations side by side")
parser.add_argument("--episodes", type=int, default=500, help="held-out conversations")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

env = CarbonVecEnv(args.lanes, seed=args.seed, scenario=args.scenario)  # its masks are found
batch = 128 * args.lanes // 4
model = MaskablePPO("MlpPolicy", env, n_steps=128, batch_size=batch, seed=args.seed, verbose=1)
model.learn(args.steps)

held_out = CarbonVecEnv(args.lanes, seed=args.seed, scenario=args.scenario, split="validation")
mean, _ = evaluate_policy(model, held_out, n_eval_episodes=args.episodes)
print(f"mean return of a held-out conversation: {mean:.3f}")
