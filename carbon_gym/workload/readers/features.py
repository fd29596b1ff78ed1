"""Category of a turn from the features of the `tokens` format (SPEC §4)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.workload.readers.columns import Column, integer_column
from carbon_gym.workload.trace import Ints

if TYPE_CHECKING:
    import pandas as pd

TASK_CATEGORY: Final = {
    "code": "coding",
    "rewrite": "creative",
    "translate": "creative",
    "write": "creative",
    "summarize": "information",
    "classify": "information",
    "explain": "information",
    "list": "information",
}
"""Category of a `task_guess`; anything else is reasoning (SPEC §4)."""


def turn_categories(
    path: Path, frame: pd.DataFrame, columns: dict[str, Column], lines: Ints
) -> NDArray[np.int8]:
    """Category of every turn, int8; -1 where nothing tells it (SPEC §4)."""
    if "category" in frame:
        return _named_categories(path, frame["category"], lines)
    features = [name for name in ("task_guess", "user_codeish", "user_mathish") if name in frame]
    if not features:
        return np.full(len(frame), -1, dtype=np.int8)
    category = np.full(len(frame), CATEGORIES.index("reasoning"), dtype=np.int8)
    if "task_guess" in frame:
        category = _lookup(frame["task_guess"], TASK_CATEGORY, category)
    for flag, name in (("user_codeish", "coding"), ("user_mathish", "math")):
        if flag in frame:
            raised = integer_column(path, frame[flag], columns[flag].name, lines) > 0
            category[raised] = CATEGORIES.index(name)
    return category


def _lookup(
    column: pd.Series[Any], table: dict[str, str], default: NDArray[np.int8]
) -> NDArray[np.int8]:
    import pandas as pd

    code, uniques = pd.factorize(column.to_numpy(dtype=object))
    of_unique = np.asarray(
        [CATEGORIES.index(table[name]) if name in table else -1 for name in map(str, uniques)]
        + [-1],
        dtype=np.int8,
    )
    found = of_unique[code]
    return np.where(found >= 0, found, default).astype(np.int8)


def _named_categories(path: Path, column: pd.Series[Any], lines: Ints) -> NDArray[np.int8]:
    """A `category` column: names of `CATEGORIES`, or empty for unknown."""
    table = {name: name for name in CATEGORIES}
    unknown = np.full(len(column), -1, dtype=np.int8)
    category = _lookup(column, table, unknown)
    bad = (category < 0) & ~(column.isna() | (column == "")).to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        value = str(column.iloc[row])
        hint = did_you_mean(value.lower(), CATEGORIES)
        raise InputError(
            f"{path}: line {lines[row]}: unknown category {value!r}; {hint}"
            f"allowed: {', '.join(CATEGORIES)}, or empty"
        )
    return category
