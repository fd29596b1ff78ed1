"""`carbon-gym import conversations`: every format, its broken variants, and files of any kind."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import sys
import types
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import Outcome, carbon_gym
from import_samples import BROKEN, SAMPLES, check, put, words

from carbon_gym.errors import InputError
from carbon_gym.importing.detect import detect
from carbon_gym.importing.formats import FORMATS, read_any
from carbon_gym.importing.write import writable, write_tokens
from carbon_gym.workload.readers import read_conversations
from carbon_gym.workload.trace import Conversations


def run(folder: Path, file: Path, *options: Any) -> Outcome:
    return carbon_gym("import", "conversations", file, "--out", folder / "out", *options)


def refused(folder: Path, file: Path, *options: Any) -> str:
    """The sentence of a failed import that left nothing behind."""
    outcome = run(folder, file, *options)
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert not (folder / "out").exists()
    assert outcome.err.startswith("carbon-gym: ")
    assert outcome.err.count("\n") == 1
    return outcome.err


def read_back(folder: Path) -> Conversations:
    return read_conversations(folder / "out" / "conversations.csv.gz", "tokens")


# --- every format ------------------------------------------------------------------------------


@pytest.mark.parametrize("format", SAMPLES)
def test_a_file_of_every_format_is_told_read_and_written(format: str, tmp_path: Path) -> None:
    sample = SAMPLES[format]
    file = put(tmp_path, sample.name, sample.text)
    assert detect(file)[0] == format
    check(read_any(file, format), sample)
    outcome = run(tmp_path, file)
    assert outcome.code == 0, outcome.err
    assert f"({format}: " in outcome.out
    assert FORMATS[format].title in outcome.out
    check(read_back(tmp_path), sample)
    assert (tmp_path / "out" / "conversations.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "conversations.csv.gz",
        "conversations.png",
    ]


@pytest.mark.parametrize("format", SAMPLES)
def test_the_content_tells_the_format_and_not_the_name(format: str, tmp_path: Path) -> None:
    text = SAMPLES[format].text.encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("../../../evil/data.csv", text)
        packed.writestr("readme.md", "about")
    for content in (b"\xef\xbb\xbf" + text, gzip.compress(text), archive.getvalue()):
        file = put(tmp_path, "download", content)
        assert detect(file)[0] == format
        check(read_any(file, format), SAMPLES[format])
    assert [path.name for path in tmp_path.iterdir()] == ["download"]


@pytest.mark.parametrize(
    ("format", "fault"), [(format, fault) for format in BROKEN for fault in BROKEN[format]]
)
def test_broken_files_name_the_row_and_the_fix(format: str, fault: str, tmp_path: Path) -> None:
    old, new, place, fix = BROKEN[format][fault]
    sample = SAMPLES[format]
    assert old in sample.text
    file = put(tmp_path, sample.name, sample.text.replace(old, new, 1))
    said = refused(tmp_path, file, "--format", format)
    assert sample.name in said
    assert place in said
    assert fix in said


def test_every_format_has_a_sample_and_three_broken_ones() -> None:
    assert set(SAMPLES) == set(BROKEN) == set(FORMATS)
    assert all(len(faults) >= 3 for faults in BROKEN.values())


def test_the_written_file_is_the_same_again(tmp_path: Path) -> None:
    file = put(tmp_path, "u.jsonl", SAMPLES["usage"].text)
    run(tmp_path, file)
    first = (tmp_path / "out" / "conversations.csv.gz").read_bytes()
    run(tmp_path, file)
    assert (tmp_path / "out" / "conversations.csv.gz").read_bytes() == first


def test_what_was_found_is_printed(tmp_path: Path) -> None:
    outcome = run(tmp_path, put(tmp_path, "u.jsonl", SAMPLES["usage"].text))
    said = " ".join(outcome.out.split())
    for figure in (
        "sessions 2",
        "turns 3; a session: mean 1.5",
        "prompt tokens 340 in all",
        "2024-06-01 10:00 UTC to 2024-06-01 10:01 UTC (90.0 seconds)",
        "gaps s: mean 90.0",
        "the servers found 52.2 % of the prompt tokens in a cache",
    ):
        assert figure in said


# --- options, archives, what is never read -----------------------------------------------------


def test_options_that_do_not_go_with_the_format(tmp_path: Path) -> None:
    file = put(tmp_path, "u.jsonl", SAMPLES["usage"].text)
    assert "leave --tokenizer out" in refused(tmp_path, file, "--tokenizer", "t.json")
    assert "leave --prompts out" in refused(tmp_path, file, "--prompts", "whole")
    assert "'whole'" in refused(tmp_path, file, "--prompts", "hole")
    assert "did you mean 'mooncake'" in refused(tmp_path, file, "--format", "moncake")
    assert "name one file" in carbon_gym("import", "conversations").err
    assert "name one file" in carbon_gym("import", "conversations", file, "--from-hub", "x").err
    assert "no such file" in refused(tmp_path, tmp_path / "nowhere")
    assert "directory" in refused(tmp_path, tmp_path)


def test_a_tokenizer_counts(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0, "?": 1}, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    text = SAMPLES["lmsys"].text.replace(words(6), "x x \\ud800")
    file = put(tmp_path, "l.jsonl", text)
    assert run(tmp_path, file, "--tokenizer", tmp_path / "tokenizer.json").code == 0
    assert read_back(tmp_path).prompt_tokens[0] == 3


METHODS = {"stored": zipfile.ZIP_STORED, "lzma": zipfile.ZIP_LZMA}


def archive_of(method: str = "stored", **members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", METHODS[method]) as packed:
        for name, text in members.items():
            packed.writestr(name.replace("__", "."), text)
    return content.getvalue()


STRANGE: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "pickle": (pickle.dumps([1, 2, 3]), ("pickle", "never read")),
    "old pickle": (pickle.dumps([1, 2, 3], protocol=2), ("pickle", "never read")),
    "empty": (b"", ("empty",)),
    "blank": (b" \n\n ", ("empty",)),
    "binary": (b"\x00\xff" * 99, ("UTF-8",)),
    "prose": (b"Dear all,\nhere is the data.\n", ("no known format", "columns", "--format")),
    "number": (b"[1, 2]", ("record 1", "no JSON object")),
    "other list": (b'[{"prompt": "x", "answer": "y"}]', ("keys 'prompt', 'answer'",)),
    "sharegpt lines": (b'{"id": "a", "conversations": []}\n', ("one ShareGPT record per line",)),
    "messages list": (b'[{"messages": []}]', ("JSON list", "jq")),
    "empty list": (b"[]", ("no known format",)),
    "deep": (b"[" * 200_000, ("nested too deeply",)),
    "long number": (b"[" + b"9" * 9_000 + b"]", ("too long",)),
    "two files": (archive_of(a__csv=b"x", b__json=b"y"), ("'a.csv', 'b.json'", "unpack")),
    "no file": (archive_of(a__png=b"x"), ("found none",)),
    "utf-16": ("session,turn\n".encode("utf-16"), ("UTF-16", "save the file as UTF-8")),
    "semicolons": (b"session;turn;prompt_tokens;output_tokens\n", ("';'", "with commas")),
    "tabs": (b"session\tturn\tprompt_tokens\n", ("'\\t'", "with commas")),
    "lzma in zip": (archive_of("lzma", a__csv=b"x" * 99), ("compression method 14", "unpack")),
    "name in zip": (
        archive_of("stored", é__csv=b"x").replace("é".encode(), b"\xc3("),
        ("damaged", "fetch"),
    ),
    "cut archive": (archive_of(a__csv=b"x" * 999)[:80], ("damaged",)),
    "cut gzip": (gzip.compress(b"session,turn\n" * 999)[:40], ("truncated",)),
    "damaged gzip": (gzip.compress(b"session" * 9)[:-8] + b"x" * 8, ("damaged",)),
    "parquet": (b"PAR1" + bytes(99), ("pyarrow",)),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_strange_files_are_refused_in_a_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    content, said = STRANGE[kind]
    sentence = refused(tmp_path, put(tmp_path, "odd", content))
    assert all(part in sentence for part in said), sentence


def test_files_that_expand_without_end(tmp_path: Path) -> None:
    zeros = bytes(1 << 20)
    with gzip.open(tmp_path / "bomb.gz", "wb", 1) as file:
        file.write(b"{")
        for _ in range(300):
            file.write(zeros)
    assert "more than 200 times" in refused(tmp_path, tmp_path / "bomb.gz")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", b"session,turn,prompt_tokens,output_tokens\n" + zeros * 300)
    assert "more than 200 times" in refused(tmp_path, tmp_path / "bomb.zip")


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes on this system")
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe" in refused(tmp_path, tmp_path / "pipe")


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carbon_gym.workload.readers.files._LONGEST_LINE", 1 << 10)
    text = SAMPLES["mooncake"].text + '{"timestamp": ' + "9" * 2_000
    said = refused(tmp_path, put(tmp_path, "m", text), "--format", "mooncake")
    assert "line 4: is longer" in said


def test_no_half_pictures_and_no_half_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(tmp_path, "u.jsonl", SAMPLES["usage"].text)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("carbon_gym.importing.summary.save", fail)
    assert "No space left" in refused(tmp_path, file)


def test_parquet_through_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [json.loads(line) for line in SAMPLES["wildchat"].text.splitlines()]

    class ParquetFile:
        """Stands in for pyarrow's: the columns of the schema, and batches of rows."""

        def __init__(self, path: Path) -> None:
            if Path(path).stat().st_size < 9:
                raise OSError("Couldn't deserialize thrift")
            self.schema_arrow = types.SimpleNamespace(names=list(records[0]))

        def iter_batches(self, batch_size: int) -> list[Any]:
            return [types.SimpleNamespace(to_pylist=lambda: records)]

    package = types.ModuleType("pyarrow")
    package.ArrowException = RuntimeError  # type: ignore[attr-defined]
    module = types.ModuleType("pyarrow.parquet")
    module.ParquetFile = ParquetFile  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", package)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)
    file = put(tmp_path, "train.parquet", b"PAR1 and the rest")
    assert detect(file)[0] == "wildchat"
    check(read_any(file, "wildchat"), SAMPLES["wildchat"])
    assert "damaged parquet" in refused(tmp_path, put(tmp_path, "cut.parquet", b"PAR1"))
    records[0] = {"usage": {}, "id": "a"}
    said = refused(tmp_path, file)
    assert "parquet is read for wildchat and lmsys only" in said
    assert "the usage format" in said


