"""Policy search on whole fleets: what it measures, writes and goes on from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym

from baselines.learned import lookahead_options
from carbon_gym import make_policy
from carbon_gym.errors import InputError
from carbon_gym.metrics.figures import Figures
from carbon_gym.router import load_router
from carbon_gym.router.measure import made_up_router
from carbon_gym.router.policy import RouterPolicy
from carbon_gym.router.rollout import flat, serve_fleets, unflat
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.run import run_policy

pytest.importorskip("torch", reason="the train extra is not installed")

from agents.policy_search.config import SEARCHES, Es
from agents.policy_search.fleets import Fleets, cost
from agents.policy_search.run import search
from agents.training.config import load_run

SMALL: dict[str, Any] = {
    "scenario": "tiny",
    "total_steps": 60_000,
    "rule": {"generations": 2, "population": 6},
    "clone": {"groups": 1, "epochs": 1},
    "network": {"width": 4, "turn_width": 4},
    "groups": 2,
    "fleets": 2,
    "pairs": 3,
    "validation_every": 2,
    "validation_fleets": 2,
    "jobs": 1,
}


def config(**options: Any) -> Es:
    return Es.model_validate({"algo": "es", **SMALL, **options})


def content(run: Path) -> dict[str, Any]:
    """What a search found, without its times."""
    found: dict[str, Any] = json.loads((run / "progress.json").read_text(encoding="utf-8"))
    for row in [*found["validations"], found["best"], found]:
        row.pop("seconds")
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("search") / "whole"
    search(config(), [load_scenario("tiny")], run)
    return run


def test_a_rollout_decides_as_the_router_does() -> None:
    for name in ("tiny", "memory-tight"):
        fleets = Fleets([load_scenario(name)], "train", groups=2, each=2)
        group = fleets.group(1)[0]
        router = made_up_router(group.view.layout)
        served = run_policy(
            group.laid.scenario, RouterPolicy(router), group.laid.traces, group.laid.grid
        )
        for _ in range(2):  # a view can be used again
            group.view.reset()
            serve_fleets(group.view, router._weights)
            np.testing.assert_array_equal(group.view.simulator.ledger, served.ledger)


def test_a_vector_of_weights_is_the_weights() -> None:
    fleets = Fleets([load_scenario("tiny")], "train", groups=1, each=1)
    weights = made_up_router(fleets.group(0)[0].view.layout)._weights
    again = unflat(flat(weights), weights.output_bias.size, weights.turn_bias.size)
    for name in ("turn", "added", "output", "own", "group", "constants", "prior"):
        np.testing.assert_array_equal(getattr(again, name), getattr(weights, name))


def test_groups_have_days_and_sessions_of_their_own() -> None:
    fleets = Fleets([load_scenario("tiny")], "train", groups=3, each=2)
    laid = [fleets.group(number)[0].laid for number in range(3)]
    assert len({day for one in laid for day in one.days}) == 6
    sessions = [{s for trace in one.traces for s in trace.session_id} for one in laid]
    assert sum(len(part) for part in sessions) == len(set.union(*sessions))
    assert fleets.group(3)[0].laid is laid[0], "counted round"


REFERENCE = Figures(100.0, 0.7, 0.68, 1.0, 0.0, 0.01, 0.0)


def test_the_cost_of_the_reference_is_one_and_of_less_co2_is_less() -> None:
    assert cost(REFERENCE, REFERENCE) == 1.0
    assert cost(replace(REFERENCE, co2_g=90.0), REFERENCE) == pytest.approx(0.9)


@pytest.mark.parametrize(
    "worse",
    [
        {"quality_predicted": 0.699},
        {"ttft_p95_s": 1.05},
        {"ttft_violation_rate": 0.012},
        {"capacity_violation_rate": 0.002},
        {"quality_violation_rate": 0.002},
    ],
)
def test_a_constraint_that_is_missed_costs_more_than_five_percent(worse: dict[str, float]) -> None:
    assert cost(replace(REFERENCE, **worse), REFERENCE) > 1.05  # type: ignore[arg-type]


def test_the_margin_is_asked_of_quality() -> None:
    assert cost(REFERENCE, REFERENCE, margin=0.001) == pytest.approx(1.1)


def test_it_leaves_what_it_found(whole: Path) -> None:
    found = content(whole)
    stages = [row["stage"] for row in found["validations"]]
    assert stages[:3] == ["untrained", "rule", "cloned"]
    assert set(stages[3:]) == {"evolved"}
    assert found["steps"] >= SMALL["total_steps"]
    assert found["best"]["stage"] in ("cloned", "evolved")
    router = load_router(whole / "router.npz")
    assert router.recipe["setting"] == "filter"
    assert router.recipe["validation"]["co2_relative"] == found["best"]["co2_relative"]
    fleets = Fleets([load_scenario("tiny")], "validation", groups=1, each=2)
    assert fleets.serve(0, router._weights)[0].co2_g == pytest.approx(
        found["best"]["scenarios"]["tiny"]["co2_g"]
    )
    rule = json.loads((whole / "rule.json").read_text(encoding="utf-8"))
    assert set(rule) == {"caches", "weights"}
    assert any(path.name.startswith("events.out.tfevents") for path in whole.iterdir())


@pytest.mark.parametrize("asked", [1, 3])
def test_a_search_that_was_stopped_ends_where_another_ends(
    whole: Path, tmp_path: Path, asked: int
) -> None:
    """Stopped in the search for the rule, and in the evolution."""
    run = tmp_path / "stopped"
    calls = iter(range(10_000))
    outcome = search(config(), [load_scenario("tiny")], run, stop=lambda: next(calls) >= asked)
    assert not outcome.finished
    again = search(config(), [load_scenario("tiny")], run, resume=True)
    assert again.finished
    assert content(run) == content(whole)
    ours, theirs = (np.load(path / "state.npz") for path in (run, whole))
    for name in ("weights", "first", "second"):
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_processes_change_nothing(whole: Path, tmp_path: Path) -> None:
    search(config(jobs=2), [load_scenario("tiny")], tmp_path / "run")
    assert content(tmp_path / "run") == content(whole)


@pytest.mark.parametrize("start", ["reference", "none"])
def test_other_beginnings(start: str, tmp_path: Path) -> None:
    outcome = search(
        config(warm_start=start, total_steps=10_000), [load_scenario("tiny")], tmp_path / "run"
    )
    stages = [row["stage"] for row in outcome.progress["validations"]]
    assert "rule" not in stages
    assert ("cloned" in stages) == (start == "reference")


def test_two_scenarios_are_learned_together(tmp_path: Path) -> None:
    options = {"scenario": "sharegpt", "beside": ["sharechat"], "validation_fleets": 1}
    rule = {"generations": 1, "population": 2}
    scenarios = [
        scenario.model_copy(
            update={"workload": scenario.workload.model_copy(update={"sessions_per_fleet": 40})}
        )
        for scenario in (load_scenario("sharegpt"), load_scenario("sharechat"))
    ]
    chosen = config(**options, rule=rule, total_steps=4_000)
    outcome = search(chosen, scenarios, tmp_path / "run")
    assert set(outcome.progress["best"]["scenarios"]) == {"sharegpt", "sharechat"}


def test_scenarios_of_two_settings_are_refused(tmp_path: Path) -> None:
    scenarios = [load_scenario("sharegpt"), load_scenario("congested")]
    chosen = config(scenario="sharegpt", beside=["congested"])
    with pytest.raises(InputError, match="beside"):
        search(chosen, scenarios, tmp_path / "run")


@pytest.mark.parametrize("setting", ["filter", "congested", "budget"])
def test_the_recipes_of_the_shipped_routers_can_be_read(setting: str) -> None:
    from carbon_gym.resources import packaged

    recipe = load_run(SEARCHES, None, packaged(f"agents/learned-{setting}.yaml"))
    from baselines.settings import LEARNED_ON

    assert {recipe.scenario, *recipe.beside} >= set(LEARNED_ON[setting])  # type: ignore[index]


def test_the_command_trains_and_goes_on(tmp_path: Path) -> None:
    file, run = tmp_path / "small.yaml", tmp_path / "run"
    file.write_text(json.dumps({"algo": "es", **SMALL}), encoding="utf-8")
    result = carbon_gym("train", "--config", str(file), "--seed", "3", "--out", str(run))
    assert result.code == 0, result.err
    assert "held-out fleets" in result.out
    more = str(2 * SMALL["total_steps"])
    result = carbon_gym("train", "--resume", str(run), "--total-steps", more)
    assert result.code == 0, result.err
    assert content(run)["steps"] >= 2 * SMALL["total_steps"]
    policy = make_policy(str(run), load_scenario("tiny"))
    assert isinstance(policy, RouterPolicy)
    assert carbon_gym("export", str(run), "--out", str(tmp_path / "out.npz")).code == 0
    assert load_router(tmp_path / "out.npz").recipe == load_router(run / "router.npz").recipe


def test_the_command_names_what_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("algo: es\nsigmo: 1\n", encoding="utf-8")
    result = carbon_gym("train", "--config", str(file), "--out", str(tmp_path / "run"))
    assert result.code == 2
    assert "sigmo" in result.err
    assert "sigma" in result.err


def test_tune_lookahead_goes_on_and_says_what_it_found(tmp_path: Path, monkeypatch: Any) -> None:
    import baselines.settings
    import carbon_gym.cli.tune_lookahead as command

    monkeypatch.setitem(baselines.settings.LEARNED_ON, "filter", ("tiny",))
    monkeypatch.setattr(command, "GROUPS", 2)
    monkeypatch.setattr(command, "FLEETS", 2)
    monkeypatch.setattr(command, "HELD_OUT", 1)
    monkeypatch.setattr(command, "POPULATION", 4)
    parts = tmp_path / "parts"
    for out in (tmp_path / "once", parts):
        result = carbon_gym(
            "tune-lookahead", "--generations", "2", "--jobs", "1", "--out", str(out)
        )
        assert result.code == 0, result.err
    path = parts / "filter.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    # As if it had been cut short after the first generation of the second rule.
    again = json.loads(path.read_text(encoding="utf-8"))
    del again["rules"]["lookahead-places"]
    path.write_text(json.dumps(again), encoding="utf-8")
    result = carbon_gym("tune-lookahead", "--generations", "2", "--jobs", "1", "--out", str(parts))
    assert result.code == 0, result.err
    assert json.loads(path.read_text(encoding="utf-8")) == found
    assert found == json.loads((tmp_path / "once/filter.json").read_text(encoding="utf-8"))
    assert set(found["rules"]["lookahead"]["weights"]) < set(
        found["rules"]["lookahead-places"]["weights"]
    )


def test_damaged_weights_of_the_rule_are_named(tmp_path: Path, monkeypatch: Any) -> None:
    import baselines.learned

    path = tmp_path / "filter.json"
    monkeypatch.setattr(baselines.learned, "packaged", lambda _: path)
    for text in (None, "{", '{"schema": 1, "rules": {}}', '{"schema": 2}'):
        if text is not None:
            path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="tune-lookahead"):
            lookahead_options("lookahead", None)
