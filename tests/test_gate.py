"""CCAR's gate: its features and rules, what it was fitted on, and what the shipped files say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym

from baselines.ccar import CCAR, switches_to_judge
from baselines.fit_gate import NEVER_THRESHOLD, fit_gate, hindsight_samples
from baselines.gate import FEATURES, Gate, gate_features, load_gate, rebuild_co2_g
from baselines.tuned import GATED, gate_note, gate_path
from carbon_gym import load_scenario, make_policy, scenario_names
from carbon_gym.errors import InputError
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.simulator import Quotes, Simulator
from carbon_gym.simulator.run import run_policy

ZEROS = np.zeros(len(FEATURES))


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluation_fleets(load_scenario("sharegpt"), fleets=3, sessions=60)


def always(back: float, rule: Any = "probability", **options: float) -> Gate:
    """A gate that always says the same probability."""
    numbers = {"threshold": NEVER_THRESHOLD, "weight": 0.0, **options}
    return Gate(rule, math.log(back / (1 - back)), ZEROS, **numbers)


def plain_features(quotes: Quotes, b: int, p: int, d: int) -> list[float]:
    """The features of one switch as SPEC §5 lists them, in plain Python."""
    fleet = quotes.fleet
    mp, md, rp, rd = fleet.model[p], fleet.model[d], fleet.region[p], fleet.region[d]
    now, before = quotes.intensity[b], quotes.intensity_hour_ago[b]
    best = max(
        quotes.quality[b, m] for m in range(len(fleet.models)) if quotes.model_admissible[b, m]
    )
    history = int(quotes.history_tokens[b])

    def load(deployment: int) -> float:
        unit = fleet.unit[deployment]
        places = quotes.unit_places[b, unit]
        return quotes.unit_load[b, unit] / places if places > 0 else 0.0

    return [
        math.log(1 + history),
        math.log(quotes.co2_g[b, p] / quotes.co2_g[b, d]),
        math.log(now[rp] / now[rd]),
        math.log(now[rp] / before[rp]),
        math.log(now[rd] / before[rd]),
        math.log(fleet.energy_kwh_per_token[p] / fleet.energy_kwh_per_token[d]),
        float(mp != md),
        float(rp != rd),
        float(fleet.gpu[p] != fleet.gpu[d]),
        quotes.quality[b, mp] / best - quotes.beta_q,
        quotes.quality[b, md] / best - quotes.beta_q,
        load(p),
        load(d),
        quotes.cached_tokens[b, p] / history,
        quotes.cached_tokens[b, d] / history,
        quotes.idle_s[b] / quotes.cache_ttl_s,
        math.log(1 + quotes.turn[b]),
    ]


def test_features_are_those_of_the_specification(evaluation: Evaluation) -> None:
    simulator = Simulator(evaluation.scenario, evaluation.traces, evaluation.grid)
    quotes, judged = simulator.quote(), 0
    while not simulator.done:
        choice = quotes.cheapest()
        lanes = switches_to_judge(quotes, choice)
        expected_lanes = [
            b
            for b in range(quotes.lanes)
            if quotes.row[b] >= 0
            and quotes.previous[b] >= 0
            and choice[b] != quotes.previous[b]
            and quotes.feasible[b, quotes.previous[b]]
            and quotes.cached_tokens[b, quotes.previous[b]] > 0
        ]
        assert lanes.tolist() == expected_lanes
        if len(lanes):
            stay = quotes.previous[lanes]
            found = gate_features(quotes, lanes, stay, choice[lanes])
            for i, b in enumerate(lanes):
                wanted = plain_features(quotes, int(b), int(stay[i]), int(choice[b]))
                assert found[i] == pytest.approx(wanted, rel=1e-6, abs=1e-9)
            judged += len(lanes)
        quotes = simulator.step(choice)
    assert judged > 100


def test_rebuilding_costs_the_history_only_where_it_was_evicted(evaluation: Evaluation) -> None:
    for leave in ("retain", "evict"):
        scenario = load_scenario(evaluation.scenario, cache={"on_leave": leave})
        simulator = Simulator(scenario, evaluation.traces, evaluation.grid)
        quotes = simulator.quote()
        for _ in range(60):
            quotes = simulator.step(quotes.cheapest())
        lanes = np.arange(quotes.lanes)
        stay = np.zeros(quotes.lanes, dtype=np.int64)
        tokens = quotes.prompt_tokens + quotes.predicted_output_tokens
        if leave == "evict":
            tokens = tokens + quotes.history_tokens
        per_token = quotes.fleet.energy_kwh_per_token[0] * quotes.facility_intensity[:, 0]
        assert rebuild_co2_g(quotes, lanes, stay) == pytest.approx(per_token * tokens)


def test_rules_at_their_ends(evaluation: Evaluation) -> None:
    def total(gate: Gate | None) -> tuple[float, int, int]:
        policy = CCAR(gate=gate)
        run = run_policy(evaluation.scenario, policy, evaluation.traces, evaluation.grid)
        asked, blocked = policy.gate_proposals.sum(), policy.gate_blocks.sum()
        return float(run.ledger["co2_g"].sum()), int(asked), int(blocked)

    ungated = total(None)
    for never in (always(0.9), always(0.9, "expected_value")):
        assert total(never)[0] == ungated[0]
        assert total(never)[1] > 0 == total(never)[2]
    stuck = total(always(0.9, threshold=0.5))
    assert stuck[1] == stuck[2] > 0  # stays whenever it is asked
    assert stuck[0] != ungated[0]
    assert 0 < total(always(0.5, "expected_value", weight=1.0))[2] < ungated[1] + stuck[1] + 10**6


def test_a_gate_leaves_what_is_not_feasible(evaluation: Evaluation) -> None:
    policy = CCAR(gate=always(0.9, threshold=0.1))
    run = run_policy(evaluation.scenario, policy, evaluation.traces, evaluation.grid)
    assert not run.ledger["quality_violation"].any()
    assert not run.ledger["capacity_violation"].any()
    assert policy.gate_blocks.sum() > 0


def test_labels_look_one_turn_ahead(evaluation: Evaluation) -> None:
    samples = hindsight_samples(evaluation)
    run = run_policy(evaluation.scenario, CCAR(), evaluation.traces, evaluation.grid)
    chosen, back, asked = run.ledger["deployment"], 0, 0
    for f, trace in enumerate(evaluation.traces):
        mine = chosen[run.bounds[f] : run.bounds[f + 1]]
        for s in range(trace.sessions):
            path = mine[trace.session == s]
            for previous, now, after in zip(path, path[1:], path[2:], strict=False):
                asked += previous != now
                back += previous != now and after == previous
    # Every qualifying switch that was undone at once is a sample; those that leave no usable
    # cache are none, so the samples are at most the switches.
    assert 0 < samples.back.sum() <= back
    assert len(samples.back) <= int(run.ledger["switched"].sum())
    assert asked > 0


def test_fitting_keeps_to_its_splits() -> None:
    scenario = load_scenario("tiny")
    fleets = {
        split: evaluation_fleets(scenario, split=split, fleets=3)  # type: ignore[arg-type]
        for split in ("train", "validation", "test")
    }
    ids = {
        split: {key for trace in evaluation.traces for key in trace.session_key.tolist()}
        for split, evaluation in fleets.items()
    }
    assert not ids["train"] & ids["validation"]
    assert not (ids["train"] | ids["validation"]) & ids["test"]
    content = fit_gate(fleets["train"], fleets["validation"])
    assert content["training"]["sessions"] == len(ids["train"])
    assert set(content["coefficients"]) == set(FEATURES)
    totals = content["tuning"]
    never = totals["co2_g_by_weight"]["0"]
    assert totals["co2_g_by_threshold"][f"{content['threshold']:g}"] <= never
    assert totals["co2_g_by_weight"][f"{content['weight']:g}"] <= never


@pytest.mark.parametrize("name", [n for n in scenario_names() if not n.endswith("-far")])
def test_the_shipped_gates(name: str) -> None:
    scenario = load_scenario(name)
    content = json.loads(gate_path(scenario.origin).read_text(encoding="utf-8"))
    assert content["scenario_digest"] == scenario.filtered().digest()
    assert gate_note(scenario) is None
    training, validation = content["training"], content["validation"]
    assert training["session_ids_sha256"] != validation["session_ids_sha256"]
    assert {day[:4] for day in training["days"]} == {"2021"}
    assert {day[:4] for day in validation["days"]} == {"2022"}
    assert 0.5 < validation["auc"] < 1
    totals = content["tuning"]
    never = totals["co2_g_by_weight"]["0"]
    assert totals["co2_g_by_threshold"]["2"] == never
    assert totals["co2_g_by_threshold"][f"{content['threshold']:g}"] <= never
    assert totals["co2_g_by_weight"][f"{content['weight']:g}"] <= never
    for policy, rule in GATED.items():
        made: Any = make_policy(policy, scenario)
        assert (made.name, made.gate.rule) == (policy, rule)


def test_a_gate_on_other_rules_is_said() -> None:
    changed = load_scenario("tiny", cache={"ttl_s": 60})
    assert "tiny.json was fitted on other rules" in (gate_note(changed) or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no such gate; make it with `carbon-gym fit-gate`"),
        ("{", "is not a gate file"),
        ("[]", "is not a gate file"),
        ('{"schema": 9, "features": []}', "is a gate of another version"),
        ("{}", "KeyError"),
    ],
)
def test_bad_gate_files(text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        load_gate(path)


def test_fit_gate_command(tmp_path: Path) -> None:
    outcome = carbon_gym(
        *("fit-gate", "--scenario", "tiny", "--fleets", 2, "--jobs", 1, "--out", tmp_path)
    )
    assert outcome.code == 0
    assert "AUC" in outcome.out
    assert load_gate(tmp_path / "tiny.json").fitted_for == load_scenario("tiny").digest()
    assert (tmp_path / "tiny.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert content["command"] == "carbon-gym fit-gate --scenario tiny --fleets 2"


def test_a_scenario_names_a_gate_of_its_own(tmp_path: Path) -> None:
    own = load_scenario("tiny", cache={"ttl_s": 60})
    content = json.loads(gate_path("tiny").read_text(encoding="utf-8"))
    content.update(threshold=0.123, scenario_digest=own.digest())
    path = tmp_path / "own.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    named = load_scenario(own, gate=str(path))
    assert named.digest() == own.digest()
    assert gate_note(named) is None
    assert gate_note(own, ["faircarbon"]) is None  # no gated policy runs
    made: Any = make_policy("ccar", named)
    assert made.gate.threshold == 0.123


def test_fewer_sessions_are_no_other_rules() -> None:
    assert gate_note(load_scenario("tiny", workload={"sessions_per_fleet": 7})) is None
