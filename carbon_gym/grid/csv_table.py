"""A CSV file as text cells with line numbers; every way in which it can be broken is named.

Plain `csv` is used rather than pandas: it keeps the line number of each row, never guesses
(pandas reads the zone ``NA`` as a missing value) and is fast enough for years of hours.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from carbon_gym.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_LARGEST_RATIO = 200
"""Of decompressed to compressed bytes (ASSUMED; long series of numbers reach 20)."""
_HARMLESS_BYTES = 1 << 28
"""Decompressed, whatever the ratio."""
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of one file.

    Attributes:
        path: The file as the user named it.
        header: Column names, stripped.
        rows: Cells of the rows that are not blank, each as long as the header.
        lines: Line number of each row in the (uncompressed) file; the header is line 1.
    """

    path: str
    header: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]

    def cells(self, column: int, rows: Sequence[int] | None = None) -> list[str]:
        """Cells of a column, of all rows or of those with the given indices."""
        if rows is None:
            return [row[column] for row in self.rows]
        return [self.rows[index][column] for index in rows]


def read_table(path: str | Path) -> Table:
    """Read a comma-separated UTF-8 file with a header, plain or gzip.

    Raises:
        InputError: As `read_text` and `table_in`.
    """
    return table_in(str(path), read_text(path))


def read_text(path: str | Path) -> str:
    """Text of a UTF-8 file, plain or gzip (told by its content).

    Raises:
        InputError: The file is missing, a folder, unreadable, empty, is not gzip although named
            so, is truncated or damaged, or is not text.
    """
    shown = str(path)
    text = _text(shown, _uncompressed(shown, _content(shown)))
    if not text.strip():
        raise InputError(f"{shown}: the file is empty; give a CSV file with a header and rows")
    return text


def table_in(shown: str, text: str, delimiter: str = ",") -> Table:
    """The table of a text that is not empty.

    Args:
        shown: What to call the file in errors.
        text: Its content.
        delimiter: Between columns.

    Raises:
        InputError: It has no rows, uses another delimiter, or has a row with more or fewer cells
            than the header.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = tuple(cell.strip() for cell in next((row for row in reader if any(row)), []))
        if not header:
            raise InputError(f"{shown}: has no header; give a CSV file with a header and rows")
        _check_delimiter(shown, header)
        for row in reader:
            if any(row):
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(
            f"{shown}, row {reader.line_num}: is not valid CSV ({error}); mend that row"
        ) from None
    if not rows:
        raise InputError(f"{shown}: has a header but no rows; give at least one row of data")
    width = len(header)
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise InputError(
                f"{shown}, row {line}: has {len(row)} cells where the header has {width}; "
                "mend or delete that row"
            )
    return Table(shown, header, rows, lines)


def _content(shown: str) -> bytes:
    try:
        return Path(shown).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{shown}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(f"{shown}: is a folder; name the CSV files in it") from None
    except OSError as error:
        raise InputError(
            f"{shown}: cannot be read ({error.strerror or error}); check its permissions"
        ) from None


def _uncompressed(shown: str, content: bytes) -> bytes:
    if content.startswith(_GZIP_MAGIC):
        try:
            return _bounded(shown, content)
        except EOFError:
            raise InputError(
                f"{shown}: the gzip file ends too early (a broken download?); fetch it again"
            ) from None
        except (OSError, zlib.error) as error:
            raise InputError(
                f"{shown}: the gzip file is damaged ({error}); fetch it again"
            ) from None
    if content and shown.lower().endswith(".gz"):
        raise InputError(
            f"{shown}: is named .gz but is not a gzip file; compress it, or take .gz off its name"
        )
    if content.startswith(_ZIP_MAGIC):
        if shown.lower().endswith((".xlsx", ".xlsm", ".ods")):
            raise InputError(f"{shown}: is a workbook; save its sheet as CSV in UTF-8")
        raise InputError(f"{shown}: is a ZIP archive; unpack it and name the CSV file inside")
    return content


def _bounded(shown: str, content: bytes) -> bytes:
    most = max(_HARMLESS_BYTES, _LARGEST_RATIO * len(content))
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        plain = stream.read(most + 1)
    if len(plain) > most:
        raise InputError(
            f"{shown}: the gzip file unpacks to more than {most >> 20} MiB, which no grid file "
            "does; check what it is, unpack it and cut it into years"
        )
    return plain


def _text(shown: str, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(
            f"{shown}: is not UTF-8 text (a binary file, or one saved in another encoding); "
            "save it as CSV in UTF-8"
        )
    return text


def _check_delimiter(shown: str, header: tuple[str, ...]) -> None:
    if len(header) > 1:
        return
    for delimiter, name in _OTHER_DELIMITERS.items():
        if delimiter in header[0]:
            raise InputError(
                f"{shown}, row 1: the columns are separated by {name}; save the file with commas "
                "between columns and points in decimals"
            )
