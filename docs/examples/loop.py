"""The loop: one conversation, routed at random among the deployments that are allowed.

Prints a line for each turn (deployment, gCO2eq, seconds to the first token, whether it moved) and
the return of the conversation. Takes about 3 seconds.
"""

import argparse

import gymnasium

import carbon_gym  # noqa: F401 (registers the environments)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scenario", default="sharegpt")
parser.add_argument("--seed", type=int, default=1, help="which conversation, and the draws")
args = parser.parse_args()

env = gymnasium.make("CarbonRouting-v0", scenario=args.scenario)
observation, info = env.reset(seed=args.seed)
env.action_space.seed(args.seed)
total, ended = 0.0, False

while not ended:
    action = env.action_space.sample(info["action_mask"])  # put your router here
    observation, reward, terminated, truncated, info = env.step(action)
    ended = terminated or truncated

    total += float(reward)
    print(
        f"{info['deployment']:50} {info['co2_g']:.4f} g  {info['ttft_s']:.2f} s"
        f"{'  moved' if info['switched'] else ''}"
    )
print(f"return of the conversation: {total:.3f}")
