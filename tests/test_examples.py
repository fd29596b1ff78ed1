"""The examples of docs/examples run, each as a program; what is not installed is skipped."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
QUICK = {
    "sb3_ppo": ("stable_baselines3", "--steps 512 --lanes 4 --episodes 8"),
    "maskable_ppo": ("sb3_contrib", "--steps 512 --lanes 4 --episodes 8"),
    "cleanrl_style": ("torch", "--steps 512 --lanes 4 --rollout 64 --minibatch 128"),
    "torchrl_loop": ("torchrl", "--steps 512 --rollout 256"),
    "rllib_masked": ("ray", "--steps 600 --batch 512"),
}


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == QUICK.keys()


@pytest.mark.parametrize("name", QUICK)
def test_it_runs(name: str) -> None:
    package, options = QUICK[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; noxfile.py runs what wants its own environment")
    warnings = "default" if package in ("torchrl", "ray") else "error"  # they warn of themselves
    example = str(EXAMPLES / f"{name}.py")
    said = subprocess.run(
        [sys.executable, "-W", warnings, example, "--scenario", "tiny", *options.split()],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert said.returncode == 0, said.stderr
    assert "mean return" in said.stdout
