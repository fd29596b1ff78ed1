"""What `carbon-gym reproduce` is asked for, the worlds that it runs, and what a part is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Protocol

from carbon_gym.report.document import Section
from carbon_gym.scenario.own_files import OwnFiles

Row = Mapping[str, Any]
"""A row of `carbon_gym.benchmark.compare`: a policy on one fleet, or on all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How large everything is.

    Attributes:
        files: The user's own conversations and grid.
        start: First day, UTC; None: as `carbon_gym.evaluation.evaluation_fleets` has it.
        datasets: Packaged scenarios that stand for the paper's data sets: sharegpt and sharechat;
            with conversations of the user's own only sharegpt.
        fleets: Fleets of the main comparison.
        sensitivity_fleets: Fleets of each setting that is varied.
        sessions: Sessions a day; None: the scenario's.
        quick: A first look: fewer settings.
    """

    files: OwnFiles = field(default_factory=OwnFiles)
    start: date | None = None
    datasets: tuple[str, ...] = ("sharegpt", "sharechat")
    fleets: int = 16
    sensitivity_fleets: int = 8
    sessions: int | None = None
    quick: bool = False

    def label(self, dataset: str) -> str:
        """What a data set is called in the report: the user's file, or the packaged scenario."""
        own = self.files.conversations
        return dataset if own is None else own.name

    @property
    def labels(self) -> list[str]:
        """Of all data sets, in order."""
        return [self.label(dataset) for dataset in self.datasets]


@dataclass(frozen=True, slots=True)
class World:
    """Fleets under some rules, and the policies that serve them: what is run and kept as a whole.

    Attributes:
        scenario: Name of a packaged scenario.
        changes: JSON of keyword arguments of `carbon_gym.scenario.load_scenario`, keys sorted, so
            that a world is hashable; see `World.of`.
        policies: Names; session-affinity and faircarbon are always run.
        fleets: Days of the test split, or of the files.
        threshold: At which probability of moving back the scenario's gate stays; 0: whenever it is
            asked. None: as tuned on validation.
    """

    scenario: str
    changes: str
    policies: tuple[str, ...]
    fleets: int
    threshold: float | None = None

    @classmethod
    def of(cls, scenario: str, policies: Sequence[str], fleets: int, **changes: Any) -> World:
        """A world; `changes` as of `load_scenario`."""
        return cls(scenario, json.dumps(changes, sort_keys=True), tuple(policies), fleets)

    @property
    def rules(self) -> str:
        """What identifies the fleets and rules, without the policies."""
        return f"{self.scenario} {self.changes} {self.fleets} {self.threshold}"


class Found(Protocol):
    """The rows that worlds gave."""

    def rows(self, world: World, policy: str) -> Sequence[Row]:
        """Of one policy: a row for each fleet in order, then the one with ``fleet == "all"``.

        Raises:
            KeyError: It was not run.
        """


class Part(Protocol):
    """One table or figure of the paper, or a few that belong together.

    Attributes:
        name: As `--only` takes it; letters, digits and hyphens.
        title: Of its section.
    """

    name: str
    title: str

    def worlds(self, plan: Plan) -> Sequence[World]:
        """What has to be run; worlds of the same rules are run once, with all their policies."""

    def section(self, plan: Plan, found: Found) -> Section:
        """What it says, from the rows of its worlds and from closed formulas."""
