"""Logs of requests as CSV: BurstGPT, Azure's LLM traces, usage tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.importing.requests import Prompts, Requests, sessions_of
from carbon_gym.importing.times import time_column
from carbon_gym.workload.readers.columns import (
    LOG,
    find_columns,
    integer_column,
    log_of,
    names_with_log,
    read_frame,
    refuse_ragged,
)
from carbon_gym.workload.readers.files import read_bytes
from carbon_gym.workload.trace import Conversations, Ints

if TYPE_CHECKING:
    import pandas as pd

SESSION_NAMES: Final = ("session_id", "session", "conversation_id", "thread_id", "chat_id")


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a table of requests.

    Attributes:
        label: What it is called in the source line.
        names: ``session``, ``time``, ``prompt``, ``output``, ``cached`` → what each is called.
        required: Those that must be there.
        failures_reply_nothing: Whether rows without reply tokens are failed requests.
        whole_prompts: Whether prompts hold their history by definition.
    """

    label: str
    names: Mapping[str, tuple[str, ...]]
    required: tuple[str, ...] = ("time", "prompt", "output")
    failures_reply_nothing: bool = False
    whole_prompts: bool = False


BURSTGPT: Final = Layout(
    "BurstGPT",
    {
        "session": ("Session ID", "SessionID"),
        "time": ("Timestamp",),
        "prompt": ("Request tokens",),
        "output": ("Response tokens",),
    },
    failures_reply_nothing=True,
)
AZURE: Final = Layout(
    "Azure LLM trace",
    {
        "session": ("SessionId", "ConversationId", *SESSION_NAMES),
        "time": ("TIMESTAMP", "t_seconds"),
        "prompt": ("ContextTokens", "context_tokens"),
        "output": ("GeneratedTokens", "generated_tokens"),
    },
)
USAGE: Final = Layout(
    "usage log",
    {
        "session": SESSION_NAMES,
        "time": ("timestamp", "created", "created_at", "time"),
        "prompt": ("prompt_tokens", "input_tokens"),
        "output": ("completion_tokens", "output_tokens"),
        "cached": ("cached_tokens", "prompt_tokens_details.cached_tokens"),
    },
    required=("prompt", "output"),
    whole_prompts=True,
)


def read_request_table(
    path: Path, layout: Layout, prompts: Prompts = "auto", keep: str | None = None
) -> Conversations:
    """Read a CSV of requests.

    Args:
        path: The file.
        layout: Its columns.
        prompts: Whether prompts hold their history; see `sessions_of`.
        keep: Column that says where each request was served; None: none is kept.

    Raises:
        InputError: For every fault of the file, naming line and column.
    """
    raw = read_bytes(path)
    columns = find_columns(path, raw, *names_with_log(path, keep, layout.names, layout.required))
    if not raw.partition(b"\n")[2].strip():
        raise InputError(f"{path}: has a header but no rows; give at least one request")
    refuse_ragged(path, raw)
    frame = read_frame(path, raw, columns, text=("session", LOG))
    del raw
    frame = _without_blank_end(frame)
    lines = np.arange(2, len(frame) + 2, dtype=np.int64)
    counts = {
        name: integer_column(path, frame[name], columns[name].name, lines)
        for name in ("prompt", "output")
    }
    cached = None
    if "cached" in frame:
        cached = _cached(path, frame["cached"], columns["cached"].name, lines)
        check_cached(path, cached, counts["prompt"], lines)
    time_s, absolute, notes = None, False, []
    if "time" in frame:
        time_s, absolute, note = time_column(path, frame["time"], lines)
        notes += [note] if note else []
    session, names = None, [""]
    if "session" in frame:
        session, names = _sessions(frame["session"], lines)
    log = log_of(path, frame[LOG], columns[LOG].name, lines) if LOG in frame else None
    kept = np.ones(len(frame), dtype=np.bool_)
    if layout.failures_reply_nothing:
        kept = counts["output"] > 0
        if not kept.any():
            raise InputError(
                f"{path}: no request has a reply of 1 token or more; give a log with replies"
            )
        if not kept.all():
            notes.append(f"{int((~kept).sum())} failed requests (no reply tokens) left out")
    if session is not None:
        present, session = np.unique(session[kept], return_inverse=True)
        names = [names[s] for s in present]
    requests = Requests(
        session=session,
        names=names,
        time_s=None if time_s is None else time_s[kept],
        absolute_time=absolute,
        prompt_tokens=counts["prompt"][kept],
        output_tokens=counts["output"][kept],
        cached_tokens=None if cached is None else cached[kept],
        line=lines[kept],
        log=None if log is None else log.at(kept),
    )
    rule: Prompts = "whole" if layout.whole_prompts else prompts
    return sessions_of(path, requests, rule, layout.label, notes)


def check_cached(path: Path, cached: Ints, prompt: Ints, lines: Ints) -> None:
    """Refuse more cached tokens than the prompt has, int64 (N,) each; -1 is unknown."""
    over = cached > prompt
    if over.any():
        row = int(np.argmax(over))
        raise InputError(
            f"{path}: line {lines[row]}: {cached[row]} cached tokens of a prompt of "
            f"{prompt[row]}; cached tokens are part of the prompt's, mend the row"
        )


def _without_blank_end(frame: pd.DataFrame) -> pd.DataFrame:
    rows = len(frame)
    while rows and (frame.iloc[rows - 1].isna() | (frame.iloc[rows - 1] == "")).all():
        rows -= 1
    return frame.iloc[:rows]


def _cached(path: Path, column: pd.Series[Any], name: str, lines: Ints) -> Ints:
    known = column.notna().to_numpy()
    cached = np.full(len(column), -1, dtype=np.int64)
    if known.any():
        cached[known] = integer_column(path, column[known], name, lines[known])
    return cached


def _sessions(column: pd.Series[Any], lines: Ints) -> tuple[Ints, list[str]]:
    """Index of every row's session and the ids; a row without id is a session of its own."""
    import pandas as pd

    text = column.fillna("").astype(str).str.strip()
    code, uniques = pd.factorize(text.to_numpy(dtype=object))
    names = [str(name) for name in uniques]
    code = code.astype(np.int64)
    if "" in names:
        alone = code == names.index("")
        code[alone] = len(names) + np.arange(int(alone.sum()))
        names += [f"line {line}" for line in lines[alone].tolist()]
    return code, names
