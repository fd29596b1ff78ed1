"""Where a log says that each turn was served, by name, before any fleet is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """The deployment of every turn, as a column of a conversation file names it.

    Attributes:
        source: The file.
        column: Its column.
        names: Different names, length K, in the order of their first appearance in the file.
        lines: int64 (K,), line of each name's first appearance, 1-based.
        code: int32 (N,), index into `names` of every turn.
    """

    source: str
    column: str
    names: tuple[str, ...]
    lines: NDArray[np.int64]
    code: NDArray[np.int32]

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Log:
        """The log of some turns: int64 indices, or bool (N,)."""
        return replace(self, code=self.code[rows])
