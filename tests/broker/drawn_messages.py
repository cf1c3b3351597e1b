"""Messages drawn at random: any value that each field may have, those at its bounds often."""

from __future__ import annotations

import types
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from msgspec import Meta, Struct

from kbn.errors import InvalidInputError

json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Random values of a field's type."""
    plain = {
        str: st.text(max_size=8),
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        bytes: st.binary(max_size=16),
        type(None): st.none(),
        Any: json_like,
    }
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, Struct):
        return st.deferred(lambda: of_struct(hint))
    arguments = get_args(hint)
    if get_origin(hint) is Annotated:
        return within(*arguments)
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of([of_type(argument) for argument in arguments])
    if get_origin(hint) is Literal:
        return st.sampled_from(arguments)
    if get_origin(hint) is dict:
        return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=3)
    if get_origin(hint) is tuple and arguments[-1] is Ellipsis:
        return st.lists(of_type(arguments[0]), max_size=3).map(tuple)
    assert get_origin(hint) is tuple, hint
    return st.tuples(*map(of_type, arguments))


def within(kind: Any, bounds: Meta) -> st.SearchStrategy[Any]:
    """Random values of a type within bounds, often at them."""
    if kind is int:
        return st.integers(bounds.ge, bounds.le) | st.sampled_from([bounds.ge, bounds.le])
    if kind is float:
        return st.floats(bounds.ge, bounds.le) | st.sampled_from([bounds.ge, bounds.le])
    if kind is str:
        shortest, longest = bounds.min_length or 0, bounds.max_length
        edge = st.sampled_from("aä日\U0001f600").map(lambda letter: letter * longest)
        return st.text(min_size=shortest, max_size=8) | edge
    return of_type(kind)


def of_struct(kind: type[Struct]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: of_type(hints[name]) for name in kind.__struct_fields__}
    return st.fixed_dictionaries(fields).map(partial(made, kind)).filter(lambda each: each)


def made(kind: type[Struct], fields: dict[str, Any]) -> Struct | None:
    """A struct of these fields, unless they cannot be meant."""
    try:
        return kind(**fields)
    except InvalidInputError:
        return None
