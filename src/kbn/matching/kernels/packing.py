"""Packing: many arrays as one array of addresses (for the kernel that is called most).

Numba looks at every array that a kernel is given, and counts its references. For fifty arrays that
takes as long as a small match. `pack` does it once a change: three words for each field, an address
and a shape, or a number. A kernel makes the arrays again by `vector` and `matrix`, at no cost.

Nobody keeps the arrays alive or checks their types: whoever packs holds on to what was packed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

WORDS = 3


@njit(cache=True)
def pack(fields):
    """Arrays of one or two dimensions and whole numbers, in a plain tuple, as one array."""
    packed = np.zeros(WORDS * len(fields), np.int64)
    _store(packed, fields)
    return packed


@njit(cache=True)
def number(packed, field):
    """A field that is a whole number."""
    return packed[WORDS * field]


@njit(cache=True)
def vector(packed, field, dtype):
    """A field that is an array of one dimension."""
    at = WORDS * field
    return carray(_pointer(packed[at]), (packed[at + 1],), dtype)


@njit(cache=True)
def matrix(packed, field, dtype):
    """A field that is an array of two dimensions."""
    at = WORDS * field
    return carray(_pointer(packed[at]), (packed[at + 1], packed[at + 2]), dtype)


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@intrinsic
def _store(typing_context: Any, packed: Any, fields: Any) -> Any:
    """Write the words of every field: known when compiled are their number and their types."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = context.make_array(signature.args[0])(context, builder, arguments[0]).data

        def put(place: int, value: Any) -> None:
            builder.store(value, builder.gep(words, [context.get_constant(types.intp, place)]))

        for field, kind in enumerate(signature.args[1]):
            value = builder.extract_value(arguments[1], field)
            if not isinstance(kind, types.Array):
                put(WORDS * field, context.cast(builder, value, kind, types.int64))
                continue
            if kind.layout != "C" or kind.ndim > 2:
                raise TypeError(f"cannot be packed: {kind}")
            array = context.make_array(kind)(context, builder, value)
            put(WORDS * field, builder.ptrtoint(array.data, cgutils.intp_t))
            for place, size in enumerate(cgutils.unpack_tuple(builder, array.shape), 1):
                put(WORDS * field + place, size)
        return context.get_dummy_value()

    return types.void(packed, fields), generate
