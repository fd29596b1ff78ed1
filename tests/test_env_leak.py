"""Nothing that an environment shows at t depends on data after t; see also test_leak."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from env_worlds import fleet, scalar
from test_leak import Inputs, changed_after, original

import carbon_gym
from carbon_gym.scenario import Scenario

RULES: list[dict[str, Any]] = [
    {},
    {"cache": {"on_leave": "evict"}, "capacity": {"rule": "turns"}},
    {
        "fleet": {"models": ["Llama-3.1-70B-Instruct"], "gpus": ["A10"], "replicas": 1},
        "grid": {"staleness_s": 1800.0},
        "capacity": {"scope": "region", "residency_s": 300.0},
    },
]


def seen_by(folder: Path, inputs: Inputs, rules: dict[str, Any]) -> list[tuple[float, Any]]:
    """Everything shown at each turn's arrival (s from the first day's begin), by both ids."""
    folder.mkdir()
    conversations, grid = inputs.write(folder)
    changes = {
        **rules,
        "workload": {"source": "file", "path": str(conversations), "format": "tokens"},
        "grid": {"source": "file", "paths": [str(grid)], **rules.get("grid", {})},
    }
    scenario = carbon_gym.load_scenario("tiny", **changes)
    env = scalar(scenario=scenario, split=None, fleets=2)
    names = [name for trace in env.world.evaluation.traces for name in trace.session_id]
    origin_unix_s = env.world.origin_unix_s[env.world.by_session]
    seen = []
    for session, name in enumerate(names):
        observation, info = env.reset(options={"session": session})
        for row in range(*env.world.first[session : session + 2]):
            quotes, turn = env.quotes, env.world.session_turns.turn[row]
            what = {"observation": observation, "mask": info["action_mask"]}
            what |= {key: getattr(quotes, key).copy() for key in ("co2_g", "ttft_s", "unit_load")}
            at_s = float(origin_unix_s[row] - origin_unix_s.min() + turn["arrival_s"])
            seen.append((at_s, (name, row - env.world.first[session], what)))
            observation, *_, info = env.step((7 * row + session) % env.action_space.n)
    seen += seen_in_fleets(scenario)
    return sorted(seen, key=lambda it: (it[0], it[1][0], it[1][1]))


def seen_in_fleets(scenario: Scenario) -> list[tuple[float, Any]]:
    """The same of the fleets' whole days."""
    env = fleet(scenario=scenario, split=None, fleets=2, window_s=1e9)
    traces = env.world.evaluation.traces
    origin_unix_s = min(trace.origin_unix_s for trace in traces)
    seen = []
    for trace in traces:
        observation, info = env.reset(options={"start": trace.origin_unix_s})
        ended = False
        while not ended:
            quotes = env.quotes
            what = {"observation": observation, "mask": info["action_mask"]}
            what |= {key: getattr(quotes, key).copy() for key in ("co2_g", "ttft_s", "unit_load")}
            name, turn = f"fleet {trace.session_id[quotes.slot[0]]}", int(quotes.turn[0])
            at_s = float(trace.origin_unix_s - origin_unix_s + quotes.time_s[0])
            seen.append((at_s, (name, turn, what)))
            action = (7 * turn + int(quotes.slot[0])) % env.action_space.n
            observation, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
    return seen


@pytest.mark.parametrize("rules", RULES, ids=["default", "evict, by turns", "stale, tight"])
def test_nothing_after_a_turn_is_seen_at_it(rules: dict[str, Any], tmp_path: Path) -> None:
    inputs = original(0)
    before = seen_by(tmp_path / "before", inputs, rules)
    times = np.unique(inputs.arrival_s)
    for k, share in enumerate((0.25, 0.6, 0.9)):
        t_s = int(times[int(share * len(times))])
        after = seen_by(tmp_path / f"after-{k}", changed_after(inputs, t_s, k), rules)
        known = [it for it in before if it[0] <= t_s]
        same = [it for it in after if it[0] <= t_s]
        assert len(known) == len(same) > 20
        for (at_s, (name, turn, what)), (other_s, (other, other_turn, found)) in zip(
            known, same, strict=True
        ):
            assert (at_s, name, turn) == (other_s, other, other_turn)
            for key, value in what.items():
                assert np.array_equal(value, found[key]), f"{key} of {name}, turn {turn}"
        assert any(
            not np.array_equal(a[1][2]["observation"], b[1][2]["observation"])
            for a, b in zip(before, after, strict=False)
        ), "the change is seen later"
