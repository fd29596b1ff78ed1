"""Counting tokens of text: by a `tokenizer.json` the user names, else by characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from carbon_gym.errors import InputError, from_extra
from carbon_gym.workload.trace import Ints

CHARACTERS_PER_TOKEN: Final = 4
"""Rule of thumb where no tokenizer is named (ASSUMED; STATS: English ShareGPT has about 4.5)."""

TokenCounter = Callable[[Sequence[str]], Ints]
"""Texts → their tokens, int64, same length."""


def token_counter(tokenizer: str | Path | None) -> tuple[TokenCounter, str]:
    """How tokens are counted, and the note that says so.

    Args:
        tokenizer: Path of a ``tokenizer.json`` (read by the optional package `tokenizers`);
            None: characters / 4, rounded up.

    Raises:
        InputError: If the package or the file is missing, or the file is no tokenizer.
    """
    if tokenizer is None:
        return _by_characters, "tokens: characters / 4, rounded up (no tokenizer named)"
    path = Path(tokenizer)
    if not path.is_file():
        raise InputError(
            f"{path}: no such tokenizer file; name a tokenizer.json or leave the tokenizer out"
        )
    with from_extra(f"{path}: counting with it", "data", " or leave the tokenizer out"):
        from tokenizers import Tokenizer
    try:
        loaded = Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exception
        raise InputError(
            f"{path}: is not a tokenizer.json ({error}); name the file of a Hugging Face tokenizer"
        ) from None

    def by_tokenizer(texts: Sequence[str]) -> Ints:
        # Half a surrogate pair, which JSON can hold, is no text to the package.
        whole = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        encodings = loaded.encode_batch(whole, add_special_tokens=False)
        return np.fromiter((len(e.ids) for e in encodings), dtype=np.int64, count=len(texts))

    return by_tokenizer, f"tokens: counted with {path.name}"


def _by_characters(texts: Sequence[str]) -> Ints:
    length = np.fromiter((len(text) for text in texts), dtype=np.int64, count=len(texts))
    return -(-length // CHARACTERS_PER_TOKEN)
