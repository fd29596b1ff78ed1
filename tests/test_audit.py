"""`carbon-gym audit`: its numbers are those of the runs, its settings leave the turns alone."""

from __future__ import annotations

import csv
import gzip
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym
from inputs import MONDAY, ZONES, iso, write_grid, write_tokens
from test_log import NAMES, write_log

from carbon_gym.audit import run
from carbon_gym.audit.account import kinds_of, versus
from carbon_gym.audit.assumptions import assumptions_of
from carbon_gym.audit.cases import RULES, main_cases, varied_cases
from carbon_gym.audit.findings import Findings, findings_of
from carbon_gym.audit.report import report_of
from carbon_gym.audit.rows_file import AuditFile
from carbon_gym.audit.tables import ranked, swing
from carbon_gym.benchmark import fleet_accounts
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.metrics.intervals import reductions, t_quantile
from carbon_gym.report.document_files import write_document
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.run import run_policy

TINY = load_scenario("tiny")
ROUTERS = ("ccar", "learned", "ccar-budget", "learned-budget")


@pytest.fixture(scope="module")
def week() -> Evaluation:
    """Five days, from which on intervals go over days."""
    return evaluation_fleets(TINY, fleets=5, sessions=25)


def audited(
    evaluation: Evaluation, folder: Path, present: str = "session-affinity"
) -> tuple[Findings, AuditFile]:
    assumptions = assumptions_of(evaluation.scenario)
    cases = [*main_cases(evaluation.scenario), *varied_cases(assumptions)]
    with AuditFile(folder) as file:
        run.run_cases(evaluation, present, cases, file)
        return findings_of(present, present, evaluation.scenario, assumptions, file), file


@pytest.fixture(scope="module")
def found(week: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, Path]:
    """An audit of that week, written."""
    folder = tmp_path_factory.mktemp("audit")
    findings, _ = audited(week, folder)
    write_document(report_of(findings, ["2023-05-08"], ["a note"], {"fleet": "tiny"}), folder)
    return findings, folder


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def total(evaluation: Evaluation, policy: str, budget: bool = False) -> dict[str, float]:
    """Sums of a run of its own."""
    scenario = evaluation.scenario
    if budget:
        scenario = load_scenario(scenario, bounds={"quality_constraint": "budget"})
    ran = run_policy(scenario, make_policy(policy, scenario), evaluation.traces, evaluation.grid)
    return {name: float(ran.ledger[name].sum()) for name in ("co2_g", "energy_kwh", "ttft_s")}


# ---------------------------------------------------------------------------------- the numbers


def test_emissions_and_savings_are_those_of_the_runs(
    week: Evaluation, found: tuple[Findings, Path]
) -> None:
    _, folder = found
    turns = sum(trace.turns for trace in week.traces)
    now = total(week, "session-affinity")
    emitted = {"session-affinity": now}
    for name in ROUTERS:
        policy = "learned" if name == "learned-budget" else name
        emitted[name] = total(week, policy, "budget" in name)
    rows = table(folder, "emissions")
    assert [row["router"] for row in rows] == list(emitted)
    for row in rows:
        mine = emitted[row["router"]]
        assert float(row["CO2 (g)"]) == pytest.approx(mine["co2_g"])
        assert float(row["energy (kWh)"]) == pytest.approx(mine["energy_kwh"])
        assert float(row["CO2 per 1,000 turns (g)"]) == pytest.approx(1000 * mine["co2_g"] / turns)
    for row in table(folder, "savings"):
        mine = emitted[row["router"]]
        saved_g = now["co2_g"] - mine["co2_g"]
        assert float(row["CO2 saved (g)"]) == pytest.approx(saved_g)
        assert float(row["energy saved (kWh)"]) == pytest.approx(
            now["energy_kwh"] - mine["energy_kwh"]
        )
        assert float(row["CO2 saved per 1,000 turns (g)"]) == pytest.approx(1000 * saved_g / turns)
        for figure in ("CO2 saved{} (%)", "CO2 saved{} (g)", "energy saved{} (kWh)"):
            low, value, high = (float(row[figure.format(end)]) for end in (" low", "", " high"))
            assert low < value < high
    changed = {row["router"]: row["change of mean TTFT (ms)"] for row in table(folder, "price")}
    assert changed.pop("session-affinity") == ""
    for name, text in changed.items():
        late = emitted[name]["ttft_s"] - now["ttft_s"]
        assert float(text) == pytest.approx(1000 * late / turns)


