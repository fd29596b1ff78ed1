"""Logs of requests as JSONL: Mooncake's traces, usage records of OpenAI and vLLM."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.importing.mooncake import BlockSessions, block_tokens
from carbon_gym.importing.request_tables import SESSION_NAMES, USAGE, check_cached
from carbon_gym.importing.requests import Requests, sessions_of
from carbon_gym.importing.times import FIRST_UNIX_S, moment
from carbon_gym.workload.log import Log
from carbon_gym.workload.readers.build import checked_id
from carbon_gym.workload.readers.columns import names_with_log
from carbon_gym.workload.readers.files import MAX_TOKENS, lines_of
from carbon_gym.workload.readers.json_records import json_of_line
from carbon_gym.workload.readers.times import MAX_TRACE_S
from carbon_gym.workload.trace import Conversations, Floats

_PROMPTS: Final = ("prompt_tokens", "input_tokens")
_BESIDE: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Prompt tokens that Anthropic's form does not count in ``input_tokens``; the first were cached."""
_TIMES: Final = ("timestamp", "created_at", "created", "time")


def read_mooncake(path: Path) -> Conversations:
    """Read a Mooncake trace: ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``.

    Sessions are those of ``session_id``, where the lines have one; else they are inferred from
    the hashes of the prompts' blocks, see `BlockSessions`.

    Raises:
        InputError: For every fault, naming the line.
    """
    rule = "a Mooncake trace is one JSON object per line"
    rows = _Rows()
    blocks: list[array[int]] = []
    for where, number, record in _objects(path, rule):
        prompt = _tokens(where, record, "input_length")
        output = _tokens(where, record, "output_length")
        if "parent_chat_id" in record:
            raise InputError(
                f"{where}: has 'parent_chat_id', as traces of Qwen-Bailian do, whose times are "
                "seconds; multiply every timestamp by 1000 and leave parent_chat_id out"
            )
        time_ms = record.get("timestamp")
        if isinstance(time_ms, bool) or not isinstance(time_ms, (int, float)):
            raise InputError(
                f"{where}: timestamp {time_ms!r} is no number; give milliseconds since the start"
            )
        if not 0 <= time_ms <= 1e3 * MAX_TRACE_S:
            raise InputError(
                f"{where}: timestamp {time_ms!r} does not lie between 0 and "
                f"{1e3 * MAX_TRACE_S:.0f}; give milliseconds since the start of the trace"
            )
        name = record.get("session_id")
        rows.add(
            number, None if name is None else checked_id(where, name), time_ms / 1e3, prompt, output
        )
        blocks.append(_blocks(where, record))
    rows.refuse_none(path)
    notes = []
    if not rows.sessions_known():
        size = block_tokens(rows.prompt, [len(ids) for ids in blocks])
        rows.sessions = BlockSessions(size).of(rows.time_s, rows.prompt, rows.output, blocks)
        notes.append(f"sessions inferred from prompts that begin alike (blocks of {size} tokens)")
    return sessions_of(path, rows.requests(False), "whole", "Mooncake trace", notes)


def read_usage(path: Path, keep: str | None = None) -> Conversations:
    """Read usage records: one JSON object per line, as servers and clients log them.

    The counts stand in ``usage`` (also under ``response`` or ``response.body``) or in the object
    itself: ``prompt_tokens`` and ``completion_tokens``, or ``input_tokens`` and
    ``output_tokens``, with ``prompt_tokens_details.cached_tokens`` where the server reports it.
    The session is one of `SESSION_NAMES`, in the object or its ``metadata``, or the ``id`` of its
    ``conversation``; the time is ``timestamp``, ``created_at``, ``created`` or ``time``, in UTC.
    A line without counts that has an ``error`` is a failed request, and left out.

    Args:
        path: The file.
        keep: Key, of the object, its ``metadata`` or its answer, that says where the request was
            served; None: none is kept.

    Raises:
        InputError: For every fault, naming the line.
    """
    names_with_log(path, keep, USAGE.names)
    rows = _Rows()
    failed = 0
    for where, number, record in _objects(path, "a usage log is one JSON object per line"):
        holders = [record, *(h for h in (record.get("metadata"),) if isinstance(h, dict))]
        answer = record.get("response")
        if isinstance(answer, dict):
            body = answer.get("body")
            holders += [answer, body] if isinstance(body, dict) else [answer]
        usage = next((h["usage"] for h in holders if isinstance(h.get("usage"), dict)), record)
        if any(h.get("error") for h in holders) and not usage.keys() & _PROMPTS:
            failed += 1
            continue
        cached = _cached(where, usage)
        prompt = _tokens(where, usage, *_PROMPTS)
        if "prompt_tokens" not in usage:
            prompt += sum(_tokens(where, usage, name) for name in _BESIDE if usage.get(name))
        output = _tokens(where, usage, "completion_tokens", "output_tokens")
        name = _first(holders, SESSION_NAMES)
        if name is None:
            name = _first(_conversations(holders), ("id",))
        stamp = _first(holders, _TIMES)
        rows.add(
            number,
            None if name is None or name == "" else checked_id(where, name),
            None if stamp is None else _time(where, stamp),
            prompt,
            output,
            cached,
            None if keep is None else _served_by(where, _first(holders, (keep,)), keep),
        )
    rows.refuse_none(path)
    requests = rows.requests(True, None if keep is None else (path.name, keep))
    if requests.cached_tokens is not None:
        check_cached(path, requests.cached_tokens, requests.prompt_tokens, requests.line)
    if requests.time_s is not None and np.isnan(requests.time_s).any():
        row = int(np.argmax(np.isnan(requests.time_s)))
        raise InputError(
            f"{path}: line {requests.line[row]}: has no time but other lines have one; give "
            f"every line one of {', '.join(_TIMES)}, or none"
        )
    notes = [f"{failed} failed requests (an error and no counts) left out"] if failed else []
    return sessions_of(path, requests, "whole", "usage log", notes)


