"""`prefetch`: ask for memory before it is needed (an instruction, for kernels compiled by Numba).

It changes nothing and may name any place of an array; a load that comes some hundred instructions
later finds its line in the cache.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_READ, _KEEP, _DATA = 0, 3, 1


@intrinsic
def prefetch(typing_context: Any, array: Any, element: Any) -> Any:
    """prefetch(array, element): the line of the element, counted as the array lies in memory."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        word, ir = cgutils.int32_t, cgutils.ir
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [place, word(_READ), word(_KEEP), word(_DATA)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
