"""A predictor of one's own, named in the scenario: in comparisons and environments alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from commandline import benchmark

from carbon_gym import load_scenario
from carbon_gym.benchmark import evaluation_key
from carbon_gym.errors import InputError
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.own_class import source_of
from carbon_gym.quality.predictor import IrtPredictor, predictor_of
from carbon_gym.scenario.schema import Quality
from carbon_gym.simulator import Simulator

MODULE = "a_predictor_of_ones_own"
CODE = """
import numpy as np
from carbon_gym.quality.predictor import IrtPredictor

class Flat(IrtPredictor):
    def predict(self, trace, models):
        return np.full((trace.turns, len(models)), 0.5)

class Texts(IrtPredictor):
    def predict(self, trace, models):
        return [["good"] * len(models)] * trace.turns

class Ragged(IrtPredictor):
    def predict(self, trace, models):
        return [[0.5] * (1 + turn % 2) for turn in range(trace.turns)]

class InPlace(IrtPredictor):
    def predict(self, trace, models):
        trace.output_tokens[:] = 1
        return super().predict(trace, models)

class TakesNothing:
    pass

class NoPredictor:
    def __init__(self, quality, seed):
        pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / f"{MODULE}.py"
    file.write_text(CODE, encoding="utf-8")
    yield file
    sys.modules.pop(MODULE, None)


def scenario_with(name: str) -> Any:
    return load_scenario("tiny", quality={"predictor": f"{MODULE}:{name}"})


def test_policies_see_it_and_the_account_does_not(module: Path) -> None:
    own, world = scenario_with("Flat"), evaluation_fleets(load_scenario("tiny"), fleets=1)
    simulator = Simulator(own, world.traces, world.grid)
    plain = Simulator(world.scenario, world.traces, world.grid)
    assert (simulator.quality_predicted == 0.5).all()
    assert not (plain.quality_predicted == 0.5).all()
    np.testing.assert_array_equal(simulator.quality_realised, plain.quality_realised)
    # All models look alike, so that the cheapest, the smallest, serves wherever there is room.
    quotes = simulator.quote()
    assert quotes.admissible.all()


def test_environments_have_it_too(module: Path) -> None:
    env = gymnasium.make("CarbonRouting-v0", scenario=scenario_with("Flat"), fleets=1)
    observation, _ = env.reset(seed=0)
    place = env.unwrapped.layout.slices["quality"]  # type: ignore[attr-defined]
    assert (observation[place] == np.float32(0.5)).all()
    *_, info = env.step(0)
    assert info["quality_predicted"] == 0.5 != info["quality_realised"]


def test_a_command_serves_by_it_and_its_code_is_part_of_the_results(module: Path) -> None:
    own = module.parent / "own.yaml"
    own.write_text(
        f"extends: tiny\nquality: {{predictor: '{MODULE}:Flat'}}\n",
        encoding="utf-8",
    )
    outcome = benchmark("--scenario", own, "--fleets", 1, "--policies", "faircarbon", "--out", "o")
    assert (outcome.code, outcome.err) == (0, "")
    evaluation = evaluation_fleets(load_scenario(own), fleets=1)
    before = evaluation_key(evaluation)
    assert evaluation_key(evaluation) == before
    module.write_text(CODE.replace("0.5", "0.6"), encoding="utf-8")
    assert evaluation_key(evaluation) != before


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no_such_module:X", "predictor 'no_such_module:X': there is no module"),
        ("no_such.module:X", "there is no module 'no_such.module'"),
        (f"{MODULE}:Nothing", "has no class 'Nothing'"),
        (f"{MODULE}:TakesNothing", r"give its __init__ these two arguments"),
        (f"{MODULE}:NoPredictor", "needs the methods predict"),
    ],
)
def test_what_is_no_predictor_is_said(spec: str, said: str, module: Path) -> None:
    with pytest.raises(InputError, match=said):
        predictor_of(Quality(predictor=spec), 0)
    own = module.parent / "own.yaml"
    own.write_text(f"extends: tiny\nquality: {{predictor: '{spec}'}}\n", encoding="utf-8")
    outcome = benchmark("--scenario", own, "--fleets", 1, "--out", "o")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert not Path("o").exists()


@pytest.mark.parametrize("name", ["Texts", "Ragged"])
def test_what_is_no_array_of_numbers_is_said(name: str, module: Path) -> None:
    own, world = scenario_with(name), evaluation_fleets(load_scenario("tiny"), fleets=1)
    with pytest.raises(InputError, match="predict gave what is no array of numbers"):
        Simulator(own, world.traces, world.grid)


def test_it_cannot_change_the_turns_that_others_serve(module: Path) -> None:
    own, world = scenario_with("InPlace"), evaluation_fleets(load_scenario("tiny"), fleets=1)
    before = world.traces[0].output_tokens.copy()
    with pytest.raises(ValueError, match="read-only"):
        Simulator(own, world.traces, world.grid)
    np.testing.assert_array_equal(world.traces[0].output_tokens, before)


@pytest.mark.parametrize("spec", ["zipimport:zipimporter", "sys:exit"])
def test_a_module_of_python_itself_has_no_file(spec: str) -> None:
    assert source_of(spec) == []


def test_a_name_that_is_not_module_and_class_is_refused() -> None:
    with pytest.raises(InputError, match=r"quality\.predictor = 'mine' is not allowed"):
        load_scenario("tiny", quality={"predictor": "mine"})


def test_without_a_name_nothing_changes() -> None:
    scenario = load_scenario("tiny")
    assert isinstance(predictor_of(scenario.quality, 1), IrtPredictor)
    assert load_scenario("tiny", quality={"predictor": None}).digest() == scenario.digest()
    assert scenario_with("Flat").digest() != scenario.digest()
