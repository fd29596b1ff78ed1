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

Reader = Callable[[Path, Path | None, Prompts], Conversations]
"""File, tokenizer and what prompts hold → sessions."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of conversations.

    Attributes:
        title: What it is, for people.
        read: Its reader.
        counts_text: Whether it holds text, which `--tokenizer` counts.
        guesses_prompts: Whether `--prompts` says what its prompt tokens hold.
    """

    title: str
    read: Reader
    counts_text: bool = False
    guesses_prompts: bool = False


def _table(layout: Layout) -> Reader:
    return lambda path, _, prompts: read_request_table(path, layout, prompts)


def _usage(path: Path, _: Path | None, __: Prompts) -> Conversations:
    if head_of(path).startswith(b"{"):
        return read_usage(path)
    return read_request_table(path, USAGE)


FORMATS: Final[dict[str, Format]] = {
    "tokens": Format("canonical CSV", lambda path, _, __: read_conversations(path, "tokens")),
    "sharegpt": Format(
        "ShareGPT JSON", lambda path, t, _: read_conversations(path, "sharegpt", t), True
    ),
    "messages": Format(
        "OpenAI-style JSONL", lambda path, t, _: read_conversations(path, "messages", t), True
    ),
    "sharechat": Format("ShareChat CSV", lambda path, t, _: read_sharechat(path, t), True),
    "wildchat": Format("WildChat", lambda path, t, _: read_chats(path, "WildChat", t), True),
    "lmsys": Format("LMSYS-Chat", lambda path, t, _: read_chats(path, "LMSYS-Chat", t), True),
    "burstgpt": Format("BurstGPT CSV", _table(BURSTGPT), guesses_prompts=True),
    "azure": Format("Azure LLM trace CSV", _table(AZURE), guesses_prompts=True),
    "mooncake": Format("Mooncake trace JSONL", lambda path, _, __: read_mooncake(path)),
    "usage": Format("usage log of OpenAI or vLLM, JSONL or CSV", _usage),
}


def read_any(
    path: Path, format: str, tokenizer: Path | None = None, prompts: Prompts = "auto"
) -> Conversations:
    """Read a file in one of `FORMATS`.

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
    return chosen.read(path, tokenizer, prompts)
