"""What an entry of the leaderboard holds: `entry.yaml` and `results.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from carbon_gym.report.results import RESULTS
from carbon_gym.scenario.section import NonNegative, Positive, Section, Unit

ENTRY = "entry.yaml"
FIGURES = (
    *("quality_predicted", "quality_violation_rate"),
    *("ttft_p95_s", "ttft_violation_rate", "capacity_violation_rate"),
)
"""Kept over all turns only; `co2_g` and `quality_realised` of every fleet."""

_PLAIN = r"^[^|\n`<>]*$"
"""What the page would show as something else than text is left out: a cell's end, code, HTML."""
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=_PLAIN)]
Command = Annotated[str, Field(pattern=r"^carbon-gym benchmark [^\n`;&|<>$]*$")]
"""Of one command: whoever runs it anew runs nothing else."""
Code = Annotated[str, Field(max_length=200, pattern=r"^(https?://)?[\w.~@%+-][^\s|`<>()\[\]:]*$")]
"""An address, or a path that is not absolute."""


class Method(Section):
    """A line of the board."""

    name: Text
    policies: tuple[Text, ...] = Field(min_length=1)
    """Names in `results.json`; several with rows of one scenario are training seeds."""
    learned_on: tuple[Literal["train", "validation"], ...] = ()
    """Splits from which weights or knobs come."""
    code: Code
    """Where it can be read: an address, or a path seen from docs/."""
    bound: bool = False
    """Whether it is given what no router has."""
    note: Annotated[str, Field(max_length=200, pattern=_PLAIN)] = ""
    """What it is, in a few words."""


class Entry(Section):
    """What the author says: `entry.yaml`."""

    authors: tuple[Text, ...] = Field(min_length=1)
    date: date
    version: Text
    """Of carbon-gym, as `results.json` has it."""
    commit: str = Field(pattern="^[0-9a-f]{7,40}$")
    """Of carbon-gym, with which the results were made."""
    commands: tuple[Command, ...] = Field(min_length=1)
    methods: tuple[Method, ...] = Field(min_length=1)


class Row(BaseModel):
    """A row of `results.json`, as far as the board reads it; the rest is left out."""

    model_config = ConfigDict(frozen=True)

    scenario: str
    policy: str
    fleet: Annotated[int, Field(ge=0)] | Literal["all"]
    co2_g: Positive
    quality_realised: Unit
    quality_predicted: Unit | None = None
    quality_violation_rate: Unit | None = None
    ttft_p95_s: NonNegative | None = None
    ttft_violation_rate: Unit | None = None
    capacity_violation_rate: Unit | None = None

    @model_validator(mode="after")
    def _whole(self) -> Row:
        missing = [name for name in FIGURES if getattr(self, name) is None]
        if self.fleet == "all" and missing:
            raise ValueError(f"the row of all turns of {self.policy} needs {', '.join(missing)}")
        return self


class Inputs(BaseModel):
    """What the rows of a scenario are of."""

    days: tuple[date, ...]


class Measured(BaseModel):
    """What the benchmark wrote: `results.json`."""

    versions: dict[str, str]
    inputs: dict[str, Inputs]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Submission:
    """An entry's folder, read and valid by itself.

    Attributes:
        folder: Of the entry.
        entry: Of its author.
        days: By scenario.
        rows: By scenario and policy: of the fleets in their order, then of all.
    """

    folder: Path
    entry: Entry
    days: Mapping[str, tuple[date, ...]]
    rows: Mapping[tuple[str, str], tuple[Row, ...]]

    def results(self) -> str:
        """What to call its results in a sentence."""
        return shown(self.folder / RESULTS)

    def seeds(self, method: Method, scenario: str) -> list[tuple[Row, ...]]:
        """Rows of the method's policies there, those of each seed."""
        return [self.rows[scenario, p] for p in method.policies if (scenario, p) in self.rows]


def shown(path: Path) -> str:
    """A path as one would write it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
