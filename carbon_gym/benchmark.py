"""The comparison: every policy on the same fleets, written to `results.json` as it goes."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from carbon_gym import __version__
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import Evaluation
from carbon_gym.files import make_writable_folder, replacing
from carbon_gym.metrics.rows import FleetAccount, row
from carbon_gym.simulator.run import PolicyRun, run_policy

SCHEMA = 1
"""Version of the layout of `results.json`."""
REFERENCES = ("session-affinity", "faircarbon")
"""Always run: the rows are relative to them."""
RESULTS = "results.json"
_VERSIONED = ("gymnasium", "numpy", "numba", "pandas", "pydantic")

OnTurns = Callable[[int], None]


def compare(
    evaluation: Evaluation,
    policies: Sequence[str],
    *,
    jobs: int = 1,
    on_turns: OnTurns | None = None,
) -> list[dict[str, Any]]:
    """Run policies on the fleets of an evaluation.

    Args:
        evaluation: The fleets.
        policies: Names; the references are run as well where they are not among them.
        jobs: Processes; 1 runs in this one.
        on_turns: Called with the number of turns served since its last call.

    Returns:
        The rows of `results.json`: per policy one for each fleet and one for all.
    """
    names = list(dict.fromkeys([*policies, *REFERENCES]))
    runs: dict[str, PolicyRun] = {}
    if jobs <= 1:
        for name in names:
            runs[name] = _run(evaluation, name, on_turns)
    else:
        # spawn: a forked numba may hang, and Windows and macOS have nothing else.
        with ProcessPoolExecutor(min(jobs, len(names)), mp_context=get_context("spawn")) as pool:
            pending = {pool.submit(_run, evaluation, name, None): name for name in names}
            for done in as_completed(pending):
                runs[pending[done]] = done.result()
                if on_turns is not None:
                    on_turns(sum(trace.turns for trace in evaluation.traces))
    accounts = {name: _accounts(evaluation, run) for name, run in runs.items()}
    affinity, faircarbon = (accounts[name] for name in REFERENCES)
    rows = []
    for name in policies:
        mine = accounts[name]
        scenario = evaluation.scenario.name
        for f in range(len(mine)):
            rows.append(
                row(scenario, name, f, mine[f : f + 1], affinity[f : f + 1], faircarbon[f : f + 1])
            )
        rows.append(row(scenario, name, "all", mine, affinity, faircarbon))
    return rows


def turns_to_serve(evaluation: Evaluation, policies: Sequence[str]) -> int:
    """Turns that `compare` will serve, for a progress bar."""
    return len({*policies, *REFERENCES}) * sum(trace.turns for trace in evaluation.traces)


def _run(evaluation: Evaluation, name: str, on_turns: OnTurns | None) -> PolicyRun:
    return run_policy(
        evaluation.scenario,
        make_policy(name, evaluation.scenario),
        evaluation.traces,
        evaluation.grid,
        on_turns=on_turns,
    )


def _accounts(evaluation: Evaluation, run: PolicyRun) -> list[FleetAccount]:
    return [
        FleetAccount(
            run.ledger[run.bounds[f] : run.bounds[f + 1]],
            trace.session,
            trace.session_turns,
            run.decision_us,
        )
        for f, trace in enumerate(evaluation.traces)
    ]


class ResultsFile:
    """`results.json` in a folder, whole at every moment.

    Args:
        folder: Made if missing.

    Raises:
        InputError: The folder cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        make_writable_folder(folder, "--out")
        self._content: dict[str, Any] = {
            "schema": SCHEMA,
            "scenario": {},
            "versions": versions(),
            "inputs": {},
            "rows": [],
        }

    def add(self, evaluation: Evaluation, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add what one evaluation gave and write the file."""
        name = evaluation.scenario.name
        self._content["scenario"][name] = evaluation.scenario.to_dict()
        self._content["inputs"][name] = {
            "digest": evaluation.scenario.digest(),
            "grid": evaluation.grid.source,
            "days": [day.isoformat() for day in evaluation.days],
            "notes": list(evaluation.notes),
        }
        self._content["rows"] += list(rows)
        with replacing(self.path) as partial:
            partial.write_text(json.dumps(self._content, indent=1, allow_nan=False) + "\n")


def versions() -> dict[str, str]:
    """What the results were made with."""
    return {
        "carbon-gym": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in _VERSIONED},
    }
