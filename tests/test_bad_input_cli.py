"""Every bad input through the command line: one sentence, exit code 2, nothing written.

The readers' own tests go through more faults of each file; here is at least one of every kind,
to see that it arrives at the user as it should.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from commandline import Outcome, benchmark, carbon_gym
from inputs import write_grid, write_tokens

from carbon_gym import benchmark as module

H = "session,turn,prompt_tokens,output_tokens\n"
ARRIVAL = H.strip() + ",arrival\n"
G = "datetime_utc,US-CAL-CISO,GB\n"
ROW = "2023-05-08T00:00Z,100,200\n"
EXCHANGE = '[{"role": "user", "content": "x"%s}, {"role": "assistant", "content": "y"}]'
ZIPPED = gzip.compress((H + "a,0,1,1\n" * 999).encode(), mtime=0)

CONVERSATIONS: dict[str, tuple[str, str | bytes, tuple[str, ...]]] = {
    # fault: name of the file, its content, what the sentence says besides that name
    "empty": ("t.csv", "", ("empty",)),
    "header only": ("t.csv", H, ("no rows",)),
    "truncated gzip": ("t.csv.gz", ZIPPED[:40], ("truncated", "again")),
    "no gzip": ("t.csv.gz", H + "a,0,1,1\n", ("not gzip",)),
    "wrong column": ("t.csv", H.replace("prompt", "promt"), ("'prompt_tokens'", "'promt_tokens'")),
    "negative": ("t.csv", H + "a,0,5,5\na,1,-3,5\n", ("line 3", "prompt_tokens", "-3")),
    "huge": ("t.csv", H + "a,0,5,99999999999\n", ("line 2", "output_tokens", "10,000,000")),
    "fraction": ("t.csv", H + "a,0,5.5,5\n", ("line 2", "whole number")),
    "nan": ("t.csv", H + "a,0,nan,5\n", ("line 2", "nan")),
    "missing": ("t.csv", H + "a,0,,5\n", ("line 2", "missing")),
    "cells": ("t.csv", H + "a,0,5\n", ("line 2", "3 cells")),
    "turn twice": ("t.csv", H + "a,0,1,1\na,0,2,2\n", ("line 3", "line 2")),
    "no session": ("t.csv", H + ",0,1,1\n", ("line 2", "session is empty")),
    "encoding": ("t.csv", (H + "é,0,1,1\n").encode("latin-1"), ("UTF-8",)),
    "binary": ("t.csv", b"\0\x1b[31m\0" * 9, ("column",)),
    "local time": ("t.csv", ARRIVAL + "a,0,1,1,2023-05-08T10:00:00\n", ("line 2", "offset")),
    "back in time": ("t.csv", ARRIVAL + "a,0,1,1,60\na,1,1,1,30\n", ("line 3", "back in time")),
    "json": ("t.json", '[{"id": "a",\n', ("line 2", "JSON")),
    "no list": ("t.json", '{"id": "a"}', ("not a list",)),
    "no conversations": ("t.json", '[{"id": "a"}]', ("record 1", "'conversations'")),
    "speaker": (
        "t.json",
        '[{"id": "a", "conversations": [{"from": "hal", "value": "x"}]}]',
        ("record 1", "'hal'", "human"),
    ),
    "jsonl": ("t.jsonl", '{"messages": []}\n{"messages"\n', ("line 2", "JSON")),
    "no messages": ("t.jsonl", '{"mesages": []}\n', ("line 1", "'messages'", "'mesages'")),
    "role": ("t.jsonl", '{"messages": [{"role": "usr"}]}', ("line 1", "'usr'", "'user'")),
    "local timestamp": (
        "t.jsonl",
        '{"messages": ' + EXCHANGE % ', "timestamp": "2023-05-08T10:00"' + "}",
        ("line 1", "offset"),
    ),
    "nobody answers": ("t.jsonl", '{"messages": []}', ("no conversation",)),
    "unknown ending": ("t.txt", "x", ("--format", "tokens, sharegpt, messages")),
}

GRIDS: dict[str, tuple[str, str | bytes, tuple[str, ...]]] = {
    "empty": ("g.csv", "", ("empty",)),
    "header only": ("g.csv", G, ("no rows",)),
    "truncated gzip": (
        "g.csv.gz",
        gzip.compress((G + ROW * 99).encode(), mtime=0)[:40],
        ("too early",),
    ),
    "no time": ("g.csv", "US-CAL-CISO,GB\n1,2\n", ("row 1", "datetime_utc")),
    "no zone": ("g.csv", "datetime_utc,GB\n2023-05-08T00:00Z,1\n", ("US-CAL-CISO", "use one of")),
    "semicolons": ("g.csv", G.replace(",", ";"), ("row 1", "semicolons", "commas")),
    "negative": ("g.csv", G + ROW + "2023-05-08T01:00Z,1,-3\n", ("row 3", "GB", "-3")),
    "huge": ("g.csv", G + "2023-05-08T00:00Z,1e9,3\n", ("row 2", "1e9", "unit")),
    "nan": ("g.csv", G + "2023-05-08T00:00Z,nan,3\n", ("row 2", "US-CAL-CISO", "nan")),
    "missing": ("g.csv", G + "2023-05-08T00:00Z,1,\n", ("row 2", "GB", "empty")),
    "gap": ("g.csv", G + ROW + "2023-05-08T04:00Z,1,2\n", ("row 3", "240 minutes")),
    "duplicate": ("g.csv", G + ROW + ROW.replace("200", "300"), ("row 3", "row 2", "keep one")),
    "local time": (
        "g.csv",
        G.replace("_utc", "") + ROW.replace("Z", ""),
        ("row 2", "offset", "datetime_utc"),
    ),
    "unknown time zone": ("g.csv", G + ROW.replace("Z", " Mars/Utopia"), ("row 2", "ISO 8601")),
    "off the clock": ("g.csv", G + ROW.replace("00:00", "00:03"), ("row 2", "5-minute")),
    "binary": ("g.csv", b"\0\1\2", ("UTF-8",)),
}

YAMLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "empty": ("", ("empty",)),
    "no YAML": ("extends: tiny\nfleet: [1", ("line 2", "YAML")),
    "no mapping": ("- 1", ("list",)),
    "unknown section": ("extends: tiny\ncaches: {}", ("'caches'", "'cache'")),
    "unknown key": ("extends: tiny\ncache: {ttl: 3}", ("'cache.ttl'", "'ttl_s'")),
    "value": ("extends: tiny\nbounds: {beta_q: 2}", ("bounds.beta_q", "2")),
    "missing key": ("extends: tiny\nfleet: {models: [{name: A}]}", ("fleet.models.0",)),
    "unknown model": ("extends: tiny\nfleet: {models: [GPT]}", ("'GPT'", "catalogue")),
    "no GPU count": (
        "extends: tiny\nfleet: {max_gpus_per_replica: 1}",
        ("Llama-3.1-70B", "H100-80GB", "fleet.max_gpus_per_replica"),
    ),
    "region without grid": ("extends: tiny\nfleet: {regions: [GB, XX]}", ("'XX'", "use one of")),
    "unknown base": ("extends: tinny", ("'tinny'", "'tiny'")),
    "workload statistics": ("extends: tiny\nworkload: {statistics: nope}", ("'nope'", "sharegpt")),
    "grid statistics": (
        "extends: tiny\ngrid: {statistics: nope}",
        ("'nope'", "electricitymaps_2021_2022"),
    ),
    "grid without path": ("extends: tiny\ngrid: {source: file}", ("grid.paths",)),
    "period": (
        "extends: tiny\nsplits: {test: {start: 2023-01-01, stop: 2022-01-01}}",
        ("splits.test", "after"),
    ),
    "energy": ("extends: tiny\nenergy: papper", ("'papper'", "'paper'")),
}

OPTIONS: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "scenario": (("--scenario", "tinny"), ("'tinny'", "'tiny'")),
    "scenario file": (("--scenario", "none.yaml"), ("none.yaml", "path")),
    "policy": (("--policies", "faircarbom"), ("'faircarbom'", "'faircarbon'")),
    "no policy": (("--policies", ","), ("--policies",)),
    "split": (("--split", "tests"), ("--split", "'test'")),
    "no date": (("--start", "May"), ("--start", "'May'", "2023-05-08")),
    "no such day": (("--start", "2023-02-30"), ("--start", "2023-02-30")),
    "beyond dates": (("--start", "9999-12-31", "--days", 2), ("2100",)),
    "no days": (("--days", 0), ("--days 0", "1 or more")),
    "no fleets": (("--fleets", 0), ("--fleets 0", "1 or more")),
    "no sessions": (("--sessions", 0), ("--sessions 0", "1 or more")),
    "no jobs": (("--jobs", 0), ("--jobs 0", "1 or more")),
    "days or fleets": (("--days", 2, "--fleets", 3), ("--days 2", "--fleets 3")),
    "no zones": (("--zones", ""), ("--zones",)),
    "zones twice": (("--zones", "GB,GB"), ("--zones", "'GB'", "twice")),
    "unknown zone": (("--zones", "US-CAL-CISCO"), ("'US-CAL-CISCO'", "US-CAL-CISO")),
    "format of nothing": (("--format", "tokens"), ("--conversations",)),
}


def refused(outcome: Outcome, *said: str) -> None:
    """Exit code 2 and one sentence that says so; nothing else is printed."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("carbon-gym: ")
    assert outcome.err.endswith("\n")
    assert outcome.err.count("\n") == 1
    assert outcome.err[:-1].isprintable()
    for text in said:
        assert text in outcome.err