def test_parquet_itself(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for format in ("wildchat", "lmsys"):
        records = [json.loads(line) for line in SAMPLES[format].text.splitlines()]
        for message in (m for record in records for m in record["conversation"]):
            if message.get("timestamp"):  # parquet has times, not text
                message["timestamp"] = datetime.fromisoformat(message["timestamp"])
        parquet.write_table(arrow.Table.from_pylist(records), tmp_path / format)
        assert detect(tmp_path / format)[0] == format
        check(read_any(tmp_path / format, format), SAMPLES[format])
    cut = put(tmp_path, "cut", (tmp_path / "lmsys").read_bytes()[:-40])
    assert "damaged parquet" in refused(tmp_path, cut)


# --- writing -----------------------------------------------------------------------------------


def sessions(*ids: str, history: int = 0, arrival: float | None = None) -> Conversations:
    count = len(ids)
    return Conversations(
        session_id=ids,
        session_key=np.zeros(count, dtype=np.uint64),
        offsets=np.arange(count + 1, dtype=np.int64),
        prompt_tokens=np.ones(count, dtype=np.int64),
        history_tokens=np.full(count, history, dtype=np.int64),
        output_tokens=np.ones(count, dtype=np.int64),
        category=np.arange(count, dtype=np.int8) - 1,
        arrival_s=None if arrival is None else np.full(count, arrival),
        absolute_time=arrival is not None and arrival > 1e9,
    )


@pytest.mark.parametrize("arrival", [None, 0.1234564, 1717236000.000001])
def test_what_is_written_is_read_as_the_same(arrival: float | None, tmp_path: Path) -> None:
    ids = ("a,b", 'a"b', "NA", "é", " a", "a", "a\nb", "x" * 5_000)[:5]
    given = writable(sessions(*ids, history=20_000_000, arrival=arrival))
    assert any("histories cut" in note for note in given.notes)
    write_tokens(given, tmp_path / "t.csv.gz")
    found = read_conversations(tmp_path / "t.csv.gz", "tokens")
    assert sorted(found.session_id) == sorted(given.session_id)
    assert set(found.history_tokens.tolist()) == {10_000_000}
    assert sorted(found.category.tolist()) == [-1, 0, 1, 2, 3]
    if arrival is not None:
        assert found.arrival_s is not None
        assert found.arrival_s[0] == pytest.approx(arrival, abs=1e-6)


def test_ids_that_cannot_be_printed(tmp_path: Path) -> None:
    made = writable(sessions(" a", "a", "a\nb", "x" * 5_000)).session_id
    assert made[:3] == ("' a'", "a", "'a\\nb'")
    assert len(made[3]) < 200
    with pytest.raises(InputError, match="differ only"):
        writable(sessions(" a", "' a'"))
