"""Commands that are stopped: what is finished stays, one sentence says how to go on, all ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commandline import POLICIES, benchmark, carbon_gym, command_of

from carbon_gym import benchmark as module
from carbon_gym.cli import loading
from carbon_gym.cli.habits import Terminated

LINE = ("--scenario", "tiny", "--fleets", 1, "--sessions", 8)
STOPPED = "carbon-gym: stopped; "


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let Ctrl-C, or SIGTERM, come after so many policies."""
    run_policy = module.run_policy

    def set_up(count: int, stop: BaseException) -> None:
        ran: list[str] = []

        def run(scenario: Any, policy: Any, *arguments: Any, **options: Any) -> Any:
            if len(ran) == count:
                raise stop
            ran.append(policy.name)
            return run_policy(scenario, policy, *arguments, **options)

        monkeypatch.setattr(module, "run_policy", run)

    return set_up


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143)])
def test_what_is_finished_stays_and_the_command_that_goes_on_is_said(
    stop: BaseException,
    code: int,
    stop_after: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    stop_after(3, stop)
    done = benchmark(*LINE)
    assert done.code == code
    assert done.out == ""
    (folder,) = (tmp_path / "runs").iterdir()
    where = folder.relative_to(tmp_path)
    assert done.err.startswith(f"{STOPPED}what was finished is in {where}; go on with: ")
    assert done.err.count("\n") == 1
    finished = {row["policy"] for row in json.loads((folder / "results.json").read_text())["rows"]}
    assert finished == set(POLICIES[:3])
    stop_after(99, stop)
    words = shlex.split(done.err.partition("go on with: ")[2])
    assert words[0] == "carbon-gym"
    done = carbon_gym(*words[1:])
    assert done.code == 0
    assert list((tmp_path / "runs").iterdir()) == [folder]
    rows = json.loads((folder / "results.json").read_text())["rows"]
    assert {row["policy"] for row in rows} == set(POLICIES)


def test_the_folder_that_was_named_is_not_named_twice(
    stop_after: Callable[..., None], tmp_path: Path
) -> None:
    stop_after(2, KeyboardInterrupt())
    out = tmp_path / "with space"
    done = benchmark(*LINE, f"--out={out}")
    said = shlex.split(done.err.partition("go on with: ")[2])
    assert [word for word in said if "--out" in word] == [f"--out={out}"]


def test_nothing_finished_is_said_and_leaves_nothing(
    stop_after: Callable[..., None], tmp_path: Path
) -> None:
    stop_after(0, KeyboardInterrupt())
    done = benchmark(*LINE, "--out", tmp_path / "o")
    assert (done.code, done.err) == (130, f"{STOPPED}nothing was finished\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_before_the_command_begins_has_its_exit_code(
    number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading.importlib, "import_module", lambda _: os.kill(os.getpid(), number))
    assert carbon_gym("fleet", "tiny").code == code


def test_json_is_not_printed_of_half_a_result(
    stop_after: Callable[..., None], tmp_path: Path
) -> None:
    stop_after(2, KeyboardInterrupt())
    done = benchmark(*LINE, "--json", "--out", tmp_path)
    assert (done.code, done.out) == (130, "")


def test_a_command_that_cannot_go_on_does_not_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from baselines import clairvoyant_study as study

    converge, studied = study.converge, []

    def once(*arguments: Any, **options: Any) -> Any:
        if studied:
            raise KeyboardInterrupt
        studied.append(1)
        return converge(*arguments, **options)

    monkeypatch.setattr(study, "converge", once)
    other = tmp_path / "other.yaml"
    other.write_text("extends: tiny\n", encoding="utf-8")
    line = ("--scenario", "tiny", "--scenario", other, "--fleets", 1, "--out", tmp_path / "o")
    done = carbon_gym("clairvoyant", *line)
    assert (done.code, done.err) == (130, f"{STOPPED}what was finished is in {tmp_path / 'o'}\n")


def test_what_goes_on_takes_a_folder() -> None:
    """The sentence tells to give --out, so that the commands have to know it."""
    for name in ("benchmark", "evaluate", "audit", "reproduce", "record", "tune-baselines"):
        assert any("--out" in parameter.opts for parameter in command_of(name).params)


def children(pid: int) -> set[int]:
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.add(int(path.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Callable[[], object]) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("not within two minutes")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see processes")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_processes_that_help_end_too(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """Ctrl-C reaches every process of a terminal's group, SIGTERM one alone."""
    out = tmp_path / "o"
    names = ("session-affinity", "faircarbon", "slow:First", "slow:Second", "slow:Third")
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    line = ("--scenario", "tiny", "--fleets", "1", "--policies", ",".join(names), "--jobs", "2")
    run = subprocess.Popen(
        [sys.executable, "-m", "carbon_gym", "benchmark", *line, "--out", str(out)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: len(list(tmp_path.glob("*.began"))) == 2 or run.poll() is not None)
        helpers = children(run.pid)
        assert len(helpers) >= 2
        if number == signal.SIGINT:
            os.killpg(run.pid, number)
        else:
            run.send_signal(number)
        printed, said = run.communicate(timeout=60)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    assert (run.returncode, printed) == (code, "")
    assert said.startswith(f"{STOPPED}what was finished is in {out}; go on with: carbon-gym ")
    assert said.count("\n") == 1, said
    until(lambda: not any(map(alive, helpers)))
    rows = json.loads((out / "results.json").read_text(encoding="utf-8"))["rows"]
    assert {row["policy"] for row in rows} == {"session-affinity", "faircarbon"}


ROOT = Path(__file__).resolve().parents[1]
SLOW = """
import time
from pathlib import Path

class First:
    name = "slow"

    def reset(self, fleet, slots):
        (Path(__file__).parent / f"{type(self).__name__}.began").touch()
        time.sleep(300)

    def choose(self, quotes):
        raise AssertionError

class Second(First):
    pass

class Third(First):
    pass
"""


def test_the_first_signal_of_a_process_is_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    carbon_gym("fleet", "tiny")
    assert signal.getsignal(signal.SIGTERM) == before