def run(folder: Path, *arguments: Any) -> Outcome:
    """`benchmark` on the smallest scenario, into a folder that a refusal must not leave."""
    named = () if "--scenario" in arguments else ("--scenario", "tiny")
    size = () if {"--days", "--fleets"} & set(arguments) else ("--days", 1)
    out = folder / "runs" / "here"
    outcome = benchmark(*named, *size, *arguments, "--out", out)
    if outcome.code:
        assert not (folder / "runs").exists()
    return outcome


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("fault", CONVERSATIONS)
def test_conversations(tmp_path: Path, fault: str) -> None:
    name, content, said = CONVERSATIONS[fault]
    refused(run(tmp_path, "--conversations", put(tmp_path / name, content)), name, *said)


@pytest.mark.parametrize("fault", GRIDS)
def test_grids(tmp_path: Path, fault: str) -> None:
    name, content, said = GRIDS[fault]
    refused(run(tmp_path, "--grid", put(tmp_path / name, content)), name, *said)


@pytest.mark.parametrize("fault", YAMLS)
def test_scenario_files(tmp_path: Path, fault: str) -> None:
    content, said = YAMLS[fault]
    refused(run(tmp_path, "--scenario", put(tmp_path / "s.yaml", content)), *said)


@pytest.mark.parametrize("fault", OPTIONS)
def test_options(tmp_path: Path, fault: str) -> None:
    arguments, said = OPTIONS[fault]
    refused(run(tmp_path, *arguments), *said)