def test_kinds_of_turns_add_up(found: tuple[Findings, Path]) -> None:
    findings, _ = found
    for pair in findings.routers.values():
        for kind in ("history", "hour", "region"):
            rows = pair.mine["versus_present"]["kinds"][kind].values()
            assert sum(row["turns"] for row in rows) == pair.mine["turns"]
            assert sum(row["co2_g"] for row in rows) == pytest.approx(pair.mine["co2_g"])
            now = sum(row["present_co2_g"] for row in rows)
            assert now == pytest.approx(pair.present["co2_g"])


def test_turns_are_told_apart_as_the_labels_say(week: Evaluation) -> None:
    affinity = make_policy("session-affinity")
    ran = run_policy(week.scenario, affinity, week.traces, week.grid)
    fleet = Deployments.of(week.scenario)
    for trace, account in zip(week.traces, fleet_accounts(week, ran), strict=True):
        kinds = kinds_of(trace, account, fleet)
        ends = {"0": (0, 0), "< 2K": (1, 1999), "2K–4K": (2000, 3999), "4K–8K": (4000, 7999)}
        for row in range(0, trace.turns, 7):
            history = kinds["history"].labels[kinds["history"].code[row]]
            low, high = ends.get(history, (8000, 10**9))
            assert low <= trace.history_tokens[row] <= high
            first = int(kinds["hour"].labels[kinds["hour"].code[row]][:2])
            assert first <= trace.arrival_s[row] / 3600 % 24 < first + 3
            region = kinds["region"].labels[kinds["region"].code[row]]
            assert region == fleet.triple(int(account.ledger["deployment"][row]))[2]


def test_a_rule_beside_itself_saves_nothing(week: Evaluation) -> None:
    affinity = make_policy("session-affinity")
    ran = run_policy(week.scenario, affinity, week.traces, week.grid)
    accounts = fleet_accounts(week, ran)
    beside = versus(accounts, accounts)
    assert beside["saving"]["mean"] == 0.0
    assert all(interval["mean"] == 0.0 for interval in beside["reduction"].values())
    assert beside["ttft_p95_difference_s"]["mean"] == 0.0


def test_the_present_rule_is_the_same_under_a_budget(found: tuple[Findings, Path]) -> None:
    findings, _ = found
    for pair in findings.routers.values():
        for figure in ("co2_g", "energy_kwh", "ttft_p95_s", "quality_realised", "turns"):
            assert pair.present[figure] == findings.now[figure]


@pytest.mark.parametrize("fleets", [1, 4, 5, 8])
def test_reductions_add_up_with_intervals_over_days_or_sessions(fleets: int) -> None:
    rng = np.random.default_rng(fleets)
    theirs = [rng.gamma(2.0, 1.0, (200, 2)) for _ in range(fleets)]
    ours = [0.8 * fleet for fleet in theirs]
    for k, interval in enumerate(reductions(ours, theirs)):
        assert interval is not None
        saved = [(b - a)[:, k] for a, b in zip(ours, theirs, strict=True)]
        daily = np.array([day.sum() for day in saved])
        assert interval["mean"] == pytest.approx(daily.sum())
        half = (interval["high"] - interval["low"]) / 2
        if fleets >= 5:
            assert interval["method"] == "paired-t-over-fleets"
            expected = fleets * t_quantile(0.975, fleets - 1) * daily.std(ddof=1) / fleets**0.5
            assert half == pytest.approx(expected)
        else:  # by Poisson weights the variance of a sum is the sum of squares
            assert interval["method"] == "bootstrap-over-sessions"
            expected = 1.96 * float(np.sqrt((np.concatenate(saved) ** 2).sum()))
            assert half == pytest.approx(expected, rel=0.1)
    assert reductions([np.ones((1, 2))], [np.ones((1, 2))]) == [None, None]


# ------------------------------------------------------------------------------ the assumptions


def test_settings_differ_from_the_fleet_and_leave_the_turns_alone() -> None:
    base = evaluation_fleets(TINY, fleets=1, sessions=10)
    (trace,) = base.traces
    seen = {TINY.digest()}
    assumptions = assumptions_of(TINY)
    assert len({assumption.name for assumption in assumptions}) == len(assumptions) >= 10
    for assumption in assumptions:
        assert 1 <= len(assumption.settings) <= 2
        for setting in assumption.settings:
            assert setting.scenario.digest() not in seen
            assert setting.label != assumption.here
            seen.add(setting.scenario.digest())
            (other,) = evaluation_fleets(setting.scenario, fleets=1, sessions=10).traces
            np.testing.assert_array_equal(other.arrival_s, trace.arrival_s)
            np.testing.assert_array_equal(other.difficulty, trace.difficulty)
            np.testing.assert_array_equal(
                other.predicted_output_tokens, trace.predicted_output_tokens
            )


