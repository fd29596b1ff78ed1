"""Nothing that a router sees at t depends on data after t: from raw files to quotes.

One thing of the model does look ahead, so the changes below spare it: a session's category is the
mode over the turns that it keeps (SPEC §10), hence the feature columns stay as they are and no turn
is pushed over the context limit, which would drop it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import POLICIES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inputs import MONDAY, intensity, iso, write_grid, write_tokens

from carbon_gym.doors import make_policy
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator import Simulator
from carbon_gym.simulator.arrays import NOWHERE, QuoteBuffers

START_S = int(MONDAY.timestamp())
SESSIONS = 16
TURNS = 6

RULES: dict[str, dict[str, Any]] = {
    "default": {},
    "evict, by turns": {"cache": {"on_leave": "evict"}, "capacity": {"rule": "turns"}},
    "stale grid, small caches": {
        "grid": {"staleness_s": 1800.0},
        "cache": {"ttl_s": 200.0},
        "capacity": {"scope": "region", "residency_s": 300.0},
    },
}


@dataclass(frozen=True)
class Inputs:
    """What the two files hold; arrays over (session, turn), times in seconds since `START_S`."""

    arrival_s: np.ndarray
    prompt: np.ndarray
    reply: np.ndarray
    intensity: np.ndarray  # (zone, hour)

    def write(self, folder: Path) -> tuple[Path, Path]:
        conversations = write_tokens(
            folder / "turns.csv",
            SESSIONS,
            turns=lambda s: list(zip(self.prompt[s], self.reply[s], strict=True)),
            arrival=lambda s, k: iso(MONDAY + timedelta(seconds=int(self.arrival_s[s, k]))),
            features=True,
        )
        grid = write_grid(
            folder / "grid.csv",
            hours=self.intensity.shape[1],
            value=lambda zone, hour: float(self.intensity[zone, hour]),
        )
        return conversations, grid


def original(seed: int) -> Inputs:
    """Half of the sessions begin on the first day, half on the second; some run past midnight."""
    rng = np.random.default_rng(seed)
    shape = (SESSIONS, TURNS)
    gap_s = rng.integers(20, 900, shape).cumsum(axis=1)
    begin_s = 80_000 + rng.integers(0, 6_000, SESSIONS) + 86_400 * (np.arange(SESSIONS) % 2)
    return Inputs(
        arrival_s=begin_s[:, None] + gap_s - gap_s[:, :1],
        prompt=rng.integers(1, 900, shape),
        reply=rng.integers(1, 900, shape),
        intensity=np.array([[intensity(zone, hour) for hour in range(72)] for zone in range(2)]),
    )


def changed_after(inputs: Inputs, t_s: int, seed: int) -> Inputs:
    """Everything after t drawn anew: later turns and their times, replies from t on, the grid."""
    rng = np.random.default_rng(seed)
    later = inputs.arrival_s > t_s
    not_yet_answered = inputs.arrival_s >= t_s
    # The turn of a session that comes next after t may come sooner or later, but after t.
    pause_s = rng.integers(1, 900, later.shape) * later
    known_s = np.where(later, -1, inputs.arrival_s).max(axis=1, keepdims=True)
    begins = known_s < 0  # a session that has not begun keeps its day
    base_s = np.where(begins, inputs.arrival_s[:, :1] - 1, np.maximum(known_s, t_s))
    arrival_s = np.where(later, base_s + pause_s.cumsum(axis=1), inputs.arrival_s)
    if begins.any():
        first = begins[:, 0]
        arrival_s[first] += inputs.arrival_s[first, :1] - arrival_s[first, :1]
    unpublished = 3600 * np.arange(inputs.intensity.shape[1]) > t_s
    drawn = rng.uniform(5, 900, inputs.intensity.shape).round(1)
    return Inputs(
        arrival_s=arrival_s,
        prompt=np.where(later, rng.integers(1, 900, later.shape), inputs.prompt),
        reply=np.where(not_yet_answered, rng.integers(1, 900, later.shape), inputs.reply),
        intensity=np.where(unpublished, drawn, inputs.intensity),
    )


Seen = list[tuple[float, str, int, dict[str, bytes]]]


def replay(folder: Path, inputs: Inputs, policy: str, rules: dict[str, Any]) -> Seen:
    """All that a policy saw, by time: (s since `START_S`, session, turn, quote)."""
    conversations, grid = inputs.write(folder)
    changes = {
        **rules,
        "workload": {"source": "file", "path": str(conversations), "format": "tokens"},
        "grid": {"source": "file", "paths": [str(grid)], **rules.get("grid", {})},
    }
    evaluation = evaluation_fleets(load_scenario("tiny", **changes))
    assert sum(trace.turns for trace in evaluation.traces) == SESSIONS * TURNS
    simulator = Simulator(
        evaluation.scenario,
        evaluation.traces,
        evaluation.grid,
        full_cache=policy == "lower-bound",
    )
    names = [name for trace in evaluation.traces for name in trace.session_id]
    chooser = make_policy(policy)
    chooser.reset(simulator.fleet, simulator.slots)
    seen: Seen = []
    while not simulator.done:
        quotes = simulator.quote()
        for lane in np.flatnonzero(quotes.row != NOWHERE):
            begin_s = evaluation.traces[lane].origin_unix_s - START_S
            quote = {
                name: np.asarray(getattr(quotes, name)[lane]).tobytes()
                for name in QuoteBuffers._fields
            }
            slot = int(quotes.slot[lane])
            when = begin_s + float(quotes.time_s[lane])
            seen.append((when, names[slot], int(quotes.turn[lane]), quote))
        simulator.commit(chooser.choose(quotes))
    return sorted(seen, key=lambda item: item[:3])


@pytest.mark.parametrize("rules", RULES)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    policy=st.sampled_from(POLICIES),
    cut=st.integers(0, SESSIONS * TURNS - 1),
    seed=st.integers(0, 10**6),
)
def test_quotes_up_to_t_do_not_change_with_what_comes_after(
    tmp_path: Path, rules: str, policy: str, cut: int, seed: int
) -> None:
    before = original(seed)
    t_s = int(np.sort(before.arrival_s, axis=None)[cut])
    after = changed_after(before, t_s, seed + 1)
    known = [item for item in replay(tmp_path, before, policy, RULES[rules]) if item[0] <= t_s]
    again = [item for item in replay(tmp_path, after, policy, RULES[rules]) if item[0] <= t_s]
    assert len(known) > cut
    assert [item[:3] for item in known] == [item[:3] for item in again]
    for was, now in zip(known, again, strict=True):
        assert was == now


def test_what_comes_after_does_change_later_quotes(tmp_path: Path) -> None:
    """The test above would also pass if the files were not read."""
    before = original(0)
    t_s = int(np.median(before.arrival_s))
    after = changed_after(before, t_s, 1)
    first, second = (replay(tmp_path, inputs, "ccar-no-gate", {}) for inputs in (before, after))

    def later(seen: Seen) -> dict[tuple[str, int], dict[str, bytes]]:
        return {item[1:3]: item[3] for item in seen if item[0] > t_s}

    mine, theirs = later(first), later(second)
    common = mine.keys() & theirs.keys()
    assert len(common) > 20
    for field in ("intensity", "prompt_tokens", "predicted_output_tokens", "co2_g", "time_s"):
        assert any(mine[key][field] != theirs[key][field] for key in common)


def test_a_session_that_begins_later_is_not_foreseen(tmp_path: Path) -> None:
    """It begins a quarter of an hour later still, and nobody who wrote before notices."""
    inputs = original(3)
    t_s = int(inputs.arrival_s[:, 0].max()) - 1
    as_it_was = replay(tmp_path, inputs, "ccar-no-gate", {})
    last = int(inputs.arrival_s[:, 0].argmax())
    moved = inputs.arrival_s.copy()
    moved[last] += 1_000
    later = Inputs(moved, inputs.prompt, inputs.reply, inputs.intensity)
    moved_on = replay(tmp_path, later, "ccar-no-gate", {})
    known = [item for item in as_it_was if item[0] <= t_s]
    assert len(known) > 30
    assert known == [item for item in moved_on if item[0] <= t_s]
