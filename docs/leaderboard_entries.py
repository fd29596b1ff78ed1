"""Entries of the leaderboard: read, checked by themselves and against one another, and made."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from leaderboard_models import ENTRY, FIGURES, Entry, Measured, Row, Submission, shown
from pydantic import BaseModel, ValidationError

from carbon_gym.errors import InputError
from carbon_gym.evaluation import DEFAULT_FLEETS
from carbon_gym.report.results import RESULTS, SCHEMA, Results
from carbon_gym.report.work_file import write_text
from carbon_gym.scenario.load import read_yaml_mapping, validation_sentence

DOCS = Path(__file__).resolve().parent
SCENARIOS = ("sharegpt", "sharegpt-evict", "sharechat", "congested", "sharegpt-budget")
"""Standard ones, in the order of the page."""
FAIRCARBON, CCAR = "faircarbon", "ccar"
REFERENCES = (FAIRCARBON, CCAR)
"""Every entry has them run on its own fleets, so that each saving is paired."""
LARGEST_BYTES = 400_000
DIGITS = 10
SAME = 1e-6
"""Relative: further apart than rounding, and the fleets or the version were others."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")

Model = TypeVar("Model", bound=BaseModel)


def read_board(folder: Path, scenarios: Sequence[str] = SCENARIOS) -> list[Submission]:
    """Read and check every entry.

    Args:
        folder: Of the board, a folder an entry.
        scenarios: That the board compares on.

    Raises:
        InputError: The first fault, with its file and key.
    """
    places = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    board = [read_submission(place, scenarios) for place in places]
    if not board:
        raise InputError(f"{shown(folder)}: holds no entry; add one with --add NAME RUN")
    taken: dict[str, Path] = {}
    for submission in board:
        where = submission.folder / ENTRY
        for method in submission.entry.methods:
            if method.name in taken:
                raise InputError(
                    f"{shown(where)}: methods: the name {method.name!r} is taken by "
                    f"{shown(taken[method.name])}; choose another"
                )
            taken[method.name] = where
    for scenario in scenarios:
        _check_same_fleets(board, scenario)
    return board


def read_submission(folder: Path, scenarios: Sequence[str] = SCENARIOS) -> Submission:
    """Read an entry and check it by itself.

    Raises:
        InputError: A fault, with its file and key.
    """
    entry = read_entry(folder)
    path = folder / RESULTS
    if path.is_file() and path.stat().st_size > LARGEST_BYTES:
        raise InputError(
            f"{shown(path)}: has {path.stat().st_size:,} bytes, {LARGEST_BYTES:,} are allowed; "
            f"write it by `python docs/leaderboard.py --add {folder.name} RUN`, which keeps what "
            "the board reads"
        )
    measured = _validated(Measured, Results.content_of(path), path)
    if measured.versions["carbon-gym"] != entry.version:
        raise InputError(
            f"{shown(folder / ENTRY)}: version = {entry.version!r} is not that of {RESULTS}, "
            f"{measured.versions['carbon-gym']!r}; give the version that made the results"
        )
    rows = {
        name: of
        for name, of in _by_policy(measured.rows).items()
        if name[0] in scenarios and name[1] in {*_policies(entry), *REFERENCES}
    }
    for (scenario, policy), of in rows.items():
        _check_fleets(path, scenario, policy, of)
    _check_policies(folder, entry, rows)
    _check_days(path, measured, scenarios)
    days = {name: of.days for name, of in measured.inputs.items()}
    return Submission(folder, entry, days, rows)


def read_entry(folder: Path) -> Entry:
    """Read `entry.yaml`.

    Raises:
        InputError: It is missing, or a key is not allowed.
    """
    if not _NAME.fullmatch(folder.name):
        raise InputError(
            f"{shown(folder)}: {folder.name!r} is no name of an entry; use lower-case letters, "
            "digits and hyphens"
        )
    path = folder / ENTRY
    content = read_yaml_mapping(path, shown(path), example="authors: [Your Name]")
    entry = _validated(Entry, content, path)
    for number, method in enumerate(entry.methods):
        file = (DOCS / method.code).resolve()
        here = file.is_file() and file.is_relative_to(DOCS.parent)
        if "://" not in method.code and not here:
            raise InputError(
                f"{shown(path)}: methods.{number}.code = {method.code!r} is neither an address nor "
                "a file of the repository, as a path seen from docs/; give one that can be read"
            )
    policies = _policies(entry)
    for policy in policies:
        if policies.count(policy) > 1:
            raise InputError(
                f"{shown(path)}: methods: policies has {policy!r} {policies.count(policy)} times; "
                "name it once, for each name counts as a training seed of its method"
            )
    return entry