def test_a_value_that_the_fleet_has_is_no_setting() -> None:
    other = load_scenario("tiny", cache={"ttl_s": 120.0}, capacity={"limit": None})
    settings = {a.name: [s.label for s in a.settings] for a in assumptions_of(other)}
    assert settings["cache TTL, min"] == ["60"]
    assert settings["capacity c"] == ["0.25"]
    assert settings["cache of a session that left"] == ["evict"]


def test_the_tornado_is_sorted_and_its_ends_are_runs(
    week: Evaluation, found: tuple[Findings, Path]
) -> None:
    findings, folder = found
    swings = [swing(findings, settings) or 0.0 for _, settings in ranked(findings)]
    assert swings == sorted(swings, reverse=True)
    rows = table(folder, "assumptions")
    assert [row["assumption"] for row in rows] == [a.name for a, _ in ranked(findings)]
    (ttl,) = [row for row in rows if row["assumption"] == "cache TTL, min"]
    assert (ttl["here"], ttl["low"], ttl["high"]) == ("10", "2", "60")
    scenario = load_scenario(week.scenario, cache={"ttl_s": 120.0})
    co2_g = []
    for policy in ("ccar", "session-affinity"):
        ran = run_policy(scenario, make_policy(policy, scenario), week.traces, week.grid)
        co2_g.append(
            [
                float(ran.ledger["co2_g"][first:stop].sum())
                for first, stop in zip(ran.bounds, ran.bounds[1:], strict=False)
            ]
        )
    saved = 1.0 - np.array(co2_g[0]) / np.array(co2_g[1])
    assert float(ttl["saved, low (%)"]) == pytest.approx(100 * saved.mean())
    (pue,) = [row for row in rows if row["assumption"] == "PUE, all regions"]
    assert float(pue["moves the saving by (points)"]) == pytest.approx(0.0, abs=1e-9)


# -------------------------------------------------------------------- the file and the command


