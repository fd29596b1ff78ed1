"""A fleet of one's own, from a YAML file: regions, GPU types, network; and what routing saves.

Prints CO2, quality and latency of three policies, and where each sends its tokens. Takes about 10
seconds. The file is one of docs/examples/fleets, by default a region on premises beside three
rented ones; docs/fleet.md says what may stand in it.
"""

import argparse
from pathlib import Path

import numpy as np

from carbon_gym import load_scenario, make_policy
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.simulator.run import run_policy

FLEETS = Path(__file__).resolve().parent / "fleets"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--fleet", default=FLEETS / "on-premises.yaml", help="scenario with a fleet")
parser.add_argument("--days", type=int, default=2)
parser.add_argument("--sessions", type=int, default=300, help="conversations a day")
args = parser.parse_args()

scenario = load_scenario(args.fleet)
world = evaluation_fleets(scenario, fleets=args.days, sessions=args.sessions)
tokens = np.concatenate(
    [t.prompt_tokens + t.history_tokens + t.output_tokens for t in world.traces]
)
fleet = Deployments.of(scenario)
zones = [region.zone for region in scenario.fleet.regions]
print(f"{scenario.description}: {len(tokens):,} turns")
for name in ("session-affinity", "faircarbon", "ccar"):
    run = run_policy(world.scenario, make_policy(name, scenario), world.traces, world.grid)
    region = fleet.region[run.ledger["deployment"]]
    share = np.bincount(region, weights=tokens, minlength=len(zones)) / tokens.sum()
    where = ", ".join(f"{zone} {100 * of:.0f} %" for zone, of in zip(zones, share, strict=True))
    print(
        f"{name:17} {run.ledger['co2_g'].sum():7.1f} g, "
        f"quality {run.ledger['quality_predicted'].mean():.3f}, "
        f"P95 TTFT {np.quantile(run.ledger['ttft_s'], 0.95):.2f} s; tokens: {where}"
    )
