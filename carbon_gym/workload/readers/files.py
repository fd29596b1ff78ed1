"""Opening conversation files: plain, gzip or zip, with one clear sentence when that fails."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, cast

from carbon_gym.errors import InputError

MAX_TOKENS: Final = 10_000_000
"""Largest believable number of tokens in one prompt, reply or history (ASSUMED)."""

DATA_ENDINGS: Final = (".csv", ".json", ".jsonl", ".ndjson", ".txt")
"""Of the members of a zip archive that may be conversations."""

_LARGEST_RATIO: Final = 200
"""Of decompressed to compressed bytes (ASSUMED; logs reach 50, a file of zeros 1,000)."""
_HARMLESS_BYTES: Final = 1 << 28
"""Decompressed, whatever the ratio."""
_LONGEST_LINE: Final = 1 << 29
"""Bytes of the longest line (ASSUMED; a record of a million tokens has 4 MB)."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZIP_MAGIC: Final = b"PK\x03\x04"
_BOM: Final = b"\xef\xbb\xbf"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed while they are read; nothing is unpacked to disk.

    Gzip and zip are told by the first bytes, not by the name. Of a zip archive, the one member
    with an ending of `DATA_ENDINGS` is read.

    Raises:
        InputError: If the file is missing, a directory, unreadable, damaged or truncated, or a
            zip archive with no or several files of data.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a directory; name one conversation file")
    if path.exists() and not path.is_file():  # it is read twice: to tell its format, and whole
        raise InputError(f"{path}: is a pipe or a device; save its content and name that file")
    try:
        with path.open("rb") as plain:
            magic = plain.read(4)
            plain.seek(0)
            if magic.startswith(_GZIP_MAGIC):
                with gzip.GzipFile(fileobj=plain) as stream:
                    yield _bounded(path, cast(IO[bytes], stream))
            elif magic == _ZIP_MAGIC:
                with _zip_stream(path, plain) as of:
                    yield _bounded(path, of)
            elif path.suffix == ".gz" and magic:
                raise InputError(
                    f"{path}: is called .gz but is not gzip data; compress it or rename it"
                )
            else:
                yield plain
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path of the conversations") from None
    except EOFError:
        raise InputError(
            f"{path}: the compressed data end too early; the file is truncated, fetch it again"
        ) from None
    except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error):
        raise InputError(f"{path}: the compressed data are damaged; fetch the file again") from None
    except (NotImplementedError, RuntimeError) as error:  # another method, or a password
        raise InputError(f"{path}: the zip archive cannot be read ({error}); unpack it") from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error}); check its permissions"
        ) from None


class _Bounded(io.RawIOBase):
    """Decompressed bytes, up to what text can have been compressed from.

    Args:
        path: The file, for the message.
        stream: What decompresses.
    """

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        super().__init__()
        self._path = path
        self._stream = stream
        self._left = max(_HARMLESS_BYTES, _LARGEST_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; how many bytes were there.

        Raises:
            InputError: The file holds more than text would.
        """
        raw = self._stream.read(len(buffer))
        buffer[: len(raw)] = raw
        self._left -= len(raw)
        if self._left < 0:
            raise InputError(
                f"{self._path}: expands to more than {_LARGEST_RATIO} times its size, as no text "
                "does; unpack it and look at what is in it"
            )
        return len(raw)


def _bounded(path: Path, stream: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(_Bounded(path, stream), 1 << 20)


def _zip_stream(path: Path, plain: IO[bytes]) -> IO[bytes]:
    """The one member with data.

    Raises:
        BadZipFile, NotImplementedError, RuntimeError, InputError: What `opened` makes of it.
    """
    try:
        archive = zipfile.ZipFile(plain)
        member = _member(path, archive)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise NotImplementedError(f"compression method {member.compress_type}")
        return archive.open(member)
    except UnicodeDecodeError:  # a name that says it is UTF-8 and is not
        raise zipfile.BadZipFile from None


def _member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    data = [
        entry
        for entry in archive.infolist()
        if not entry.is_dir()
        and PurePosixPath(entry.filename).suffix.lower() in DATA_ENDINGS
        and not entry.filename.startswith("__MACOSX/")
    ]
    if len(data) == 1:
        return data[0]
    found = ", ".join(repr(entry.filename) for entry in data[:8]) or "none"
    raise InputError(
        f"{path}: the zip archive needs one file that ends in {', '.join(DATA_ENDINGS)}, found "
        f"{found}; unpack it and name the file"
    )


def read_bytes(path: Path) -> bytes:
    """Content of a file, decompressed; see `opened`.

    Raises:
        InputError: Also if it is empty.
    """
    with opened(path) as stream:
        raw = stream.read()
    if not raw.strip():
        raise _empty(path)
    return raw


def read_text(path: Path) -> str:
    """Content of a UTF-8 file (a byte order mark is accepted); see `read_bytes`.

    Raises:
        InputError: Also if it is not UTF-8, naming the line of the first bad byte.
    """
    raw = read_bytes(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path, raw.count(b"\n", 0, error.start) + 1, raw[error.start]) from None


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of every line of a UTF-8 file, one at a time; see `opened`.

    Raises:
        InputError: Also if it is empty or not UTF-8, naming the line.
    """
    blank = True
    with opened(path) as stream:
        for number, raw in enumerate(iter(partial(stream.readline, _LONGEST_LINE + 1), b""), 1):
            if len(raw) > _LONGEST_LINE:
                raise InputError(
                    f"{path}: line {number}: is longer than {_LONGEST_LINE >> 20} MiB; give one "
                    "record per line"
                )
            line = raw.removeprefix(_BOM) if number == 1 else raw
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(path, number, line[error.start]) from None
            blank = blank and not text.strip()
            yield number, text
    if blank:
        raise _empty(path)


def not_utf8(path: Path, line: int, byte: int) -> InputError:
    """What is said of a byte that is no UTF-8."""
    return InputError(
        f"{path}: line {line}: byte 0x{byte:02x} is not UTF-8; save the file as UTF-8"
    )


def _empty(path: Path) -> InputError:
    return InputError(f"{path}: the file is empty; give a file with at least one conversation")
