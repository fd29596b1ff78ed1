"""Tuning on validation, and the knobs that are shipped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym

from baselines import tuned, tuning
from baselines.budget_tuning import PRICED
from baselines.knobs import TUNABLE, TUNABLE_UNDER_BUDGET, Choice, Range
from baselines.tuned import BUDGETED, MEASURED, read_tuned, scale_co2_g, tuned_note, tuned_options
from baselines.tuning import (
    Knobs,
    Reference,
    Score,
    better_first,
    measure_reference,
    scorer,
    scores_of,
    tune,
)
from carbon_gym import InputError, load_scenario, make_policy, scenario_names
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.resources import packaged
from carbon_gym.simulator.run import run_policy
from carbon_gym.workload.split import split_code, split_of

ALL = [*TUNABLE, *TUNABLE_UNDER_BUDGET, *PRICED]
"""The policies of a file of knobs, in their order."""
REFERENCE = Reference(scale_co2_g=1.0, late_budget=0.0, quality=0.7, ttft_p95_s=1.0)


@pytest.fixture(scope="module")
def validation() -> Evaluation:
    return evaluation_fleets(load_scenario("tiny"), split="validation", fleets=2)


@pytest.fixture(scope="module")
def reference(validation: Evaluation) -> Reference:
    return measure_reference(validation)


# ------------------------------------------------------------------------------- the search


def test_candidates_are_ordered_as_the_specification_says() -> None:
    best_first = [
        Score(co2_relative=0.8, quality=0.7, ttft_p95_s=1.0),  # on both bounds
        Score(co2_relative=0.9, quality=0.8, ttft_p95_s=0.1),
        Score(co2_relative=2.0, quality=0.7, ttft_p95_s=1.1),  # too slow
        Score(co2_relative=0.1, quality=0.7, ttft_p95_s=1.2),
        Score(co2_relative=0.2, quality=0.69, ttft_p95_s=3.0),  # too poor
        Score(co2_relative=0.1, quality=0.68, ttft_p95_s=0.5),
    ]
    mixed = [best_first[i] for i in (3, 0, 5, 2, 4, 1)]
    assert sorted(mixed, key=lambda s: better_first(s, REFERENCE)) == best_first


def test_knobs_cover_their_ranges() -> None:
    linear, log = Range("a", 1.0, 3.0), Range("b", 0.01, 100.0, log=True)
    assert [linear.at(share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.0, 3.0]
    assert [log.at(share) for share in (0.0, 0.5, 1.0)] == [0.01, 1.0, 100.0]
    choice = Choice("c", ("x", "y"))
    assert [choice.at(share) for share in (0.0, 0.49, 0.5, 1.0)] == ["x", "x", "y", "y"]


def bowl(policy: str, tried: Sequence[Knobs]) -> Iterator[tuple[int, Score]]:
    """CO2 least at α = 3, η = 0.5; a bound on quality that η ≥ 0.2 meets; last knobs first."""
    for number, knobs in reversed(list(enumerate(tried))):
        away = np.log(knobs["alpha"] / 3.0) ** 2 + np.log(knobs["eta"] / 0.5) ** 2
        yield number, Score(1.0 + float(away), 0.7 if knobs["eta"] >= 0.2 else 0.6, 1.0)


def test_the_search_closes_in_on_the_best() -> None:
    found = tune("cedar", REFERENCE, bowl)
    assert found["knobs"]["alpha"] == pytest.approx(3.0, rel=0.25)
    assert found["knobs"]["eta"] == pytest.approx(0.5, rel=0.25)
    assert found["met"] == {"quality": True, "ttft_p95": True}
    assert len(found["tried"]) == tuning.CANDIDATES
    assert found["columns"] == ["alpha", "eta", "co2_relative", "quality", "ttft_p95_s"]
    assert [*found["knobs"].values(), found["co2_relative"], 0.7, 1.0] in found["tried"]
    assert found["co2_relative"] == min(row[2] for row in found["tried"] if row[3] >= 0.7)


def test_the_search_is_a_function_of_its_seed() -> None:
    runs = [tune("cedar", REFERENCE, bowl, candidates=12, seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0]["tried"] != runs[2]["tried"]


def test_what_is_not_met_is_said() -> None:
    def poor(policy: str, tried: Sequence[Knobs]) -> Iterator[tuple[int, Score]]:
        for number, knobs in enumerate(tried):
            yield number, Score(0.1, 0.5 + knobs["epsilon"] / 10, 9.0)

    found = tune("gar-eps", REFERENCE, poor, candidates=20)
    assert found["met"] == {"quality": False, "ttft_p95": False}
    assert found["knobs"]["epsilon"] == max(row[0] for row in found["tried"])


@pytest.mark.parametrize("policy", TUNABLE)
def test_figures_of_the_knobs_are_those_of_a_run(
    policy: str, validation: Evaluation, reference: Reference
) -> None:
    with scorer(validation, reference) as score:
        found = tune(policy, reference, score, candidates=8)
    measured = {name: getattr(reference, name) for name in MEASURED[policy]}
    alone = TUNABLE[policy].build(**found["knobs"], **measured)
    run = run_policy(validation.scenario, alone, validation.traces, validation.grid)
    again = Score(
        float(run.ledger["co2_g"].mean()) / reference.scale_co2_g,
        float(run.ledger["quality_predicted"].mean()),
        float(np.quantile(run.ledger["ttft_s"], 0.95)),
    )
    assert found["co2_relative"] == round(again.co2_relative, 5)
    assert found["quality"] == round(again.quality, 5)
    assert found["ttft_p95_s"] == round(again.ttft_p95_s, 5)
    assert tuple(found["met"].values()) == again.met(reference)


def test_other_processes_score_as_this_one(validation: Evaluation, reference: Reference) -> None:
    tried: list[Knobs] = [
        {"epsilon": epsilon, "region": region}
        for epsilon in (0.0, 0.05, 0.1)
        for region in ("home", "cleanest")
    ]
    with scorer(validation, reference) as here, scorer(validation, reference, jobs=2) as there:
        found = dict(here("gar-eps", tried))
        assert found == dict(there("gar-eps", tried))
    assert sorted(found) == list(range(6))
    for number, knobs in enumerate(tried):
        assert scores_of(validation, reference, "gar-eps", [knobs]) == [found[number]]


def test_tuning_sees_validation_sessions_and_days_only(validation: Evaluation) -> None:
    splits, seeds = validation.scenario.splits, validation.scenario.seeds
    keys = np.concatenate([trace.session_key for trace in validation.traces])
    assert (split_of(keys, splits, seeds.split) == split_code("validation")).all()
    period = splits.validation
    assert all(period.start <= day < period.stop for day in validation.days)


def test_a_grid_that_emits_nothing_is_refused(validation: Evaluation) -> None:
    clean = replace(validation.grid, values=np.zeros_like(validation.grid.values))
    with pytest.raises(InputError, match="emits nothing"):
        measure_reference(replace(validation, grid=clean))


# ------------------------------------------------------------------------------ the command


def run_command(*options: str) -> str:
    outcome = carbon_gym("tune-baselines", "--scenario", "tiny", *options)
    assert outcome.code == 0, outcome.err
    return outcome.out


def test_the_command_writes_a_file_that_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = ("--fleets", "2", "--candidates", "6", "--jobs", "1", "--out", str(tmp_path))
    printed = run_command(*size)
    assert "tiny: cedar: alpha = " in printed
    path = tmp_path / "tiny.json"
    whole = path.read_text()
    content = json.loads(whole)
    assert list(content["policies"]) == ALL
    assert content["split"] == "validation"
    assert content["command"] in whole.replace("\n", "")
    assert "--fleets 2 --candidates 6" in content["command"]
    assert [p.name for p in tmp_path.iterdir()] == ["tiny.json"]
    # One policy is missing, as after a run that was cut short: only that one is tuned.
    del content["policies"]["cedar"]
    path.write_text(json.dumps(content))
    tuned_now: list[str] = []
    honest = tuning.tune

    def watched(policy: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        tuned_now.append(policy)
        return honest(policy, *arguments, **options)

    monkeypatch.setattr(tuning, "tune", watched)
    run_command(*size)
    assert tuned_now == ["cedar"]
    assert path.read_text() == whole
    run_command(*size)
    assert tuned_now == ["cedar"]
    run_command(*size, "--again")
    searched = [*TUNABLE, *TUNABLE_UNDER_BUDGET]
    assert tuned_now == ["cedar", *searched]
    run_command("--fleets", "1", *size[2:])
    assert tuned_now == ["cedar", *searched, *searched], "other fleets, all anew"


# ------------------------------------------------------------------------ what is shipped


ORIGINS = [name for name in scenario_names() if load_scenario(name).origin == name]
"""The scenarios under a budget use the knobs of those that they extend."""


def test_knobs_are_shipped_for_every_packaged_scenario() -> None:
    shipped = {path.stem for path in packaged("tuned").glob("*.json")}
    assert shipped == set(ORIGINS)
    assert {load_scenario(name).origin for name in scenario_names()} == shipped


@pytest.mark.parametrize("name", ORIGINS)
def test_shipped_knobs_belong_to_their_scenario(name: str) -> None:
    scenario = load_scenario(name)
    content = read_tuned(packaged(f"tuned/{name}.json"))
    assert content["scenario"] == name
    assert content["scenario_digest"] == scenario.digest(), (
        f"configs/tuned/{name}.json is out of date; run `{content['command']}`"
    )
    assert tuned_note(scenario) is None
    assert content["split"] == "validation"
    period = scenario.splits.validation
    assert all(str(period.start) <= day < str(period.stop) for day in content["days"])
    assert f"--scenario {name} --fleets {len(content['days'])}" in content["command"]
    bounds = Reference(**content["faircarbon"])
    assert scale_co2_g(scenario) == bounds.scale_co2_g > 0
    budgeted = load_scenario(name, bounds={"quality_constraint": "budget"})
    assert content["beta_floor"] == budgeted.bounds.beta_floor
    ccar = content["ccar"]
    for policy, found in content["policies"].items():
        budget, realised = policy in BUDGETED, policy in PRICED
        least = ccar["quality"] if budget else bounds.quality
        blind = policy not in PRICED  # faircarbon's TTFT binds what is blind to caches
        if found["met"]["quality"]:
            assert found["quality"] >= least - 1e-5
            assert not realised or found["quality_realised"] >= ccar["quality_realised"] - 1e-5
        if found["met"]["ttft_p95"]:
            limit_s = bounds.ttft_p95_s if blind else ccar["ttft_p95_s"]
            assert found["ttft_p95_s"] <= limit_s + 1e-5
        tried = {"lambda_start", "eta", "margin"} if realised else set(found["knobs"])
        figures = ["co2_relative", "quality", *["quality_realised"][:realised], "ttft_p95_s"]
        assert found["columns"] == [*(k for k in found["knobs"] if k in tried), *figures]
        assert all(len(row) == len(found["columns"]) for row in found["tried"])
        assert make_policy(policy, budgeted if budget else scenario).name == policy
    assert list(content["policies"]) == ALL


def test_a_scenario_of_ones_own_uses_the_knobs_of_its_origin() -> None:
    own = load_scenario("congested", capacity={"limit": 0.3}, name="mine")
    assert tuned_options("cedar", own) == tuned_options("cedar", load_scenario("congested"))
    note = tuned_note(own)
    assert note is not None
    assert "congested" in note
    assert "mine" in note
    assert tuned_options("cedar", None) == tuned_options("cedar", load_scenario("sharegpt"))
    assert tuned_options("faircarbon", own) == {}


def test_options_given_go_before_the_tuned_ones() -> None:
    policy: Any = make_policy("cedar", eta=0.125)
    assert policy.eta == 0.125
    assert policy.scale_co2_g == scale_co2_g(None)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (None, "no such file"),
        ("", "not a file of tuned knobs"),
        ("[1]", "another version"),
        ('{"schema": 99}', "another version"),
        ('{"schema": 1}', "no knobs of cedar"),
        ('{"schema": 1, "policies": {"cedar": {"knobs": 3}}}', "no knobs of cedar"),
        ('{"schema": 1, "policies": {"cedar": {"knobs": {}}}}', "no knobs of cedar"),
    ],
)
def test_a_damaged_file_is_named_with_the_fix(
    text: str | None, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sharegpt.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(tuned, "tuned_path", lambda origin: path)
    with pytest.raises(InputError, match=match) as error:
        tuned_options("cedar", None)
    assert str(path) in str(error.value)
    assert "carbon-gym tune-baselines --scenario sharegpt --again" in str(error.value)
