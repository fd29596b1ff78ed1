"""Sessions of a trace that has no session ids, from the hashes of the prompts' blocks.

A block hash stands for its block and everything before it. A request continues an earlier one if
its prompt begins with all whole blocks of that prompt and is long enough to hold the earlier reply
as well. The last whole block must be one that the earlier request's own session was the first to
have: else prompts that share no more than a system prompt would be taken for one session.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np

from carbon_gym.workload.trace import Ints

DEFAULT_BLOCK_TOKENS: Final = 512
"""Tokens of a block where the prompts fit no size (PUBLISHED: that of the public traces)."""
_SIZES: Final = tuple(2**k for k in range(4, 12))


def block_tokens(prompt_tokens: Sequence[int], blocks: Sequence[int]) -> int:
    """Tokens of a block: the power of two from 16 to 2,048 that fits the most prompts.

    Args:
        prompt_tokens: Of every request.
        blocks: Number of hashes of every request; the last block may be partial.
    """
    prompt, count = np.asarray(prompt_tokens), np.asarray(blocks)
    fits = {size: int(np.count_nonzero(-(-prompt // size) == count)) for size in _SIZES}
    best = max(_SIZES, key=lambda size: (fits[size], size == DEFAULT_BLOCK_TOKENS))
    return best if fits[best] else DEFAULT_BLOCK_TOKENS


class BlockSessions:
    """Finds the sessions of requests, block size in tokens given."""

    def __init__(self, block_tokens: int) -> None:
        self._size = block_tokens

    def of(
        self,
        time_s: Sequence[float],
        prompt: Sequence[int],
        output: Sequence[int],
        blocks: Sequence[Sequence[int]],
    ) -> array[int]:
        """Session of every request, numbered by first request.

        Args:
            time_s: Of every request.
            prompt: Prompt tokens.
            output: Reply tokens.
            blocks: Hashes of the prompt's blocks.
        """
        session = array("q", [-1]) * len(prompt)
        owner: dict[int, int] = {}
        open_at: dict[int, int] = {}
        sessions = 0
        order: Ints = np.lexsort((np.arange(len(prompt)), np.asarray(time_s)))
        for row in order.tolist():
            ids = blocks[row]
            whole = min(len(ids), prompt[row] // self._size)
            parent = -1
            for place in range(whole - 1, -1, -1):
                earlier = open_at.get(ids[place], -1)
                if (
                    earlier >= 0
                    and owner[ids[place]] == session[earlier]
                    and prompt[row] >= prompt[earlier] + output[earlier]
                ):
                    parent = earlier
                    del open_at[ids[place]]  # a second one that begins so is another session
                    break
            if parent < 0:
                session[row] = sessions
                sessions += 1
            else:
                session[row] = session[parent]
            for place in range(whole):
                owner.setdefault(ids[place], session[row])
            if whole:
                open_at[ids[whole - 1]] = row
        return session
