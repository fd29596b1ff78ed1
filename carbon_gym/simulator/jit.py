"""How the kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(**options: Any) -> Callable[[Function], Function]:
    # No kernel allocates: all memory is made beforehand, so reference counting is switched off
    # (`_nrt`). Its atomic increments, one for every view of a row, took three quarters of the time
    # of a quote. The price: slices cannot be assigned; loops over row views do it, and vectorise.
    njit: Any = numba.njit  # its stubs do not know `_nrt`
    return cast("Callable[[Function], Function]", njit(_nrt=False, **options))


kernel = _compiled(cache=True)
"""Decorator of the functions that Python calls; compiled once and kept on disk."""

inlined = _compiled(inline="always")
"""Decorator of the functions that kernels are made of."""
