"""The environments as plain Python: the same episodes bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import hashlib
import sys

import gymnasium
import numba
import numpy as np

import carbon_gym

assert numba.config.DISABLE_JIT == int(sys.argv[1])
digest = hashlib.sha256()


def note(value):
    if isinstance(value, dict):
        for key in sorted(value):
            note(key)
            note(value[key])
    elif isinstance(value, tuple):
        for it in value:
            note(it)
    elif isinstance(value, np.ndarray):
        digest.update(np.ascontiguousarray(value).tobytes())
    else:
        digest.update(repr(value).encode())


def show(name):
    print(name, digest.hexdigest()[:12])


BULKY = {  # 5 MB a token: room for some 6,000
    "name": "bulky",
    "params_billion": 70.55,
    "layers": 80,
    "kv_heads": 64,
    "head_dim": 256,
    "context_tokens": 131072,
    "ability": dict.fromkeys(("coding", "math", "reasoning", "creative", "information"), 0.7),
}
RULES = {
    "default": {},
    "evict, by turns": {"cache": {"on_leave": "evict"}, "capacity": {"rule": "turns"}},
    "tight": {
        "fleet": {"models": [BULKY], "gpus": ["A10", "A100-40GB"], "replicas": 1},
        "workload": {"min_turns": 8, "statistics": "sharechat"},
        "cache": {"ttl_s": 1e5},
        "capacity": {"limit": None},
    },
}
for name, rules in RULES.items():
    workload = {"sessions_per_fleet": 14, **rules.get("workload", {})}
    arguments = {
        "scenario": carbon_gym.load_scenario("tiny", **{**rules, "workload": workload}),
        "fleets": 1,
        "co2_scale_g": 0.05,
        "quality_constraint": "budget" if name == "tight" else "filter",
        "quality_target": 0.6 if name == "tight" else None,
        "mask": {"default": "feasible", "tight": "room"}.get(name),
    }
    for identity in ("CarbonRouting-v0", "CarbonRoutingFleet-v0"):
        env = gymnasium.make(identity, **arguments)
        note(env.reset(seed=1))
        for k in range(40):
            found = env.step(k % env.action_space.n)
            note(found)
            note(env.unwrapped.action_masks())
            if found[2] or found[3]:
                note(env.reset())
            note(env.unwrapped.quotes.co2_g)
        show(f"{name}, {identity}")
    for mode in ("NextStep", "SameStep", "Disabled"):
        lanes = gymnasium.make_vec(
            "CarbonRouting-v0", num_envs=3, autoreset_mode=mode, max_turns=9, **arguments
        )
        note(lanes.reset(seed=2))
        for k in range(25):
            found = lanes.step(np.arange(k, k + 3) % lanes.single_action_space.n)
            note(found)
            ended = found[2] | found[3]
            if mode == "Disabled" and ended.any():
                note(lanes.reset(options={"reset_mask": ended}))
        show(f"{name}, {mode}")
    evicted_until_s = env.unwrapped.world.background.evicted_until_s
    assert name != "tight" or np.isfinite(evicted_until_s).any()
"""


def test_the_same_episodes_bit_for_bit(tmp_path: Path) -> None:
    script = tmp_path / "episodes.py"
    script.write_text(SCRIPT, encoding="utf-8")
    said = {}
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-W", "error", str(script), disabled],
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said[disabled] = done.stdout.splitlines()
    assert said["0"] == said["1"]
    assert len(said["0"]) == 15
