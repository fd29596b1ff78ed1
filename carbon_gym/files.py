"""Writing results: a file is there whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
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


def check_writable_file(path: Path, option: str) -> None:
    """Find out before the work whether a file can be put at a place.

    Args:
        path: The file, which may exist.
        option: What the user called it, e.g. ``--json``.

    Raises:
        InputError: It is a folder, or its folder is missing or cannot be written.
    """
    if path.is_dir():
        raise InputError(f"{option} {path}: is a folder; name a file in it")
    try:
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            probe.write(b"x")
    except OSError as error:
        raise InputError(
            f"{option} {path}: cannot be written ({error.strerror}); name a file in a folder that "
            "exists and that you may write to"
        ) from None


def make_writable_folder(folder: Path, option: str) -> list[Path]:
    """Make a folder if it is missing and find out before the work whether it can be written.

    Args:
        folder: The folder.
        option: What the user called it, e.g. ``--out``.

    Returns:
        The folders that were missing, innermost first; `remove_if_empty` takes them away again.

    Raises:
        InputError: It cannot be made or written.
    """
    missing: list[Path] = []
    try:
        missing += [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except FileExistsError:
        raise InputError(f"{option} {folder}: is a file; name a folder") from None
    except OSError as error:
        remove_if_empty(missing)
        raise InputError(
            f"{option} {folder}: cannot be written ({error.strerror}); name a folder that you may "
            "write to"
        ) from None
    return missing


def remove_if_empty(folders: Sequence[Path]) -> None:
    """Remove folders, innermost first, up to the first that is not empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return
