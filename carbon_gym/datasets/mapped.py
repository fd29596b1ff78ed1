"""`.npz` files whose arrays are neither compressed nor shifted, so that they can be mapped."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.files import replacing

Arrays = dict[str, NDArray[Any]]

_ALIGNED = 64  # bytes; .npy headers are multiples of it, so that what follows is aligned too
_ENTRY, _ZIP64 = 30, 20  # bytes: an entry's fixed header, and the field that zipfile adds to it
_PADDING = 0xCA60  # number of the extra field that fills up; no program knows it, all skip it


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file that `numpy.load` reads and `map_arrays` maps, whole or not at all.

    Args:
        path: The file, ``.npz``; replaced if it exists.
        arrays: By name; no objects.

    Raises:
        InputError: The place cannot be written.
    """
    with (
        replacing(path) as partial,
        partial.open("wb") as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # of 1980, so that equal arrays are equal files
            used = file.tell() + _ENTRY + len(entry.filename.encode()) + _ZIP64 + 4
            filled = -used % _ALIGNED
            entry.extra = _PADDING.to_bytes(2, "little") + filled.to_bytes(2, "little")
            entry.extra += bytes(filled)
            with archive.open(entry, "w", force_zip64=True) as content:
                np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)


def map_arrays(path: Path) -> Arrays:
    """The arrays of a file of `write_arrays`, read-only and read from disk as they are used.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: It is damaged, or not such a file.
    """
    arrays: Arrays = {}
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.compress_type != zipfile.ZIP_STORED:
                    raise ValueError(f"{entry.filename} is compressed")
                file.seek(entry.header_offset)
                head = file.read(_ENTRY)
                begin = entry.header_offset + _ENTRY
                begin += int.from_bytes(head[26:28], "little")
                begin += int.from_bytes(head[28:30], "little")
                file.seek(begin)
                arrays[entry.filename.removesuffix(".npy")] = _map(path, file, begin, entry)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return arrays


def _map(path: Path, file: Any, begin: int, entry: zipfile.ZipInfo) -> NDArray[Any]:
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"{entry.filename} has version {version} of its format")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    offset = file.tell()
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if fortran_order or dtype.hasobject or offset + size != begin + entry.file_size:
        raise ValueError(f"{entry.filename} is not as it was written")
    if size == 0:
        return np.zeros(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape)
