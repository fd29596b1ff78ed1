"""Keeping the calling thread, and those it starts, on some cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def pinned(number: int) -> Iterator[list[int] | None]:
    """Run the block on the last `number` cores of those that are allowed; the first are busiest.

    Yields:
        The cores, or None where the system cannot pin (macOS, Windows, some sandboxes).
    """
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    before = os.sched_getaffinity(0)
    chosen = sorted(before)[-number:]
    try:
        os.sched_setaffinity(0, chosen)
    except OSError:
        yield None
        return
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, before)
