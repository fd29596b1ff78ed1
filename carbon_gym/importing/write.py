"""Conversations as the canonical `tokens` file."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.workload.readers.files import MAX_TOKENS
from carbon_gym.workload.sessions import session_of_row, turn_of_row
from carbon_gym.workload.trace import Conversations, Floats

_ROWS_AT_ONCE: Final = 200_000
_LONGEST_ID: Final = 200


def writable(conversations: Conversations) -> Conversations:
    """The sessions as the `tokens` format can hold them.

    Ids with line breaks, other control characters or space around them are written as Python
    would; histories above the format's limit, which no model could be sent, are cut to it.

    Raises:
        InputError: Two ids are then the same.
    """
    ids = tuple(_plain(name) for name in conversations.session_id)
    if len(set(ids)) < len(ids):
        raise InputError(
            f"{conversations.source}: two sessions have ids that differ only in what cannot be "
            "printed; give them other ids"
        )
    over = conversations.history_tokens > MAX_TOKENS
    notes = conversations.notes
    if over.any():
        notes = (*notes, f"{int(over.sum())} histories cut to {MAX_TOKENS:,} tokens")
    history = np.minimum(conversations.history_tokens, MAX_TOKENS)
    return replace(conversations, session_id=ids, history_tokens=history, notes=notes)


def write_tokens(conversations: Conversations, path: Path) -> None:
    """Write a gzip CSV that `read_conversations` reads as the same sessions.

    A log of where turns were served becomes a column under the name it had in its source. The
    same sessions give the same bytes.
    """
    import pandas as pd

    session = session_of_row(conversations.offsets)
    turn = turn_of_row(conversations.offsets)
    ids = np.asarray(conversations.session_id, dtype=object)
    categories = np.asarray([*CATEGORIES, ""], dtype=object)  # the last stands for -1
    log = conversations.log
    served = None if log is None else np.asarray([_plain(name) for name in log.names], dtype=object)
    has_categories = bool((conversations.category >= 0).any())
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        for first in range(0, max(conversations.turns, 1), _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            columns = {
                "session": ids[session[rows]],
                "turn": turn[rows],
                "prompt_tokens": conversations.prompt_tokens[rows],
                "output_tokens": conversations.output_tokens[rows],
                "history_tokens": conversations.history_tokens[rows],
            }
            if conversations.arrival_s is not None:
                columns["arrival"] = _arrivals(
                    conversations.arrival_s[rows], conversations.absolute_time
                )
            if has_categories:
                columns["category"] = categories[conversations.category[rows]]
            if log is not None and served is not None:
                columns[log.column] = served[log.code[rows]]
            pd.DataFrame(columns).to_csv(text, index=False, header=first == 0, lineterminator="\n")


def _arrivals(seconds: Floats, absolute: bool) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """Times as text: ISO 8601 in UTC or seconds, both to the microsecond."""
    if not absolute:
        return np.char.mod("%.6f", seconds)
    micros = np.round(seconds * 1e6).astype(np.int64).astype("datetime64[us]")
    return np.char.add(np.datetime_as_string(micros), "Z")


def _plain(name: str) -> str:
    if name.isprintable() and name == name.strip() and len(name) <= _LONGEST_ID:
        return name
    return repr(name) if len(name) <= _LONGEST_ID else f"{name[:100]!r}...{name[-60:]!r}"
