"""The comparison: every policy on the same fleets, a policy at a time, resumable."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from carbon_gym import __version__
from carbon_gym.doors import make_policy, our_package
from carbon_gym.evaluation import Evaluation
from carbon_gym.metrics.guard import Served
from carbon_gym.metrics.rows import FleetAccount, ReferenceAccount, row
from carbon_gym.own_class import source_of
from carbon_gym.parallel import in_processes
from carbon_gym.scenario import Scenario
from carbon_gym.simulator.run import PolicyRun, run_policy

REFERENCES = ("session-affinity", "faircarbon")
"""Always run: the rows are relative to them."""
GUARD = "ccar"
"""Run too where quality is a budget: the guard's figures say what its users lose or gain."""

OnTurns = Callable[[int], None]
Rows = list[dict[str, Any]]


class References(NamedTuple):
    """What the rows are relative to, fleet by fleet; no ledgers, so that processes stay small."""

    affinity: Sequence[ReferenceAccount]
    faircarbon: Sequence[ReferenceAccount]
    ccar: Sequence[Served] | None

    def of(self, fleet: int) -> References:
        """Of one fleet alone."""
        only = slice(fleet, fleet + 1)
        ccar = None if self.ccar is None else self.ccar[only]
        return References(self.affinity[only], self.faircarbon[only], ccar)


def references_in(scenario: Scenario) -> tuple[str, ...]:
    """Names of the policies that a scenario's rows are relative to."""
    budget = scenario.bounds.quality_constraint == "budget"
    return (*REFERENCES, GUARD) if budget else REFERENCES


def compare(
    evaluation: Evaluation,
    policies: Sequence[str],
    *,
    jobs: int = 1,
    on_turns: OnTurns | None = None,
    done: Mapping[str, Rows] | None = None,
    on_rows: Callable[[str, Rows], None] | None = None,
) -> Rows:
    """Run policies on the fleets of an evaluation.

    Args:
        evaluation: The fleets.
        policies: Names; the references are run as well where they are not among them.
        jobs: Processes; 1 runs in this one.
        on_turns: Called with the number of turns served since its last call.
        done: Rows that an earlier, interrupted comparison of the same fleets made, by policy;
            these policies are not run again.
        on_rows: Called with each policy's rows as soon as they are there.

    Returns:
        The rows of `results.json`: per policy one for each fleet and one for all.
    """
    wanted = list(dict.fromkeys(policies))
    rows: dict[str, Rows] = {name: list(done[name]) for name in wanted if done and name in done}
    missing = [name for name in wanted if name not in rows]

    def keep(name: str, made: Rows) -> None:
        rows[name] = made
        if on_rows is not None:
            on_rows(name, made)

    if missing:
        names = references_in(evaluation.scenario)
        others = [name for name in missing if name not in names]
        runs = {name: _account(evaluation, name, on_turns) for name in names}
        affinity, faircarbon = ([a.reference() for a in runs[name]] for name in REFERENCES)
        ccar = [a.served() for a in runs[GUARD]] if GUARD in names else None
        references = References(affinity, faircarbon, ccar)
        for name in names:
            accounts = runs.pop(name)
            if name in missing:
                keep(name, _rows(evaluation, name, accounts, references))
        for name, made in _each(evaluation, others, references, jobs, on_turns):
            keep(name, made)
    return [row for name in wanted for row in rows[name]]


def turns_to_serve(
    evaluation: Evaluation, policies: Sequence[str], done: Iterable[str] = ()
) -> int:
    """Turns that `compare` will serve, for a progress bar."""
    missing = set(policies) - set(done)
    runs = len(missing | set(references_in(evaluation.scenario))) if missing else 0
    return runs * sum(trace.turns for trace in evaluation.traces)


def evaluation_key(evaluation: Evaluation) -> str:
    """Hash of all that the rows depend on but the policy: rules, turns, grid, version."""
    digest = hashlib.sha256(f"{__version__} {evaluation.scenario.digest()}".encode())
    package = Path(__file__).parent
    for folder in ("fleet", "metrics", "quality", "simulator"):
        for path in sorted((package / folder).glob("*.py")):
            digest.update(path.read_bytes())
    if evaluation.scenario.quality.predictor is not None:
        for path in source_of(evaluation.scenario.quality.predictor):
            digest.update(path.read_bytes())
    digest.update(evaluation.grid.values.tobytes())
    for trace in evaluation.traces:
        for column in (
            trace.session,
            trace.arrival_s,
            trace.prompt_tokens,
            trace.history_tokens,
            trace.output_tokens,
            trace.predicted_output_tokens,
            trace.category,
            trace.difficulty,
            trace.session_key,
        ):
            digest.update(column.tobytes())
        if trace.log is not None:
            digest.update("\n".join(trace.log.names).encode() + trace.log.code.tobytes())
    return digest.hexdigest()[:16]


