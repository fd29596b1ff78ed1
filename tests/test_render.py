"""Rendering: text, frames, windows and videos, none of which changes an episode."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib
import numpy as np
import pytest
import window_backend
from gymnasium.utils.env_checker import check_env
from matplotlib import pyplot

import carbon_gym  # noqa: F401 (registers)
from carbon_gym.envs import ink
from carbon_gym.envs.record import ConversationRecord, WindowRecord
from carbon_gym.errors import InputError
from carbon_gym.scenario import Scenario, load_scenario

IDS = ("CarbonRouting-v0", "CarbonRoutingFleet-v0")
FRAME = (720, 1280, 3)


def made(env_id: str = IDS[0], render_mode: str | None = "ansi", **arguments: Any) -> Any:
    arguments = {"scenario": "tiny", "fleets": 1, "mask": None, **arguments}
    if env_id == IDS[1]:
        arguments.setdefault("window_s", 3600.0)
    return gymnasium.make(env_id, render_mode=render_mode, **arguments)


def record_of(env: Any) -> Any:
    return env.unwrapped._viewer.record


def longest_session(env: Any) -> int:
    return int(np.argmax(np.diff(env.unwrapped.world.first)))


def played(env: Any, seed: int, render: bool, most: int = 12) -> list[Any]:
    """Everything that an episode of random actions returns."""
    rng = np.random.default_rng(seed)
    kept: list[Any] = list(env.reset(seed=seed))
    for _ in range(most):
        if render:
            env.render()
        step = env.step(int(rng.integers(env.action_space.n)))
        kept += step
        if step[2] or step[3]:
            break
    if render:
        env.render()
    return kept


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key in found:
            assert_same(found[key], expected[key])
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
@pytest.mark.parametrize("env_id", IDS)
def test_rendering_changes_nothing(env_id: str, render_mode: str) -> None:
    most = 12 if render_mode == "ansi" else 4
    seen = played(made(env_id, render_mode), seed=5, render=True, most=most)
    blind = played(made(env_id, None), seed=5, render=False, most=most)
    assert len(seen) == len(blind)
    for found, expected in zip(seen, blind, strict=True):
        assert_same(found, expected)


@pytest.mark.parametrize("env_id", IDS)
def test_text_is_a_headline_then_a_line_a_turn_each_given_once(env_id: str) -> None:
    env = made(env_id)
    env.reset(seed=2)
    headline = env.render()
    assert "\n" not in headline
    assert headline.startswith(("session ", "fleet "))
    assert env.render() == ""
    _, _, _, _, info = env.step(1)
    line = env.render()
    assert "\n" not in line
    assert info["deployment"] in line
    assert f"{info['co2_g']:.5f} gCO2eq" in line
    assert f"TTFT {info['ttft_s']:.4f} s" in line
    assert f"quality {info['quality_predicted']:.3f}" in line
    served = record_of(env).served[-1]
    assert f"{record_of(env).time_of(served.arrival_s):%Y-%m-%d %H:%M:%S}Z" in line
    assert f"q {served.prompt_tokens:>5}" in line
    env.reset(seed=2)
    assert env.render() == headline


def test_text_of_a_whole_conversation_can_be_had_at_its_end() -> None:
    env = made()
    _, info = env.reset(options={"session": longest_session(env)})
    over, turns = False, 0
    while not over:
        _, _, over, _, _ = env.step(turns % env.action_space.n)
        turns += 1
    lines = env.render().splitlines()
    assert len(lines) == 1 + turns
    assert f"session {info['session']}: {turns} turns" in lines[0]
    assert f"turn {turns}/{turns}" in lines[-1]
    assert len({line.index("gCO2eq") for line in lines[1:]}) == 1  # columns stand in line


def test_a_line_carries_the_flags_of_its_turn() -> None:
    env = made(mask="feasible")
    flags = {
        "switched": "switched",
        "late": "ttft_violation",
        "inadmissible model": "quality_violation",
        "no room": "capacity_violation",
        "refused": "refused",
        "masked": "masked",
    }
    met: set[str] = set()
    rng = np.random.default_rng(0)
    for seed in range(30):
        env.reset(seed=seed)
        env.render()
        over = False
        while not over:
            _, _, over, _, info = env.step(int(rng.integers(env.action_space.n)))
            line = env.render()
            said = set(line.partition("  [")[2].removesuffix("]").split(", ")) - {""}
            assert said == {flag for flag, key in flags.items() if info[key]}
            met |= said
    assert {"switched", "masked", "refused", "inadmissible model"} <= met


@pytest.mark.parametrize("env_id", IDS)
def test_frames_have_one_size_and_are_the_callers(env_id: str) -> None:
    env = made(env_id, "rgb_array")
    env.reset(seed=1)
    first = env.render()
    kept = first.copy()
    env.step(0)
    second = env.render()
    for frame in (first, second):
        assert frame.shape == FRAME
        assert frame.dtype == np.uint8
    assert np.array_equal(first, kept)
    assert not np.array_equal(first, second)
    assert np.array_equal(second, env.render())
    assert (second == 255).mean() < 0.99


def test_a_fleet_of_sixty_deployments_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    env = made(IDS[0], "rgb_array", scenario="sharegpt", fleets=1)
    env.reset(options={"session": longest_session(env)})
    for action in range(0, 60, 5):
        env.step(action)
    assert env.render().shape == FRAME


def test_frames_need_no_pyplot_and_leave_the_settings() -> None:
    code = """
