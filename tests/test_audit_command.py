"""The command `carbon-gym audit`, with one's own files and log."""

from __future__ import annotations

import gzip
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from commandline import carbon_gym
from inputs import MONDAY, ZONES, iso, write_grid, write_tokens
from test_audit import table
from test_log import NAMES, write_log

from carbon_gym.audit.cases import RULES
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.run import run_policy


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


def test_the_log_of_a_rule_is_audited_like_the_rule(tmp_path: Path) -> None:
    """Every session is evaluated once, and where the log says."""
    log, grid = tmp_path / "log.csv", write_grid(tmp_path / "grid.csv", hours=24 * 4)
    write_log(log, sessions=30)
    files = ("--conversations", log, "--grid", grid, "--zones", ",".join(ZONES))
    outcome = go(tmp_path / "rule", *files, "--rule", "session-affinity", "--days", 2)
    assert outcome.code == 0, outcome.err
    grids = {"source": "file", "paths": [str(grid)]}
    own = {"source": "file", "path": str(log), "format": "tokens"}
    scenario = load_scenario("tiny", workload=own, grid=grids)
    evaluation = evaluation_fleets(scenario, fleets=2, once=True)
    sessions = [name for trace in evaluation.traces for name in trace.session_id]
    assert sorted(sessions) == sorted(f"s{number}" for number in range(30))
    ran = run_policy(scenario, make_policy("session-affinity"), evaluation.traces, evaluation.grid)
    went = {}
    for first, trace in zip(ran.bounds, evaluation.traces, strict=False):
        for row in range(trace.turns):
            number = int(trace.session_id[trace.session[row]].removeprefix("s"))
            went[number, int(trace.turn[row])] = NAMES[ran.ledger["deployment"][first + row]]
    write_log(log, sessions=30, where=lambda session, turn: went[session, turn])
    outcome = go(tmp_path / "log", *files, "--rule", "served_by", "--days", 2)
    assert outcome.code == 0, outcome.err
    for name in ("emissions", "savings", "price", "by-region", "by-hour"):
        rows = [
            list(map(list, map(dict.values, table(tmp_path / d, name)))) for d in ("rule", "log")
        ]
        for one, two in zip(*rows, strict=True):
            assert one[1:] == two[1:]


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
