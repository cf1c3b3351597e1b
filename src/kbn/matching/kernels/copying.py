"""`copy_bytes`: a block of bytes from one array to another (for kernels compiled by Numba).

A loop over short blocks costs a nanosecond a byte; this is the machine's own copying. The places
must be within the arrays, and the blocks must not overlap: nobody checks.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def copy_bytes(
    typing_context: Any, target: Any, at: Any, source: Any, start: Any, count: Any
) -> Any:
    """copy_bytes(target, at, source, start, count): of arrays of bytes that lie in one piece."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        places = []
        for array, offset in ((0, 1), (2, 3)):
            made = context.make_array(signature.args[array])(context, builder, arguments[array])
            places.append(builder.gep(made.data, [arguments[offset]]))
        cgutils.raw_memcpy(builder, *places, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), generate
