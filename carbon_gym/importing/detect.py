"""Which format a file of conversations has, told from its content alone."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from carbon_gym.errors import InputError
from carbon_gym.importing.formats import FORMATS
from carbon_gym.importing.records import PARQUET_MAGIC, head_of, parquet_columns
from carbon_gym.importing.request_tables import AZURE, BURSTGPT, USAGE
from carbon_gym.importing.sharechat import COLUMNS as SHARECHAT_COLUMNS
from carbon_gym.workload.readers.columns import NAMES, REQUIRED
from carbon_gym.workload.readers.files import lines_of
from carbon_gym.workload.readers.json_records import json_of_line, list_records

_TABLES: Final[dict[str, Sequence[Sequence[str]]]] = {
    "tokens": [NAMES[name] for name in REQUIRED],
    "sharechat": [(name,) for name in SHARECHAT_COLUMNS],
    "burstgpt": [BURSTGPT.names[name] for name in BURSTGPT.required],
    "azure": [AZURE.names[name] for name in AZURE.required],
    "usage": [USAGE.names[name] for name in USAGE.required],
}
"""Columns by which a CSV is told, in this order; one of every group must be there."""

_WILDCHAT_KEYS: Final = frozenset({"conversation_hash", "toxic", "hashed_ip"})
_USAGE_KEYS: Final = frozenset({"prompt_tokens", "input_tokens"})
_IN_PARQUET: Final = ("wildchat", "lmsys")
_PICKLES: Final = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
_RULE: Final = "give one JSON list, or one JSON object per line"


def detect(path: Path) -> tuple[str, str]:
    """Name of a file's format, one of `FORMATS`, and why it is taken for that.

    Raises:
        InputError: No format fits; says what was found.
    """
    head = head_of(path)
    if not head:
        raise InputError(f"{path}: the file is empty; give a file with at least one conversation")
    if head.startswith(_PICKLES):
        raise InputError(
            f"{path}: looks like a Python pickle, which can run code and is never read; export "
            "the data as JSONL or CSV"
        )
    if head.startswith(PARQUET_MAGIC):
        name, reason = _of_keys(path, parquet_columns(path), "the parquet columns")
        if name not in _IN_PARQUET:
            raise InputError(
                f"{path}: {reason}, but parquet is read for {' and '.join(_IN_PARQUET)} only; "
                f"export it for the {name} format, as JSON or CSV"
            )
        return name, reason
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}: is UTF-16 text; save the file as UTF-8")
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not UTF-8 text (byte 0x{head[error.start]:02x} at {error.start}); save it "
            f"as UTF-8, in one of the formats {', '.join(FORMATS)}"
        ) from None
    if text.startswith("["):
        _, first = next(list_records(path, _RULE), (1, {}))
        return _of_record(path, first, "record 1", in_list=True)
    if text.startswith("{"):
        number, line = next((n, line) for n, line in lines_of(path) if line.strip())
        first = json_of_line(f"{path}: line {number}", line, _RULE)
        return _of_record(path, first, f"line {number}", in_list=False)
    return _of_table(path, text.splitlines()[0])


def _of_record(path: Path, record: object, where: str, in_list: bool) -> tuple[str, str]:
    if not isinstance(record, dict):
        raise InputError(f"{path}: {where} is no JSON object; give a list of conversations")
    name, reason = _of_keys(path, list(record), where)
    if name == "sharegpt" and not in_list:
        raise InputError(
            f"{path}: holds one ShareGPT record per line; put them into one JSON list, e.g. with "
            "`jq -s .`"
        )
    if in_list and name in ("messages", "mooncake", "usage"):
        raise InputError(
            f"{path}: holds a JSON list; the {name} format is one JSON object per line, which "
            "`jq -c '.[]'` makes of it"
        )
    return name, reason


def _of_keys(path: Path, keys: Collection[str], where: str) -> tuple[str, str]:
    """The format of records with these keys."""
    for key, name in (
        ("usage", "usage"),  # a logged call may have its messages or its conversation as well
        ("conversations", "sharegpt"),
        ("messages", "messages"),
    ):
        if key in keys:
            return name, f"{where} has {key!r}"
    if "conversation" in keys:
        marks = sorted(_WILDCHAT_KEYS & set(keys))
        if marks:
            return "wildchat", f"{where} has 'conversation' and {marks[0]!r}"
        return "lmsys", f"{where} has 'conversation'"
    if "input_length" in keys or "hash_ids" in keys:
        return "mooncake", f"{where} has 'input_length' or 'hash_ids'"
    marks = [key for key in ("response", *sorted(_USAGE_KEYS)) if key in keys]
    if marks:
        return "usage", f"{where} has {marks[0]!r}"
    raise _unknown(path, where, "the keys", keys)


def _of_table(path: Path, line: str) -> tuple[str, str]:
    try:
        header = [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error:
        header = [line]
    for name, groups in _TABLES.items():
        found = [next((c for c in group if c in header), None) for group in groups]
        if None not in found:
            return name, f"the header has {', '.join(map(repr, found))}"
    other = next((mark for mark in (";", "\t", "|") if len(header) == 1 and mark in line), None)
    if other is not None:
        raise InputError(
            f"{path}: line 1 has its cells apart by {other!r}; save the table with commas"
        )
    raise _unknown(path, "line 1", "the columns", header)


def _unknown(path: Path, where: str, what: str, found: Collection[str]) -> InputError:
    shown = ", ".join(f"{name!r:.40}" for name in list(found)[:12]) or "none"
    return InputError(
        f"{path}: no known format: {where} has {what} {shown}; name one of {', '.join(FORMATS)} "
        "with --format to hear what it lacks"
    )
