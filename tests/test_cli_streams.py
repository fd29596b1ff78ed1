"""Standard streams that are closed, full, or that nobody reads: an exit code and no riddle."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = f"{shlex.quote(sys.executable)} -m carbon_gym"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="redirects by a POSIX shell")


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a shell does of a line; Python holds what it prints back, as it usually does."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    if not variables:
        environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.run(
        ["sh", "-c", line.replace("carbon-gym", PROGRAM)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["fleet tiny", "fleet tiny --json", "--version"])
def test_closed_streams_are_like_those_that_lead_nowhere(command: str, tmp_path: Path) -> None:
    for closed in (">&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"):
        done = shell(f"carbon-gym {command} {closed}", tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), closed
    assert shell("carbon-gym fleet nowhere >&- 2>&-", tmp_path).returncode == 2


def test_what_goes_to_a_closed_stderr_does_not_get_into_the_document(tmp_path: Path) -> None:
    done = shell("carbon-gym -v fleet tiny --json 2>&-", tmp_path)
    assert json.loads(done.stdout)["command"] == "fleet"


@pytest.mark.parametrize("command", ["fleet tiny", "fleet sharegpt --json", "--version"])
@pytest.mark.parametrize("unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_output_that_nobody_reads_ends_the_command_silently(
    command: str, unbuffered: dict[str, str], tmp_path: Path
) -> None:
    # The shell's own status is that of the pipe's last command: ours goes into a file.
    ours = f"( sleep 0.2; carbon-gym {command}; echo $? > code )"
    done = shell(f"{ours} | true; until [ -s code ]; do sleep 0.1; done", tmp_path, **unbuffered)
    assert (done.stdout, done.stderr) == ("", "")
    assert (tmp_path / "code").read_text() == "1\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["fleet tiny", "fleet sharegpt --json", "--version"])
def test_output_that_finds_no_room_is_one_sentence(command: str, tmp_path: Path) -> None:
    done = shell(f"carbon-gym {command} > /dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("carbon-gym: cannot write (No space left on device); make room")
    assert done.stderr.count("\n") == 1
