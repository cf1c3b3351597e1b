"""Wide words: 512 bits at a time (instructions for kernels compiled by Numba).

A wide word is eight words of an array that lie side by side, named by the place of the first.
Numba's compiler would not put the eight operations together by itself.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.cgutils import ir
from numba.extending import intrinsic

WORDS = 8
"""Words in a wide word."""

_WIDE = ir.VectorType(ir.IntType(64), WORDS)


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _WIDE.as_pointer())


def _made(combine: Any, arrays: int) -> Any:
    """An instruction into[at:] = combine(into, one, …) for so many flat arrays with places."""

    def typed(*given: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            places = [
                _place(context, builder, signature.args[i], arguments[i], arguments[i + 1])
                for i in range(0, 2 * arrays, 2)
            ]
            loaded = [builder.load(place, align=8) for place in places]
            for made, place in zip(combine(builder, *loaded), places, strict=False):
                builder.store(made, place, align=8)
            return context.get_dummy_value()

        kinds = [types.intp if i % 2 else kind for i, kind in enumerate(given)]
        return types.void(*kinds), generate

    return typed


@intrinsic
def put(typing_context: Any, into: Any, at: Any, one: Any, one_at: Any) -> Any:
    """put(into, at, one, one_at): into = one."""
    return _made(lambda b, _, one: [one], 2)(into, at, one, one_at)


@intrinsic
def add(typing_context: Any, into: Any, at: Any, one: Any, one_at: Any) -> Any:
    """add(into, at, one, one_at): into |= one."""
    return _made(lambda b, into, one: [b.or_(into, one)], 2)(into, at, one, one_at)


@intrinsic
def drop(typing_context: Any, into: Any, at: Any, one: Any, one_at: Any) -> Any:
    """drop(into, at, one, one_at): into &= ~one."""
    return _made(lambda b, into, one: [b.and_(into, b.not_(one))], 2)(into, at, one, one_at)


@intrinsic
def add_both(
    typing_context: Any, into: Any, at: Any, one: Any, one_at: Any, other: Any, other_at: Any
) -> Any:
    """add_both(into, at, one, one_at, other, other_at): into |= one & other."""

    def combine(b: Any, into: Any, one: Any, other: Any) -> Any:
        return [b.or_(into, b.and_(one, other))]

    return _made(combine, 3)(into, at, one, one_at, other, other_at)


@intrinsic
def take(
    typing_context: Any, free: Any, at: Any, got: Any, got_at: Any, given: Any, given_at: Any
) -> Any:
    """take(free, at, got, got_at, given, given_at): who has not got takes what is free and given.

    new = given & free & ~got; free ^= new; got |= new
    """

    def combine(b: Any, free: Any, got: Any, given: Any) -> Any:
        new = b.and_(b.and_(given, free), b.not_(got))
        return [b.xor(free, new), b.or_(got, new)]

    return _made(combine, 3)(free, at, got, got_at, given, given_at)
