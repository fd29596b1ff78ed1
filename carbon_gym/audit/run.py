"""Running the cases of an audit, each once, and keeping what they gave."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from carbon_gym.audit.account import figures, kinds_of, versus
from carbon_gym.audit.cases import Case
from carbon_gym.audit.rows_file import AuditFile
from carbon_gym.benchmark import Rows, evaluation_key, fleet_accounts, policy_key
from carbon_gym.doors import make_policy
from carbon_gym.evaluation import Evaluation
from carbon_gym.fleet import Deployments
from carbon_gym.metrics.rows import FleetAccount
from carbon_gym.parallel import in_processes
from carbon_gym.reproduce.rows_file import Known, Served
from carbon_gym.simulator.run import run_policy
from carbon_gym.workload.trace import Trace

Shared = tuple[Evaluation, str, Mapping[str, Known]]
"""The turns, the present rule, and what is known of each case."""


def run_cases(
    evaluation: Evaluation,
    present: str,
    cases: Sequence[Case],
    file: AuditFile,
    *,
    jobs: int = 1,
    on_cases: Callable[[int], None] | None = None,
) -> None:
    """Run what the file does not have, or has of other turns, rules, knobs or code.

    Args:
        evaluation: The turns; the rules are the cases'.
        present: Name of the present rule's policy.
        cases: Those of the same id are run once, as the first of them says.
        file: Written after every case.
        jobs: Processes; 1 runs in this one.
        on_cases: Called with 1 after every case.
    """
    once: dict[str, Case] = {}
    for case in cases:
        once.setdefault(key_of(case, present), case)
    shared = (evaluation, present, {key: file.known(key) for key in once})
    for case, served in _each(shared, list(once.values()), jobs):
        file.keep(key_of(case, present), served)
        if on_cases is not None:
            on_cases(1)


def key_of(case: Case, present: str) -> str:
    """Under which key the file has a case."""
    return f"{case.policy} beside {present}, {case.scenario.digest()}"


def _each(shared: Shared, cases: Sequence[Case], jobs: int) -> Iterator[tuple[Case, Served]]:
    """(case, what it gave) in the order in which they are done."""
    if jobs <= 1 or len(cases) <= 1:
        for case in cases:
            yield case, _serve(shared, case)
        return
    yield from in_processes(_serve, shared, cases, jobs)


def _serve(shared: Shared, case: Case) -> Served:
    """Both policies of a case, unless both are known as they are now."""
    evaluation, present, known = shared
    evaluation = replace(evaluation, scenario=case.scenario)
    policies = (present, case.policy)
    now = Known(
        f"{evaluation_key(evaluation)}-{_code()}-{case.detailed:d}",
        {name: policy_key(name, evaluation) for name in policies},
    )
    if known[key_of(case, present)] == now:
        return Served(now, {}, facts_of(evaluation))
    ours, theirs = (_accounts(evaluation, name) for name in (case.policy, present))
    rows = {present: _rows(theirs), case.policy: _rows(ours)}
    kinds = [
        kinds_of(trace, account, Deployments.of(case.scenario))
        for trace, account in zip(_with_turns(evaluation), theirs, strict=True)
    ]
    rows[case.policy][-1]["versus_present"] = versus(ours, theirs, kinds if case.detailed else ())
    return Served(now, rows, facts_of(evaluation))


def _accounts(evaluation: Evaluation, policy: str) -> list[FleetAccount]:
    """A policy's account of each fleet that has turns."""
    run = run_policy(
        evaluation.scenario,
        make_policy(policy, evaluation.scenario),
        evaluation.traces,
        evaluation.grid,
    )
    return [account for account in fleet_accounts(evaluation, run) if len(account.ledger)]


def _with_turns(evaluation: Evaluation) -> list[Trace]:
    return [trace for trace in evaluation.traces if trace.turns]


def _rows(accounts: Sequence[FleetAccount]) -> Rows:
    """Figures of each fleet that has turns, then of all."""
    by_fleet = [{"fleet": f, **figures([account])} for f, account in enumerate(accounts)]
    return [*by_fleet, {"fleet": "all", **figures(accounts)}]


def facts_of(evaluation: Evaluation) -> dict[str, Any]:
    """What the fleets are, for the reader."""
    return {
        "fleets": len(_with_turns(evaluation)),
        "turns": sum(trace.turns for trace in evaluation.traces),
        "days": [day.isoformat() for day in evaluation.days],
        "rules": evaluation.scenario.to_dict(),
    }


def _code() -> str:
    """Hash of the sources that make rows here."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for name in ("account.py", "run.py"):
        digest.update((here / name).read_bytes())
    return digest.hexdigest()[:8]
