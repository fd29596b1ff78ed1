"""The command line as a person or a pipe meets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commandline import Outcome, benchmark, carbon_gym, every_command, in_terminal
from inputs import MONDAY, write_grid, write_tokens

from carbon_gym import __version__
from carbon_gym.cli import benchmark as command
from carbon_gym.cli import console
from carbon_gym.cli.benchmark import QUICK_FLEETS, QUICK_SESSIONS
from carbon_gym.evaluation import FIRST_DAY
from carbon_gym.grid.generator import generate_grid
from carbon_gym.grid.statistics import load_statistics as load_grid_statistics
from carbon_gym.resources import packaged
from carbon_gym.scenario import load_scenario
from carbon_gym.speed import simulator
from carbon_gym.workload.statistics import load_statistics

COMMANDS = ((), ("calibrate",), ("import",), *every_command())


def process(*arguments: Any, cwd: Path, **environment: str) -> Outcome:
    """``python -m carbon_gym`` in another process and folder, its output piped."""
    done = subprocess.run(
        [sys.executable, "-m", "carbon_gym", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def results(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return content


# --- help -------------------------------------------------------------------------------------


def test_the_version() -> None:
    assert carbon_gym("--version") == Outcome(0, f"carbon-gym {__version__}\n", "")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "all")
def test_help_reads_well_at_80_columns(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = carbon_gym(*command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: {' '.join(('carbon-gym', *command))} ")
    lines = outcome.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert not any(line.endswith("...") for line in lines if not line.startswith("Usage"))
    assert "\x1b" not in outcome.out
    assert "<" not in outcome.out.replace("<time>", "")  # no Python types


def test_examples_keep_their_lines() -> None:
    lines = carbon_gym("benchmark", "--help").out.splitlines()
    assert "    carbon-gym benchmark" in lines
    assert "        --zones GB,DE --start 2023-05-08 --days 8" in lines


@pytest.mark.parametrize("arguments", [("--bogus",), ("benchmark", "--bogus"), ("bench",)])
def test_slips_of_usage_exit_with_2(arguments: tuple[str, ...]) -> None:
    outcome = carbon_gym(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err
    assert arguments[-1] in outcome.err


# --- benchmark --------------------------------------------------------------------------------


def test_a_piped_run_has_a_table_and_nothing_else(tmp_path: Path) -> None:
    """From another folder, by default into runs/<time>-benchmark there."""
    outcome = process(
        *("benchmark", "--scenario", "tiny", "--fleets", 1, "--sessions", 8, "--jobs", 1),
        *("--policies", "faircarbon,ccar-no-gate"),
        cwd=tmp_path,
        NO_COLOR="1",
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "\x1b" not in outcome.out
    assert "━" not in outcome.out
    assert "%|" not in outcome.out
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= console.PIPED_WIDTH
    assert any(line.startswith("ccar-no-gate ") for line in lines)
    named = re.fullmatch(r"(runs/\d{8}-\d{6}-benchmark/results\.json)  \(\d+ s\)", lines[-1])
    assert named
    assert (tmp_path / named[1]).is_file()


def test_no_colour_in_a_terminal_where_none_is_wanted(tmp_path: Path) -> None:
    arguments = "benchmark --scenario tiny --fleets 1 --sessions 5 --jobs 1 --out o"
    words = (*arguments.split(), "--policies", "lower-bound")
    code, shown = in_terminal(tmp_path, *words, NO_COLOR="1")
    assert code == 0
    assert b"lower-bound" in shown
    assert not re.search(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)(?:;\d+)*m", shown)


def test_several_options_together(tmp_path: Path) -> None:
    file = write_tokens(tmp_path / "chat[1] :x:.csv", 60, features=True)
    grid = write_grid(tmp_path / "g.csv", zones=("DE", "FR", "GB"), hours=24 * 6)
    outcome = benchmark(
        *("--scenario", "tiny", "--conversations", file, "--format", "tokens", "--grid", grid),
        *("--zones", "FR, DE", "--start", "2023-05-10", "--days", 2, "--fleets", 2),
        *("--sessions", 10, "--split", "train", "--policies", "faircarbon, ccar-no-gate"),
        *("--out", tmp_path / "o"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    name = "tiny on chat[1] :x:.csv + g.csv"
    assert name in outcome.out  # no markup, no emoji
    content = results(tmp_path / "o")
    regions = content["scenario"][name]["fleet"]["regions"]
    assert [region["zone"] for region in regions] == ["FR", "DE"]
    assert content["inputs"][name]["days"] == ["2023-05-10", "2023-05-11"]
    assert [(row["policy"], row["fleet"]) for row in content["rows"]] == [
        (policy, fleet) for policy in ("faircarbon", "ccar-no-gate") for fleet in (0, 1, "all")
    ]
    assert {row["sessions"] for row in content["rows"]} == {10, 20}
    assert any("sessions are train" in note for note in content["inputs"][name]["notes"])


def test_all_policies_are_those_that_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load_scenario("tiny")
    monkeypatch.setattr(command, "policy_names", lambda scenario: ["b", "a"])
    assert command._policy_names("all", scenario) == ["b", "a"]
    named = command._policy_names("lower-bound, faircarbon", scenario)
    assert named == ["lower-bound", "faircarbon"]


def test_quick_is_a_few_small_fleets_unless_told_otherwise(tmp_path: Path) -> None:
    first = ("--scenario", "tiny", "--policies", "lower-bound", "--quick")
    assert benchmark(*first, "--out", tmp_path / "a").code == 0
    assert benchmark(*first, "--fleets", 2, "--sessions", 6, "--out", tmp_path / "b").code == 0
    quick, told = (results(tmp_path / name)["rows"][-1] for name in "ab")
    assert quick["sessions"] == QUICK_FLEETS * QUICK_SESSIONS
    assert told["sessions"] == 12


def test_default_scenarios(tmp_path: Path) -> None:
    """All four embedded ones; the user's own files are not served under two kinds of load."""
    size = ("--sessions", 4, "--fleets", 1, "--policies", "lower-bound")
    assert benchmark(*size, "--out", tmp_path / "a").code == 0
    assert list(results(tmp_path / "a")["scenario"]) == [
        *("sharegpt", "sharegpt-evict", "sharechat", "sharechat-evict")
    ]
    file = write_tokens(tmp_path / "t.csv", 9)
    assert benchmark(*size, "--conversations", file, "--out", tmp_path / "b").code == 0
    assert list(results(tmp_path / "b")["scenario"]) == [
        "sharegpt on t.csv",
        "sharegpt-evict on t.csv",
    ]


