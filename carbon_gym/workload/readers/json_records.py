"""JSON files a record at a time: a long list, or one object per line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from carbon_gym.errors import InputError
from carbon_gym.workload.readers.files import not_utf8, opened, read_bytes

_CHUNK_BYTES: Final = 1 << 20
_TOKEN_CHARS: Final = 16
"""Where a record is cut by the end of what was read, its fault lies within these last characters:
the longest JSON token beside strings and numbers is ``-Infinity``."""

_SPACE: Final = " \t\r\n\ufeff"


def json_of_line(where: str, line: str, rule: str) -> Any:
    """The JSON value of a line.

    Args:
        where: File and line, for the message.
        line: Its text.
        rule: What the format is, for the message.

    Raises:
        InputError: If it is not JSON or nested too deeply.
    """
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}: not valid JSON ({error.msg} at column {error.colno}); {rule}"
        ) from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply to be a conversation") from None
    except ValueError:  # a number of thousands of digits
        raise InputError(f"{where}: holds a number that is too long; mend that line") from None


def list_records(path: Path, rule: str) -> Iterator[tuple[int, Any]]:
    """Number (from 1) and value of every record of a JSON list; the list is never held whole.

    Args:
        path: The file: UTF-8, plain, gzip or zip.
        rule: What the format is, for messages.

    Raises:
        InputError: For malformed JSON (with its line), or a file that is no list.
    """
    with opened(path) as stream:
        text = _Text(path, stream, rule)
        if text.peek() == "":
            read_bytes(path)  # says what is wrong with an empty file
        if text.peek() != "[":
            value = text.value()
            if text.peek():
                raise text.fault("Extra data")
            raise InputError(f"{path}: holds a JSON {type(value).__name__}, not a list; {rule}")
        text.skip()
        number = 0
        if text.peek() == "]":
            text.skip()
        else:
            while True:
                number += 1
                yield number, text.value()
                mark = text.peek()
                if mark not in ("]", ","):
                    raise text.fault("Expecting ',' delimiter")
                text.skip()
                if mark == "]":
                    break
        if text.peek():
            raise text.fault("Extra data")


class _Text:
    """A window on the text of a file that moves on value by value."""

    def __init__(self, path: Path, stream: IO[bytes], rule: str) -> None:
        self._path = path
        self._stream = stream
        self._rule = rule
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._parse = json.JSONDecoder().raw_decode
        self._buffer = ""
        self._at = 0
        self._ended = False
        self._lines_before = 0

    def peek(self) -> str:
        """The next character that is no space; "" at the end of the file."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if self._ended:
                return ""
            self._more()

    def skip(self) -> None:
        """Go past the character that `peek` has shown."""
        self._at += 1

    def value(self) -> Any:
        """The JSON value that begins here."""
        self.peek()
        while True:
            try:
                value, end = self._parse(self._buffer, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or (
                    error.pos > len(self._buffer) - _TOKEN_CHARS
                )
                if self._ended or not cut:
                    raise self.fault(error.msg, error.pos) from None
            except RecursionError:
                raise InputError(
                    f"{self._path}: nested too deeply to be a list of conversations"
                ) from None
            except ValueError:  # a number of thousands of digits
                raise self.fault("a number that is too long") from None
            else:
                # A number at the end of the window may go on beyond it.
                if end < len(self._buffer) or self._ended:
                    self._at = end
                    return value
            self._more()

    def fault(self, what: str, position: int | None = None) -> InputError:
        """What is said of the text at a position of the window; None: here."""
        at = self._at if position is None else position
        line = self._lines_before + self._buffer.count("\n", 0, at) + 1
        return InputError(f"{self._path}: line {line}: not valid JSON ({what}); {self._rule}")

    def _more(self) -> None:
        """Read on: as much again as is held, so that a long record is not tried too often."""
        self._lines_before += self._buffer.count("\n", 0, self._at)
        self._buffer = self._buffer[self._at :]
        self._at = 0
        raw = self._stream.read(max(_CHUNK_BYTES, len(self._buffer)))
        self._ended = not raw
        try:
            self._buffer += self._decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._lines_before + self._buffer.count("\n")
            line += error.object.count(b"\n", 0, error.start) + 1
            raise not_utf8(self._path, line, error.object[error.start]) from None
