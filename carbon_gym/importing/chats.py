"""Data sets of chats, one conversation a record: WildChat, LMSYS-Chat-1M."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.importing.partial_times import with_arrivals
from carbon_gym.importing.records import records_of
from carbon_gym.importing.times import moment
from carbon_gym.workload.readers.build import checked_id
from carbon_gym.workload.readers.counting import token_counter
from carbon_gym.workload.readers.dialogue import Dialogue, Message, TurnCollector
from carbon_gym.workload.readers.messages import ROLES
from carbon_gym.workload.trace import Conversations

IDS: Final = ("conversation_hash", "conversation_id", "id")
_TIMES: Final = ("timestamp", "created", "tstamp")


def read_chats(path: Path, label: str, tokenizer: Path | None = None) -> Conversations:
    """Read records with ``conversation``: a list of ``role``, ``content`` and perhaps a time.

    WildChat's ``conversation_hash`` is that of the text, which many conversations share; it says
    that ``turn_identifier`` tells them apart, so both together make the id where a hash repeats.

    A turn arrives at the time of its prompt. WildChat dates the replies only, by the moment they
    were complete: that moment is then taken, so arrivals are late by the length of the reply.

    Args:
        path: JSON list, JSONL, or parquet where pyarrow is installed.
        label: The data set's name, for the source line.
        tokenizer: Path of a ``tokenizer.json``; None: characters / 4.

    Raises:
        InputError: For every fault, naming the record.
    """
    counter, note = token_counter(tokenizer)
    collector = TurnCollector(counter)
    seen: set[str] = set()
    known: set[tuple[str, object]] = set()
    repeats = late = 0
    for where, number, record in records_of(path):
        dialogue = _dialogue(where, number, record)
        key = (dialogue.name, _identifier(record))
        if dialogue.name in seen and key[1] is not None and key not in known:
            dialogue.name = f"{dialogue.name}-{key[1]}"
        if key in known or dialogue.name in seen:
            repeats += 1
            continue
        known.add(key)
        seen.add(dialogue.name)
        late += _date_prompts(dialogue.messages)
        collector.add(dialogue)
    if not seen:
        raise InputError(f"{path}: has no conversations; give at least one")
    notes = [note]
    if repeats:
        notes.append(f"{repeats} records repeat an id and were ignored")
    if late:
        notes.append(f"{late} prompts have no time: that of the reply's end was taken")
    made, times, _ = collector.without_arrivals(path, label, notes)
    return with_arrivals(made, times)


def _dialogue(where: str, number: int, record: dict[str, Any]) -> Dialogue:
    items = record.get("conversation")
    if not isinstance(items, list):
        near = did_you_mean("conversation", record) if "conversation" not in record else ""
        raise InputError(
            f"{where}: conversation is {'missing' if items is None else 'not a list'}; {near}"
            "give the list of its messages with role and content"
        )
    name = next((record[key] for key in IDS if record.get(key) is not None), number)
    messages = [
        _message(f"{where}, message {place}", item, number)
        for place, item in enumerate(items, start=1)
    ]
    return Dialogue(checked_id(where, name), messages, line=number)


def _identifier(record: dict[str, Any]) -> int | str | None:
    """The ``turn_identifier`` of the first message, where there is one."""
    first = next(iter(record["conversation"]), None)
    found = first.get("turn_identifier") if isinstance(first, dict) else None
    return found if isinstance(found, (int, str)) else None


def _message(where: str, item: Any, number: int) -> Message:
    if not isinstance(item, dict) or "role" not in item:
        raise InputError(f"{where}: needs the keys role and content")
    role = item["role"]
    speaker = ROLES.get(role) if isinstance(role, str) else None
    if speaker is None:
        raise InputError(
            f"{where}: unknown role {role!r:.60}; {did_you_mean(role, ROLES)}"
            f"known: {', '.join(ROLES)}"
        )
    content = item.get("content")
    if content is not None and not isinstance(content, str):
        raise InputError(f"{where}: content is {type(content).__name__}; it must be text")
    stamp = next((item[key] for key in _TIMES if item.get(key) is not None), None)
    return Message(speaker, content or "", moment(stamp, where), number)


def _date_prompts(messages: list[Message]) -> int:
    """Give prompts without a time that of the reply they got; how many got one."""
    given = 0
    answered: float | None = None
    for message in reversed(messages):
        if message.speaker == "reply":
            answered = message.time_s
        elif message.speaker == "prompt" and message.time_s is None and answered is not None:
            message.time_s = answered
            given += 1
    return given
