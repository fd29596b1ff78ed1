"""From a dialogue (who said what) to turns with prompt, history and reply.

The rules, for both text formats:

- messages of the same speaker in a row are one message;
- a turn is what a client sends (user and tool messages) and the reply to it;
- a system message, or a reply that nobody asked for, counts as history of the next turn, since it
  stands before the user's words and is prefilled with them;
- a prompt without a reply is no turn; its tokens count in the later history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np

from carbon_gym.errors import InputError
from carbon_gym.workload.readers.build import check_arrivals, keys_of_ids, order_of_ids
from carbon_gym.workload.readers.counting import TokenCounter
from carbon_gym.workload.readers.files import MAX_TOKENS
from carbon_gym.workload.sessions import offsets_of, session_of_row
from carbon_gym.workload.trace import Conversations, Floats, Ints

Speaker = Literal["prompt", "reply", "context"]

DIALOGUE_NOTE: Final = "system messages count as history of the turn that follows them"


@dataclass(slots=True)
class Message:
    """One message: who sent it, its text, when (s since 1970-01-01 UTC), and its line."""

    speaker: Speaker
    text: str
    time_s: float | None = None
    line: int = 0


@dataclass(slots=True)
class Dialogue:
    """One conversation; `category` is an index into `CATEGORIES` or -1."""

    name: str
    messages: list[Message]
    category: int = -1
    line: int = 0


@dataclass(slots=True)
class _Rows:
    """Columns of the turns while they grow."""

    prompt: list[int] = field(default_factory=list)
    history: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    time_s: list[float | None] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    category: list[int] = field(default_factory=list)


def merged(messages: Sequence[Message]) -> list[Message]:
    """Messages with same-speaker neighbours joined; the time is that of the last one."""
    result: list[Message] = []
    for message in messages:
        if result and result[-1].speaker == message.speaker:
            last = result[-1]
            result[-1] = Message(
                last.speaker, last.text + "\n" + message.text, message.time_s, message.line
            )
        else:
            result.append(message)
    return result


def conversations_of(
    path: Path,
    dialogues: list[Dialogue],
    counter: TokenCounter,
    label: str,
    notes: Sequence[str],
) -> Conversations:
    """Turns of all dialogues as `Conversations`; dialogues without a turn are left out.

    Raises:
        InputError: If no dialogue has a turn, or only some turns have a time.
    """
    rows = _Rows()
    turns: list[int] = []
    kept: list[Dialogue] = []
    order = order_of_ids([dialogue.name for dialogue in dialogues])
    for index in order:
        before = len(rows.prompt)
        _append_turns(rows, dialogues[index], counter)
        if len(rows.prompt) > before:
            turns.append(len(rows.prompt) - before)
            kept.append(dialogues[index])
    if not kept:
        raise InputError(
            f"{path}: no conversation has a user message with a reply; "
            "give at least one conversation with both"
        )
    empty = len(dialogues) - len(kept)
    said = [*notes, DIALOGUE_NOTE]
    if empty:
        said.append(f"{empty} conversations without any reply left out")
    ids = [dialogue.name for dialogue in kept]
    offsets = offsets_of(turns)
    line = np.asarray(rows.line, dtype=np.int64)
    _refuse_huge(path, rows, offsets, ids)
    arrival = _arrivals(path, rows)
    if arrival is not None:
        check_arrivals(path, arrival, session_of_row(offsets), line, ids)
    return Conversations(
        session_id=tuple(ids),
        session_key=keys_of_ids(ids),
        offsets=offsets,
        prompt_tokens=np.asarray(rows.prompt, dtype=np.int64),
        history_tokens=np.asarray(rows.history, dtype=np.int64),
        output_tokens=np.asarray(rows.output, dtype=np.int64),
        category=np.asarray(rows.category, dtype=np.int8),
        arrival_s=arrival,
        absolute_time=arrival is not None,
        source=f"{path.name} ({label})",
        notes=tuple(said),
    )


def _append_turns(rows: _Rows, dialogue: Dialogue, counter: TokenCounter) -> None:
    messages = merged(dialogue.messages)
    tokens = counter([message.text for message in messages])
    total = 0
    pending: tuple[int, Message] | None = None
    for message, count in zip(messages, tokens.tolist(), strict=True):
        if message.speaker == "prompt":
            if pending is not None:  # a system message stands between two prompts
                total += pending[0]
            pending = (count, message)
        elif message.speaker == "reply" and pending is not None:
            rows.prompt.append(pending[0])
            rows.history.append(total)
            rows.output.append(count)
            rows.time_s.append(pending[1].time_s)
            rows.line.append(pending[1].line)
            rows.category.append(dialogue.category)
            total += pending[0] + count
            pending = None
        else:
            total += count


def _refuse_huge(path: Path, rows: _Rows, offsets: Ints, ids: list[str]) -> None:
    largest = np.maximum(rows.prompt, rows.output)
    if largest.max() > MAX_TOKENS:
        row = int(np.argmax(largest))
        name = ids[session_of_row(offsets)[row]]
        raise InputError(
            f"{path}: conversation {name!r} has a message of {int(largest[row]):,} tokens; "
            f"at most {MAX_TOKENS:,} are allowed, drop the conversation"
        )


def _arrivals(path: Path, rows: _Rows) -> Floats | None:
    known = [time for time in rows.time_s if time is not None]
    if not known:
        return None
    if len(known) < len(rows.time_s):
        row = rows.time_s.index(None)
        raise InputError(
            f"{path}: line {rows.line[row]}: a user message has no timestamp but {len(known)} "
            "others have one; give a timestamp to every user message or to none"
        )
    return np.asarray(known, dtype=np.float64)
