"""From a dialogue (who said what) to turns with prompt, history and reply.

The rules, for both text formats:

- messages of the same speaker in a row are one message;
- a turn is what a client sends (user and tool messages) and the reply to it;
- a system message, or a reply that nobody asked for, counts as history of the next turn, since it
  stands before the user's words and is prefilled with them;
- a prompt without a reply is no turn; its tokens count in the later history.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import nan
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
    """One message: who sent it, its text, when (s since 1970-01-01 UTC), and its line.

    Once `tokens` are counted, the text is no longer needed and may be gone.
    """

    speaker: Speaker
    text: str
    time_s: float | None = None
    line: int = 0
    tokens: int | None = None


@dataclass(slots=True)
class Dialogue:
    """One conversation; `category` is an index into `CATEGORIES` or -1."""

    name: str
    messages: list[Message]
    category: int = -1
    line: int = 0


class _Rows:
    """Columns of the turns while they grow; a time that is not known is NaN."""

    def __init__(self) -> None:
        self.prompt = array("q")
        self.history = array("q")
        self.output = array("q")
        self.time_s = array("d")
        self.line = array("q")
        self.category = array("b")


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


def count_inner(messages: Sequence[Message], counter: TokenCounter) -> None:
    """Count messages between two of other speakers and drop their texts, which fill the memory.

    Such a message is never joined with another. First and last ones keep their texts: in a file
    of chunks they may be joined, or compared, with those of the next chunk.
    """
    threes = zip(messages, messages[1:], messages[2:], strict=False)
    inner = [m for before, m, after in threes if before.speaker != m.speaker != after.speaker]
    _count(inner, counter)
    for message in inner:
        message.text = ""


def _count(messages: Sequence[Message], counter: TokenCounter) -> None:
    counts = counter([message.text for message in messages])
    for message, tokens in zip(messages, counts.tolist(), strict=True):
        message.tokens = tokens


class TurnCollector:
    """Turns of dialogues while a file is read: texts are counted at once and not kept."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._rows = _Rows()
        self._names: list[str] = []
        self._turns = array("q")

    def add(self, dialogue: Dialogue) -> None:
        """Count the turns of a dialogue."""
        before = len(self._rows.prompt)
        _append_turns(self._rows, dialogue, self._counter)
        self._names.append(dialogue.name)
        self._turns.append(len(self._rows.prompt) - before)

    def without_arrivals(
        self, path: Path, label: str, notes: Sequence[str]
    ) -> tuple[Conversations, Floats, Ints]:
        """All turns, sessions in their fixed order; dialogues without a turn are left out.

        Args:
            path: The file, for messages.
            label: The format, for the source line.
            notes: What was done on reading.

        Returns:
            The sessions without arrivals; float64 (N,), times of the turns in seconds since
            1970-01-01 UTC, NaN where there is none; int64 (N,), their lines.

        Raises:
            InputError: If no dialogue has a turn.
        """
        turns = np.array(self._turns, dtype=np.int64)
        if not turns.any():
            raise InputError(
                f"{path}: no conversation has a user message with a reply; "
                "give at least one conversation with both"
            )
        order = order_of_ids(self._names)
        order = order[turns[order] > 0]
        said = [*notes, DIALOGUE_NOTE]
        if len(order) < len(turns):
            said.append(f"{len(turns) - len(order)} conversations without any reply left out")
        ids = [self._names[s] for s in order]
        offsets = offsets_of(turns[order])
        shift = offsets_of(turns)[:-1][order] - offsets[:-1]
        at = np.repeat(shift, turns[order]) + np.arange(offsets[-1])
        rows = self._rows
        conversations = Conversations(
            session_id=tuple(ids),
            session_key=keys_of_ids(ids),
            offsets=offsets,
            prompt_tokens=np.array(rows.prompt, dtype=np.int64)[at],
            history_tokens=np.array(rows.history, dtype=np.int64)[at],
            output_tokens=np.array(rows.output, dtype=np.int64)[at],
            category=np.array(rows.category, dtype=np.int8)[at],
            source=f"{path.name} ({label})",
            notes=tuple(said),
        )
        _refuse_huge(path, conversations)
        times = np.array(rows.time_s, dtype=np.float64)[at]
        return conversations, times, np.array(rows.line, dtype=np.int64)[at]

    def conversations(self, path: Path, label: str, notes: Sequence[str]) -> Conversations:
        """All turns, with arrivals if all of them have a time; see `without_arrivals`.

        Raises:
            InputError: If no dialogue has a turn, only some turns have a time, or times go back.
        """
        made, times, line = self.without_arrivals(path, label, notes)
        missing = np.isnan(times)
        if missing.all():
            return made
        if missing.any():
            raise InputError(
                f"{path}: line {line[int(np.argmax(missing))]}: a user message has no timestamp "
                f"but {np.count_nonzero(~missing)} others have one; give a timestamp to every "
                "user message or to none"
            )
        check_arrivals(path, times, session_of_row(made.offsets), line, made.session_id)
        return replace(made, arrival_s=times, absolute_time=True)


def conversations_of(
    path: Path,
    dialogues: Iterable[Dialogue],
    counter: TokenCounter,
    label: str,
    notes: Sequence[str],
) -> Conversations:
    """Turns of all dialogues as `Conversations`; see `TurnCollector.conversations`."""
    collector = TurnCollector(counter)
    for dialogue in dialogues:
        collector.add(dialogue)
    return collector.conversations(path, label, notes)


def _append_turns(rows: _Rows, dialogue: Dialogue, counter: TokenCounter) -> None:
    messages = merged(dialogue.messages)
    _count([message for message in messages if message.tokens is None], counter)
    total = 0
    pending: tuple[int, Message] | None = None
    for message in messages:
        count = message.tokens or 0
        if message.speaker == "prompt":
            if pending is not None:  # a system message stands between two prompts
                total += pending[0]
            pending = (count, message)
        elif message.speaker == "reply" and pending is not None:
            rows.prompt.append(pending[0])
            rows.history.append(total)
            rows.output.append(count)
            known = pending[1].time_s
            rows.time_s.append(nan if known is None else known)
            rows.line.append(pending[1].line)
            rows.category.append(dialogue.category)
            total += pending[0] + count
            pending = None
        else:
            total += count


def _refuse_huge(path: Path, made: Conversations) -> None:
    largest = np.maximum(made.prompt_tokens, made.output_tokens)
    if largest.max() > MAX_TOKENS:
        row = int(np.argmax(largest))
        name = made.session_id[session_of_row(made.offsets)[row]]
        raise InputError(
            f"{path}: conversation {name!r} has a message of {int(largest[row]):,} tokens; "
            f"at most {MAX_TOKENS:,} are allowed, drop the conversation"
        )
