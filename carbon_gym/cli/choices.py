"""Reading options that are one of a few words, lists, days."""

from __future__ import annotations

import difflib
import os
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from carbon_gym.errors import InputError
from carbon_gym.resources import packaged_names

POLICY_NAMES = (
    *("session-affinity", "session-hash", "faircarbon", "gar-eps", "gar-pd", "cedar"),
    *("cache-aware", "carbon-greedy", "least-ttft", "largest-model", "smallest-model", "random"),
    *("replay", "ccar", "ccar-ev", "ccar-no-gate", "ccar-no-pricing", "ccar-budget"),
    *("ccar-budget-fixed", "ccar-budget-follow", "ccar-budget-sessions", "faircarbon-budget"),
    *("gar-pd-budget", "lookahead", "lookahead-places", "learned", "clairvoyant", "lower-bound"),
)
"""Those of `carbon_gym.policy_names`, which would import all that policies need to run."""


def complete_scenario(incomplete: str) -> list[str]:
    """Packaged scenarios that begin so, for the shell."""
    names = packaged_names("scenarios", ".yaml")
    return [name for name in names if name.startswith(incomplete)]


def complete_policy(incomplete: str) -> list[str]:
    """Policies that begin so, for the shell."""
    return [name for name in POLICY_NAMES if name.startswith(incomplete)]


def complete_policies(incomplete: str) -> list[str]:
    """Lists of policies, separated by commas, whose last one begins so."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [before + comma + name for name in complete_policy(last) if name not in taken]


ScenariosOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|FILE",
        help="Packaged scenario or YAML file; may be repeated. Default: sharegpt.",
        autocompletion=complete_scenario,
    ),
]
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
    nearest = f" (nearest: {near[0]!r})" if near else ""
    raise InputError(f"{option} {text!r} is not known{nearest}; use one of {', '.join(allowed)}")


def names_in(option: str, text: str) -> list[str]:
    """Names separated by commas; `InputError` if there is none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InputError(f"{option} {text!r} names nothing; give names separated by commas")
    return names


def different(option: str, names: list[str]) -> list[str]:
    """The names, if none stands there twice; else `InputError`."""
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{option} names {name!r} twice; name each once")
    return names


def processes_of(jobs: int | None) -> int:
    """How many processes ``--jobs`` asks for; not given: as many as there are cores.

    Raises:
        InputError: It is below 1.
    """
    return at_least_one("--jobs", jobs) or os.cpu_count() or 1


def at_least_one(option: str, number: int | None) -> int | None:
    """The number, if there is one and it is positive; `InputError` for 0 and below."""
    if number is not None and number < 1:
        raise InputError(f"{option} {number} is not allowed; give 1 or more, or leave it out")
    return number


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
    if path.is_dir():
        raise InputError(f"--conversations {path}: is a folder; name one conversation file")
    name = path.name.removesuffix(".gz")
    for ending, meant in _FORMAT_OF_ENDING.items():
        if name.endswith(ending):
            return meant
    raise InputError(
        f"--conversations {path}: the ending says no format; add --format with one of "
        f"{', '.join(FORMATS)}"
    )
