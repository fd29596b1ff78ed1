"""Records of a data set: from a JSON list, one JSON object per line, or parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from carbon_gym.errors import InputError, from_extra
from carbon_gym.workload.readers.files import lines_of, opened
from carbon_gym.workload.readers.json_records import json_of_line, list_records

PARQUET_MAGIC: Final = b"PAR1"
_HEAD_BYTES: Final = 1 << 16
_RULE: Final = "give one JSON list of conversations, or one JSON object per line"


def head_of(path: Path) -> bytes:
    """The first bytes of a file, decompressed, without a byte order mark and leading space."""
    with opened(path) as stream:
        return stream.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()


def records_of(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Place (file and record, for messages), number and content of every record.

    Raises:
        InputError: For malformed JSON and for records that are no objects.
    """
    head = head_of(path)
    if head.startswith(PARQUET_MAGIC):
        numbered: Iterator[tuple[int, Any]] = enumerate(_parquet_rows(path), start=1)
        unit = "row"
    elif head.startswith(b"["):
        numbered, unit = list_records(path, _RULE), "record"
    else:
        numbered, unit = _line_records(path), "line"
    for number, record in numbered:
        where = f"{path}: {unit} {number}"
        if not isinstance(record, dict):
            raise InputError(f"{where}: is no object; {_RULE}")
        yield where, number, record


def parquet_columns(path: Path) -> list[str]:
    """Names of the columns of a parquet file."""
    return list(_parquet(path).schema_arrow.names)


def _line_records(path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in lines_of(path):
        if line.strip():
            yield number, json_of_line(f"{path}: line {number}", line, _RULE)


def _parquet(path: Path) -> Any:
    with from_extra(f"{path}: is a parquet file, which", "data", ", or give the data as JSONL"):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    try:
        return ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise InputError(f"{path}: is a damaged parquet file ({error}); fetch it again") from None


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    file = _parquet(path)  # first, because it says what to install
    from pyarrow import ArrowException

    try:
        for batch in file.iter_batches(batch_size=1_024):
            yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise InputError(f"{path}: is a damaged parquet file ({error}); fetch it again") from None