import sys, warnings
warnings.simplefilter("error")
# matplotlib below 3.11 calls old names of a newer pyparsing, as it is imported.
warnings.filterwarnings("ignore", ".*deprecated - use", DeprecationWarning)
import gymnasium, carbon_gym
env = gymnasium.make("CarbonRouting-v0", scenario="tiny", fleets=1, render_mode="rgb_array")
env.reset(seed=0)
assert "matplotlib" not in sys.modules
env.render()
assert "matplotlib.pyplot" not in sys.modules
import matplotlib
before = dict(matplotlib.rcParams)
env.render()
assert before == dict(matplotlib.rcParams)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_users_look_does_not_change_the_picture() -> None:
    env = made(IDS[0], "rgb_array")
    env.reset(seed=1)
    env.step(0)
    plain = env.render()
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "lines.linewidth": 9}):
        assert np.array_equal(env.render(), plain)


def test_names_that_the_font_lacks_are_drawn_without_a_warning() -> None:
    content = load_scenario("tiny").model_dump(mode="json")
    content["fleet"]["models"][0]["name"] = "模型 $x_$"
    env = made(IDS[0], "rgb_array", scenario=Scenario.model_validate(content))
    env.reset(seed=1)
    env.step(0)
    assert env.render().shape == FRAME
    assert ink.legible("模型 $x_$") == "?? $x_$"
    assert ink.shortened("x" * 30, 10) == "x" * 9 + "…"


def test_caches_shown_are_those_that_the_router_finds() -> None:
    env = made(mask=None)
    rng = np.random.default_rng(3)
    found = 0
    for session in (longest_session(env), 0, 1, 2):
        _, info = env.reset(options={"session": session})
        over = False
        while not over:
            record = record_of(env)
            assert isinstance(record, ConversationRecord)
            quotes = env.unwrapped.quotes
            expected = quotes.cached_tokens[0]
            shown = np.minimum(record.held_tokens(), quotes.history_tokens[0])
            assert np.array_equal(shown, expected)
            found += int((expected > 0).sum())
            _, _, over, _, info = env.step(int(rng.integers(env.action_space.n)))
        held = record_of(env).held_tokens()
        assert held[info["deployment_index"]] > 0
    assert found > 20


def test_staying_is_what_an_episode_that_stays_emits() -> None:
    env, stays = made(), made(render_mode=None)
    compared = 0
    for session in range(env.unwrapped.world.sessions):
        co2_g, refused, over = [], False, False
        stays.reset(options={"session": session})
        while not over:
            _, _, over, _, info = stays.step(1)
            co2_g.append(info["co2_g"])
            refused |= info["refused"]
        if refused or len(co2_g) < 4:
            continue  # the environment does not let it stay
        env.reset(options={"session": session})
        for turn in range(len(co2_g)):
            env.step([1, 3, 0, 2][turn % 4])
        if any(
            turn.deployment != (1, 3, 0, 2)[k % 4] for k, turn in enumerate(record_of(env).served)
        ):
            continue
        _, _, other_g, _ = record_of(env).compared()
        np.testing.assert_allclose(other_g, np.cumsum(co2_g), rtol=1e-12)
        assert record_of(env).co2_g()[-1] != pytest.approx(other_g[-1])
        compared += 1
    assert compared >= 3


