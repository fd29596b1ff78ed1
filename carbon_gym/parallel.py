"""The same work on many items, in several processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from types import FrameType
from typing import Any, TypeVar
from weakref import WeakSet

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

_STOPS = (signal.SIGINT, signal.SIGTERM)
_HERE: list[Any] = []  # what this process was started with: the work and what its items share


class Processes(ProcessPoolExecutor):
    """Processes that Ctrl-C does not reach: whoever started them decides what becomes of them."""

    def submit(self, work: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        """See `concurrent.futures.Executor.submit`."""
        with _stops_later():  # a process that is started here inherits the blocked signals
            return super().submit(work, *arguments, **options)

    def end(self) -> None:
        """End the processes at once; what they are at is lost."""
        workers = list((self._processes or {}).values())
        self.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()


_OPEN: WeakSet[Processes] = WeakSet()


@contextmanager
def processes(
    jobs: int, begin: Callable[..., None] | None = None, shared: Sequence[Any] = ()
) -> Iterator[Processes]:
    """Processes for some work, all gone when the block ends.

    Args:
        jobs: How many at most.
        begin: Called once in each of them, a function of a module.
        shared: Its arguments.

    Yields:
        A pool. An error in the block drops what has not begun and waits for the rest; Ctrl-C, and
        whatever else is no `Exception`, ends it all at once.
    """
    # spawn: a forked numba may hang, and Windows and macOS have nothing else.
    pool = Processes(
        jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(begin, *shared)
    )
    _OPEN.add(pool)
    try:
        yield pool
    except Exception:
        pool.shutdown(cancel_futures=True)  # do not run the others first
        raise
    except BaseException:
        pool.end()
        raise
    else:
        pool.shutdown()
    finally:
        _OPEN.discard(pool)


def end_processes() -> None:
    """End all processes that are left, where a fault keeps the blocks that own them alive."""
    for pool in list(_OPEN):
        pool.end()


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
    with processes(max(1, min(jobs, len(items))), _remember, (work, shared)) as pool:
        pending = {pool.submit(_do, item): item for item in items}
        for future in as_completed(pending):
            yield pending[future], future.result()


@contextmanager
def _stops_later() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back for a moment; they are not lost.

    Both are blocked for the sake of a process that is started here: while it reads what it is to
    do it must neither end nor be cut short. Another thread of this process may still take them,
    which is why their handlers wait too; a second one is not made to.
    """
    came: list[int] = []

    def later(number: int, _: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in _STOPS}
    if threading.current_thread() is not threading.main_thread() or None in handlers.values():
        handlers = {}  # not ours to set
    with _blocked():
        for number in handlers:
            signal.signal(number, later)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            if came:
                signal.raise_signal(came[0])


@contextmanager
def _blocked() -> Iterator[None]:
    """Block the signals in this thread. Windows has no such thing."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(begin: Callable[..., None] | None, *shared: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if begin is not None:
        begin(*shared)


def _end_with_parent() -> None:
    """A parent that is killed tells nobody: its processes would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _remember(work: Any, shared: Any) -> None:
    _HERE[:] = [work, shared]


def _do(item: Any) -> Any:
    work, shared = _HERE
    return work(shared, item)
