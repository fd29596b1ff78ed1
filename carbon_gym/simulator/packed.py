"""One argument instead of sixty: named tuples of arrays handed to a kernel by their addresses.

Numba takes a tenth of a microsecond per array to check what Python hands to a kernel, which for a
single lane is several times the work itself. `Packed` therefore writes the addresses and shapes
of all arrays into one int64 array, once; `restorer` makes the function by which a kernel gets its
named tuples back. The types are read from the annotations of the tuples (`arrays.Shape`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_type_hints

import numba
import numpy as np
from llvmlite import ir
from numba import types as numba_types
from numba.core import cgutils as numba_cgutils
from numba.extending import intrinsic
from numba.np import arrayobj as numba_arrays
from numba.np.numpy_support import from_dtype

from carbon_gym.simulator.arrays import Shape

Tuples = TypeVar("Tuples", bound=tuple[Any, ...])

types: Any = numba_types  # none of these is typed
arrayobj: Any = numba_arrays
cgutils: Any = numba_cgutils
config: Any = numba.config
_WORD = ir.IntType(64)


class Packed(Generic[Tuples]):
    """Named tuples of arrays, and where they lie.

    Args:
        tuples: A named tuple of C-contiguous arrays, floats, bools, ints and further such tuples.

    Attributes:
        tuples: As given; they keep the arrays alive.
        words: int64 (W,), addresses, shapes and numbers, in the order of the fields; with
            ``NUMBA_DISABLE_JIT=1`` the tuples themselves.
    """

    def __init__(self, tuples: Tuples) -> None:
        self.tuples = tuples
        if config.DISABLE_JIT:
            self.words: Any = tuples
            return
        self.words = np.array(_words(tuples, get_type(type(tuples))), dtype=np.int64)


@cache
def get_type(kind: type) -> Any:
    """Numba's type of a named tuple, from its annotations.

    Raises:
        TypeError: A field's annotation is none that can be packed.
    """
    hints = get_type_hints(kind, include_extras=True)
    names = kind.__dict__["_fields"]
    return types.NamedTuple(tuple(_field_type(kind, name, hints[name]) for name in names), kind)


def _field_type(kind: type, name: str, hint: Any) -> Any:
    for said in get_args(hint)[1:]:
        if isinstance(said, Shape):
            return types.Array(from_dtype(np.dtype(said.dtype)), said.ndim, "C")
    scalars = {float: types.float64, bool: types.boolean, int: types.int64}
    if hint in scalars:
        return scalars[hint]
    if isinstance(hint, type) and issubclass(hint, tuple):
        return get_type(hint)
    raise TypeError(f"{kind.__name__}.{name}: {hint} cannot be packed")


def _words(value: Any, kind: Any) -> list[int]:
    if isinstance(kind, types.NamedTuple):
        return [word for v, k in zip(value, kind.types, strict=True) for word in _words(v, k)]
    if isinstance(kind, types.Array):
        if from_dtype(value.dtype) != kind.dtype or value.ndim != kind.ndim:
            raise TypeError(f"an array of {value.dtype}, {value.ndim} axes, was packed as {kind}")
        if not value.flags.c_contiguous:
            raise TypeError("only contiguous arrays can be packed")
        return [value.ctypes.data, *value.shape]
    if kind == types.float64:
        return [int(np.float64(value).view(np.int64))]
    return [int(value)]


def restorer(kind: type[NamedTuple]) -> Any:
    """The function ``restore(words) -> kind`` for use inside kernels.

    With ``NUMBA_DISABLE_JIT=1`` nothing is packed: it returns what it is given, the tuples.
    """
    if config.DISABLE_JIT:
        return lambda tuples: tuples
    made = get_type(kind)

    @intrinsic  # type: ignore[misc, untyped-decorator, unused-ignore]
    def restore(typing_context: Any, words: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            first = arrayobj.make_array(signature.args[0])(context, builder, value=args[0]).data
            read = 0

            def word() -> Any:
                nonlocal read
                place = builder.gep(first, [ir.Constant(_WORD, read)])
                read += 1
                return builder.load(place)

            def value(of: Any) -> Any:
                if isinstance(of, types.NamedTuple):
                    return context.make_tuple(builder, of, [value(field) for field in of.types])
                if isinstance(of, types.Array):
                    return _array(context, builder, of, word(), [word() for _ in range(of.ndim)])
                if of == types.float64:
                    return builder.bitcast(word(), ir.DoubleType())
                return context.cast(builder, word(), types.int64, of)

            return value(made)

        return made(words), generate

    return restore


def _array(context: Any, builder: Any, of: Any, address: Any, shape: list[Any]) -> Any:
    array = arrayobj.make_array(of)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(of.dtype))
    stride = ir.Constant(_WORD, size)
    strides: list[Any] = []
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride = builder.mul(stride, extent)
    arrayobj.populate_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        shape=shape,
        strides=strides,
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


def _make_prefetch(lines: int) -> Any:
    if config.DISABLE_JIT:
        return lambda array, row: None

    @intrinsic  # type: ignore[misc, untyped-decorator, unused-ignore]
    def prefetch(typing_context: Any, array: Any, row: Any) -> Any:
        """Ask for the first cache lines of ``array[row]`` ahead of their use."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            of = arrayobj.make_array(signature.args[0])(context, builder, value=args[0])
            stride = builder.extract_value(of.strides, 0)
            begin = builder.ptrtoint(of.data, _WORD)
            row_at = builder.add(begin, builder.mul(stride, args[1]))
            byte = ir.PointerType(ir.IntType(8))
            kind = ir.FunctionType(ir.VoidType(), [byte, *[ir.IntType(32)] * 3])
            call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            how = [ir.Constant(ir.IntType(32), n) for n in (0, 3, 1)]  # read, keep, data
            for line in range(lines):
                at = builder.add(row_at, ir.Constant(_WORD, 64 * line))
                builder.call(call, [builder.inttoptr(at, byte), *how])
            return context.get_dummy_value()

        return types.void(array, types.int64), generate

    return prefetch


prefetch = _make_prefetch(1)
prefetch_wide = _make_prefetch(5)
