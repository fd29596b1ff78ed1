"""A policy of one's own, twenty lines, in the benchmark beside CCAR on the same fleets.

Prints the comparison's table; `results.json`, a CSV and pictures are put into --out. Takes about 10
seconds on 5 days of 300 conversations; with --full, on the leaderboard's 16 whole days, a minute.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.cli import main
from carbon_gym.simulator import Quotes


class CleanestGrid:
    """The cleanest grid among the feasible deployments; of its deployments the cheapest."""

    name = "cleanest-grid"

    def reset(self, fleet: Any, slots: int) -> None:
        """A run begins; `slots` is the number of its sessions, for what is kept of each."""
        self.region = fleet.region  # region of each deployment, (D,)

    def choose(self, quotes: Quotes) -> NDArray[np.int64]:
        """A deployment for the turn of each lane, (B,)."""
        intensity = quotes.facility_intensity[:, self.region]  # gCO2eq/kWh, (B, D)
        best = np.where(quotes.feasible, intensity, np.inf).min(axis=1)
        among = (intensity <= best[:, None]) | ~np.isfinite(best)[:, None]
        return quotes.cheapest(among=among)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="sharegpt")
    parser.add_argument("--out", default="runs/own-policy", help="folder for the results")
    parser.add_argument("--full", action="store_true", help="16 whole days, as the leaderboard has")
    args = parser.parse_args()

    policies = "session-affinity,faircarbon,ccar,own_policy:CleanestGrid"
    options = ["--scenario", args.scenario, "--policies", policies, "--out", args.out]
    size = [] if args.full else ["--fleets", "5", "--sessions", "300"]
    main(["benchmark", "--jobs", "1", *options, *size])
