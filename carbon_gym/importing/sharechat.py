"""ShareChat: a CSV per platform, one message a row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Final

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.importing.partial_times import with_arrivals
from carbon_gym.importing.times import moment
from carbon_gym.workload.readers.build import checked_id
from carbon_gym.workload.readers.counting import token_counter
from carbon_gym.workload.readers.dialogue import Dialogue, Message, Speaker, TurnCollector
from carbon_gym.workload.readers.files import lines_of
from carbon_gym.workload.trace import Conversations

COLUMNS: Final = ("url", "message_index", "role", "plain_text")
TIME: Final = "message_create_time"
ROLES: Final[dict[str, Speaker]] = {
    "user": "prompt",
    "human": "prompt",
    "assistant": "reply",
    "llm": "reply",
    "model": "reply",
    "chatbot": "reply",
    "tool": "reply",
    "system": "context",
}
"""Who a `role` is; the platforms name them differently. What a tool of the platform wrote was
read by its model before it answered the user, and counts as reply."""

_LONGEST_CELL: Final = 1 << 30
"""Characters of the longest cell; Python's own limit is 131,072, and replies are longer."""


def read_sharechat(path: Path, tokenizer: Path | None = None) -> Conversations:
    """Read a ShareChat file: ``url``, ``message_index``, ``role``, ``plain_text``, and times.

    ChatGPT's and Grok's files have ``message_create_time``; those of the other platforms have no
    times of messages.

    Raises:
        InputError: For every fault, naming the line.
    """
    counter, note = token_counter(tokenizer)
    collector = TurnCollector(counter)
    current: list[tuple[int, Message]] = []
    url: str | None = None
    first_line = 0
    done: dict[str, int] = {}
    repeats = 0
    for line, cells in _rows(path):
        where = f"{path}: line {line}"
        if cells["url"] != url:
            repeats += _close(path, collector, url, first_line, current, done)
            url, first_line, current = cells["url"], line, []
            if url in done:
                raise InputError(
                    f"{where}: the conversation {url!r:.120} stands already in line {done[url]}; "
                    "rows of a conversation must stand together, sort them by url"
                )
        current.append((_index(where, cells["message_index"]), _message(where, line, cells)))
    repeats += _close(path, collector, url, first_line, current, done)
    if not done:
        raise InputError(f"{path}: has a header but no rows; give at least one message")
    notes = [note]
    if repeats:
        notes.append(f"{repeats} messages repeat a message_index and were ignored")
    made, times, _ = collector.without_arrivals(path, "ShareChat", notes)
    return with_arrivals(made, times)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells of every row that is not blank."""
    header: list[str] = []
    with _long_cells():
        reader = csv.reader(text for _, text in lines_of(path))
        try:
            header = [cell.strip() for cell in next(reader)]
            for name in COLUMNS:
                if name not in header:
                    raise InputError(
                        f"{path}: line 1: column {name!r} is missing; "
                        f"{did_you_mean(name, header)}found {', '.join(header[:12])}"
                    )
            before = reader.line_num
            for cells in reader:
                line, before = before + 1, reader.line_num  # a cell may span lines
                if len(cells) not in (0, len(header)):
                    raise InputError(
                        f"{path}: line {line}: {len(cells)} cells where the header "
                        f"has {len(header)}; mend the quotes of that row"
                    )
                if any(cells):
                    yield line, dict(zip(header, cells, strict=True))
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{path}: line {reader.line_num}: is not CSV ({error}); mend the quotes"
            ) from None


@contextmanager
def _long_cells() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _index(where: str, text: str) -> int:
    try:
        number = float(text)  # pandas writes 3.0 where other rows have none
    except ValueError:
        number = nan
    if not number.is_integer():
        raise InputError(
            f"{where}: message_index {text!r:.60} is no whole number; number the messages of a "
            "conversation"
        )
    return int(number)


def _message(where: str, line: int, cells: dict[str, str]) -> Message:
    role = cells["role"].strip().lower()
    if role not in ROLES:
        raise InputError(
            f"{where}: unknown role {cells['role']!r:.60}; {did_you_mean(role, ROLES)}"
            f"known: {', '.join(ROLES)}"
        )
    return Message(ROLES[role], cells["plain_text"], moment(cells.get(TIME), where), line)


def _close(
    path: Path,
    collector: TurnCollector,
    url: str | None,
    line: int,
    messages: list[tuple[int, Message]],
    done: dict[str, int],
) -> int:
    """Hand on a conversation that has ended; how many of its messages were repeats."""
    if url is None:
        return 0
    name = checked_id(f"{path}: line {line}: url", url.strip())
    done[url] = line
    by_index: dict[int, Message] = {}
    for index, message in messages:
        by_index.setdefault(index, message)
    collector.add(Dialogue(name, [by_index[i] for i in sorted(by_index)], line=line))
    return len(messages) - len(by_index)
