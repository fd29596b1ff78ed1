"""Work in several processes: they end with the one that started them, even where it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from carbon_gym.parallel import in_processes

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
