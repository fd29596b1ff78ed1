"""How much of PPO's training time the environment takes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from statistics import median
from typing import Any

from carbon_gym.doors import our_package
from carbon_gym.speed.cores import pinned
from carbon_gym.speed.rounds import Bar, no_bar

ROLLOUTS = 4


@dataclass(frozen=True, slots=True)
class Training:
    """What `measure_training` found.

    Attributes:
        env_share: Environment's share of the training time, in [0, 1]; median of the repeats.
        low: Smallest.
        high: Largest.
        turns_per_s: Turns trained on per second; median.
        cores: The core that all of it ran on; None where the system cannot pin.
    """

    env_share: float
    low: float
    high: float
    turns_per_s: float
    cores: list[int] | None


def measure_training(repeats: int = 5, bar: Bar = no_bar, **options: Any) -> Training | None:
    """The environment's share of SB3's PPO on one core: `agents.env_share`.

    Args:
        repeats: Measurements of `ROLLOUTS` rollouts with their updates, after one rollout.
        bar: Shows progress.
        **options: Arguments of CarbonRouting-v0.

    Returns:
        None where the extra ``train`` is not installed.

    Raises:
        InstallationError: `agents` is missing or another distribution's.
    """
    our_package("agents")
    with pinned(1) as cores, bar("training", 1) as done:
        try:
            timed = importlib.import_module("agents.env_share")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in ("agents", "carbon_gym"):
                raise
            return None
        found = timed.ppo_env_share(repeats=repeats, rollouts=ROLLOUTS, **options)
        done(1)
    shares = [share for share, _ in found]
    turns_per_s = median(rate for _, rate in found)
    return Training(median(shares), min(shares), max(shares), turns_per_s, cores)
