"""A scenario on the user's own conversations, grid and zones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from carbon_gym.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """What takes the place of a scenario's own; nothing given: all stays generated.

    Attributes:
        conversations: File of turns.
        format: Of `conversations`, as a scenario's `workload.format`.
        tokenizer: A `tokenizer.json`; None: characters / 4.
        grid: CSV files of carbon intensity.
        zones: Of the regions, in order; empty: the scenario's.
    """

    conversations: Path | None = None
    format: str | None = None
    tokenizer: Path | None = None
    grid: tuple[Path, ...] = ()
    zones: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the files of conversations and grid."""
        given = [] if self.conversations is None else [self.conversations]
        return [path.name for path in (*given, *self.grid)]

    def changes(self, scenario: Scenario) -> dict[str, Any]:
        """Keyword arguments of `carbon_gym.scenario.load_scenario` that put a scenario on them.

        A zone in which the scenario has a region keeps that region's PUE and round trip.
        """
        changes: dict[str, Any] = {}
        if self.conversations is not None:
            changes["workload"] = {
                "source": "file",
                "path": str(self.conversations),
                "format": self.format,
                "tokenizer": None if self.tokenizer is None else str(self.tokenizer),
            }
        if self.grid:
            changes["grid"] = {"source": "file", "paths": [str(path) for path in self.grid]}
        if self.zones:
            own = {region.zone: region.model_dump() for region in scenario.fleet.regions}
            changes["fleet"] = {"regions": [own.get(zone, zone) for zone in self.zones]}
        return changes
