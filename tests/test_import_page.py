"""What the page on imports says is so; and that a million turns are no burden."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commandline import carbon_gym, program
from import_samples import completion, put

from carbon_gym.importing.formats import FORMATS
from carbon_gym.importing.hub import KNOWN
from carbon_gym.importing.requests import PROMPTS
from carbon_gym.workload.readers import read_conversations

PAGE = (Path(__file__).parents[1] / "docs" / "import.md").read_text(encoding="utf-8")


def lines(text: str) -> list[str]:
    """Lines without indentation and runs of spaces."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.search(
        r"```json\n(.*?)```.*? says\n\n(.*?)\n\nand writes\n\n(.*?)\n\n", PAGE, re.DOTALL
    )
    assert found
    put(tmp_path, "log.jsonl", found[1])
    outcome = carbon_gym("import", "conversations", "log.jsonl", "--out", "mine")
    assert lines(outcome.out)[:-3] == lines(found[2])  # after that: the two files, and seconds
    written = tmp_path / "mine" / "conversations.csv.gz"
    shown = put(tmp_path, "shown.csv", "\n".join(lines(found[3])) + "\n")
    ours, theirs = (read_conversations(path, "tokens") for path in (written, shown))
    assert ours.prompt_tokens.tolist() == theirs.prompt_tokens.tolist() == [120, 20]
    assert ours.history_tokens.tolist() == theirs.history_tokens.tolist() == [0, 150]
    assert ours.arrival_s is not None
    assert theirs.arrival_s is not None
    assert ours.arrival_s.tolist() == theirs.arrival_s.tolist()


def test_the_page_lists_every_format_and_hub_name() -> None:
    for name in (*FORMATS, *KNOWN, *PROMPTS):
        assert f"`{name}`" in PAGE


def test_the_command_lists_every_format() -> None:
    said = " ".join(carbon_gym("import", "conversations", "--help").out.split())
    for name in (*FORMATS, *KNOWN, *PROMPTS):
        assert name in said


MEASURED = """
import resource
from carbon_gym.cli import main
try:
    main(["import", "conversations", {file!r}, "--out", {out!r}])
except SystemExit as stop:
    assert not stop.code
spent = resource.getrusage(resource.RUSAGE_SELF)
print(spent.ru_utime + spent.ru_stime, spent.ru_maxrss)
"""


@pytest.mark.slow
def test_a_million_turns(tmp_path: Path) -> None:
    file = tmp_path / "usage.jsonl"
    with file.open("w", encoding="utf-8") as log:
        for session in range(100_000):
            for turn in range(10):
                time = 1_700_000_000 + 3 * session + 120 * turn
                record = completion(f"s{session}", time, 90 + 300 * turn, 210, 256 * turn)
                log.write(json.dumps(record) + "\n")
    said = program(MEASURED.format(file=str(file), out=str(tmp_path / "out")))
    seconds, kilobytes = (float(number) for number in said.splitlines()[-1].split())
    assert "turns           1,000,000" in said
    assert seconds <= 60
    assert kilobytes <= 2 * 2**20