def test_the_three_formats_by_their_endings(tmp_path: Path) -> None:
    exchange = [("user", "How do I boil an egg?"), ("assistant", "Eight minutes.")]
    roles = [{"role": role, "content": text} for role, text in exchange]
    speakers = [{"from": {"user": "human"}.get(r, "gpt"), "value": text} for r, text in exchange]
    jsonl, listed = tmp_path / "m.jsonl", tmp_path / "s.json"
    jsonl.write_text(json.dumps({"messages": roles}) + "\n", encoding="utf-8")
    listed.write_text(json.dumps([{"id": "a", "conversations": speakers}]), encoding="utf-8")
    for file in (jsonl, listed, write_tokens(tmp_path / "t.csv", 1)):
        folder = tmp_path / f"out-{file.name}"
        outcome = benchmark(
            *("--scenario", "tiny", "--conversations", file, "--days", 1, "--out", folder),
            *("--policies", "faircarbon"),
        )
        assert outcome.code == 0
        assert results(folder)["rows"][-1]["sessions"] == 1
        counted = "tokens: characters / 4" in outcome.out
        assert counted == (file.suffix != ".csv")


# --- calibrate --------------------------------------------------------------------------------


def test_the_shipped_workloads_are_made_again_byte_for_byte(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "conversations"
    outcome = carbon_gym(
        *("calibrate", "workload", "--packaged", "sharegpt", "--out", tmp_path / "a.json"),
        *("--conversations", folder / "sharegpt_turns.csv.gz"),
        *("--hours", folder / "burstgpt1_inferred_sessions_by_hour.csv"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    again = carbon_gym(
        "calibrate", "workload", "--packaged", "sharechat", "--out", tmp_path / "b.json"
    )
    assert again.code == 0
    for made, name in (("a.json", "sharegpt"), ("b.json", "sharechat")):
        assert (tmp_path / made).read_bytes() == packaged(f"workload/{name}.json").read_bytes()


def test_the_shipped_grid_is_made_again_byte_for_byte(shared_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "grid.json"
    outcome = carbon_gym(
        *("calibrate", "grid", "--years", "2021,2022", "--notice", "shipped", "--out", out),
        *("--hourly", shared_data / "grid" / "em_hourly_2021_2023_lca.csv.gz"),
        *("--subhourly", shared_data / "grid" / "caiso_5min_2021_average.csv.gz"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert out.read_bytes() == packaged("grid/electricitymaps_2021_2022.json").read_bytes()


def test_own_conversations_are_measured_and_can_be_used(tmp_path: Path) -> None:
    own, out = tmp_path / "own.csv", tmp_path / "own.json"
    write_tokens(own, 400, arrival=lambda session, turn: str(30 * session + 60 * turn))
    outcome = carbon_gym("calibrate", "workload", "--conversations", own, "--out", out)
    assert (outcome.code, outcome.err) == (0, "")
    said = re.search(r"\{gap_log_mean: ([\d.]+), gap_log_sd: ([\d.]+), dispersion: ", outcome.out)
    assert said
    assert float(said[1]) == pytest.approx(4.094, abs=1e-3)  # log 60
    assert float(said[2]) == 0.0
    assert load_statistics(out).training_sessions < 400
    scenario = tmp_path / "mine.yaml"
    scenario.write_text(f"extends: tiny\nworkload: {{statistics: {out}}}\n", encoding="utf-8")
    used = ("--scenario", scenario, "--fleets", 1, "--policies", "faircarbon", "--sessions", 5)
    assert benchmark(*used, "--out", tmp_path / "o").code == 0


def test_few_arrivals_are_said_to_be_few(tmp_path: Path) -> None:
    own = write_tokens(
        tmp_path / "own.csv", 120, turns=lambda s: [(9, 9)], arrival=lambda s, t: str(3600 * s)
    )
    outcome = carbon_gym(
        "calibrate", "workload", "--conversations", own, "--out", tmp_path / "own.json"
    )
    assert outcome.code == 0
    assert outcome.out.startswith("too few arrivals")


def test_an_own_grid_is_measured_and_can_be_used(tmp_path: Path) -> None:
    out = tmp_path / "grid.json"
    start = MONDAY.replace(month=1, day=1)
    file = write_grid(tmp_path / "g.csv", start=start, hours=365 * 24, zones=("XA", "XB", "XC"))
    outcome = carbon_gym(
        *("calibrate", "grid", "--hourly", file, "--years", "2023", "--zones", "XB,XA"),
        *("--out", out),
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"{out}: 2 zones, 2023\n"
    series = generate_grid(load_grid_statistics(str(out)), ["XA"], FIRST_DAY, MONDAY.date(), 0)
    assert 300.0 <= series.values.mean() <= 500.0


# --- speed ------------------------------------------------------------------------------------


def test_speed_measures_the_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("LANES", 3), ("TURNS_PER_LANE", 4), ("FLEET_TURNS", 300)):
        monkeypatch.setattr(simulator, name, size)
    monkeypatch.setattr(simulator, "LONG_TRACE_TURNS", 500)
    monkeypatch.setattr(simulator, "_CARTPOLE_STEPS", 200)
    out = tmp_path / "speed.json"
    outcome = carbon_gym("speed", "--only", "simulator", "--repeats", 2, "--json", out)
    assert (outcome.code, outcome.err) == (0, "")
    rows = json.loads(out.read_text(encoding="utf-8"))["simulator"]
    assert rows[0]["name"].startswith("CartPole-v1")
    assert rows[1]["name"] == "simulator, 3 lanes x 60"
    for row in rows:
        assert 0 < row["low"] <= row["value"] <= row["high"]
        assert row["name"].strip() in outcome.out
    assert {row["unit"] for row in rows} == {"steps/s", "turns/s", "s", "GiB"}
    long = simulator._long_trace(300)
    assert long["turns"] > 0
    assert 0 < long["run_s"] < long["all_s"]
