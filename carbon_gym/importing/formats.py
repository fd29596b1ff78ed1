"""The formats of conversations by name, and their readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.importing.chats import read_chats
from carbon_gym.importing.records import head_of
from carbon_gym.importing.request_lines import read_mooncake, read_usage
from carbon_gym.importing.request_tables import AZURE, BURSTGPT, USAGE, Layout, read_request_table
from carbon_gym.importing.requests import Prompts
from carbon_gym.importing.sharechat import read_sharechat
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.trace import Conversations


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user said about a file.

    Attributes:
        tokenizer: A ``tokenizer.json`` to count texts with; None: characters / 4.
        prompts: What prompt tokens hold.
        keep: Column that says where each turn was served; None: none is kept.
    """

    tokenizer: Path | None = None
    prompts: Prompts = "auto"
    keep: str | None = None


Reader = Callable[[Path, Wishes], Conversations]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of conversations.

    Attributes:
        title: What it is, for people.
        read: Its reader.
        counts_text: Whether it holds text, which `--tokenizer` counts.
        guesses_prompts: Whether `--prompts` says what its prompt tokens hold.
        keeps: Whether it may have a column for `--keep`.
    """

    title: str
    read: Reader
    counts_text: bool = False
    guesses_prompts: bool = False
    keeps: bool = False


def _table(layout: Layout) -> Reader:
    return lambda path, said: read_request_table(path, layout, said.prompts, said.keep)


def _texts(format: str) -> Reader:
    return lambda path, said: read_conversations(path, format, said.tokenizer)


def _chats(label: str) -> Reader:
    return lambda path, said: read_chats(path, label, said.tokenizer)


def _usage(path: Path, said: Wishes) -> Conversations:
    if head_of(path).startswith(b"{"):
        return read_usage(path, said.keep)
    return read_request_table(path, USAGE, keep=said.keep)


FORMATS: Final[dict[str, Format]] = {
    "tokens": Format(
        "canonical CSV",
        lambda path, said: read_conversations(path, "tokens", log_column=said.keep),
        keeps=True,
    ),
    "sharegpt": Format("ShareGPT JSON", _texts("sharegpt"), counts_text=True),
    "messages": Format("OpenAI-style JSONL", _texts("messages"), counts_text=True),
    "sharechat": Format(
        "ShareChat CSV", lambda path, said: read_sharechat(path, said.tokenizer), counts_text=True
    ),
    "wildchat": Format("WildChat", _chats("WildChat"), counts_text=True),
    "lmsys": Format("LMSYS-Chat", _chats("LMSYS-Chat"), counts_text=True),
    "burstgpt": Format("BurstGPT CSV", _table(BURSTGPT), guesses_prompts=True, keeps=True),
    "azure": Format("Azure LLM trace CSV", _table(AZURE), guesses_prompts=True, keeps=True),
    "mooncake": Format("Mooncake trace JSONL", lambda path, _: read_mooncake(path)),
    "usage": Format("usage log of OpenAI or vLLM, JSONL or CSV", _usage, keeps=True),
}


def read_any(
    path: Path,
    format: str,
    tokenizer: Path | None = None,
    prompts: Prompts = "auto",
    keep: str | None = None,
) -> Conversations:
    """Read a file in one of `FORMATS`.

    Args:
        path: The file.
        format: One of `FORMATS`.
        tokenizer: A ``tokenizer.json``, of formats with text.
        prompts: What prompt tokens hold, of formats that do not say it.
        keep: Column that says where each turn was served, of tables and logs.

    Raises:
        InputError: For an option that does not go with the format and every fault of the file.
    """
    if format not in FORMATS:
        raise InputError(
            f"--format {format!r} is not known; {did_you_mean(format, FORMATS)}use auto or one of "
            f"{', '.join(FORMATS)}"
        )
    chosen = FORMATS[format]
    if tokenizer is not None and not chosen.counts_text:
        raise InputError(f"{path}: the {format} format holds counts already; leave --tokenizer out")
    if prompts != "auto" and not chosen.guesses_prompts:
        raise InputError(
            f"{path}: in the {format} format it is known what prompt tokens hold; leave --prompts "
            "out"
        )
    if keep is not None:
        if not chosen.keeps:
            raise InputError(
                f"{path}: --keep goes with {', '.join(n for n, f in FORMATS.items() if f.keeps)}, "
                f"and this file is {format}; leave --keep out"
            )
        if not keep.isprintable() or keep != keep.strip() or not keep:
            raise InputError(f"--keep {keep!r} is no name of a column; name one of the file's")
    return chosen.read(path, Wishes(tokenizer, prompts, keep))
