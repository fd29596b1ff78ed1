"""The environments' page and docstrings say what the code does."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import gymnasium
import numpy as np
import pytest

import carbon_gym  # noqa: F401 (registers the ids)
from carbon_gym.envs import information
from carbon_gym.envs.layout import FEATURES
from carbon_gym.envs.options import Arguments, resolve
from carbon_gym.envs.routing import CarbonRoutingEnv

ROOT = Path(__file__).resolve().parents[1]
KEYS = (
    *information.OUTCOME_KEYS,
    *information.STEP_KEYS,
    information.INDEX_KEY,
    information.NAME_KEY,
    information.SESSION_KEY,
    information.MASK_KEY,
)


def rows_of(heading: str) -> list[list[str]]:
    """Cells of the table in a section of the environment's docstring, without its head."""
    text = (inspect.getdoc(CarbonRoutingEnv) or "").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("environment_page", ROOT / "docs/environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_observation_is_the_layout() -> None:
    lengths = {"": "1", "sc": "2"}
    expected = [
        [f.name, lengths.get(f.over, f.over), f"{f.low:g}", "1", f.meaning] for f in FEATURES
    ]
    assert rows_of("Observation Space") == expected


def test_the_table_of_info_is_what_a_step_returns() -> None:
    env = gymnasium.make("CarbonRouting-v0", scenario="tiny", fleets=1)
    env.reset(seed=0)
    info = env.step(np.int64(0))[4]
    table = {name: (kind, meaning) for name, kind, meaning in rows_of("Information")}
    assert set(table) == set(info)
    for key in KEYS:
        assert table[key.name][1] == key.meaning
        if key is information.MASK_KEY:
            assert info[key.name].dtype == np.int8
            assert info[key.name].shape == (env.action_space.n,)
        else:
            assert type(info[key.name]) is key.dtype
            assert table[key.name][0] == key.dtype.__name__


def test_the_vector_environment_has_the_same_keys_but_the_name() -> None:
    envs = gymnasium.make_vec("CarbonRouting-v0", num_envs=3, scenario="tiny", fleets=1)
    envs.reset(seed=0)
    info = envs.step(np.zeros(3, dtype=np.int64))[4]
    names = {key.name for key in KEYS} - {information.NAME_KEY.name}
    assert {key for key in info if not key.startswith("_")} == names
    assert {key[1:] for key in info if key.startswith("_")} == names
    for key in KEYS:
        if key.name in names:
            assert len(info[key.name]) == len(info["_" + key.name]) == 3


def test_the_page_is_what_the_docstrings_say(writer: ModuleType) -> None:
    found = writer.PAGE.read_text(encoding="utf-8")
    rewards = re.search(r"## Rewards of `sharegpt`\n.*", found, re.DOTALL)
    assert rewards is not None
    assert writer.page(rewards[0]) == found, "run python docs/environment.py"


def test_rewards_are_measured_as_the_page_says(writer: ModuleType) -> None:
    table = writer.rewards_table("tiny", lanes=8, steps=50)
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) == 3
    mean, median, worst, rarest = (float(cell) for cell in rows[1].strip("| ").split(" | ")[1:])
    assert rarest <= worst <= median < 0
    assert -2 < mean < -0.5


def test_the_arguments_are_described_once_and_all() -> None:
    text = (inspect.getdoc(CarbonRoutingEnv) or "").split("\nArgs:\n")[1].split("\nRaises:")[0]
    described = re.findall(r"^    (\w+):", text, re.MULTILINE)
    assert described == list(inspect.signature(resolve).parameters)
    assert described == list(Arguments.__annotations__)
