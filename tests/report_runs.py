"""Results of small runs, as `carbon-gym report` takes them, some with hostile names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from commandline import Outcome, benchmark, carbon_gym

from agents.training.progress import Progress
from carbon_gym.metrics.figures import Figures
from carbon_gym.reproduce.length_part import LengthPart
from carbon_gym.reproduce.overall_part import OverallPart
from carbon_gym.reproduce.plan import Plan
from carbon_gym.reproduce.rows_file import ReproduceFile
from carbon_gym.reproduce.run import run_units, units_of

NASTY = "<script>alert(1)</script> a|b *c* [d](javascript:e) `f` \\ $g$ _h \x00 \u4e2d"
SHOWN = NASTY.replace("\x00", "\ufffd")
"""As a page shows it."""
POLICY = '_under <img src=x onerror="alert(2)"> $\\frac{1}$ | `p`'
SMALL = ("--scenario", "tiny", "--sessions", 8)


def write_runs(folder: Path, *names: str) -> dict[str, Path]:
    """Folders of small runs by name: those of `WRITERS`, or only some."""
    runs = {name: folder / name for name in names or WRITERS}
    for name, run in runs.items():
        WRITERS[name](run)
    return runs


def _write_first(run: Path) -> None:
    _fine(benchmark(*SMALL, "--fleets", 5, "--out", run))


def _write_second(run: Path) -> None:
    named = ("--policies", "faircarbon,ccar-no-gate", "--start", "2023-02-01")
    _fine(benchmark(*SMALL, "--fleets", 5, *named, "--out", run))


def _write_evaluated(run: Path) -> None:
    beside = ("--reference", "ccar-no-gate", "--fleets", 5, "--jobs", 1)
    _fine(carbon_gym("evaluate", "faircarbon", "largest-model", *SMALL, *beside, "--out", run))


def _write_front(run: Path) -> None:
    _fine(benchmark(*SMALL, "--fleets", 2, "--front", "--policies", "ccar", "--out", run))


def _write_paper(run: Path) -> None:
    plan = Plan(datasets=("tiny",), fleets=2, sensitivity_fleets=2, sessions=8, quick=True)
    with ReproduceFile(run) as file:
        run_units(plan, units_of(plan, (OverallPart(), LengthPart()))[0], file)


def _fine(outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.err


def write_training(run: Path) -> None:
    """The progress of a training with two validations, and its configuration."""
    run.mkdir(parents=True)
    reference = Figures(10.0, 0.7, 0.69, 0.4, 0.0, 0.01, 0.0)
    progress = Progress(run / "progress.json", "ccar", reference)
    worse = Figures(12.0, 0.65, 0.66, 0.5, 0.0, 0.02, 0.0)
    better = Figures(9.0, 0.71, 0.7, 0.3, 0.0, 0.0, 0.0)
    progress.rows += [progress.row(0, worse), progress.row(500, better)]
    progress.write(500, 1000, progress.rows[1])
    (run / "config.yaml").write_text("algo: ppo\nscenario: tiny\nseed: 7\nnet: {width: 8}\n")


WRITERS: dict[str, Callable[[Path], None]] = {
    "first": _write_first,
    "second": _write_second,
    "evaluated": _write_evaluated,
    "front": _write_front,
    "paper": _write_paper,
    "trained": write_training,
}


def renamed(results: Path, folder: Path) -> Path:
    """A benchmark's folder again, its scenario called `NASTY` and one of its policies `POLICY`."""
    content: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    (scenario,) = content["scenario"]
    for key in ("scenario", "inputs", "versus"):
        content[key] = {NASTY: content[key][scenario]}
    content["scenario"][NASTY]["description"] = NASTY
    content["inputs"][NASTY] |= {"notes": [f"# {NASTY}"], "grid": NASTY}
    content["versions"]["carbon-gym"] = "<b>0</b>"
    for row in content["rows"]:
        row["scenario"] = NASTY
        if row["policy"] == "ccar-no-gate":
            row["policy"] = POLICY
    versus = content["versus"][NASTY]
    versus[POLICY] = versus.pop("ccar-no-gate")
    for against in versus.values():
        if "ccar-no-gate" in against:
            against[POLICY] = against.pop("ccar-no-gate")
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(content), encoding="utf-8")
    return folder
