"""The `messages` format: JSONL, one conversation a line, OpenAI-style `messages`."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Final

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.scenario.schema import CATEGORIES
from carbon_gym.workload.readers.build import checked_id
from carbon_gym.workload.readers.counting import token_counter
from carbon_gym.workload.readers.dialogue import Dialogue, Message, Speaker, TurnCollector
from carbon_gym.workload.readers.files import lines_of
from carbon_gym.workload.readers.json_records import json_of_line
from carbon_gym.workload.readers.times import unix_seconds
from carbon_gym.workload.trace import Conversations

ROLES: Final[dict[str, Speaker]] = {
    "user": "prompt",
    "tool": "prompt",
    "function": "prompt",
    "assistant": "reply",
    "system": "context",
    "developer": "context",
}
"""Who a `role` is; tool messages count as prompt tokens of the turn they belong to."""


def read_messages(path: Path, tokenizer: str | Path | None = None) -> Conversations:
    """Read a file of OpenAI-style messages.

    Every line is an object with ``messages``: a list of ``{"role", "content", "timestamp"?}``, and
    optionally ``id`` (or ``conversation_id``; default: the line's number) and ``category``.
    `content` is text, null, or a list of parts of which those with ``text`` count; the name and
    arguments of tool calls count as reply tokens. Timestamps are ISO 8601 with offset or epoch
    seconds; a turn arrives with its last user or tool message.

    Raises:
        InputError: For every fault, naming the line.
    """
    counter, note = token_counter(tokenizer)
    collector = TurnCollector(counter)
    seen: dict[str, int] = {}
    silent_parts = 0
    for number, line in lines_of(path):
        if not line.strip():
            continue
        dialogue, silent = _dialogue(f"{path}: line {number}", line, number)
        silent_parts += silent
        if dialogue.name in seen:
            raise InputError(
                f"{path}: line {number}: conversation id {dialogue.name!r} stands already in line "
                f"{seen[dialogue.name]}; give every conversation its own id"
            )
        seen[dialogue.name] = number
        collector.add(dialogue)
    notes = [note]
    if silent_parts:
        notes.append(f"{silent_parts} message parts without text count 0 tokens")
    return collector.conversations(path, "messages", notes)


def _dialogue(where: str, line: str, number: int) -> tuple[Dialogue, int]:
    hint = "; for a JSON list use format sharegpt" if line.lstrip().startswith("[") else ""
    record = json_of_line(where, line, f"the messages format is one JSON object per line{hint}")
    if not isinstance(record, dict):
        raise InputError(f"{where}: is no JSON object; every line needs an object with messages")
    if "messages" not in record:
        near = difflib.get_close_matches("messages", map(str, record), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"{where}: key 'messages' is missing{hint}")
    items = record["messages"]
    if not isinstance(items, list):
        raise InputError(f"{where}: messages is not a list")
    messages, silent = [], 0
    for position, item in enumerate(items, start=1):
        message, without_text = _message(f"{where}, message {position}", item, number)
        messages.append(message)
        silent += without_text
    name = checked_id(where, record.get("id", record.get("conversation_id", number)))
    return Dialogue(name, messages, _category(where, record.get("category")), number), silent


def _message(where: str, item: Any, number: int) -> tuple[Message, int]:
    if not isinstance(item, dict) or "role" not in item:
        raise InputError(f"{where}: needs the keys role and content")
    role = item["role"]
    speaker = ROLES.get(role) if isinstance(role, str) else None
    if speaker is None:
        hint = did_you_mean(role, ROLES)
        raise InputError(f"{where}: unknown role {role!r}; {hint}known: {', '.join(ROLES)}")
    text, silent = _text(where, item)
    stamp = item.get("timestamp")
    time_s = None if stamp is None else unix_seconds(stamp, where)
    return Message(speaker, text, time_s, number), silent


def _text(where: str, item: dict[str, Any]) -> tuple[str, int]:
    """Text of a message (content and tool calls) and its number of parts without text."""
    calls = item.get("tool_calls") or []
    if not isinstance(calls, list):
        raise InputError(f"{where}: tool_calls is not a list")
    pieces = [_call(where, call) for call in calls]
    silent = 0
    content = item.get("content")
    if content is None and "content" not in item and not calls:
        raise InputError(f"{where}: needs the keys role and content")
    if isinstance(content, str):
        pieces.insert(0, content)
    elif isinstance(content, list):
        for part in content:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                pieces.append(text)
            elif isinstance(part, dict):
                silent += 1
            else:
                raise InputError(f"{where}: a part of content is {type(part).__name__}, not text")
    elif content is not None:
        raise InputError(
            f"{where}: content is {type(content).__name__}; it must be text or a list of parts"
        )
    return "\n".join(pieces), silent


def _call(where: str, call: Any) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise InputError(f"{where}: a tool call needs the key function")
    return f"{function.get('name', '')}{function.get('arguments', '')}"


def _category(where: str, value: Any) -> int:
    if value is None:
        return -1
    if value in CATEGORIES:
        return CATEGORIES.index(value)
    hint = did_you_mean(str(value).lower(), CATEGORIES)
    raise InputError(f"{where}: unknown category {value!r}; {hint}allowed: {', '.join(CATEGORIES)}")
