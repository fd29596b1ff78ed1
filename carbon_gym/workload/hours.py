"""Hour-of-day shape of session starts, from a file or from calendar arrivals."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.workload.measure import significant
from carbon_gym.workload.readers.files import read_text
from carbon_gym.workload.trace import Conversations, Floats

HOUR_COLUMNS: Final = ("hour", "hour_utc", "hour_local")
COUNT_COLUMNS: Final = ("sessions", "session_count", "inferred_session_count", "count")

HourShape = tuple[float, ...]


def hour_shape_of(conversations: Conversations, path: str | Path | None) -> tuple[HourShape, str]:
    """Relative rate of session starts by hour of the UTC day (24 numbers, mean 1), and its source.

    From the file if one is named, else from the arrivals if they are calendar time, else that of
    the packaged ``sharegpt`` statistics.
    """
    if path is not None:
        return read_hour_shape(Path(path)), (
            f"{Path(path).name} (hours taken as UTC, shape only; ASSUMED for this traffic)"
        )
    if conversations.arrival_s is not None and conversations.absolute_time:
        starts = conversations.arrival_s[conversations.offsets[:-1]]
        hour = (np.floor(starts / 3600.0) % 24).astype(np.int64)
        counts = np.bincount(hour, minlength=24).astype(np.float64)
        return _relative(counts), "starts of the training sessions (DERIVED)"
    from carbon_gym.workload.statistics import load_statistics

    packaged = load_statistics("sharegpt")
    return packaged.hour_shape, packaged.hour_shape_source


def read_hour_shape(path: Path) -> HourShape:
    """Read a CSV with the columns hour (0..23, each once) and a count of sessions.

    Raises:
        InputError: For a missing column, hour or count.
    """
    rows = list(csv.DictReader(io.StringIO(read_text(path))))
    header = list(rows[0]) if rows else []
    hour_name = next((name for name in HOUR_COLUMNS if name in header), None)
    count_name = next((name for name in COUNT_COLUMNS if name in header), None)
    if hour_name is None or count_name is None:
        raise InputError(
            f"{path}: line 1: needs a column of {', '.join(HOUR_COLUMNS)} and one of "
            f"{', '.join(COUNT_COLUMNS)}; found {', '.join(map(str, header)) or 'nothing'}"
        )
    counts = np.full(24, np.nan)
    for line, row in enumerate(rows, start=2):
        try:
            hour, count = int(row[hour_name]), float(row[count_name])
        except (TypeError, ValueError):
            raise InputError(
                f"{path}: line {line}: {hour_name} and {count_name} must be numbers"
            ) from None
        if not 0 <= hour <= 23 or not (0 <= count < np.inf):
            raise InputError(
                f"{path}: line {line}: hour {hour} with count {count:g}; hours go from 0 to 23 "
                "and counts are not negative"
            )
        if not np.isnan(counts[hour]):
            raise InputError(f"{path}: line {line}: hour {hour} stands there twice; keep one row")
        counts[hour] = count
    if np.isnan(counts).any():
        hour = int(np.argmax(np.isnan(counts)))
        raise InputError(f"{path}: hour {hour} is missing; give all 24 hours")
    if counts.sum() == 0:
        raise InputError(f"{path}: all counts are 0; give at least one session")
    return _relative(counts)


def _relative(counts: Floats) -> HourShape:
    return tuple(significant(float(c), 5) for c in counts * (24 / counts.sum()))
