"""Columns of the `tokens` format: their names, rectangular rows, whole numbers."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.workload.log import Log
from carbon_gym.workload.readers.files import MAX_TOKENS
from carbon_gym.workload.trace import Ints

if TYPE_CHECKING:
    import pandas as pd

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "session": ("session", "session_id"),
    "turn": ("turn",),
    "prompt_tokens": ("prompt_tokens", "user_tokens"),
    "output_tokens": ("output_tokens", "response_tokens"),
    "history_tokens": ("history_tokens",),
    "arrival": ("arrival",),
    "category": ("category",),
    "task_guess": ("task_guess",),
    "user_codeish": ("user_codeish",),
    "user_mathish": ("user_mathish",),
}
"""Canonical column names and the other names that are accepted for them."""

REQUIRED: Final = ("session", "turn", "prompt_tokens", "output_tokens")
LOG: Final = "served_by"
"""The column that says where a turn was served; what it is called, the user says."""


class Column(NamedTuple):
    """Where a column stands in the file and what it is called there."""

    position: int
    name: str


def find_columns(
    path: Path,
    raw: bytes,
    names: Mapping[str, tuple[str, ...]] = NAMES,
    required: Sequence[str] = REQUIRED,
) -> dict[str, Column]:
    """Canonical name → column of the file, of the columns that are used.

    Args:
        path: The file, for messages.
        raw: Its content.
        names: Canonical names and what each may be called.
        required: Canonical names that must be there.

    Raises:
        InputError: If a required column is missing or one stands there twice.
    """
    try:
        first = raw.split(b"\n", 1)[0].decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: line 1 is not UTF-8; save the file as UTF-8") from None
    try:
        header = [name.strip() for name in next(csv.reader([first.rstrip("\r")]))]
    except csv.Error as error:
        raise InputError(f"{path}: line 1 is not the header of a CSV ({error})") from None
    found: dict[str, Column] = {}
    for canonical, accepted in names.items():
        present = [name for name in header if name in accepted]
        if len(present) > 1:
            raise InputError(
                f"{path}: line 1: columns {' and '.join(map(repr, present))} mean the same "
                f"({canonical}); keep one of them"
            )
        if present:
            found[canonical] = Column(header.index(present[0]), present[0])
    for canonical in required:
        if canonical not in found:
            accepted = names[canonical]
            near = difflib.get_close_matches(accepted[0], header, n=1, cutoff=0.5)
            hint = f"did you mean to rename {near[0]!r}? " if near else ""
            raise InputError(
                f"{path}: line 1: column {accepted[0]!r} is missing; {hint}found "
                f"{', '.join(header[:12])}; needed {', '.join(names[n][0] for n in required)} "
                f"(accepted here: {' or '.join(accepted)})"
            )
    return found


def names_with_log(
    path: Path,
    log_column: str | None,
    names: Mapping[str, tuple[str, ...]] = NAMES,
    required: Sequence[str] = REQUIRED,
) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """Names and required names for `find_columns` of a file with a log of where turns were served.

    Args:
        path: The file, for the message.
        log_column: What that column is called; None: there is none.
        names: Canonical names of the format and what each may be called.
        required: Canonical names that must be there.

    Raises:
        InputError: The column says something else already, here or in the `tokens` format.
    """
    if log_column is None:
        return names, tuple(required)
    for canonical, accepted in (*names.items(), *NAMES.items()):
        if log_column in accepted:
            raise InputError(
                f"{path}: line 1: column {log_column!r} says what {canonical} is, not where a turn "
                "was served; name the column that holds model@GPU@region"
            )
    return {**names, LOG: (log_column,)}, (*required, LOG)


def log_of(path: Path, column: pd.Series[Any], name: str, lines: Ints) -> Log:
    """Where every turn was served, by the names of a column, in file order.

    Args:
        path: The file.
        column: Names, as text.
        name: What the column is called in the file.
        lines: int64 (N,), line of every row in the file.

    Raises:
        InputError: Naming the first line without a name.
    """
    import pandas as pd

    spelling, spellings = pd.factorize(column.fillna("").to_numpy(dtype=object))
    stripped = np.asarray([str(value).strip() for value in spellings], dtype=object)
    code_of_spelling, names = pd.factorize(stripped)
    code = code_of_spelling[spelling]
    first = np.unique(code, return_index=True)[1]
    for number, found in enumerate(names):
        if not found:
            raise InputError(
                f"{path}: line {lines[first[number]]}: {name} is empty; every turn needs the "
                "deployment that served it, as model@GPU@region; mend or drop the session"
            )
    return Log(path.name, name, tuple(names), lines[first], code.astype(np.int32))


def refuse_ragged(path: Path, raw: bytes) -> None:
    """Refuse rows with more or fewer cells than the header; pandas would drop or fill them."""
    if b'"' in raw:
        reader = csv.reader(io.TextIOWrapper(io.BytesIO(raw), "utf-8-sig", newline=""))
        try:
            expected = len(next(reader))
            for cells in reader:
                if cells and len(cells) != expected:
                    raise _ragged(path, reader.line_num, len(cells), expected)
        except csv.Error as error:
            raise InputError(
                f"{path}: line {reader.line_num}: is not CSV ({error}); mend the quotes"
            ) from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: is not UTF-8 text; save the file as UTF-8") from None
        return
    text = np.frombuffer(raw.rstrip() + b"\n", dtype=np.uint8)
    end = np.flatnonzero(text == ord("\n"))
    commas = np.searchsorted(np.flatnonzero(text == ord(",")), end)
    counts = np.diff(commas, prepend=0) + 1
    blank = np.diff(end, prepend=-1) <= 2
    wrong = (counts != counts[0]) & ~blank
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _ragged(path, row + 1, int(counts[row]), int(counts[0]))


def read_frame(
    path: Path, raw: bytes, columns: Mapping[str, Column], text: Sequence[str]
) -> pd.DataFrame:
    """The used columns under their canonical names; those of `text` as str, others inferred."""
    import pandas as pd

    by_position = {column.position: canonical for canonical, column in columns.items()}
    names = [by_position.get(p, f"unused {p}") for p in range(max(by_position) + 1)]
    present = [name for name in text if name in columns]
    try:
        return pd.read_csv(
            io.BytesIO(raw),
            header=None,
            skiprows=1,
            names=names,
            usecols=list(columns),
            dtype=dict.fromkeys(present, object),
            keep_default_na=False,
            na_values={name: [""] for name in columns if name not in present},
            skip_blank_lines=False,
            skipinitialspace=True,
            index_col=False,
            low_memory=False,
            encoding="utf-8-sig",
        )
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; save the file as UTF-8") from None
    except pd.errors.ParserError as error:
        raise InputError(
            f"{path}: is not a well-formed CSV ({str(error).strip()}); "
            "every row needs as many cells as the header"
        ) from None


def _ragged(path: Path, line: int, found: int, expected: int) -> InputError:
    return InputError(
        f"{path}: line {line}: {found} cells where the header has {expected}; give every row as "
        "many cells as the header (no thousands separators)"
    )


def integer_column(path: Path, column: pd.Series[Any], name: str, lines: Ints) -> Ints:
    """A column of non-negative integers up to `MAX_TOKENS`, int64.

    Args:
        path: The file, for the message.
        column: Cells as pandas read them, any dtype.
        name: Name of the column in the file, for the message.
        lines: int64 (N,), line of every row in the file.

    Raises:
        InputError: Naming the first line that holds anything else.
    """
    import pandas as pd

    if column.dtype.kind in "iuf":
        numbers = column.to_numpy(dtype=np.float64)
    else:
        numbers = pd.to_numeric(column.astype(str), errors="coerce").to_numpy(dtype=np.float64)
    bad = ~((numbers >= 0) & (numbers <= MAX_TOKENS) & (numbers == np.floor(numbers)))
    if bad.any():
        row = int(np.argmax(bad))
        cell = column.iloc[row]
        missing = isinstance(cell, float) and np.isnan(cell)
        raise InputError(
            f"{path}: line {lines[row]}: {name} is "
            f"{'missing' if missing else repr(_plain(cell))}; "
            f"it must be a whole number from 0 to {MAX_TOKENS:,}, mend or drop the session"
        )
    return numbers.astype(np.int64)


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell
