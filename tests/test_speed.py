"""`carbon-gym speed`: what is counted, and the form of what it writes. No rates are asserted."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from commandline import carbon_gym
from env_worlds import TINY

from carbon_gym.cli import speed as command
from carbon_gym.envs.arrays import STEP
from carbon_gym.simulator.arrays import OUTCOME
from carbon_gym.speed import (
    environments,
    measure_environments,
    measure_threads,
    measure_training,
    rounds,
    threads,
    training,
)
from carbon_gym.speed.cores import pinned
from carbon_gym.speed.players import ScalarPlayer, VectorPlayer, carbon_player

NEEDS_PINNING = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system cannot pin"
)
NAMES = [
    "cartpole-scalar",
    "cartpole-vector-3",
    "carbon-scalar",
    "carbon-vector-1",
    "carbon-vector-4",
    "carbon-vector-1-copy",
    "carbon-vector-4-copy",
]


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a second after the last one."""
    seconds = itertools.count()
    monkeypatch.setattr(rounds, "clock_s", lambda: float(next(seconds)))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few lanes, and little work."""
    monkeypatch.setattr(environments, "CARTPOLE_LANES", (3,))
    monkeypatch.setattr(environments, "CARBON_LANES", (1, 4))
    monkeypatch.setattr(environments, "REPEAT_S", 0.002)
    monkeypatch.setattr(threads, "REPEAT_S", 0.002)
    monkeypatch.setattr(threads, "LANES", 4)


@contextmanager
def counting(seen: dict[str, list[int]], title: str, total: int) -> Iterator[Callable[[int], None]]:
    done = [total]
    seen[title] = done
    yield done.append


# --- what is counted --------------------------------------------------------------------------


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("two", [1, 2])
def test_turns_served_count_and_resets_do_not(copy: bool, two: int) -> None:
    player = carbon_player(4, copy=copy, threads=two, **TINY)
    player._draw(200)
    env: Any = player._env
    step, acted = env.step, [0]

    def watched(actions: Any) -> Any:
        returned = step(actions)
        acted[0] += int(env.lanes.acted.sum())
        return returned

    env.step = watched
    for _ in range(3):
        acted[0] = 0
        served, seconds = player()
        assert served == acted[0] < 4 * 200
        assert seconds > 0
    player.close()


def test_all_steps_of_cartpole_count() -> None:
    env = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point")
    player = VectorPlayer(env)
    player._draw(100)
    assert player()[0] == 300
    player.close()


class Short(gymnasium.Env[int, int]):
    """Episodes of three steps."""

    action_space = gymnasium.spaces.Discrete(5)  # type: ignore[assignment]

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def reset(self, **_: Any) -> Any:
        self.calls.append("reset")
        return 0, {}

    def step(self, action: int) -> Any:
        self.calls.append(action)
        return 0, 0.0, len(self.calls) % 4 == 0, False, {}


def test_scalar_resets_take_time_and_count_as_no_step(ticking: None) -> None:
    env = Short()
    player = ScalarPlayer(env)
    player._draw(6)
    assert player() == (6, 1.0)  # the clock is read before and after, so resets are within
    assert [call == "reset" for call in env.calls] == [i % 4 == 0 for i in range(9)]
    assert {type(call) for call in env.calls if call != "reset"} == {int}


def test_the_warm_up_finds_how_many_steps_take_so_long(ticking: None) -> None:
    player = ScalarPlayer(Short())
    player.warm_up(2.0)  # 16 steps take a second
    assert player()[0] == 32
    player.warm_up(0.001)
    assert player()[0] == 1


def test_works_take_turns() -> None:
    calls: list[str] = []

    def work(name: str) -> tuple[float, float]:
        calls.append(name)
        return 10.0, float(len(calls))

    done: list[int] = []
    works = {name: partial(work, name) for name in "abc"}
    rates = rounds.in_turn(works, 2, done.append)
    assert "".join(calls) == "abcabc"
    assert rates["b"] == [10 / 2, 10 / 5]
    assert sum(done) == 6


def test_ratios_are_of_the_same_round() -> None:
    assert rounds.ratio([10.0, 2.0, 6.0], [5.0, 1.0, 3.0]) == 2.0  # however the machine drifts
    assert rounds.ratio([1.0, 9.0, 8.0], [1.0, 3.0, 4.0]) == 2.0


def test_bytes_of_a_turn() -> None:
    player = carbon_player(4, copy=False, **TINY)
    player._draw(1)
    env: Any = player._env
    records = sum(dtype[name].itemsize for dtype in (OUTCOME, STEP) for name in dtype.names or ())
    observed = 4 * env.layout.size + len(env.world.fleet)
    reward, flags, session = 8, 3, 8
    assert player.bytes_per_turn() == observed + records + reward + flags + session
    player.close()


# --- parts ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small", "ticking")
def test_the_rows_of_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "REPEAT_S", 0.2)
    seen: dict[str, list[int]] = {}
    found = measure_environments(3, partial(counting, seen), **TINY)
    total, *done = seen["environments"]
    assert sum(done) == total
    rows = {row.name: row for row in found.rows}
    assert list(rows) == NAMES
    steps = 3  # 16 took a second
    assert rows["cartpole-scalar"].steps_per_s == steps
    assert rows["cartpole-scalar"].ratio_to_cartpole == 1.0
    assert rows["cartpole-vector-3"].steps_per_s == 3 * steps
    assert rows["cartpole-vector-3"].ratio_to_cartpole == 3.0
    assert rows["carbon-scalar"].ratio_to_cartpole == 1.0
    for name, lanes in (("carbon-vector-1", 1), ("carbon-vector-4", 4)):
        row, copied = rows[name], rows[name + "-copy"]
        assert 0 < row.low <= row.steps_per_s <= row.high <= lanes * steps
        assert (copied.low, copied.steps_per_s) == (row.low, row.steps_per_s)  # the same episodes
    assert found.copy_bandwidth_gb_s == pytest.approx(0.5, rel=0.01)  # half a gigabyte a second


@pytest.mark.usefixtures("small")
def test_threads_are_compared_with_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    seen: dict[str, list[int]] = {}
    found = measure_threads(2, partial(counting, seen), **TINY)
    assert found is not None
    assert min(found.speedup, found.arithmetic_speedup, found.ratio) > 0
    total, *done = seen["threads"]
    assert sum(done) == total
    monkeypatch.setattr(threads, "usable_cores", lambda: 1)
    assert measure_threads(2, **TINY) is None


def test_the_arithmetic_loop_does_its_work() -> None:
    mask, mixed = (1 << 64) - 1, 0
    for i in range(50):
        z = i * int(threads._GOLDEN) & mask
        z = (z ^ (z >> 29)) * int(threads._ODD) & mask
        mixed ^= z ^ (z >> 29)
    assert threads._mix(50) == mixed & 1


def test_the_share_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("stable_baselines3")
    from agents import env_share

    for name, size in (("LANES", 4), ("N_STEPS", 16), ("BATCH", 32)):
        monkeypatch.setattr(env_share, name, size)
    monkeypatch.setattr(training, "ROLLOUTS", 1)
    seen: dict[str, list[int]] = {}
    found = measure_training(3, partial(counting, seen), **TINY)
    assert found is not None
    assert 0 < found.low <= found.env_share <= found.high < 1
    assert found.turns_per_s > 0
    total, *done = seen["training"]
    assert sum(done) == total


@pytest.mark.parametrize("missing", ["torch", "stable_baselines3"])
def test_without_the_extra_the_share_is_null(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("agents.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    out = tmp_path / "speed.json"
    outcome = carbon_gym("speed", "--only", "training", "--json", out)
    assert (outcome.code, outcome.err) == (0, "")
    assert "carbon-gym[train]" in outcome.out
    assert json.loads(out.read_text(encoding="utf-8"))["ppo_env_share"] is None


# --- cores ------------------------------------------------------------------------------------


@NEEDS_PINNING
def test_the_cores_are_given_back() -> None:
    before = os.sched_getaffinity(0)
    with pinned(1) as cores:
        assert cores == [max(before)]
        assert os.sched_getaffinity(0) == set(cores)
    with pytest.raises(ZeroDivisionError), pinned(1):
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == before


@pytest.mark.usefixtures("small")
def test_a_system_that_cannot_pin_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    tiny = partial(measure_environments, **TINY)
    monkeypatch.setattr(command, "measure_environments", tiny)
    out = tmp_path / "speed.json"
    outcome = carbon_gym("speed", "--only", "environments", "--repeats", 1, "--json", out)
    assert outcome.out.startswith("environments and PPO: not pinned")
    assert json.loads(out.read_text(encoding="utf-8"))["pinned"] is False


@NEEDS_PINNING
def test_a_sandbox_that_forbids_it_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden)
    with pinned(1) as cores:
        assert cores is None


# --- command ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_the_command_measures_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = rounds.Measurement
    monkeypatch.setattr(command, "measure_environments", partial(measure_environments, **TINY))
    monkeypatch.setattr(command, "measure_threads", lambda *_: threads.Threads(1.5, 2.0, 0.75))
    monkeypatch.setattr(
        command,
        "measure_training",
        lambda *_: training.Training(0.025, 0.024, 0.031, 20_000.0, [1]),
    )
    monkeypatch.setattr(
        command,
        "measure_simulator",
        lambda *_: [row("CartPole-v1, scalar", 10, 9, 11, "steps/s"), row("s", 20, 9, 21, "s")],
    )
    out = tmp_path / "speed.json"
    outcome = carbon_gym("speed", "--repeats", 2, "--json", out)
    assert (outcome.code, outcome.err) == (0, "")
    content = json.loads(out.read_text(encoding="utf-8"))
    assert [r["name"] for r in content["rows"]] == NAMES
    for r in content["rows"]:
        assert list(r) == ["name", "steps_per_s", "low", "high", "ratio_to_cartpole"]
        assert 0 < r["low"] <= r["steps_per_s"] <= r["high"]
        assert r["name"] in outcome.out
    assert content["ppo_env_share"] == 0.025
    assert content["threads"] == {"speedup": 1.5, "arithmetic_speedup": 2.0, "ratio": 0.75}
    assert content["copy_bandwidth_gb_s"] > 0
    assert content["bytes_per_turn"] > 0
    assert [list(r) for r in content["simulator"]] == [["name", "value", "low", "high", "unit"]] * 2
    assert "environment 2.5% of the time (2.4% to 3.1%)" in outcome.out
    assert "1.50 x one" in outcome.out
    assert "2.0 x CartPole" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_a_part_alone_leaves_the_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_: Any) -> None:
        raise AssertionError

    for name in ("environments", "training", "simulator"):
        monkeypatch.setattr(command, f"measure_{name}", unwanted)
    monkeypatch.setattr(command, "measure_threads", lambda *_: None)
    out = tmp_path / "speed.json"
    outcome = carbon_gym("speed", "--only", "threads", "--json", out)
    assert outcome.out == "two threads: not measured, this process may use only one core\n"
    content = json.loads(out.read_text(encoding="utf-8"))
    assert content.pop("rows") == content.pop("simulator") == []
    assert set(content.values()) == {None}


def test_the_sizes_that_the_names_promise() -> None:
    assert environments.CARTPOLE_LANES == (64, 1024)
    assert environments.CARBON_LANES == (1, 64, 1024, 8192)
    assert threads.LANES == 8192