class _Rows:
    """Columns of the requests while they grow; -1 and NaN are unknown."""

    def __init__(self) -> None:
        self.line, self.prompt, self.output = array("q"), array("q"), array("q")
        self.cached, self.time_s = array("q"), array("d")
        self.names: dict[str, int] = {}
        self.sessions = array("q")
        self.served: dict[str, int] = {}
        self.served_lines, self.served_by = array("q"), array("i")

    def add(
        self,
        line: int,
        session: str | None,
        time_s: float | None,
        prompt: int,
        output: int,
        cached: int = -1,
        served_by: str | None = None,
    ) -> None:
        """Add a request."""
        self.line.append(line)
        self.prompt.append(prompt)
        self.output.append(output)
        self.cached.append(cached)
        self.time_s.append(np.nan if time_s is None else time_s)
        known = -1 if session is None else self.names.setdefault(session, len(self.names))
        self.sessions.append(known)
        if served_by is not None:
            if served_by not in self.served:
                self.served[served_by] = len(self.served)
                self.served_lines.append(line)
            self.served_by.append(self.served[served_by])

    def refuse_none(self, path: Path) -> None:
        """Refuse a file without requests."""
        if not self.line:
            raise InputError(f"{path}: has no lines with requests; give at least one")

    def sessions_known(self) -> bool:
        """Whether any request names its session."""
        return bool(self.names)

    def requests(self, absolute_time: bool, log: tuple[str, str] | None = None) -> Requests:
        """All requests; one without a session, where others have one, is a session of its own.

        Args:
            absolute_time: Whether times are since 1970-01-01 UTC.
            log: File and key of a log of where requests were served; None: there is none.
        """
        session = np.array(self.sessions, dtype=np.int64)
        names = list(self.names)
        if not names:
            names = [str(s) for s in range(int(session.max()) + 1)]
        elif (session < 0).any():
            alone = np.flatnonzero(session < 0)
            session[alone] = len(names) + np.arange(len(alone))
            names += [f"line {self.line[row]}" for row in alone.tolist()]
        time_s: Floats = np.array(self.time_s, dtype=np.float64)
        cached = np.array(self.cached, dtype=np.int64)
        return Requests(
            session=session if names else None,
            names=names,
            time_s=None if np.isnan(time_s).all() else time_s,
            absolute_time=absolute_time,
            prompt_tokens=np.array(self.prompt, dtype=np.int64),
            output_tokens=np.array(self.output, dtype=np.int64),
            cached_tokens=cached if (cached >= 0).any() else None,
            line=np.array(self.line, dtype=np.int64),
            log=None if log is None else self._log(*log),
        )

    def _log(self, source: str, key: str) -> Log:
        lines = np.array(self.served_lines, dtype=np.int64)
        code = np.array(self.served_by, dtype=np.int32)
        return Log(source, key, tuple(self.served), lines, code)


def _objects(path: Path, rule: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for number, line in lines_of(path):
        if not line.strip():
            continue
        where = f"{path}: line {number}"
        record = json_of_line(where, line, rule)
        if not isinstance(record, dict):
            raise InputError(f"{where}: is no JSON object; {rule}")
        yield where, number, record


def _first(holders: list[dict[str, Any]], names: tuple[str, ...]) -> object:
    return next((h[name] for h in holders for name in names if h.get(name) is not None), None)


def _tokens(where: str, record: dict[str, Any], *names: str) -> int:
    """The first of the counts that is there."""
    for name in names:
        if name in record:
            value = record[name]
            if isinstance(value, float) and value.is_integer():  # as pandas writes them
                value = int(value)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not 0 <= value <= MAX_TOKENS:
                raise InputError(
                    f"{where}: {name} is {value!r:.60}; it must be a whole number from 0 to "
                    f"{MAX_TOKENS:,}, mend or drop the line"
                )
            return int(value)
    found = ", ".join(map(repr, list(record)[:8])) or "nothing"
    raise InputError(
        f"{where}: {' or '.join(names)} is missing; found {found}; give it, or drop the line"
    )


def _cached(where: str, usage: dict[str, Any]) -> int:
    """Cached prompt tokens, -1 where the server does not say."""
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = usage.get(name)
        if isinstance(details, dict) and details.get("cached_tokens") is not None:
            return _tokens(where, details, "cached_tokens")
    for name in ("cached_tokens", _BESIDE[0]):
        if usage.get(name) is not None:
            return _tokens(where, usage, name)
    return -1


def _conversations(holders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What OpenAI's responses say of the conversation they belong to."""
    return [h["conversation"] for h in holders if isinstance(h.get("conversation"), dict)]


def _served_by(where: str, value: object, key: str) -> str:
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value.strip()
    raise InputError(
        f"{where}: {key} is {'missing' if value is None else f'{value!r:.60}'}; every request "
        "needs the name of the deployment that served it; mend or drop the session"
    )


def _time(where: str, stamp: object) -> float:
    found = moment(stamp, where)
    if found is None:
        raise InputError(
            f"{where}: time {stamp!r:.60} does not lie between {FIRST_UNIX_S:.0f} (2000) and "
            "2100; give epoch seconds or ISO 8601"
        )
    return found


def _blocks(where: str, record: dict[str, Any]) -> array[int]:
    ids = record.get("hash_ids")
    if isinstance(ids, list):
        with suppress(TypeError, OverflowError):  # an entry that is no whole number of 64 bits
            return array("q", ids)
    raise InputError(
        f"{where}: hash_ids is {ids!r:.60}; it must be the list of the prompt's block hashes, "
        "whole numbers"
    )
