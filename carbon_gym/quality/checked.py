"""What a predictor of the user's says, checked before the kernels trust it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from carbon_gym.errors import InputError
from carbon_gym.workload.trace import Floats


def checked_quality(values: ArrayLike, turns: int, models: int, method: str) -> Floats:
    """Qualities as a C-contiguous float64 (turns, models) array.

    Args:
        values: What `method` of the predictor returned.
        turns: Turns of the trace, T.
        models: Models of the fleet, M.
        method: Its name, for the message.

    Raises:
        InputError: Another shape, or a value that is not a number in [0, 1].
    """
    found = np.ascontiguousarray(values, dtype=np.float64)
    if found.shape != (turns, models):
        raise InputError(
            f"predictor: {method} gave an array of shape {found.shape}; give ({turns}, {models}), "
            "one row per turn and one column per model"
        )
    wrong = ~((found >= 0.0) & (found <= 1.0))  # NaN is wrong too
    if wrong.any():
        row, model = (int(index[0]) for index in np.nonzero(wrong))
        raise InputError(
            f"predictor: {method} gave {found[row, model]} for turn {row} and model {model} "
            "(counted from 0); give numbers from 0 to 1"
        )
    return found