@pytest.mark.parametrize("option", ["--conversations", "--grid"])
def test_a_file_that_is_not_there_and_one_that_is_a_folder(tmp_path: Path, option: str) -> None:
    refused(run(tmp_path, option, tmp_path / "none.csv"), "none.csv", "no such file", "path")
    (tmp_path / "folder.csv").mkdir()
    refused(run(tmp_path, option, tmp_path / "folder.csv"), "folder.csv", "is a folder")


def test_a_format_that_does_not_exist(tmp_path: Path) -> None:
    file = write_tokens(tmp_path / "t.csv", 3)
    refused(run(tmp_path, "--conversations", file, "--format", "token"), "'token'", "'tokens'")


def test_tokenizers_that_cannot_be_used(tmp_path: Path) -> None:
    chat = put(tmp_path / "m.jsonl", '{"messages": ' + EXCHANGE % "" + "}")
    counts = write_tokens(tmp_path / "t.csv", 3)
    first = ("--conversations", chat, "--tokenizer")
    refused(run(tmp_path, *first, tmp_path / "none.json"), "none.json", "no such tokenizer")
    refused(run(tmp_path, *first, tmp_path), "tokenizer")
    refused(run(tmp_path, "--conversations", counts, "--tokenizer", chat), "t.csv", "counts")
    refused(run(tmp_path, "--tokenizer", chat), "--conversations")
    pytest.importorskip("tokenizers", reason="the package tokenizers is optional")
    for content in ("{}", '{\n"version": 3', "", "\0"):
        broken = put(tmp_path / "tokenizer.json", content)
        refused(run(tmp_path, *first, broken), "tokenizer.json", "Hugging Face")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--start", "2023-05-07"),
        ("--start", "2024-01-01"),
        ("--days", 9),
        ("--split", "train"),
    ],
)
def test_a_period_outside_the_series(tmp_path: Path, arguments: tuple[Any, ...]) -> None:
    grid = write_grid(tmp_path / "g.csv", hours=72)
    outcome = run(tmp_path, "--grid", grid, *arguments)
    refused(outcome, "g.csv", "2023-05-08T00:00Z to 2023-05-11T00:00Z", "choose whole days")


