"""What the study of the learned routers (docs/learned_behaviour.py) says of a policy's choices."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from carbon_gym import load_scenario, make_policy
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.simulator.run import run_policy

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(autouse=True)
def _docs_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def tiny() -> Evaluation:
    return evaluation_fleets(load_scenario("tiny"), split="test", fleets=2)


def test_a_watched_policy_chooses_as_it_does_alone() -> None:
    behaviour, world = module("learned_behaviour"), tiny()
    turns = sum(trace.turns for trace in world.traces)
    for name in ("ccar", "clairvoyant"):
        runs = [
            run_policy(world.scenario, policy, world.traces, world.grid)
            for policy in (
                make_policy(name, world.scenario),
                behaviour.Watched(make_policy(name, world.scenario), turns),
            )
        ]
        assert np.array_equal(runs[0].ledger, runs[1].ledger)


def test_behaviour_is_that_of_the_plain_loop() -> None:
    behaviour, world = module("learned_behaviour"), tiny()
    entry = behaviour.watch(world, "ccar")
    run = run_policy(world.scenario, make_policy("ccar", world.scenario), world.traces, world.grid)
    sessions = sum(trace.sessions for trace in world.traces)
    stays, later, cached, history = 0, 0, 0, 0
    by_model, last, row = {"8B": 0, "70B": 0}, {}, 0
    for number, trace in enumerate(world.traces):
        for turn in range(trace.turns):
            who, where = (number, int(trace.session[turn])), int(run.ledger["deployment"][row])
            if who in last:
                later, stays = later + 1, stays + (last[who] == where)
            last[who] = where
            cached += int(run.ledger["cached_tokens"][row])
            history += int(trace.history_tokens[turn])
            by_model["8B" if where < 2 else "70B"] += 1  # models outermost, two regions
            row += 1
    assert (entry["turns"], entry["sessions"]) == (row, sessions)
    assert entry["stays"] == pytest.approx(stays / later, rel=1e-5)
    assert entry["moves_per_session"] == pytest.approx((later - stays) / sessions, rel=1e-5)
    assert entry["history_cached"] == pytest.approx(cached / history, rel=1e-5)
    assert list(entry["turns_by_model"].values()) == pytest.approx(
        [by_model["8B"] / row, by_model["70B"] / row], rel=1e-5
    )
    for key in ("turns_by_model", "tokens_by_model", "cached_by_model", "tokens_by_gpu"):
        assert sum(entry[key].values()) == pytest.approx(1, abs=1e-5)
    assert sum(entry["clean_places_by_session_size"]) == pytest.approx(1, abs=1e-5)
    assert np.mean(entry["clean_by_turn_size"]) == pytest.approx(entry["clean"], abs=0.01)


def test_the_cheapest_forgoes_nothing_and_dirty_choices_do() -> None:
    behaviour, world = module("learned_behaviour"), tiny()
    cheapest = behaviour.watch(world, "ccar-no-gate")
    assert (cheapest["differs"], cheapest["forgone"]) == (0.0, 0.0)
    other = behaviour.watch(world, "random")
    assert other["differs"] > 0.3
    assert other["forgone"] > 0
    assert other["intensity"] > cheapest["intensity"]
    assert other["clean"] < cheapest["clean"]


def test_quarters_are_by_rank() -> None:
    quarters = module("learned_behaviour").quartiles(np.array([5, 1, 1, 9, 7, 3, 8, 2]))
    assert quarters.tolist() == [2, 0, 0, 3, 2, 1, 3, 1]


def test_what_still_holds_is_not_run_again() -> None:
    behaviour = module("learned_behaviour")
    watched = {"tiny": ("ccar", "faircarbon")}
    found = dict(behaviour.measure_behaviour({}, 2, watched))
    assert list(found) == ["tiny | ccar", "tiny | faircarbon"]
    assert not dict(behaviour.measure_behaviour(found, 2, watched))
    found["tiny | ccar"]["key"] = "of other code"
    assert list(dict(behaviour.measure_behaviour(found, 2, watched))) == ["tiny | ccar"]
    empty = {key: {} for key in ("evaluations", "trainings", "equal_quality")}
    text = module("learned_page").page({**empty, "behaviour": found})
    assert "| later turns that stay |" in text
    assert f"| Llama-3.1-8B-Instruct: turns / tokens / cached | {shown(found)} / " in text
    assert "nan" not in text


def shown(found: dict[str, Any]) -> str:
    return f"{100 * found['tiny | ccar']['turns_by_model']['Llama-3.1-8B-Instruct']:.1f}"
