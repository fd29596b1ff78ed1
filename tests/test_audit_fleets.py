"""Audits of fleets on which nothing was tuned, and of those whose numbers look wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import carbon_gym
from test_audit import ROUTERS, TINY, audited, table, total

from baselines import borrows_knobs
from carbon_gym.audit.stages import KNOBS
from carbon_gym.doors import our_package
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.fleet.summary import deployment_rows
from carbon_gym.scenario import Scenario, load_scenario


def fleet_of(energy: float = 1.0, **changes: Any) -> Scenario:
    """The tiny fleet under another bound on quality, every energy measured as a multiple."""
    scenario = load_scenario("tiny", bounds={"beta_q": 0.8}, **changes)
    entries = [
        {
            "model": row["model"],
            "gpu": row["gpu"],
            **{
                name: energy * row[name]
                for name in ("kwh_per_input_token", "kwh_per_cached_token", "kwh_per_output_token")
            },
        }
        for row in deployment_rows(scenario)
        if row["region"] == scenario.fleet.regions[0].zone
    ]
    return load_scenario(scenario, fleet={"measured": entries})


def test_a_fleet_borrows_knobs_where_its_rules_are_others() -> None:
    budget = load_scenario("tiny", bounds={"quality_constraint": "budget", "quality_target": 0.6})
    files = load_scenario("tiny", grid={"source": "file", "paths": ["grid.csv"]})
    for scenario in (TINY, budget, files):
        assert not borrows_knobs(scenario)
    for scenario in (
        fleet_of(),
        load_scenario("tiny", fleet={"regions": ["GB"]}),
        load_scenario("tiny", energy={"output_ratio": 8}),
    ):
        assert borrows_knobs(scenario)
        assert not borrows_knobs(load_scenario(scenario, knobs="own.json"))


def test_a_budget_is_priced_in_the_co2_of_the_own_fleet(tmp_path: Path) -> None:
    # Energies eight times as high emit eight times as much, and no router behaves otherwise.
    rows = {}
    for energy in (1.0, 8.0):
        evaluation = evaluation_fleets(fleet_of(energy), fleets=2, sessions=20)
        folder = tmp_path / f"{energy:g}"
        findings, _ = audited(evaluation, folder)
        rows[energy] = {name: pair.mine for name, pair in findings.routers.items()}
        knobs = json.loads((folder / KNOBS).read_text(encoding="utf-8"))
        turns = findings.now["turns"]
        assert knobs["faircarbon"]["scale_co2_g"] == pytest.approx(
            total(evaluation, "faircarbon")["co2_g"] / turns
        )
        assert knobs["ccar"]["quality"] == rows[energy]["ccar"]["quality_predicted"]
        (budget,) = [case for case in findings.cases if case.router == "ccar-budget"]
        options = our_package("baselines").tuned_options("ccar-budget", budget.scenario)
        assert options["scale_co2_g"] == knobs["faircarbon"]["scale_co2_g"]
        assert options["quality_target"] == pytest.approx(knobs["ccar"]["quality"], abs=0.01)
    for name in ROUTERS:
        assert rows[8.0][name]["co2_g"] == pytest.approx(8 * rows[1.0][name]["co2_g"], rel=1e-9)
        assert rows[8.0][name]["quality_realised"] == rows[1.0][name]["quality_realised"]


@pytest.mark.parametrize(
    "fleet",
    [
        "fleet: {models: [Llama-3.1-8B-Instruct], gpus: [H100-80GB], regions: [DE]}",
        "fleet: {models: [Llama-3.1-8B-Instruct], gpus: [A10, H100-80GB], regions: [DE, GB, KR]}",
        "fleet: {models: [Qwen2.5-3B-Instruct, Llama-3.1-70B-Instruct], gpus: [A10], regions: "
        "[DE]}",
    ],
    ids=["one deployment", "one model", "one region"],
)
def test_small_fleets_are_audited(fleet: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(fleet, encoding="utf-8")
    out = tmp_path / "out"
    options = ("--days", 1, "--sessions", 10, "--jobs", 1, "--out", out)
    outcome = carbon_gym("audit", "--fleet", path, *options)
    assert outcome.code == 0, outcome.err
    report = " ".join((out / "report.md").read_text(encoding="utf-8").split())
    assert "Nothing was tuned for this fleet" in report
    if "gpus: [H100-80GB], regions: [DE]" in fleet:
        for row in table(out, "savings"):
            assert float(row["CO2 saved (%)"]) == 0.0


def test_what_looks_like_another_unit_is_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("extends: tiny\nfleet: {regions: [{zone: GB, pue: 156}]}\n", encoding="utf-8")
    out = tmp_path / "out"
    outcome = carbon_gym(
        "audit", "--fleet", path, "--days", 1, "--sessions", 5, "--jobs", 1, "--out", out
    )
    assert outcome.code == 0, outcome.err
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "**Check these numbers of the fleet first**: region 'GB': pue = 156" in report