def test_a_window_is_compared_with_the_backgrounds_run() -> None:
    env = made(IDS[1])
    env.reset(seed=4)
    record = record_of(env)
    assert isinstance(record, WindowRecord)
    assert record.compared() is None
    world = env.unwrapped.world
    first = int(world.bounds[record.index]) + record.begin
    for turn in range(record.stop - record.begin):
        env.step(int(world.background.deployment[first + turn]))
        _, _, other_g, _ = record.compared()
        assert record.co2_g()[-1] == pytest.approx(other_g[-1], rel=1e-9)


def test_render_says_what_is_missing(recwarn: pytest.WarningsRecorder) -> None:
    env = made(render_mode="ansi").unwrapped
    with pytest.raises(RuntimeError, match="reset"):
        env.render()
    env.reset(seed=0)
    env.close()
    with pytest.raises(RuntimeError, match="reset"):
        env.render()
    silent = made(render_mode=None).unwrapped
    silent.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None


@pytest.mark.parametrize("env_id", IDS)
def test_copies_render_for_themselves(env_id: str) -> None:
    env = made(env_id, "rgb_array")
    env.reset(seed=3)
    env.step(0)
    before = env.render()
    for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert np.array_equal(other.render(), before)
        other.step(1)
        assert not np.array_equal(other.render(), before)
    assert np.array_equal(env.render(), before)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Windows that are not there."""
    # matplotlib would refuse them on a machine without a display.
    monkeypatch.setattr(matplotlib.cbook, "_get_running_interactive_framework", lambda: "pretended")
    before = matplotlib.get_backend()
    pyplot.switch_backend("module://window_backend")
    window_backend.shown.clear()
    window_backend.pauses_s.clear()
    yield
    pyplot.close("all")
    pyplot.switch_backend(before)


@pytest.mark.usefixtures("windows")
def test_a_window_follows_reset_and_step_and_is_closed() -> None:
    env = made(render_mode="human")
    env.reset(seed=0)
    assert len(window_backend.shown) == 1
    env.step(0)
    assert len(window_backend.shown) == 2
    assert env.render() is None
    assert len(set(window_backend.shown)) == 1
    assert window_backend.pauses_s == [0.5] * 3
    assert len(pyplot.get_fignums()) == 1
    pickle.loads(pickle.dumps(env)).close()
    assert len(pyplot.get_fignums()) == 1
    env.close()
    env.close()
    assert not pyplot.get_fignums()


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("env_id", IDS)
def test_gymnasiums_checker_renders_every_mode(env_id: str) -> None:
    check_env(made(env_id, render_mode=None).unwrapped)


def test_without_a_display_a_window_is_refused() -> None:
    pyplot.switch_backend("agg")
    env = made(render_mode="human")
    with pytest.raises(InputError, match="rgb_array"):
        env.reset(seed=0)


class Clip:
    """Stands in for moviepy's."""

    written: list[tuple[int, float, str]] = []  # noqa: RUF012

    def __init__(self, frames: list[Any], fps: float) -> None:
        assert {frame.shape for frame in frames} == {FRAME}
        self.frames, self.fps = frames, fps

    def write_videofile(self, path: str, **_: Any) -> None:
        self.written.append((len(self.frames), self.fps, path))


def recorded(folder: Path) -> int:
    """Record a conversation; its number of turns."""
    env = gymnasium.wrappers.RecordVideo(made(render_mode="rgb_array"), str(folder))
    env.reset(seed=1)
    over, turns = False, 0
    while not over and turns < 5:
        _, _, over, _, _ = env.step(0)
        turns += 1
    env.close()
    return turns


def test_videos_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip")
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setattr(sys.modules[names[-1]], "ImageSequenceClip", Clip, raising=False)
    Clip.written.clear()
    turns = recorded(tmp_path / "videos")
    assert [(frames, fps) for frames, fps, _ in Clip.written] == [(turns + 1, 2)]


def test_videos_are_written(tmp_path: Path) -> None:
    recorded(tmp_path / "videos")
    assert list((tmp_path / "videos").glob("*.mp4"))


def test_frames_are_collected() -> None:
    env = gymnasium.wrappers.RenderCollection(made(render_mode="ansi"))
    env.reset(seed=1)
    env.step(0)
    said = env.render()
    assert [text.count("\n") for text in said] == [0, 0]
