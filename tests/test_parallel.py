"""Work in several processes: they end with the one that started them, even where it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from carbon_gym import parallel
from carbon_gym.parallel import in_processes

POSIX = pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signals")
PROGRAM = """
import os, sys, time
from pathlib import Path
from carbon_gym.parallel import in_processes

def work(folder, item):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(0 if item < 2 else 600)

if __name__ == "__main__":
    list(in_processes(work, sys.argv[1], range(4), 2))
"""


def double(shared: int, item: int) -> int:
    return shared * item


def test_every_item_is_done_once() -> None:
    assert dict(in_processes(double, 2, [1, 2, 3], 2)) == {1: 2, 2: 4, 3: 6}


def stops_here(_: None, number: int) -> tuple[bool, bool]:
    """Whether this process has a signal blocked, and whether it ignores it."""
    blocked = number in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return blocked, signal.getsignal(number) == signal.SIG_IGN


@POSIX
def test_processes_ignore_ctrl_c_and_end_on_sigterm() -> None:
    found = dict(in_processes(stops_here, None, [signal.SIGINT, signal.SIGTERM], 2))
    assert found == {signal.SIGINT: (False, True), signal.SIGTERM: (False, False)}


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_gets_its_work_whole_before_a_stop(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever thread takes the signal: it comes once the process is on its way."""

    def stop(*_: object) -> None:
        raise InterruptedError

    started: list[str] = []

    def submit(*_: object) -> None:
        assert {signal.SIGINT, signal.SIGTERM} <= signal.pthread_sigmask(signal.SIG_BLOCK, [])
        taker = threading.Thread(target=take, args=(number,))
        taker.start()
        taker.join()
        time.sleep(0.01)
        started.append("whole")

    monkeypatch.setattr(parallel.ProcessPoolExecutor, "submit", submit)
    before = signal.signal(number, stop)
    try:
        with pytest.raises(InterruptedError):
            parallel.Processes(1).submit(print)
        assert signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)
    assert started == ["whole"]
    assert number not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def take(number: signal.Signals) -> None:
    """Let this thread be the one that gets a signal of the process."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)


@POSIX
def test_a_second_stop_is_not_made_to_wait() -> None:
    handler, taken = signal.getsignal(signal.SIGINT), []

    def twice() -> None:
        with parallel._stops_later():
            for number in range(3):
                taker = threading.Thread(target=take, args=(signal.SIGINT,))
                taker.start()
                taker.join()
                time.sleep(0.01)
                taken.append(number)

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert taken == [0]
    assert signal.getsignal(signal.SIGINT) is handler


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program, folder = tmp_path / "program.py", tmp_path / "processes"
    program.write_text(PROGRAM, encoding="utf-8")
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, str(program), str(folder)])
    try:
        until(lambda: len(list(folder.iterdir())) == 2)
    finally:
        parent.kill()
        parent.wait()
    workers = [int(path.name) for path in folder.iterdir()]
    assert len(workers) == 2
    until(lambda: not any(map(alive, workers)))


def until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("not within a minute")
