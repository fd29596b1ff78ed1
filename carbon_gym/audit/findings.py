"""What an audit found, as its tables and pictures take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carbon_gym.audit.assumptions import Assumption, Setting
from carbon_gym.audit.cases import VARIED, Case
from carbon_gym.audit.rows_file import AuditFile
from carbon_gym.audit.run import key_of
from carbon_gym.report.document import Measured
from carbon_gym.report.document_cells import measured

PERCENT = 100.0
PER = 1000
"""Turns that emissions are also given for."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """A router beside the present rule: their rows over all fleets.

    Attributes:
        mine: The router's, with what it saves in ``versus_present``.
        present: The present rule's on the same turns under the same rules.
    """

    mine: Row
    present: Row

    @property
    def saving(self) -> Measured | None:
        """CO2 saved over the present rule, %."""
        return measured(self.mine["versus_present"]["saving"], PERCENT)

    def reduction(self, figure: str, scale: float = 1.0) -> Measured | None:
        """By how much a sum over turns is lower than under the present rule; scaled."""
        interval = self.mine["versus_present"]["reduction"][figure]
        if interval is not None:
            return measured(interval, scale)
        return None


Ends = Sequence[tuple[Setting, Pair]]
"""The settings of an assumption, each with its pair."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All that the report says.

    Attributes:
        present: What the present rule is called.
        cases: The routers and their rules, in order.
        routers: By name, in that order; each beside the present rule.
        assumptions: Each with the pair of every setting; the router is `VARIED`.
    """

    present: str
    cases: Sequence[Case]
    routers: Mapping[str, Pair]
    assumptions: Sequence[tuple[Assumption, Ends]]

    @property
    def base(self) -> Pair:
        """The router that is varied, under the fleet's own rules."""
        return self.routers[VARIED]

    @property
    def now(self) -> Row:
        """The present rule under the fleet's own rules."""
        return self.base.present


def findings_of(
    label: str,
    present: str,
    cases: Sequence[Case],
    assumptions: Sequence[Assumption],
    file: AuditFile,
) -> Findings:
    """Look up what was run.

    Args:
        label: What the present rule is called in the report.
        present: Name of its policy.
        cases: Of `main_cases`.
        assumptions: As `varied_cases` was given them.
        file: With all of these cases.
    """

    def pair(case: Case) -> Pair:
        key = key_of(case, present)
        return Pair(file.rows(key, case.policy)[-1], file.rows(key, present)[-1])

    return Findings(
        label,
        cases,
        {case.router: pair(case) for case in cases},
        [
            (a, [(setting, pair(Case(VARIED, VARIED, setting.scenario))) for setting in a.settings])
            for a in assumptions
        ],
    )
