"""The stages of an audit: what the budgets aim at is known once CCAR has run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from carbon_gym.audit.assumptions import assumptions_of
from carbon_gym.audit.cases import (
    SCALE,
    VARIED,
    Case,
    base_case,
    main_cases,
    scale_case,
    varied_cases,
)
from carbon_gym.audit.findings import Findings, findings_of
from carbon_gym.audit.rows_file import AuditFile
from carbon_gym.audit.run import key_of, run_cases
from carbon_gym.doors import our_package
from carbon_gym.evaluation import Evaluation
from carbon_gym.scenario import Scenario

KNOBS = "knobs.json"
"""File beside the report with the scale and target of a fleet on which nothing was tuned."""


def audit_fleet(
    evaluation: Evaluation,
    present: str,
    file: AuditFile,
    *,
    label: str | None = None,
    jobs: int = 1,
    on_cases: Callable[[int], None] | None = None,
) -> Findings:
    """Run what the file does not have yet, and look it all up.

    Args:
        evaluation: The turns and the fleet's rules.
        present: Name of the present rule's policy.
        file: Written after every case; the knobs come to lie beside it.
        label: What the present rule is called; None: its policy's name.
        jobs: Processes; 1 runs in this one.
        on_cases: Called with 1 after every case, `number_of_cases` times.
    """
    scenario = evaluation.scenario
    assumptions = assumptions_of(scenario.filtered())
    first = _first_cases(scenario)
    # Not in processes: to start them costs more than these few cases.
    run_cases(evaluation, present, first, file, on_cases=on_cases)
    if len(first) > 1:
        scenario = _with_own_knobs(scenario, present, file)
    now, ccar = (file.rows(key_of(first[0], present), name)[-1] for name in (present, VARIED))
    # A router that picks by predicted quality picks errors in its favour: it gets less than it
    # predicts, and has to aim higher by that much.
    optimism = ccar["quality_predicted"] - ccar["quality_realised"]
    target = min(max(now["quality_realised"] + optimism, 0.0), 1.0)
    cases = main_cases(scenario, target)
    others = [*cases[1:], *varied_cases(assumptions)]
    run_cases(evaluation, present, others, file, jobs=jobs, on_cases=on_cases)
    return findings_of(label or present, present, cases, assumptions, file)


def number_of_cases(scenario: Scenario) -> int:
    """How many comparisons an audit of a fleet is."""
    varied = varied_cases(assumptions_of(scenario.filtered()))
    return len(_first_cases(scenario)) + len(main_cases(scenario, 0.0)[1:]) + len(varied)


def _first_cases(scenario: Scenario) -> list[Case]:
    """CCAR and, where nothing was tuned for the fleet, what its own knobs need."""
    borrows = our_package("baselines").borrows_knobs(scenario)
    return [base_case(scenario), *([scale_case(scenario)] if borrows else [])]


def _with_own_knobs(scenario: Scenario, present: str, file: AuditFile) -> Scenario:
    """The scenario with the scale and target that its own turns give."""
    of_scale = file.rows(key_of(scale_case(scenario), present), SCALE)[-1]
    of_ccar = file.rows(key_of(base_case(scenario), present), VARIED)[-1]
    changed: Scenario = our_package("baselines").write_own_knobs(
        Path(file.folder) / KNOBS,
        scenario,
        of_scale["co2_g"] / of_scale["turns"],
        of_ccar["quality_predicted"],
    )
    return changed
