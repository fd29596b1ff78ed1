"""Opening conversation files: plain or gzip, with one clear sentence when that fails."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final

from carbon_gym.errors import InputError

MAX_TOKENS: Final = 10_000_000
"""Largest believable number of tokens in one prompt, reply or history (ASSUMED)."""

_GZIP_MAGIC: Final = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """Content of a file, decompressed if it is gzip (told by its first bytes, not its name).

    Raises:
        InputError: If it is missing, a directory, unreadable, empty, or damaged gzip.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a directory; name one conversation file")
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path of the conversations") from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); check its permissions"
        ) from None
    if raw.startswith(_GZIP_MAGIC):
        try:
            raw = gzip.decompress(raw)
        except EOFError:
            raise InputError(
                f"{path}: the gzip data end too early; the file is truncated, fetch it again"
            ) from None
        except (OSError, zlib.error):
            raise InputError(f"{path}: the gzip data are damaged; fetch the file again") from None
    elif path.suffix == ".gz" and raw:
        raise InputError(f"{path}: is called .gz but is not gzip data; compress it or rename it")
    if not raw.strip():
        raise InputError(f"{path}: the file is empty; give a file with at least one conversation")
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
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: line {line}: byte 0x{raw[error.start]:02x} is not UTF-8; "
            "save the file as UTF-8"
        ) from None
