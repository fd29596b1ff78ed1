"""Configurations of training runs: files, what goes before what, and faults in one sentence."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml
from commandline import carbon_gym

from agents.policy_search.config import Es
from agents.training.config import CONFIGS, Config, Described, Run, load_config
from carbon_gym.errors import InputError

PAGE = Path(__file__).resolve().parents[1] / "docs" / "training.md"


def written(folder: Path, text: str) -> Path:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("algo", CONFIGS)
def test_every_algorithm_has_a_packaged_configuration(algo: str) -> None:
    config = load_config(algo)
    assert config.algo == algo
    assert config.hyper()


def test_options_go_before_the_file_and_the_file_before_the_package(tmp_path: Path) -> None:
    file = written(tmp_path, "algo: a2c\nseed: 3\ntotal_steps: 7\nenvironment: {mask: room}\n")
    config = load_config(None, file, seed=4, total_steps=None)
    assert (config.algo, config.seed, config.total_steps) == ("a2c", 4, 7)
    assert (config.environment.mask, config.environment.fleets) == ("room", 16)
    assert config.hyper()["n_steps"] == load_config("a2c").hyper()["n_steps"]


def test_a_resolved_configuration_says_it_all(tmp_path: Path) -> None:
    config = load_config("qrdqn", seed=1, scenario="tiny")
    file = written(tmp_path, yaml.safe_dump(config.model_dump(mode="json")))
    assert load_config(None, file) == config


@pytest.mark.parametrize(
    ("algo", "text", "said"),
    [
        ("ppo", "lerning_rate: 1", ["mine.yaml", "'lerning_rate'", "nearest: 'learning_rate'"]),
        ("ppo", "environment: {flets: 1}", ["mine.yaml", "'environment.flets'", "'fleets'"]),
        ("ppo", "environment: {weights: {tft: 1}}", ["'environment.weights.tft'", "ttft"]),
        ("ppo", "learning_rate: fast", ["mine.yaml", "learning_rate = 'fast'"]),
        ("ppo", "gamma: 1.5", ["mine.yaml", "gamma = 1.5"]),
        ("ppo", "batch_size: 60", ["mine.yaml", "2048", "batch_size = 60"]),
        ("dqn", "n_quantiles: 5", ["mine.yaml", "'n_quantiles' is not known"]),
        ("qrdqn", "value_target: symlog", ["mine.yaml", "'value_target' is not known"]),
        ("ppo", "", ["mine.yaml", "empty", "total_steps"]),
        ("ppo", "- 1", ["mine.yaml", "list"]),
        ("ppo", "gamma: [", ["mine.yaml", "YAML"]),
        (None, "seed: 1", ["--algo", "maskable-ppo"]),
        ("ppo", "environment: 5", ["mine.yaml", "environment = 5"]),
        (None, "algo: [ppo]", ["mine.yaml", "algo = ['ppo'] is not known"]),
        (None, "algo: pop", ["mine.yaml", "'pop'", "did you mean 'ppo'"]),
        ("pop", "seed: 1", ["--algo 'pop'", "did you mean 'ppo'"]),
    ],
)
def test_faults_are_one_sentence(
    tmp_path: Path, algo: str | None, text: str, said: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        load_config(algo, written(tmp_path, text))
    assert all(part in str(caught.value) for part in said), caught.value
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --algo"),
        (["--algo", "pp"], "--algo 'pp' is not known; did you mean 'ppo'?"),
        (["--algo", "ppo", "--total-steps", 0], "--total-steps: total_steps = 0"),
        (["--algo", "ppo", "--seed", -1], "--seed: seed = -1"),
        (["--algo", "ppo", "--device", "tpu"], "--device: device = 'tpu'"),
        (["--algo", "ppo", "--scenario", "shargpt"], "did you mean 'sharegpt'?"),
        (["--algo", "ppo", "--config", "none.yaml"], "none.yaml: there is no such file"),
        (["--resume", "nowhere"], "nowhere: holds no config.yaml"),
        (["--resume", "nowhere", "--algo", "ppo", "--seed", 1], "leave out --algo and --seed"),
    ],
)
def test_the_command_line_says_what_is_wrong(arguments: list[Any], said: str) -> None:
    done = carbon_gym("train", *arguments)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def rows(section: type[Any], path: str = "", but: Collection[str] = ()) -> list[str]:
    """Lines of the page's tables: name, default and description of every field."""
    found = []
    for name, field in section.model_fields.items():
        default = field.default
        if name in but:
            continue
        if isinstance(default, Described):
            found += rows(type(default), f"{path}{name}.")
            continue
        said = "" if field.is_required() else json.dumps(default)
        found.append(f"| `{path}{name}` | {said} | {' '.join(field.description.split())} |")
    return found


def test_the_page_describes_every_field() -> None:
    lines = set(PAGE.read_text(encoding="utf-8").splitlines())
    wanted = rows(Config)
    for section in CONFIGS.values():
        wanted += rows(section, but=set(Config.model_fields))
    wanted += rows(Es, but=set(Run.model_fields) - {"total_steps"})
    assert [row for row in wanted if row not in lines] == []