def collect(folder: Path, runs: Sequence[Path], scenarios: Sequence[str] = SCENARIOS) -> Path:
    """Write an entry's `results.json` from folders of the benchmark: only what the board reads.

    Args:
        folder: Of the entry; its `entry.yaml` names the policies.
        runs: Folders with a `results.json`, or such files; a later one goes before.
        scenarios: That the board compares on.

    Returns:
        The file.

    Raises:
        InputError: A fault in the entry or in a run.
    """
    wanted = {*_policies(read_entry(folder)), *REFERENCES}
    path = folder / RESULTS
    versions: dict[str, str] = {}
    inputs: dict[str, Any] = {}
    kept: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        source = run / RESULTS if run.is_dir() else run
        content = Results.content_of(source)
        _check_days(source, _validated(Measured, content, source), scenarios)
        if versions and content["versions"] != versions:
            raise InputError(
                f"{shown(source)}: was made by other versions than the run before it; make all "
                "runs with one"
            )
        versions = content["versions"]
        fresh: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in content["rows"]:
            if row["scenario"] in scenarios and row["policy"] in wanted:
                fresh.setdefault((row["scenario"], row["policy"]), []).append(_short(row))
        kept |= fresh
        for scenario, policy in fresh:
            given = content["inputs"][scenario]
            of = inputs.setdefault(scenario, {"policies": {}})
            of |= {name: given.get(name) for name in ("digest", "days")}
            of["policies"][policy] = given["policies"].get(policy)
    lacking = sorted(wanted - {policy for _, policy in kept})
    if lacking:
        raise InputError(
            f"{', '.join(shown(run) for run in runs)}: no rows of {', '.join(lacking)} on "
            f"{', '.join(scenarios)}; run the benchmark with --policies {','.join(REFERENCES)} and "
            f"your own, and name these in {shown(folder / ENTRY)} as it did"
        )
    order = sorted(kept, key=lambda name: scenarios.index(name[0]))
    rows = [json.dumps(row) for name in order for row in kept[name]]
    head = {"schema": SCHEMA, "versions": versions, "scenario": {}, "inputs": inputs, "versus": {}}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    lines.append('"rows": [\n' + ",\n".join(rows) + "\n]")
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")
    return path


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ["scenario", "policy", "fleet", "co2_g", "quality_realised"]
    names += FIGURES if row["fleet"] == "all" else ()
    values = {name: row[name] for name in names}
    return {
        name: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        for name, value in values.items()
    }


def _validated(model: type[Model], content: Any, path: Path) -> Model:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise InputError(validation_sentence(error, shown(path), model)) from None


def _policies(entry: Entry) -> list[str]:
    return list(chain.from_iterable(method.policies for method in entry.methods))


def _by_policy(rows: Iterable[Row]) -> dict[tuple[str, str], tuple[Row, ...]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.scenario, row.policy), []).append(row)
    last = DEFAULT_FLEETS + 1
    return {
        name: tuple(sorted(of, key=lambda row: last if row.fleet == "all" else row.fleet))
        for name, of in found.items()
    }


def _check_days(path: Path, measured: Measured, scenarios: Sequence[str]) -> None:
    """Every scenario says on which days it ran."""
    for scenario in sorted({row.scenario for row in measured.rows} & set(scenarios)):
        if scenario not in measured.inputs:
            raise InputError(f"{shown(path)}: inputs.{scenario} is missing; run the benchmark anew")


def _check_fleets(path: Path, scenario: str, policy: str, rows: Sequence[Row]) -> None:
    """Every policy has served the fleets of the board, each once."""
    found = [row.fleet for row in rows]
    if found != [*range(DEFAULT_FLEETS), "all"]:
        raise InputError(
            f"{shown(path)}: {policy} on {scenario} has {len(found) - found.count('all')} fleets "
            f"and {found.count('all')} row of all, the board has {DEFAULT_FLEETS} and 1; run "
            "`carbon-gym benchmark` without --fleets, --sessions and --split"
        )
    total = sum(row.co2_g for row in rows[:-1])
    if not math.isclose(total, rows[-1].co2_g, rel_tol=SAME):
        raise InputError(
            f"{shown(path)}: {policy} on {scenario} emits {rows[-1].co2_g:.6g} g in all, its "
            f"fleets {total:.6g} g; take the file as the benchmark wrote it"
        )


def _check_policies(
    folder: Path, entry: Entry, rows: Mapping[tuple[str, str], Sequence[Row]]
) -> None:
    """Every policy of the entry has rows, and the references beside it."""
    served = {policy for _, policy in rows}
    for number, method in enumerate(entry.methods):
        lacking = [policy for policy in method.policies if policy not in served]
        if lacking:
            raise InputError(
                f"{shown(folder / ENTRY)}: methods.{number}.policies: {lacking[0]!r} has no rows "
                f"in {RESULTS} on a scenario of the board, which has {', '.join(sorted(served))}"
                "; name policies as the benchmark did"
            )
    for scenario in {scenario for scenario, _ in rows}:
        for reference in REFERENCES:
            if (scenario, reference) not in rows:
                raise InputError(
                    f"{shown(folder / RESULTS)}: {reference} is missing on {scenario}; run the "
                    f"benchmark with --policies {','.join(REFERENCES)} and your own"
                )


def _check_same_fleets(board: Sequence[Submission], scenario: str) -> None:
    """The references emit the same in every entry: same days, sessions, rules and physics."""
    here = [submission for submission in board if scenario in submission.days]
    here = [submission for submission in here if (scenario, CCAR) in submission.rows]
    for submission in here[1:]:
        first = here[0]
        if submission.days[scenario] != first.days[scenario]:
            raise InputError(
                f"{submission.results()}: inputs.{scenario}.days are not those of "
                f"{first.results()}; run the benchmark without --start, --days and --split"
            )
        for reference in REFERENCES:
            pairs = zip(
                submission.rows[scenario, reference], first.rows[scenario, reference], strict=True
            )
            for mine, theirs in pairs:
                if not math.isclose(mine.co2_g, theirs.co2_g, rel_tol=SAME):
                    raise InputError(
                        f"{submission.results()}: {reference} on {scenario}, fleet {mine.fleet}, "
                        f"emits {mine.co2_g:.6g} g, in {first.results()} {theirs.co2_g:.6g} g: "
                        "sessions, rules or version differ; run the benchmark anew with the "
                        "version of this checkout and the packaged scenario"
                    )
