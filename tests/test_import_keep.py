"""`carbon-gym import conversations --keep COLUMN`: where each turn was served comes along."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from commandline import carbon_gym
from import_samples import SAMPLES, completion, json_lines, put, table
from inputs import write_grid

from carbon_gym.evaluation import evaluation_fleets
from carbon_gym.fleet import Deployments
from carbon_gym.importing.formats import FORMATS, read_any
from carbon_gym.scenario import load_scenario
from carbon_gym.simulator.logged import logged_deployments
from carbon_gym.workload.readers import read_conversations

TINY = load_scenario("tiny")
NAMES = [Deployments.of(TINY).name(d).replace(" ", "") for d in range(3)]
FIRST, SECOND, THIRD = NAMES
BURST = ["Timestamp", "Session ID", "Request tokens", "Response tokens", "went to"]
TIMES = [1_717_236_000, 1_717_236_005, 1_717_236_090]
CALLS = [
    completion(session, time, 100, 9, 0)
    for session, time in zip(("s-1", "s-2", "s-1"), TIMES, strict=True)
]

LOGS = {
    "tokens": table(
        ["went to", "session", "turn", "prompt_tokens", "output_tokens"],
        [SECOND, "b", 0, 3, 4],
        [f" {THIRD}", "a", 1, 5, 7],
        [FIRST, "a", 0, 10, 20],
    ),
    "burstgpt": table(
        BURST,
        [5, "b", 99, 0, "a failed request"],
        [7, "b", 3, 4, SECOND],
        [9, "a", 10, 20, FIRST],
        [11, "a", 50, 7, THIRD],
    ),
    "azure": table(
        ["TIMESTAMP", "SessionId", "ContextTokens", "GeneratedTokens", "went to"],
        ["2024-05-10 00:00:05+00:00", "a", 50, 5, THIRD],
        ["2024-05-10 00:00:01+00:00", "a", 20, 5, FIRST],
        ["2024-05-10 00:00:02+00:00", "b", 20, 5, SECOND],
    ),
    "usage": json_lines(
        {**CALLS[0], "went to": FIRST},
        {"response": {"body": {**CALLS[1], "went to": SECOND}}},
        {**CALLS[2], "metadata": {"went to": THIRD}},
    ),
}
"""Turns in the order of the simulator, a-0, a-1, b-0, went to the first, third, second."""


@pytest.mark.parametrize("format", LOGS)
def test_a_log_comes_along_and_is_replayed(format: str, tmp_path: Path) -> None:
    file = put(tmp_path, "log", LOGS[format])
    outcome = carbon_gym(
        "import", "conversations", file, "--keep", "went to", "--out", tmp_path / "out"
    )
    assert outcome.code == 0, outcome.err
    said = " ".join(outcome.out.split())
    assert "went to '" in said
    assert all(f"{name!r} (33.3 %)" in said for name in NAMES)
    written = tmp_path / "out" / "conversations.csv.gz"
    found = read_conversations(written, "tokens", log_column="went to")
    assert found.log is not None
    assert [found.log.names[code] for code in found.log.code] == [FIRST, THIRD, SECOND]
    assert logged_deployments(found.log, Deployments.of(TINY)).tolist() == [0, 2, 1]
    own = {"source": "file", "path": str(written), "format": "tokens", "log_column": "went to"}
    assert evaluation_fleets(load_scenario("tiny", workload=own)).traces[0].turns == 3


def test_from_logs_of_calls_and_of_a_grid_to_an_audit_a_benchmark_and_their_page(
    tmp_path: Path,
) -> None:
    calls, made = put(tmp_path, "calls.jsonl", LOGS["usage"]), tmp_path / "made"
    zones = [region.zone for region in TINY.fleet.regions]
    start = datetime.fromtimestamp(TIMES[0], UTC).replace(hour=0, minute=0, second=0)
    grid = write_grid(tmp_path / "grid.csv", start=start, hours=48, zones=zones)
    ours = ("--conversations", made / "conversations.csv.gz", "--grid", made / "grid.csv.gz")
    alike = ("--jobs", 1, "--out")
    for line in (
        ("import", "conversations", calls, "--keep", "went to", "--out", made),
        ("import", "grid", grid, "--out", made),
        ("audit", *ours, "--fleet", "tiny", "--rule", "went to", *alike, tmp_path / "audit"),
        ("benchmark", *ours, "--scenario", "tiny", *alike, tmp_path / "rows", "--policies", "ccar"),
        ("report", tmp_path / "audit", tmp_path / "rows", "--out", tmp_path / "page"),
    ):
        done = carbon_gym(*line)
        assert (done.code, done.err) == (0, ""), line
    audit = (tmp_path / "audit" / "report.md").read_text(encoding="utf-8")
    assert "On 3 turns of 2 sessions, 2024-06-01, the present rule, **your log (went to)**" in audit
    (inputs,) = json.loads((tmp_path / "rows" / "results.json").read_text())["inputs"].values()
    assert inputs["days"] == ["2024-06-01"]
    assert (tmp_path / "page" / "report.html").is_file()


def test_a_log_of_a_usage_table(tmp_path: Path) -> None:
    text = table(
        ["session_id", "prompt_tokens", "completion_tokens", "pool"],
        ["a", 20, 5, FIRST],
        ["a", 50, 5, SECOND],
    )
    found = read_any(put(tmp_path, "u.csv", text), "usage", keep="pool").log
    assert found is not None
    assert (found.names, found.code.tolist()) == ((FIRST, SECOND), [0, 1])


@pytest.mark.parametrize("format", LOGS)
def test_without_the_option_nothing_is_kept(format: str, tmp_path: Path) -> None:
    assert read_any(put(tmp_path, "log", LOGS[format]), format).log is None


FAULTS = {
    "empty cell": ("tokens", LOGS["tokens"].replace(SECOND, ""), "went to", "line 2: went to is"),
    "no column": ("burstgpt", LOGS["burstgpt"], "gone to", "did you mean to rename 'went to'"),
    "a count": ("azure", LOGS["azure"], "ContextTokens", "says what prompt is"),
    "a name of ours": ("usage", LOGS["usage"], "turn", "says what turn is"),
    "no key": ("usage", json_lines(CALLS[0]), "went to", "line 1: went to is missing"),
    "a number": ("usage", json_lines({**CALLS[0], "p": 3}), "p", "line 1: p is 3"),
    "no text": ("usage", json_lines({**CALLS[0], "p": "a\n"}), "p", "line 1: p is 'a"),
    "blank name": ("usage", json_lines(CALLS[0]), " ", "no name of a column"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_logs_that_cannot_be_kept(fault: str, tmp_path: Path) -> None:
    format, text, column, said = FAULTS[fault]
    outcome = carbon_gym(
        *("import", "conversations", put(tmp_path, "log", text), "--format", format),
        *("--keep", column, "--out", tmp_path / "out"),
    )
    assert outcome.code == 2
    assert said in outcome.err, outcome.err
    assert not (tmp_path / "out").exists()


def test_formats_without_such_a_column_say_so(tmp_path: Path) -> None:
    for format in FORMATS.keys() - LOGS.keys():
        file = put(tmp_path, "file", SAMPLES[format].text)
        outcome = carbon_gym("import", "conversations", file, "--keep", "model")
        assert outcome.code == 2
        assert f"this file is {format}; leave --keep out" in outcome.err
    assert json.loads(LOGS["usage"].splitlines()[0])["went to"] == FIRST
