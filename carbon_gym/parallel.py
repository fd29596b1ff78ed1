"""The same work on many items, in several processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

_HERE: list[Any] = []  # what this process was started with: the work and what its items share


def in_processes(
    work: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item], jobs: int
) -> Iterator[tuple[Item, Result]]:
    """Do some work on every item.

    Args:
        work: A function of a module, called with `shared` and an item.
        shared: Sent to each process once.
        items: Sent one by one.
        jobs: Most processes.

    Yields:
        An item and what came of it, in the order in which they are done. A fault in one ends the
        rest.
    """
    # spawn: a forked numba may hang, and Windows and macOS have nothing else.
    with ProcessPoolExecutor(
        max(1, min(jobs, len(items))),
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(work, shared),
    ) as pool:
        pending = {pool.submit(_do, item): item for item in items}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)  # do not run the others first
            raise


def _begin(work: Any, shared: Any) -> None:
    _HERE[:] = [work, shared]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed tells nobody: its processes would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(item: Any) -> Any:
    work, shared = _HERE
    return work(shared, item)
