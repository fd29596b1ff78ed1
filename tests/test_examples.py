"""The examples of docs/examples run, each as a program.

RLlib's runs in an environment of its own, from `.ci/run` (`nox -s rllib`): it pins its Gymnasium.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"
QUICK = {
    "sb3_ppo": "--steps 512 --lanes 4 --episodes 8",
    "maskable_ppo": "--steps 512 --lanes 4 --episodes 8",
    "cleanrl_style": "--steps 512 --lanes 4 --rollout 64 --minibatch 128",
    "torchrl_loop": "--steps 512 --rollout 256",
}
APART = "rllib_masked"


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*QUICK, APART}
    assert f'"{APART}"' in (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert "nox -s rllib" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", QUICK)
def test_it_runs(name: str) -> None:
    warnings = "default" if name == "torchrl_loop" else "error"  # TorchRL warns of itself
    example = str(EXAMPLES / f"{name}.py")
    said = subprocess.run(
        [sys.executable, "-W", warnings, example, "--scenario", "tiny", *QUICK[name].split()],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert said.returncode == 0, said.stderr
    assert "mean return" in said.stdout
