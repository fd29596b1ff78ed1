"""The `sharegpt` format: a JSON list of `id` and `conversations` (`from`, `value`)."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from carbon_gym.errors import InputError
from carbon_gym.workload.readers.build import checked_id
from carbon_gym.workload.readers.counting import token_counter
from carbon_gym.workload.readers.dialogue import (
    Dialogue,
    Message,
    Speaker,
    conversations_of,
    count_inner,
)
from carbon_gym.workload.readers.json_records import list_records
from carbon_gym.workload.trace import Conversations

SPEAKERS: Final[dict[str, Speaker]] = {
    "human": "prompt",
    "user": "prompt",
    "tool": "prompt",
    "gpt": "reply",
    "chatgpt": "reply",
    "assistant": "reply",
    "bing": "reply",
    "bard": "reply",
    "system": "context",
}
"""Who a `from` is."""

_CHUNK: Final = re.compile(r"(.+)_(\d{1,9})")


def read_sharegpt(path: Path, tokenizer: str | Path | None = None) -> Conversations:
    """Read a ShareGPT file.

    Long conversations come in chunks ``<id>_<index of the first message>``; chunks of one id are
    put back in order, and a first message that repeats the last one of the chunk before is
    removed. A second record of the same id (and chunk) is ignored. Rules of turns: `dialogue`.

    Raises:
        InputError: For malformed JSON (with its line), a wrong shape (with the record's number)
            or an unknown speaker.
    """
    counter, note = token_counter(tokenizer)
    hint = (
        "the sharegpt format is one JSON list of records with id and conversations "
        "(for one record per line use format messages)"
    )
    chunks: defaultdict[str, dict[int, list[Message]]] = defaultdict(dict)
    repeated_records = 0
    for number, record in list_records(path, hint):
        name, messages = _record(path, number, record)
        match = _CHUNK.fullmatch(name)
        base, start = (match[1], int(match[2])) if match else (name, 0)
        if start in chunks[base]:
            repeated_records += 1
        else:
            count_inner(messages, counter)
            chunks[base][start] = messages
    dialogues, joins, repeats, gaps = _rejoin(chunks)
    notes = [note]
    if joins:
        notes.append(f"{joins} chunks re-joined, {repeats} repeated messages removed")
    if gaps:
        notes.append(f"{gaps} chunks follow a missing one")
    if repeated_records:
        notes.append(f"{repeated_records} records repeat an id and were ignored")
    return conversations_of(path, dialogues, counter, "sharegpt", notes)


def _record(path: Path, number: int, record: Any) -> tuple[str, list[Message]]:
    where = f"{path}: record {number}"
    if not isinstance(record, dict):
        raise InputError(f"{where}: is no object; every record needs id and conversations")
    for key in ("id", "conversations"):
        if key not in record:
            raise InputError(
                f"{where}: key {key!r} is missing; found {', '.join(map(repr, record)) or 'none'}"
            )
    items = record["conversations"]
    if not isinstance(items, list):
        raise InputError(f"{where}: conversations is not a list of messages")
    messages = []
    for position, item in enumerate(items, start=1):
        place = f"{where}, message {position}"
        if not isinstance(item, dict) or "from" not in item or "value" not in item:
            raise InputError(f"{place}: needs the keys from and value")
        speaker = SPEAKERS.get(str(item["from"]).lower())
        if speaker is None:
            raise InputError(
                f"{place}: unknown speaker {item['from']!r}; known: {', '.join(SPEAKERS)}"
            )
        value = item["value"]
        if not isinstance(value, str):
            raise InputError(f"{place}: value is {type(value).__name__}, it must be text")
        messages.append(Message(speaker, value, line=number))
    return checked_id(where, record["id"]), messages


def _rejoin(
    chunks: dict[str, dict[int, list[Message]]],
) -> tuple[list[Dialogue], int, int, int]:
    """Dialogues, number of joins, repeated messages removed, joins after a missing chunk."""
    dialogues = []
    joins = repeats = gaps = 0
    for name, parts in chunks.items():
        whole: list[Message] = []
        end = min(parts)
        for start in sorted(parts):
            part = parts[start]
            gaps += start > end
            end = start + len(part)
            if whole:
                joins += 1
                if part and _same(part[0], whole[-1]):
                    part = part[1:]
                    repeats += 1
            whole.extend(part)
        dialogues.append(Dialogue(name, whole))
    return dialogues, joins, repeats, gaps


def _same(a: Message, b: Message) -> bool:
    return a.speaker == b.speaker and a.text == b.text
