"""Reading options that are one of a few words, lists, days."""

from __future__ import annotations

import difflib
from datetime import date
from pathlib import Path
from typing import Literal, TypeVar

from carbon_gym.errors import InputError

Word = TypeVar("Word", bound=str)
Format = Literal["tokens", "sharegpt", "messages"]

FORMATS: tuple[Format, ...] = ("tokens", "sharegpt", "messages")
_FORMAT_OF_ENDING: dict[str, Format] = {
    ".csv": "tokens",
    ".json": "sharegpt",
    ".jsonl": "messages",
}


def one_of(option: str, text: str, allowed: tuple[Word, ...]) -> Word:
    """The word, if it is allowed; else `InputError` with the nearest one."""
    for word in allowed:
        if text == word:
            return word
    near = difflib.get_close_matches(text, allowed, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"{option} {text!r} is not known; {hint}Use one of {', '.join(allowed)}")


def names_in(option: str, text: str) -> list[str]:
    """Names separated by commas; `InputError` if there is none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} {text!r} names nothing; give names separated by commas")
    return list(dict.fromkeys(names))


def day(option: str, text: str) -> date:
    """A day as 2023-05-08; `InputError` otherwise."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} {text!r} is not a day; write it as 2023-05-08") from None


def conversation_format(path: Path, named: str | None) -> Format:
    """Format of a conversation file: as named, else by its ending."""
    if named is not None:
        return one_of("--format", named, FORMATS)
    name = path.name.removesuffix(".gz")
    for ending, meant in _FORMAT_OF_ENDING.items():
        if name.endswith(ending):
            return meant
    raise InputError(
        f"--conversations {path}: the ending says no format; add --format with one of "
        f"{', '.join(FORMATS)}"
    )
