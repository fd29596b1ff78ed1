"""Writing results: a file is there whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from carbon_gym.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` if the block ends well.

    Raises:
        InputError: The place cannot be written to.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); name a file in a folder that "
            "exists and that you may write to"
        ) from None
    finally:
        if partial.is_file():
            partial.unlink()


def make_writable_folder(folder: Path, option: str) -> None:
    """Make a folder if it is missing and find out before the work whether it can be written.

    Args:
        folder: The folder.
        option: What the user called it, e.g. ``--out``.

    Raises:
        InputError: It cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except OSError as error:
        raise InputError(
            f"{option} {folder}: cannot be written ({error.strerror}); name a folder that you may "
            "write to"
        ) from None