@pytest.mark.parametrize("place", ["file", "file/below", "file/far/below"])
def test_an_out_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    """Root may write anywhere, but nobody can make a folder below a file."""
    put(tmp_path / "file", "kept")
    outcome = benchmark("--scenario", "tiny", "--days", 1, "--out", tmp_path / place)
    refused(outcome, "--out", str(tmp_path / place), "folder")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


def test_two_scenarios_of_one_name(tmp_path: Path) -> None:
    own = put(tmp_path / "tiny.yaml", "extends: tiny\ncache: {ttl_s: 1}\n")
    refused(run(tmp_path, "--scenario", "tiny", "--scenario", own), "'tiny'", "another name")


def test_a_later_scenario_is_looked_at_before_the_first_runs(tmp_path: Path) -> None:
    for fault in ("no GPU count", "region without grid", "workload statistics"):
        later = put(tmp_path / "later.yaml", YAMLS[fault][0])
        refused(run(tmp_path, "--scenario", "tiny", "--scenario", later), *YAMLS[fault][1])


def test_a_path_with_a_line_break_stays_one_line(tmp_path: Path) -> None:
    refused(run(tmp_path, "--conversations", tmp_path / "a\nb.csv"), "no such file")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("workload",), ("--conversations",)),
        (("workload", "--conversations", "FEW"), ("t.csv", "at least 50")),
        (("workload", "--conversations", "FEW", "--format", "token"), ("'tokens'",)),
        (("workload", "--packaged", "sharegp"), ("'sharegp'", "'sharegpt'")),
        (("workload", "--packaged", "sharegpt"), ("--hours",)),
        (("workload", "--packaged", "sharechat", "--hours", "FEW"), ("reads no file",)),
        (("workload", "--conversations", "MANY", "--hours", "FEW"), ("t.csv", "line 1", "hour")),
        (("grid", "--hourly", "GRID", "--years", "MMXXIII"), ("--years", "2021,2022")),
        (("grid", "--hourly", "GRID", "--years", "2023"), ("g.csv", "2023", "name years")),
        (("grid", "--hourly", "GRID", "--years", "2023", "--zones", ","), ("--zones",)),
        (("grid", "--hourly", "GRID", "--years", "2023", "--zones", "XX"), ("'XX'", "GB")),
        (("grid", "--hourly", "GRID", "--years", "2023", "--notice", "owm"), ("'owm'", "'own'")),
        (("grid", "--hourly", "FEW", "--years", "2023"), ("t.csv", "row 1", "time")),
    ],
)
def test_calibration(tmp_path: Path, arguments: tuple[str, ...], said: tuple[str, ...]) -> None:
    files = {
        "FEW": write_tokens(tmp_path / "t.csv", 10),
        "MANY": write_tokens(tmp_path / "many.csv", 150),
        "GRID": write_grid(tmp_path / "g.csv"),
    }
    named = [files.get(argument, argument) for argument in arguments]
    refused(carbon_gym("calibrate", *named, "--out", tmp_path / "out.json"), *said)
    assert not (tmp_path / "out.json").exists()


def test_places_of_json_files_are_looked_at_before_the_work(tmp_path: Path) -> None:
    below = write_tokens(tmp_path / "t.csv", 3) / "out.json"
    for place, said in ((below, "cannot be written"), (tmp_path, "is a folder")):
        refused(carbon_gym("speed", "--json", place), "--json", str(place), said)
        refused(carbon_gym("calibrate", "workload", "--out", place), "--out", str(place), said)
    refused(carbon_gym("speed", "--repeats", 0), "--repeats 0")
    refused(carbon_gym("speed", "--only", "environment"), "--only", "nearest: 'environments'")


def test_a_fault_of_ours_keeps_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(module, "run_policy", broken)
    with pytest.raises(ZeroDivisionError, match="ours"):
        run(tmp_path)
    assert list(tmp_path.iterdir()) == []
