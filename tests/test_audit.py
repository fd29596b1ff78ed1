"""`carbon-gym audit`: its numbers are those of the runs, its settings leave the turns alone."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, program

from carbon_gym.audit import run
from carbon_gym.audit.account import kinds_of, versus
from carbon_gym.audit.assumptions import assumptions_of
from carbon_gym.audit.cases import SAME_QUALITY
from carbon_gym.audit.findings import Findings
from carbon_gym.audit.report import Notes, report_of
from carbon_gym.audit.rows_file import AuditFile
from carbon_gym.audit.stages import audit_fleet
from carbon_gym.audit.tables import overview_table, ranked, swing
from carbon_gym.benchmark import fleet_accounts
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import Evaluation, evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.metrics.intervals import reductions, t_quantile
from carbon_gym.report.document_files import write_document
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.run import run_policy

TINY = load_scenario("tiny")
ROUTERS = ("ccar", "learned", "ccar-budget", "learned-budget", SAME_QUALITY)


@pytest.fixture(scope="module")
def week() -> Evaluation:
    """Five days, from which on intervals go over days."""
    return evaluation_fleets(TINY, fleets=5, sessions=25)


def audited(
    evaluation: Evaluation, folder: Path, present: str = "session-affinity"
) -> tuple[Findings, AuditFile]:
    with AuditFile(folder) as file:
        return audit_fleet(evaluation, present, file), file


@pytest.fixture(scope="module")
def found(week: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, Path]:
    """An audit of that week, written."""
    folder = tmp_path_factory.mktemp("audit")
    findings, _ = audited(week, folder)
    document = report_of(findings, ["2023-05-08"], Notes(["a note"]), {"fleet": "tiny"})
    write_document(document, folder)
    return findings, folder


def test_a_small_service_saves_more_than_0_g_on_the_first_page(
    found: tuple[Findings, Path],
) -> None:
    assert found[0].now["co2_g"] < 1000
    columns = overview_table(found[0]).columns
    assert [c.digits for c in columns if (c.title, c.unit) == ("CO2 saved", "g")] == [1]


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def total(evaluation: Evaluation, policy: str, **bounds: Any) -> dict[str, float]:
    """Sums of a run of its own."""
    scenario = load_scenario(evaluation.scenario, bounds=bounds)
    ran = run_policy(scenario, make_policy(policy, scenario), evaluation.traces, evaluation.grid)
    figures = ("co2_g", "energy_kwh", "ttft_s", "quality_predicted", "quality_realised")
    return {name: float(ran.ledger[name].sum()) for name in figures}


# ---------------------------------------------------------------------------------- the numbers


def test_emissions_and_savings_are_those_of_the_runs(
    week: Evaluation, found: tuple[Findings, Path]
) -> None:
    _, folder = found
    turns = sum(trace.turns for trace in week.traces)
    now = total(week, "session-affinity")
    emitted = {"session-affinity": now}
    budget = {"quality_constraint": "budget"}
    ccar = total(week, "ccar")
    optimism = ccar["quality_predicted"] - ccar["quality_realised"]
    same = {**budget, "quality_target": (now["quality_realised"] + optimism) / turns}
    for name, policy, bounds in (
        ("ccar", "ccar", {}),
        ("learned", "learned", {}),
        ("ccar-budget", "ccar-budget", budget),
        ("learned-budget", "learned", budget),
        (SAME_QUALITY, "ccar-budget", same),
    ):
        emitted[name] = total(week, policy, **bounds)
    assert list(emitted) == ["session-affinity", *ROUTERS]
    overview = table(folder, "overview")
    for row in overview:
        mine = emitted[row["router"]]
        assert float(row["CO2 (g)"]) == pytest.approx(mine["co2_g"])
        assert float(row["energy (kWh)"]) == pytest.approx(mine["energy_kwh"])
        if row["router"] != "session-affinity":
            assert float(row["CO2 saved (g)"]) == pytest.approx(now["co2_g"] - mine["co2_g"])
    assert [row["router"] for row in overview] == list(emitted)
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
    for row in table(folder, "price"):
        mine = emitted[row["router"]]
        assert float(row["quality"]) == pytest.approx(mine["quality_realised"] / turns)


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


def test_at_the_quality_of_now_no_other_budget_is_nearer(found: tuple[Findings, Path]) -> None:
    findings, _ = found
    short = {
        name: abs(pair.mine["quality_realised"] - findings.now["quality_realised"])
        for name, pair in findings.routers.items()
    }
    assert short[SAME_QUALITY] == min(short[name] for name in ("ccar-budget", SAME_QUALITY))


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


# ------------------------------------------------------------------------ the file and the page


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


def test_the_report_is_one_page(found: tuple[Findings, Path], tmp_path: Path) -> None:
    with Browser(program(), tmp_path / "profile") as browser:
        browser.open(found[1] / "report.html")
        # A sheet of A4 without its margins, at 96 pixels an inch.
        size = {"width": 718, "height": 1047, "deviceScaleFactor": 1, "mobile": False}
        browser.send("Emulation.setDeviceMetricsOverride", **size)
        browser.send("Emulation.setEmulatedMedia", media="print")
        assert browser.evaluate("document.documentElement.scrollHeight") <= 1047
        assert browser.evaluate("document.documentElement.scrollWidth") <= 718
        assert browser.evaluate("document.querySelectorAll('details:not([open])').length") == 2
        browser.evaluate("location.hash = '#table:assumptions'")
        browser.send("Emulation.setEmulatedMedia", media="screen")
        opened = "document.getElementById('figures').querySelector('details').open"
        browser.evaluate("new Promise((done) => setTimeout(done, 200))")
        assert browser.evaluate(opened)
