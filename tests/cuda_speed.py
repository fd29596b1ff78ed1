"""Training speed on a GPU beside the CPU: run it by hand, pytest does not collect it.

    python tests/cuda_speed.py [--scenario sharegpt] [--rollouts 3] [--scorer-width 32]

Trains maskable-ppo, with the plain network and with the scorer, and prints turns a second. The
CPU has the packaged sizes; the GPU has many lanes and large minibatches, and as many passes over
them; the CPU with the GPU's sizes tells what of the difference is theirs. Without a CUDA device it
says so and ends well.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import torch

from agents.training.config import load_config
from agents.training.model import make_model
from agents.vec_env import CarbonVecEnv

SIZES: dict[str, dict[str, int]] = {
    "small": {"lanes": 32, "n_steps": 64, "batch_size": 256},
    "large": {"lanes": 1024, "n_steps": 64, "batch_size": 16_384},
}
"""Rollouts of 2,048 and of 65,536 turns, of eight and of four minibatches."""


def turns_per_s(
    device: str, network: str, sizes: dict[str, int], scenario: str, rollouts: int, width: int
) -> float:
    """Turns a second of rollouts with their updates, after one of each to warm up."""
    config: Any = load_config("maskable-ppo", device=device, scenario=scenario)
    scorer = config.scorer.model_copy(update={"width": width, "turn_width": width})
    config = config.model_copy(update={**sizes, "policy": network, "scorer": scorer})
    arguments = {**config.environment.arguments(), "fleets": 4}
    env = CarbonVecEnv(config.lanes, scenario=scenario, **arguments)
    model = make_model(config, env)
    rollout = config.lanes * config.n_steps
    model.learn(rollout)
    synchronise(device)
    began_s = time.perf_counter()
    model.learn(rollouts * rollout)
    synchronise(device)
    took_s = time.perf_counter() - began_s
    env.close()
    return rollouts * rollout / took_s


def synchronise(device: str) -> None:
    """Wait for what the GPU has still to do."""
    if device == "cuda":
        torch.cuda.synchronize()


def main(arguments: list[str]) -> int:
    """Print the table; 0 also where there is no CUDA device."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenario", default="sharegpt")
    parser.add_argument("--rollouts", type=int, default=3)
    parser.add_argument("--scorer-width", type=int, default=32)
    parser.add_argument("--cpu", action="store_true", help="the CPU's rows, with a GPU or without")
    given = parser.parse_args(arguments)
    there = torch.cuda.is_available()
    if not there and not given.cpu:
        print("no CUDA device: torch finds none, nothing to compare (--cpu: the CPU alone)")
        return 0
    torch.set_num_threads(1)
    gpu = torch.cuda.get_device_name() if there else "none"
    print(f"torch {torch.__version__}, GPU: {gpu}; maskable-ppo, {given.scenario}, turns/s")
    for network in ("mlp", "scorer"):
        for device, name in (("cpu", "small"), ("cpu", "large"), ("cuda", "large")):
            if device == "cuda" and not there:
                continue
            found = turns_per_s(
                device, network, SIZES[name], given.scenario, given.rollouts, given.scorer_width
            )
            said = ", ".join(f"{key} {value:,}" for key, value in SIZES[name].items())
            print(f"{network:7} {device:5} {said:45} {found:10,.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
