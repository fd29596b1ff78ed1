"""What a predictor of the user's is given, and what it says, before the kernels trust it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields

import numpy as np
from numpy.typing import ArrayLike

from carbon_gym.errors import InputError
from carbon_gym.workload.trace import Floats, Trace


@contextmanager
def read_only(trace: Trace) -> Iterator[None]:
    """Within the block nobody can write to the trace's arrays.

    A predictor that works in place would change what later policies serve.
    """
    values = (getattr(trace, field.name) for field in fields(trace))
    arrays = [array for array in values if isinstance(array, np.ndarray) and array.flags.writeable]
    for array in arrays:
        array.flags.writeable = False
    try:
        yield
    finally:
        for array in arrays:
            with suppress(ValueError):  # what another process has sent stays read-only
                array.flags.writeable = True


def checked_quality(values: ArrayLike, turns: int, models: int, method: str) -> Floats:
    """Qualities as a C-contiguous float64 (turns, models) array.

    Args:
        values: What `method` of the predictor returned.
        turns: Turns of the trace, T.
        models: Models of the fleet, M.
        method: Its name, for the message.

    Raises:
        InputError: No numbers, another shape, or a value that is not a number in [0, 1].
    """
    try:
        found = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:  # texts, or rows of different lengths
        raise InputError(
            f"predictor: {method} gave what is no array of numbers ({error}); give ({turns}, "
            f"{models}) numbers from 0 to 1"
        ) from None
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
