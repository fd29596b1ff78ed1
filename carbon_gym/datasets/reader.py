"""Reading a recorded dataset: arrays that lie on disk until they are used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carbon_gym.datasets.mapped import map_arrays
from carbon_gym.errors import InputError

FILE, FORMAT, VERSION = "dataset.json", "carbon-gym dataset", 1
_AGAIN = "run the same `carbon-gym record` again"


@dataclass(frozen=True, eq=False)
class FleetData:
    """The decisions of one fleet, session after session. N turns, S sessions, D deployments.

    Attributes:
        first: int64 (S + 1,), session s has the rows ``first[s]:first[s + 1]``, in turn order.
        observations: float32 (N, n), as the environments show them, flat.
        actions: int64 (N,), the deployment chosen.
        rewards: float64 (N,), the environment's.
        reward_terms: float64 (N, 5), what they are the sum of: `Dataset.reward_terms` names them.
        masks: bool (N, D), which deployments were allowed.
        terminations: bool (N,), the session's last turn.
        co2_g: float64 (N,), emitted by the turn, gCO2eq.
        quality_predicted: float64 (N,), q̂ of the model that served, in [0, 1].
        ttft_s: float64 (N,), time to first token, s.
    """

    first: NDArray[np.int64]
    observations: NDArray[np.float32]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    reward_terms: NDArray[np.float64]
    masks: NDArray[np.bool_]
    terminations: NDArray[np.bool_]
    co2_g: NDArray[np.float64]
    quality_predicted: NDArray[np.float64]
    ttft_s: NDArray[np.float64]


class Session(NamedTuple):
    """One conversation of T turns: the rows of `FleetData` that are its own."""

    observations: NDArray[np.float32]  # (T, n)
    actions: NDArray[np.int64]  # (T,)
    rewards: NDArray[np.float64]  # (T,)
    masks: NDArray[np.bool_]  # (T, D)
    terminations: NDArray[np.bool_]  # (T,)


class Stacked:
    """Arrays one after the other, of which only the rows that are asked for are read.

    Args:
        parts: Arrays (N_k, ...) of one type.

    Attributes:
        shape: Of them together.
        dtype: Of all.
    """

    def __init__(self, parts: Sequence[NDArray[Any]]) -> None:
        self._parts = parts
        self._bounds = np.cumsum([0] + [len(part) for part in parts])
        self.shape: tuple[int, ...] = (int(self._bounds[-1]), *parts[0].shape[1:])
        self.dtype = parts[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Rows by a number, a slice, or an array of numbers."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        asked = np.asarray(rows)
        asked = np.where(asked < 0, asked + len(self), asked)
        if asked.size and not (asked.min() >= 0 and asked.max() < len(self)):
            raise IndexError(f"there are {len(self)} rows")
        found = np.empty((*asked.shape, *self.shape[1:]), dtype=self.dtype)
        part = np.searchsorted(self._bounds, asked, side="right") - 1
        for k in np.unique(part):
            here = part == k
            found[here] = self._parts[k][asked[here] - self._bounds[k]]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of them in memory."""
        return np.concatenate(self._parts).astype(dtype or self.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A recorded dataset.

    Attributes:
        folder: Where it lies.
        metadata: Content of ``dataset.json``.
        fleets: One a fleet.
        observations: All fleets' observations one after the other, float32 (N, n); rows are read
            as they are asked for, ``numpy.asarray`` reads all.
    """

    folder: Path
    metadata: dict[str, Any]
    fleets: tuple[FleetData, ...]
    observations: Stacked = field(init=False)

    def __post_init__(self) -> None:
        stacked = Stacked([fleet.observations for fleet in self.fleets])
        object.__setattr__(self, "observations", stacked)

    def __len__(self) -> int:
        """Turns N over all fleets."""
        return len(self.observations)

    @property
    def reward_terms(self) -> list[str]:
        """Names of the columns of `FleetData.reward_terms`."""
        return list(self.metadata["reward_terms"])

    def column(self, name: str) -> NDArray[Any]:
        """One of the other arrays over all fleets, in memory, rows as of `observations`."""
        return np.concatenate([getattr(fleet, name) for fleet in self.fleets])

    def sessions(self) -> Iterator[Session]:
        """Every conversation, fleet after fleet."""
        for fleet in self.fleets:
            columns = [getattr(fleet, name) for name in Session._fields]
            for begin, end in pairwise(fleet.first.tolist()):
                if end > begin:
                    yield Session(*(column[begin:end] for column in columns))


def load_dataset(folder: str | Path) -> Dataset:
    """Open a dataset that `carbon-gym record` wrote. Nothing in it is executed.

    Args:
        folder: Its folder.

    Returns:
        The dataset; its arrays are mapped, read-only.

    Raises:
        InputError: There is none, it is not finished, damaged, or of another version.

    Example:
        >>> data = load_dataset("runs/ccar")  # doctest: +SKIP
        >>> data.observations[:32], data.column("actions")[:32]  # doctest: +SKIP
    """
    place = Path(folder)
    metadata = read_metadata(place)
    if metadata is None:
        raise InputError(f"{place}: holds no {FILE}; name a folder that `carbon-gym record` wrote")
    recorded, wanted = len(metadata["fleets"]), metadata["counts"]["fleets_wanted"]
    if recorded < wanted:
        raise InputError(f"{place}: only {recorded} of {wanted} fleets are recorded; {_AGAIN}")
    found = []
    for entry in metadata["fleets"]:
        fleet = _read_fleet(place / entry["file"])
        if len(fleet.actions) != entry["turns"]:
            raise InputError(
                f"{place / entry['file']}: holds {len(fleet.actions)} turns where {FILE} says "
                f"{entry['turns']}; delete the folder and {_AGAIN}"
            )
        found.append(fleet)
    return Dataset(place, metadata, tuple(found))


def read_metadata(folder: Path) -> dict[str, Any] | None:
    """Content of the folder's ``dataset.json``; None if there is none.

    Raises:
        InputError: It cannot be read, or is of another kind or version.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        said = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read ({said}); record it again") from None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise InputError(f"{path}: does not describe a carbon-gym dataset; record it again")
    if metadata.get("version") != VERSION:
        raise InputError(
            f"{path}: has version {metadata.get('version')!r} of the format, and this carbon_gym "
            f"reads {VERSION}; use the carbon_gym that wrote it, or record it again"
        )
    return metadata


def _read_fleet(path: Path) -> FleetData:
    try:
        arrays = map_arrays(path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; {_AGAIN}") from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: is not a recorded fleet, or is damaged ({error}); delete it and {_AGAIN}"
        ) from None
    names = [column.name for column in fields(FleetData)]
    turns = len(arrays.get("actions", ()))
    for name in names:
        array = arrays.get(name)
        if array is None or (name != "first" and len(array) != turns):
            raise InputError(f"{path}: {name!r} is missing or too short; delete it and {_AGAIN}")
    return FleetData(**{name: arrays[name] for name in names})
