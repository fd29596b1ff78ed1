"""How a run ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        finished: All steps were made.
        steps: Steps made.
        progress: Content of `progress.json`.
    """

    finished: bool
    steps: int
    progress: dict[str, Any]
