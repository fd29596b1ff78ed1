"""How the kernels are compiled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGES = Path(__file__).parents[2]
_KERNEL_FOLDERS = tuple(
    _PACKAGES / name
    for name in (
        "carbon_gym/simulator",
        "carbon_gym/envs",
        "carbon_gym/quality",
        "carbon_gym/router",
        "baselines",
    )
)
_ALSO_READ = ("arrays.py", "packed.py", "layout.py", "kernels.py", "plan.py")
"""Files without a kernel of whose types, intrinsics or constants kernels are made."""


@cache
def _sources_digest() -> str:
    """Hash of every file that kernels are made of: those that use this module, and a few more."""
    digest = hashlib.sha256((_PACKAGES / "carbon_gym/draws.py").read_bytes())
    for folder in _KERNEL_FOLDERS:
        for path in sorted(folder.glob("*.py")):
            source = path.read_bytes()
            if b"simulator.jit import" in source or path.name in _ALSO_READ:
                digest.update(source)
    return digest.hexdigest()


def _compiled(**options: Any) -> Callable[[Function], Function]:
    # No kernel allocates: all memory is made beforehand, so reference counting is switched off
    # (`_nrt`). Its atomic increments, one for every view of a row, took three quarters of the time
    # of a quote. The price: slices cannot be assigned; loops over row views do it, and vectorise.
    # A division that would raise in Python gives inf or NaN: its check would forbid vectorising.
    njit: Any = numba.njit  # its stubs do not know `_nrt`
    return cast(
        "Callable[[Function], Function]",
        njit(_nrt=False, nogil=True, error_model="numpy", **options),
    )


def kernel(function: Function) -> Function:
    """Decorate a function that Python calls: compiled once and kept on disk.

    numba's cache on disk notices a change in the file of the function, but not in the files of the
    functions that it inlines; its stamp is therefore extended by a hash of all of them.
    """
    compiled = _compiled(cache=True)(function)
    file: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):  # no such thing with NUMBA_DISABLE_JIT=1
        file._source_stamp = (file._source_stamp, _sources_digest())
    return compiled


inlined = _compiled(forceinline=True)
"""Decorator of the functions that kernels are made of.

LLVM inlines them. (Numba's own inlining would take three times as long to compile.)
"""
