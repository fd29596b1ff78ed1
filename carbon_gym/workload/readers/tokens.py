"""The `tokens` format: a CSV (or CSV.gz) with one row per turn and token counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.workload.readers.build import check_arrivals, keys_of_ids, order_of_ids
from carbon_gym.workload.readers.columns import (
    LOG,
    Column,
    find_columns,
    integer_column,
    log_of,
    names_with_log,
    read_frame,
    refuse_ragged,
)
from carbon_gym.workload.readers.features import turn_categories
from carbon_gym.workload.readers.files import read_bytes
from carbon_gym.workload.readers.times import arrival_column
from carbon_gym.workload.sessions import offsets_of, session_of_row, sum_before
from carbon_gym.workload.trace import Conversations, Ints

if TYPE_CHECKING:
    import pandas as pd


def read_tokens(path: Path, log_column: str | None = None) -> Conversations:
    """Read a `tokens` file.

    Columns: `session`, `turn`, `prompt_tokens`, `output_tokens` and optionally `history_tokens`
    (default: everything before in the session), `arrival` (seconds since the start of the trace,
    or ISO 8601 with offset), `category` (a name of `CATEGORIES`) or the features `task_guess`,
    `user_codeish`, `user_mathish`; the names of ``sharegpt_turns.csv.gz`` are accepted as well and
    further columns are ignored. Rows may stand in any order; turn numbers need not be contiguous.

    Args:
        path: The file.
        log_column: The column that names the deployment which served each turn; None: none is read.

    Raises:
        InputError: For every fault of the file, naming line and column.
    """
    raw = read_bytes(path)
    columns = find_columns(path, raw, *names_with_log(path, log_column))
    if not raw.partition(b"\n")[2].strip():
        raise InputError(f"{path}: has a header but no rows; give at least one turn")
    refuse_ragged(path, raw)
    frame = _frame(path, raw, columns)
    del raw
    lines = np.arange(2, len(frame) + 2, dtype=np.int64)
    code, ids = _sessions(path, frame["session"], lines)
    turn = integer_column(path, frame["turn"], columns["turn"].name, lines)
    counts = {
        name: integer_column(path, frame[name], columns[name].name, lines)
        for name in ("prompt_tokens", "output_tokens", "history_tokens")
        if name in frame
    }
    arrival, absolute = (None, False)
    if "arrival" in frame:
        arrival, absolute = arrival_column(path, frame["arrival"], lines)
    category = turn_categories(path, frame, columns, lines)
    log = log_of(path, frame[LOG], columns[LOG].name, lines) if LOG in frame else None
    del frame

    order = np.lexsort((turn, code))
    code, turn, lines = code[order], turn[order], lines[order]
    _refuse_repeats(path, code, turn, lines, ids)
    offsets = offsets_of(np.bincount(code, minlength=len(ids)))
    prompt, output = counts["prompt_tokens"][order], counts["output_tokens"][order]
    history, notes = _history(counts.get("history_tokens"), order, prompt, output, offsets)
    if arrival is not None:
        arrival = arrival[order]
        check_arrivals(path, arrival, code, lines, ids)
    return Conversations(
        session_id=tuple(ids),
        session_key=keys_of_ids(ids),
        offsets=offsets,
        prompt_tokens=prompt,
        history_tokens=history,
        output_tokens=output,
        category=category[order],
        arrival_s=arrival,
        absolute_time=absolute,
        source=f"{path.name} (tokens)",
        notes=notes,
        log=None if log is None else log.at(order),
    )


def _frame(path: Path, raw: bytes, columns: dict[str, Column]) -> pd.DataFrame:
    """The used columns under their canonical names, without blank rows at the end."""
    frame = read_frame(path, raw, columns, text=("session", "category", "task_guess", LOG))
    blank = (frame["session"] == "").to_numpy() | frame["session"].isna().to_numpy()
    rows = len(frame)
    while rows and blank[rows - 1] and frame.iloc[rows - 1]["turn"] != frame.iloc[rows - 1]["turn"]:
        rows -= 1
    return frame.iloc[:rows]


def _sessions(
    path: Path, column: pd.Series[Any], lines: Ints
) -> tuple[NDArray[np.int64], list[str]]:
    """Code of every row (rank of its session in the fixed order) and the ids in that order."""
    import pandas as pd

    spelling, spellings = pd.factorize(column.to_numpy(dtype=object), use_na_sentinel=True)
    stripped = np.asarray([str(value).strip() for value in spellings], dtype=object)
    code_of_spelling, uniques = pd.factorize(stripped)  # "a" and "a " are one session
    code = np.where(spelling < 0, -1, code_of_spelling[spelling])
    ids = [str(name) for name in uniques]
    empty = code < 0
    if "" in ids:
        empty |= code == ids.index("")
    if empty.any():
        raise InputError(
            f"{path}: line {lines[int(np.argmax(empty))]}: the session is empty; "
            "give every row the id of its session (and no blank lines)"
        )
    order = order_of_ids(ids)
    rank = np.empty(len(ids), dtype=np.int64)
    rank[order] = np.arange(len(ids))
    return rank[code], [ids[s] for s in order]


def _refuse_repeats(path: Path, code: Ints, turn: Ints, lines: Ints, ids: list[str]) -> None:
    repeat = (np.diff(code) == 0) & (np.diff(turn) == 0)
    if repeat.any():
        row = int(np.argmax(repeat)) + 1
        raise InputError(
            f"{path}: line {lines[row]}: turn {turn[row]} of session {ids[code[row]]!r} stands "
            f"already in line {lines[row - 1]}; number the turns of a session once each"
        )


def _history(
    given: Ints | None, order: Ints, prompt: Ints, output: Ints, offsets: Ints
) -> tuple[Ints, tuple[str, ...]]:
    before = sum_before(prompt + output, offsets)
    if given is None:
        return before, ("history: everything before in the session (no history column)",)
    history = given[order]
    session = session_of_row(offsets)
    shrinks = (np.diff(history) < 0) & (np.diff(session) == 0)
    if shrinks.any():
        count = len(np.unique(session[1:][shrinks]))
        return history, (f"history shrinks within {count} sessions; taken as given",)
    return history, ()
