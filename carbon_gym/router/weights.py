"""The file of a router: arrays and a header in JSON, nothing that is executed."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carbon_gym.errors import InputError
from carbon_gym.files import replacing
from carbon_gym.router.plan import CONSTANT_INPUTS, GROUP_INPUTS, OWN, TURN_INPUTS

Float32s = NDArray[np.float32]

FORMAT, VERSION = "carbon-gym router", 1
LARGEST_BYTES = 2_000_000
_REMAKE = "export it again with `carbon-gym export`"


@dataclass(frozen=True, eq=False)
class Weights:
    """The scorer's arrays, float32, inputs first: a layer is ``x @ weight + bias``.

    With T and H the widths of the turn's and of the deployments' layers:

    Attributes:
        turn: (TURN_INPUTS, T), to the turn's layer.
        turn_bias: (T,).
        added: (T, H), what the turn adds to every deployment's layer.
        added_bias: (H,), with the constants' and all others' bias.
        output: (T, H), to the output weights of this turn.
        output_bias: (H,).
        own: (7, H), from a deployment's own numbers to its layer.
        group: (12, H), from its region's, model's and pool's.
        constants: (CONSTANT_INPUTS, H), from its constants.
        prior: (1,), weight of the price.
    """

    turn: Float32s
    turn_bias: Float32s
    added: Float32s
    added_bias: Float32s
    output: Float32s
    output_bias: Float32s
    own: Float32s
    group: Float32s
    constants: Float32s
    prior: Float32s

    def fault(self) -> str | None:
        """What is wrong with the arrays, in words; None if nothing is."""
        for field in fields(self):
            array = getattr(self, field.name)
            if not isinstance(array, np.ndarray) or array.dtype != np.float32:
                return f"array {field.name!r} is {getattr(array, 'dtype', 'nothing')}, not float32"
        width, turn = self.output_bias.size, self.turn_bias.size
        for name, shape in shapes(width, turn).items():
            found = getattr(self, name).shape
            if found != shape or 0 in shape:
                return f"array {name!r} has shape {found} where {shape} belongs"
        for field in fields(self):
            if not np.isfinite(getattr(self, field.name)).all():
                return f"array {field.name!r} holds numbers that are not finite"
        return None


def shapes(width: int, turn: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays by name, for a deployment's layer and a turn's of these widths."""
    return {
        "turn": (TURN_INPUTS, turn),
        "turn_bias": (turn,),
        "added": (turn, width),
        "added_bias": (width,),
        "output": (turn, width),
        "output_bias": (width,),
        "own": (len(OWN), width),
        "group": (sum(GROUP_INPUTS), width),
        "constants": (CONSTANT_INPUTS, width),
        "prior": (1,),
    }


def write_router(path: Path, weights: Weights, header: dict[str, Any]) -> None:
    """Write a router's file, whole or not at all.

    Args:
        path: Where; an existing file is replaced.
        weights: Finite arrays whose shapes fit one another.
        header: "layout" and "recipe", JSON-plain; format and version are added.

    Raises:
        InputError: The header is not JSON-plain, the weights are at fault, the file would be too
            large, or the place cannot be written.
    """
    fault = weights.fault()
    if fault is not None:
        raise InputError(f"{path}: the policy cannot be exported: {fault}; train it again")
    try:
        text = json.dumps({"format": FORMAT, "version": VERSION, **header}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path}: the recipe is not plain JSON ({error}); give text, finite numbers, lists and "
            "dicts with text keys"
        ) from None
    arrays = {field.name: getattr(weights, field.name) for field in fields(weights)}
    content = io.BytesIO()
    np.savez(content, header=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    if content.tell() > LARGEST_BYTES:
        raise InputError(
            f"{path}: would take {content.tell():,} bytes, more than {LARGEST_BYTES:,}; train a "
            "narrower network or shorten the recipe"
        )
    with replacing(path) as partial:
        partial.write_bytes(content.getvalue())


def read_router(path: Path) -> tuple[Weights, dict[str, Any]]:
    """Read and check a router's file; nothing in it is executed.

    Returns:
        The weights, and the header.

    Raises:
        InputError: There is no such file, or it is damaged, too large, of another kind or version.
    """
    arrays = _read_arrays(path)
    header = _header_of(path, arrays)
    names = [field.name for field in fields(Weights)]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(f"{path}: array {missing[0]!r} is missing; {_REMAKE}")
    weights = Weights(**{name: np.ascontiguousarray(arrays[name]) for name in names})
    fault = weights.fault()
    if fault is not None:
        raise InputError(f"{path}: {fault}; {_REMAKE}")
    return weights, header


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Every array of the archive, its checksum verified."""
    arrays = {}
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise InputError(
                f"{path}: has {path.stat().st_size:,} bytes where a router has at most "
                f"{LARGEST_BYTES:,}; name a file that `carbon-gym export` wrote"
            )
        with zipfile.ZipFile(path) as archive:
            if sum(item.file_size for item in archive.infolist()) > 2 * LARGEST_BYTES:
                raise InputError(f"{path}: unpacks to more than a router holds; {_REMAKE}")
            for item in archive.infolist():
                content = io.BytesIO(archive.read(item))  # to its end: numpy would skip the CRC
                array = np.lib.format.read_array(content, allow_pickle=False)
                arrays[item.filename.removesuffix(".npy")] = array
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such file; name one that `carbon-gym export` wrote"
        ) from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; name a file in it") from None
    # What zipfile and numpy raise for one damage or another.
    except (
        ArithmeticError,
        EOFError,
        LookupError,
        MemoryError,
        NotImplementedError,
        OSError,
        RuntimeError,
        SyntaxError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path}: is not a router's file, or is damaged ({said.rstrip('.')}); {_REMAKE}"
        ) from None
    return arrays


def _header_of(path: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    found = arrays.get("header")
    if found is None or found.dtype != np.uint8:
        raise InputError(f"{path}: has no header, so it is not a router's file; {_REMAKE}")
    try:
        header = json.loads(found.tobytes().decode())
    except (ValueError, RecursionError):
        raise InputError(f"{path}: its header is not JSON; {_REMAKE}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path}: its header is not that of a router; {_REMAKE}")
    if header.get("version") != VERSION:
        raise InputError(
            f"{path}: has version {header.get('version')!r} of the format, and this carbon_gym "
            f"reads {VERSION}; use the carbon_gym that wrote it, or {_REMAKE}"
        )
    if not isinstance(header.get("layout"), dict) or not isinstance(header.get("recipe"), dict):
        raise InputError(f"{path}: its header lacks layout or recipe; {_REMAKE}")
    return header
