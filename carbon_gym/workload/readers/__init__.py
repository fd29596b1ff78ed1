"""Readers of conversation files: one door, three formats."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from carbon_gym.errors import InputError, did_you_mean
from carbon_gym.workload.trace import Conversations

FORMATS: Final = ("tokens", "sharegpt", "messages")


def read_conversations(
    path: str | Path,
    format: str,
    tokenizer: str | Path | None = None,
    log_column: str | None = None,
) -> Conversations:
    """Read a conversation file.

    Args:
        path: The file, plain or gzip.
        format: ``"tokens"`` (CSV of token counts), ``"sharegpt"`` (JSON list of `id` and
            `conversations`) or ``"messages"`` (JSONL, OpenAI-style `messages`).
        tokenizer: Path of a ``tokenizer.json`` for the two text formats; None: characters / 4.
        log_column: Of the tokens format, the column that says where each turn was served.

    Returns:
        The sessions; what was done on loading stands in `Conversations.notes`.

    Raises:
        InputError: For every fault of the file, in one sentence with the place and the fix.
    """
    file = Path(path)
    if format == "tokens":
        if tokenizer is not None:
            raise InputError(
                f"{file}: the tokens format holds counts already; leave the tokenizer out"
            )
        from carbon_gym.workload.readers.tokens import read_tokens

        return read_tokens(file, log_column)
    if log_column is not None:
        raise InputError(
            f"{file}: only the tokens format has a column {log_column!r} that says where a turn "
            f"was served, and the file is read as {format}; make it a tokens file or leave the "
            "column out"
        )
    if format == "sharegpt":
        from carbon_gym.workload.readers.sharegpt import read_sharegpt

        return read_sharegpt(file, tokenizer)
    if format == "messages":
        from carbon_gym.workload.readers.messages import read_messages

        return read_messages(file, tokenizer)
    hint = did_you_mean(format, FORMATS)
    raise InputError(f"format {format!r} is unknown; {hint}allowed: {', '.join(FORMATS)}")
