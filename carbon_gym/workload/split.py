"""Train, validation and test sessions, told apart by a keyed hash of the session key."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from carbon_gym import draws
from carbon_gym.scenario.schema import Split, Splits

SPLITS: Final[tuple[Split, ...]] = ("train", "validation", "test")
"""Names of the splits, in the order of their codes 0, 1, 2."""


def split_of(session_key: NDArray[np.uint64], splits: Splits, seed: int) -> NDArray[np.int8]:
    """Split of every session, from nothing but its key, the shares and the seed.

    Args:
        session_key: uint64, any shape.
        splits: Shares of train and validation; the rest is test (0.6/0.2/0.2, ASSUMED).
        seed: `Seeds.split`.

    Returns:
        int8, same shape: 0 train, 1 validation, 2 test.
    """
    position = draws.uniform(seed, "split", session_key)
    later = (position >= splits.train_share).astype(np.int8)
    last = (position >= splits.train_share + splits.validation_share).astype(np.int8)
    return np.asarray(later + last, dtype=np.int8)


def split_code(split: Split) -> int:
    """Code of a split's name, as in `split_of`."""
    return SPLITS.index(split)