def test_a_rerun_runs_nothing_and_says_the_same(
    week: Evaluation, found: tuple[Findings, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    findings, folder = found
    before = (folder / "audit.json").read_bytes()
    ran: list[str] = []
    real = run.run_policy

    def counting(scenario: Any, policy: Any, *others: Any) -> Any:
        ran.append(policy.name)
        return real(scenario, policy, *others)

    monkeypatch.setattr(run, "run_policy", counting)
    again, _ = audited(week, folder)
    assert ran == []
    assert again == findings
    assert (folder / "audit.json").read_bytes() == before
    key = run.policy_key
    monkeypatch.setattr(run, "policy_key", lambda n, e: "new" if n == "learned" else key(n, e))
    audited(week, folder)
    assert sorted(ran) == ["learned", "learned", "session-affinity", "session-affinity"]


def go(folder: Path, *options: Any) -> Any:
    return carbon_gym("audit", "--fleet", "tiny", "--jobs", 1, "--out", folder, *options)


def test_the_command_on_ones_own_log(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv", sessions=40, where=lambda session, turn: NAMES[2])
    grid = write_grid(tmp_path / "grid.csv", hours=24 * 4)
    files = ("--conversations", log, "--grid", grid, "--zones", ",".join(ZONES))
    outcome = go(tmp_path / "out", *files, "--rule", "served_by", "--days", 3)
    assert outcome.code == 0, outcome.err
    assert "What is saved over your log (served_by)" in outcome.out
    assert "bootstrap over sessions" in " ".join(outcome.out.split())
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "goes where the log says" in report
    assert str(tmp_path) not in report
    regions = table(tmp_path / "out", "by-region")
    assert [row["region that serves it now"] for row in regions] == ["US-CAL-CISO"]
    for name in ("emissions", "kinds", "tornado"):
        assert (tmp_path / "out" / "pictures" / f"{name}.png").is_file()
    content = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    assert content["inputs"]
    assert all("replay" in world["policies"] for world in content["worlds"].values())


def test_other_rules_in_the_same_folder_stay_apart(tmp_path: Path) -> None:
    for rule in RULES[:2]:
        outcome = go(tmp_path, "--rule", rule, "--days", 1, "--sessions", 8)
        assert outcome.code == 0, outcome.err
        assert f"What is saved over {rule}" in outcome.out
    worlds = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))["worlds"]
    beside = {name.split(" beside ")[1].split(",")[0] for name in worlds}
    assert beside == set(RULES[:2])


def test_a_day_without_turns_is_left_out(tmp_path: Path) -> None:
    def arrival(session: int, turn: int) -> str:
        day = 0 if session < 10 else 2
        return iso(MONDAY.replace(day=8 + day, hour=6, minute=session, second=5 * turn))

    turns = write_tokens(tmp_path / "turns.csv", 20, arrival=arrival)
    grid = write_grid(tmp_path / "grid.csv", hours=24 * 4)
    files = ("--conversations", turns, "--grid", grid, "--zones", ",".join(ZONES))
    outcome = go(tmp_path / "out", *files)
    assert outcome.code == 0, outcome.err
    content = json.loads((tmp_path / "out" / "audit.json").read_text(encoding="utf-8"))
    for world in content["worlds"].values():
        assert world["facts"]["fleets"] == 2
        assert len(world["facts"]["days"]) == 3
    hours = table(tmp_path / "out", "by-hour")
    assert [row["hour of the day, UTC"] for row in hours] == ["06–09"]


def test_a_single_session_has_savings_without_an_interval(tmp_path: Path) -> None:
    outcome = go(tmp_path, "--days", 1, "--sessions", 1)
    assert outcome.code == 0, outcome.err
    (row, *_) = table(tmp_path, "savings")
    assert row["CO2 saved (%)"]
    assert "CO2 saved low (%)" not in row
    assert "one session has no spread" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_sharegpt_with_a_simulated_log_within_a_minute_on_two_cores(
    shared_data: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    gpus, zones = ("A100-40GB", "H100-80GB"), ("US-CAL-CISO", "US-TEX-ERCO", "GB", "DE")
    models = ("Llama-3.1-8B-Instruct", "Qwen2.5-32B-Instruct", "Llama-3.1-70B-Instruct")
    places = ["@".join(names) for names in product(models, gpus, zones)]
    with gzip.open(shared_data / "conversations" / "sharegpt_turns.csv.gz", "rt") as turns:
        head, *rows = turns.read().splitlines()
    assert head.startswith("session_id,")
    logged = (f"{row},{places[int(row.partition(',')[0]) % len(places)]}" for row in rows)
    log.write_text("\n".join([f"{head},served_by", *logged]) + "\n", encoding="utf-8")
    grid = shared_data / "grid" / "em_hourly_2021_2023_lca.csv.gz"
    files = ("--conversations", log, "--rule", "served_by", "--grid", grid)
    began = cpu_s()
    outcome = carbon_gym("audit", *files, "--start", "2023-05-08", "--jobs", 2, "--out", tmp_path)
    assert outcome.code == 0, outcome.err
    spent_s = cpu_s() - began
    assert spent_s < 2 * 60, f"{spent_s:.0f} s of two cores"
    assert "paired t over days" in outcome.out


def cpu_s() -> float:
    """Of this process and of those that it has waited for, seconds."""
    return sum(os.times()[:4])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rule", "sesion-affinity"], "--rule 'sesion-affinity' is not known; did you mean"),
        (["--rule", "served_by"], "with --conversations in the format tokens the name of the col"),
        (["--days", "0"], "--days 0 is not allowed"),
        (["--jobs", "0"], "--jobs 0 is not allowed"),
        (["--start", "may"], "is not a day"),
        (["--format", "tokens"], "say how to read --conversations"),
        (["--zones", "Atlantis"], "Atlantis"),
        (["--fleet", "tinny"], "scenario 'tinny' is not known"),
    ],
)
def test_faults_are_found_before_the_work(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = carbon_gym("audit", *options)
    assert outcome.code == 2
    assert said in outcome.err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (NAMES[0], "", "log.csv: line 2: served_by is empty"),
        (NAMES[0], "gpt@home", "log.csv: line 2: served_by 'gpt@home' is no deployment"),
        ("served_by", "went_to", "log.csv: line 1: column 'served_by' is missing"),
    ],
)
def test_broken_logs_leave_nothing_behind(old: str, new: str, said: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv")
    log.write_text(log.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    outcome = go(tmp_path / "out", "--conversations", log, "--rule", "served_by")
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") <= 1, "one sentence"
    assert not (tmp_path / "out").exists()