def policy_key(name: str, evaluation: Evaluation) -> str:
    """Hash of what a policy's rows depend on: sources, gates and knobs, its own and references'."""
    digest = hashlib.sha256(name.encode())
    baselines, scenario = our_package("baselines"), evaluation.scenario
    files = [*_sources_of("baselines"), *_own_files(name, scenario)]
    for policy in (name, *references_in(scenario)):
        files += baselines.files_of(policy, scenario)
    for path in files:
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:16]


def is_folder(policy: str) -> bool:
    """Whether a policy's name is that of a folder; `make_policy` looks for its own names first."""
    known = our_package("baselines").POLICIES
    return policy not in known and ":" not in policy and Path(policy).is_dir()


def _own_files(name: str, scenario: Scenario) -> list[Path]:
    """Files that a policy that is not one of the fixed ones is made of."""
    path, folder, baselines = Path(name), is_folder(name), our_package("baselines")
    if folder or name.endswith(".npz") or name == baselines.LEARNED:
        here = Path(__file__).parent
        code = [file for part in ("envs", "router") for file in sorted((here / part).glob("*.py"))]
        code.append(baselines.knobs_of(scenario))  # its scale is in what routers see
        if name == baselines.LEARNED:
            return code
        if not folder:
            return [path, *code]
        run = ("router.npz", "config.yaml", "scenario.yaml", "best/model.zip")
        return [*(path / file for file in run), *_sources_of("agents"), *code]
    if ":" in name:
        return source_of(name)
    return []


def _sources_of(package: Literal["agents", "baselines"]) -> list[Path]:
    return sorted(Path(str(our_package(package).__file__)).parent.glob("*.py"))


def _each(
    evaluation: Evaluation,
    names: Sequence[str],
    references: References,
    jobs: int,
    on_turns: OnTurns | None,
) -> Iterable[tuple[str, Rows]]:
    """(policy, rows) of each policy, in the order in which they are done."""
    if jobs <= 1 or len(names) <= 1:
        for name in names:
            accounts = _account(evaluation, name, on_turns)
            yield name, _rows(evaluation, name, accounts, references)
        return
    turns = sum(trace.turns for trace in evaluation.traces)
    for name, rows in in_processes(_rows_of, (evaluation, references), names, jobs):
        yield name, rows
        if on_turns is not None:
            on_turns(turns)


def _rows_of(shared: tuple[Evaluation, References], name: str) -> Rows:
    evaluation, references = shared
    return _rows(evaluation, name, _account(evaluation, name, None), references)


def _account(evaluation: Evaluation, name: str, on_turns: OnTurns | None) -> list[FleetAccount]:
    """Run a policy; its account of each fleet."""
    run = run_policy(
        evaluation.scenario,
        make_policy(name, evaluation.scenario),
        evaluation.traces,
        evaluation.grid,
        on_turns=on_turns,
    )
    return fleet_accounts(evaluation, run)


def fleet_accounts(evaluation: Evaluation, run: PolicyRun) -> list[FleetAccount]:
    """The account of a run, fleet by fleet."""
    accounts = []
    first_slot = 0
    for f, trace in enumerate(evaluation.traces):
        slots = slice(first_slot, first_slot + trace.sessions)
        first_slot += trace.sessions
        accounts.append(
            FleetAccount(
                run.ledger[run.bounds[f] : run.bounds[f + 1]],
                trace.session,
                trace.session_turns,
                trace.category,
                run.decision_us,
                None if run.gate_proposals is None else run.gate_proposals[slots],
                None if run.gate_blocks is None else run.gate_blocks[slots],
            )
        )
    return accounts


def _rows(
    evaluation: Evaluation, name: str, mine: Sequence[FleetAccount], references: References
) -> Rows:
    scenario = evaluation.scenario.name
    rows = [row(scenario, name, f, mine[f : f + 1], *references.of(f)) for f in range(len(mine))]
    return [*rows, row(scenario, name, "all", mine, *references)]
