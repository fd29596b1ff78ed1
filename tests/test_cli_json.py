"""`--json`: every command prints one document on stdout, and nothing else there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import carbon_gym, every_command
from inputs import MONDAY, write_grid, write_tokens

from carbon_gym.cli import console
from carbon_gym.cli.console import as_json

KEYS = ["command", "arguments", "version", "out", "files", "seconds", "results"]
TINY = ("--scenario", "tiny")
FLEET = ("--fleets", 1, "--sessions", 12)


def trained(folder: Path) -> Path:
    """A training run, made once in a folder."""
    run = folder / "run"
    if not run.exists():
        assert carbon_gym("train", *_training(folder), "--out", run).code == 0
    return run


def _training(folder: Path) -> tuple[Any, ...]:
    pytest.importorskip("sb3_contrib", reason="the train extra is not installed")
    content = {
        **{"algo": "a2c", "scenario": "tiny", "lanes": 2, "total_steps": 60, "policy": "scorer"},
        "scorer": {"width": 4, "turn_width": 4, "value_width": 4, "prior_weight": 3.0},
        "environment": {"fleets": 1, "co2_scale_g": 0.05},
        "validation": {"every": 60, "sessions": 6},
        "checkpoints": {"every": 60},
    }
    file = folder / "mine.yaml"
    file.write_text(json.dumps(content), encoding="utf-8")
    return ("--config", file)


def _fit_gate(folder: Path) -> tuple[Any, ...]:
    pytest.importorskip("sklearn", reason="the train extra is not installed")
    return (*TINY, "--fleets", 1, "--jobs", 1)


def _tokens(folder: Path) -> Path:
    return write_tokens(folder / "turns.csv", 150)


def _annual(folder: Path) -> tuple[Any, ...]:
    means, regions = folder / "means.csv", folder / "regions.csv"
    rows = ("zone,zone_name,year,ci_g_per_kwh", "DE,Germany,2024,400", "FR,France,2024,50")
    means.write_text("\n".join(rows) + "\n", encoding="utf-8")
    regions.write_text("em_zone\nDE\n", encoding="utf-8")
    return ("--means", means, "--cloud-regions", regions, "--out", folder / "annual.json")


def _year(folder: Path) -> Path:
    start = MONDAY.replace(month=1, day=1)
    return write_grid(folder / "g.csv", start=start, hours=365 * 24, zones=("XA", "XB"))


def _report(folder: Path) -> tuple[Any, ...]:
    run = folder / "compared"
    line = ("benchmark", *TINY, *FLEET, "--policies", "faircarbon", "--jobs", 1, "--out", run)
    assert carbon_gym(*line).code == 0
    return (run,)


RUNS: dict[str, Callable[[Path], tuple[Any, ...]]] = {
    "benchmark": lambda _: (*TINY, *FLEET, "--policies", "faircarbon", "--jobs", 1),
    "evaluate": lambda _: ("lookahead", *TINY, *FLEET, "--jobs", 1),
    "audit": lambda _: ("--fleet", "tiny", "--days", 1, "--sessions", 12, "--jobs", 1),
    "reproduce": lambda _: ("--quick", "--only", "profiles"),
    "report": _report,
    "fit-gate": _fit_gate,
    "tune-baselines": lambda _: (*TINY, "--fleets", 1, "--candidates", 1, "--jobs", 1),
    "tune-lookahead": lambda _: ("--generations", 1, "--jobs", 1),
    "train": _training,
    "record": lambda _: ("ccar", *TINY, *FLEET),
    "export": lambda folder: (trained(folder), "--out", folder / "router.npz"),
    "clairvoyant": lambda _: (*TINY, "--fleets", 1),
    "speed": lambda _: ("--only", "threads"),
    "fleet": lambda _: ("tiny",),
    "calibrate workload": lambda folder: (
        *("--conversations", _tokens(folder), "--out", folder / "workload.json"),
    ),
    "calibrate grid": lambda folder: (
        *("--hourly", _year(folder), "--years", "2023", "--out", folder / "grid.json"),
    ),
    "calibrate annual": _annual,
    "import conversations": lambda folder: (_tokens(folder),),
    "import grid": lambda folder: (write_grid(folder / "g.csv"),),
}
"""By command: the smallest run that there is of it."""


@pytest.mark.parametrize("words", every_command(), ids=lambda words: " ".join(words))
def test_stdout_is_one_document(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _shrink(monkeypatch)
    arguments = RUNS[" ".join(words)](tmp_path)
    if not {"--out", "threads"} & set(map(str, arguments)):
        arguments = (*arguments, "--out", tmp_path / "out")
    done = carbon_gym(*words, *arguments, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert list(document) == KEYS
    assert document["command"] == " ".join(words)
    assert document["arguments"] == [*words, *map(str, arguments), "--json"]
    assert document["results"]
    assert document["seconds"] >= 0
    assert "\x1b" not in done.err
    if words != ("speed",):
        assert Path(document["out"]).is_dir()
        assert document["files"]
        for name in document["files"]:
            assert Path(name).is_file(), name
            assert Path(name).is_relative_to(document["out"])


def _shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of commands that have no options for them."""
    import baselines.settings
    import carbon_gym.cli.speed
    import carbon_gym.cli.tune_lookahead as lookahead

    monkeypatch.setitem(baselines.settings.LEARNED_ON, "filter", ("tiny",))
    for name, size in (("GROUPS", 1), ("FLEETS", 1), ("HELD_OUT", 1), ("POPULATION", 4)):
        monkeypatch.setattr(lookahead, name, size)
    monkeypatch.setattr(carbon_gym.cli.speed, "measure_threads", lambda *_: None)


def test_the_rows_are_those_of_the_file(tmp_path: Path) -> None:
    line = ("--json", "benchmark", *TINY, *FLEET, "--policies", "faircarbon,lower-bound")
    document = json.loads(carbon_gym(*line, "--jobs", 1, "--out", tmp_path).out)
    rows = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"]
    assert document["results"]["tiny"]["rows"] == [row for row in rows if row["fleet"] == "all"]
    assert document["results"]["tiny"]["notes"]


def test_after_an_error_stdout_is_empty(tmp_path: Path) -> None:
    for line in (("fleet", "tinny"), ("fleet",), ("benchmark", "--fleets", 0)):
        done = carbon_gym(*line, "--json")
        assert (done.code, done.out) == (2, "")
        assert done.err


def test_what_else_is_printed_goes_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    import carbon_gym.cli.fleet as command

    rows = command.deployment_rows

    def chatty(scenario: Any) -> Any:
        print("of a library")
        return rows(scenario)

    monkeypatch.setattr(command, "deployment_rows", chatty)
    done = carbon_gym("fleet", "tiny", "--json")
    assert done.err == "of a library\n"
    assert json.loads(done.out)["command"] == "fleet"
    assert carbon_gym("fleet", "tiny").out.startswith("of a library\n"), "only with --json"


def test_the_next_command_of_the_process_prints_tables_again() -> None:
    assert carbon_gym("--json", "fleet", "tiny").out.startswith("{")
    assert carbon_gym("fleet", "tiny").out.startswith("tiny: ")
    assert not console.session().json


def test_values_become_what_json_has() -> None:
    found = {
        1: (np.float64("nan"), np.int64(2), float("inf")),
        "array": np.arange(3),
        "place": Path("a/b"),
        "day": MONDAY.date(),
        "flag": True,
        "none": None,
    }
    assert as_json(found) == {
        "1": [None, 2, None],
        "array": [0, 1, 2],
        "place": "a/b",
        "day": "2023-05-08",
        "flag": True,
        "none": None,
    }
