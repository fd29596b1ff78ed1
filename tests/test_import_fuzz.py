"""Whatever a file holds: it is imported whole, or refused in one sentence with nothing written."""

from __future__ import annotations

import gzip
import io
import random
import time
import zipfile
from pathlib import Path

import pytest
from commandline import carbon_gym
from import_samples import SAMPLES

from carbon_gym.errors import InputError
from carbon_gym.importing.formats import FORMATS, read_any
from carbon_gym.importing.summary import draw_summary
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.trace import Conversations

LONGEST_S = 60.0
"""No file here may take longer (a mutant takes a few hundredths of a second)."""

PIECES = [
    *(b"null", b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"3.5", b"true", b"[]", b"{}", b'""'),
    *(b'"\\ud800"', b"99999999999999999999999", b"9" * 5_000, b"[" * 3_000, b"\xff", b"\0", b"\n"),
    *(b",", b'"', b"\r", b"'", b":", b"1970-01-01", b"9999-12-31T23:59:59Z", b"9" * 17, b"\x1a"),
]


def mutant(text: bytes, rng: random.Random) -> bytes:
    """The text with one to three faults."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.choice((1, 1, 4, 30, 300)))
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:at] + text[to:]
        elif kind == 1:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind == 2:
            text = text[:at] + rng.choice(PIECES) + text[to:]
        elif kind == 3:
            text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
        elif kind == 4:
            text = text[:at] + text[at:to] * 3 + text[to:]
        else:
            lines = text.split(b"\n")
            rng.shuffle(lines)
            text = b"\n".join(lines)
    return text


def packed(content: bytes, folder: Path, rng: random.Random) -> Path:
    """The content in a file: as it is, or in a gzip or zip that may have a fault of its own."""
    path = folder / "file"
    kind = rng.randrange(10)
    if kind < 8:
        path.write_bytes(content)
    elif kind == 8:
        path.write_bytes(mutant(gzip.compress(content), rng))
    else:
        method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr(rng.choice(("data.csv", "données.csv")), content)
        path.write_bytes(mutant(path.read_bytes(), rng))
    return path


def importing_is_whole_or_not_at_all(file: Path, folder: Path, *options: str) -> bool:
    """Import a file; whether it was taken."""
    out = folder / "out"
    began = time.perf_counter()
    outcome = carbon_gym("import", "conversations", file, "--out", out, *options)
    assert time.perf_counter() - began < LONGEST_S
    if outcome.code == 0:
        found = read_conversations(out / "conversations.csv.gz", "tokens")
        assert found.turns > 0
        for path in out.iterdir():
            path.unlink()
        out.rmdir()
        return True
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith("carbon-gym: ")
    assert len(outcome.err) < 2_000
    assert not out.exists()
    return False


def mutants(first: int, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = 0

    def sometimes(found: Conversations, path: Path) -> None:
        nonlocal drawn
        drawn += 1
        if drawn % 10 == 1:
            draw_summary(found, path)
        else:
            path.write_bytes(b"not drawn")

    monkeypatch.setattr("carbon_gym.importing.summary.draw_summary", sometimes)
    taken = 0
    for number in range(first, first + count):
        rng = random.Random(number)
        format = rng.choice(sorted(SAMPLES))
        content = mutant(SAMPLES[format].text.encode(), rng)
        named = rng.choice(("auto", format, format, rng.choice(sorted(FORMATS))))
        try:
            taken += importing_is_whole_or_not_at_all(
                packed(content, folder, rng), folder, "--format", named
            )
        except BaseException:
            print(f"mutant {number} of {format}, read as {named}")
            raise
    assert 0 < taken < count


def test_damaged_archives(tmp_path: Path) -> None:
    text = SAMPLES["tokens"].text.encode()
    said = 0
    for number in range(400):
        rng = random.Random(number)
        raw = io.BytesIO()
        method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
        with zipfile.ZipFile(raw, "w", method) as archive:
            archive.writestr(rng.choice(("data.csv", "données.csv")), text)
        content = bytearray(rng.choice((raw.getvalue(), gzip.compress(text))))
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(4, len(content))] = rng.randrange(256)
        (tmp_path / "file").write_bytes(content)
        try:
            read_any(tmp_path / "file", "tokens")
        except InputError:
            said += 1
    assert 0 < said < 400


def test_mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants(0, 60, tmp_path, monkeypatch)


@pytest.mark.slow
def test_a_thousand_mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants(1_000, 1_000, tmp_path, monkeypatch)


def noise(size: int, folder: Path) -> None:
    rng = random.Random(size)
    raw = rng.randbytes(size)
    text = bytes(32 + byte % 95 for byte in raw[: size // 4])
    for number, content in enumerate(
        (raw, gzip.compress(raw, 1), text, b"[" + text, b"{" + text, b'[{"a": "' + text)
    ):
        file = folder / f"noise-{number}"
        file.write_bytes(content)
        assert not importing_is_whole_or_not_at_all(file, folder)
        for format in FORMATS:
            assert not importing_is_whole_or_not_at_all(file, folder, "--format", format)


def test_noise(tmp_path: Path) -> None:
    noise(100_000, tmp_path)


@pytest.mark.slow
def test_ten_megabytes_of_noise(tmp_path: Path) -> None:
    noise(10_000_000, tmp_path)
