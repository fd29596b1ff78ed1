"""Train a router for a few seconds, and compare it with CCAR on days that it has not seen.

Prints what the router saves over `ccar` and over `faircarbon` on held-out test days, with paired
95 % intervals, beside quality and latency. Takes about 15 seconds.

This is a demonstration: one seed, small days, seconds of search. It begins with CCAR's prices, so
that it saves over `faircarbon` from the start; expect little that is sure over `ccar`. Routers that
were trained for minutes on whole days, five seeds each, save 27 % there: docs/learned-routers.md
(`carbon-gym train --config learned-congested`, then `carbon-gym evaluate`).
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from agents.policy_search.config import Clone, Es, Rule
from agents.policy_search.run import search
from carbon_gym import load_scenario
from carbon_gym.benchmark import compare
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.metrics.versus import versus

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scenario", default="congested")
parser.add_argument("--sessions", type=int, default=100, help="conversations a day")
parser.add_argument("--steps", type=int, default=800_000, help="turns that candidates serve")
parser.add_argument("--days", type=int, default=8, help="test days to compare on, at least five")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

recipe = Es(  # docs/training.md has every field
    algo="es",
    scenario=args.scenario,
    seed=args.seed,
    total_steps=args.steps,
    rule=Rule(generations=8, population=24),  # a linear rule is found first
    clone=Clone(groups=24, epochs=8),  # the network learns to do what it does, and then evolves
    pairs=8,
    validation_fleets=4,
    jobs=1,
)
scenario = load_scenario(args.scenario, workload={"sessions_per_fleet": args.sessions})
with TemporaryDirectory() as folder:
    run = Path(folder) / "run"
    outcome = search(recipe, [scenario], run)  # training and selection: other splits than the test
    best = outcome.progress["best"]
    print(f"trained on {outcome.steps:,} turns, on validation {best['co2_relative']:.3f} of ccar's")

    router = str(run / "router.npz")
    test = evaluation_fleets(scenario, split="test", fleets=args.days)
    rows = compare(test, ["ccar", "faircarbon", router])

for reference in ("ccar", "faircarbon"):
    saving = versus(rows)[router][reference]
    mean, low, high = 100 * saving["mean"], 100 * saving["low"], 100 * saving["high"]
    print(f"saves {mean:.1f} [{low:.1f}, {high:.1f}] % over {reference} on {args.days} test days")
for row in rows:
    if row["fleet"] == "all":
        name = "the router" if row["policy"] == router else row["policy"]
        print(
            f"{name}: mean predicted quality {row['quality_predicted']:.3f}, "
            f"P95 TTFT {row['ttft_p95_s']:.2f} s"
        )
