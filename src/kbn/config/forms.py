"""Forms: the structs that declare what a file may say.

A format is a set of `Form`s whose fields have the types that may stand there. `Meta(description=…)`
says in a message what is expected. `inside` finds the type of an inner value, for those who
read a value by what is expected at its place.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, UnsetType

AS_WRITTEN = {"as_written": True}
"""`Meta(extra=AS_WRITTEN)`: quotes do not matter; `no` is a text, and `"12"` a number."""

Text = Annotated[str, Meta(min_length=1, description="a text")]
"""A text. What YAML reads as something else, such as `no` or `12`, needs quotes."""

Word = Annotated[str, Meta(min_length=1, description="a text", extra=AS_WRITTEN)]
"""A text as it is written, with quotes or without."""


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping with the keys that the subclass names, and no others."""


def members(type: Any) -> tuple[Any, ...]:
    """The types of a union, each with its annotations; a type that is none stands for itself."""
    plain = unannotated(type)
    if get_origin(plain) in (Union, UnionType):
        return tuple(inner for each in get_args(plain) for inner in members(each))
    return (type,)


def unannotated(type: Any) -> Any:
    return get_args(type)[0] if get_origin(type) is Annotated else type


def meta(type: Any) -> Meta | None:
    """What a type's annotation says about it."""
    found = get_args(type)[1:] if get_origin(type) is Annotated else ()
    return next((each for each in found if isinstance(each, Meta)), None)


def inside(type: Any, key: str | int) -> Any:
    """The type of what stands under a key, or in an item, of a value of the type; or Any."""
    for member in members(type):
        plain = unannotated(member)
        arguments = get_args(plain)
        if isinstance(key, int):
            if get_origin(plain) in (list, tuple):
                return arguments[0]
        elif get_origin(plain) is dict:
            return arguments[1]
        elif is_form(plain):
            return fields(plain)[key].type if key in fields(plain) else Any
    return Any


def is_form(type: Any) -> bool:
    return isinstance(type, msgspec.StructMeta)


@cache
def fields(form: Any) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a form by the key that stands in the file."""
    return {each.encode_name: each for each in msgspec.structs.fields(form)}


def scalars(type: Any) -> list[Any]:
    """The members of a type that a single text in the file can stand for."""
    return [each for each in members(type) if _is_scalar(unannotated(each))]


def _is_scalar(plain: Any) -> bool:
    return plain in (str, int, float, bool, Any) or get_origin(plain) is Literal


def is_as_written(type: Any) -> bool:
    """Whether quotes do not matter."""
    found = meta(type)
    return found is not None and bool(found.extra and found.extra.get("as_written"))


def choices(type: Any) -> tuple[str, ...]:
    """The texts that may stand there, when these are all, and nothing else describes them."""
    found = meta(type)
    several = scalars(type)
    is_described = several != [type] and found is not None and found.description
    if is_described or len(several) != 1:
        return ()
    plain = unannotated(several[0])
    return get_args(plain) if get_origin(plain) is Literal else ()


def described(type: Any) -> str:
    """What is expected, in a message."""
    found = meta(type)
    if found is not None and found.description:
        return found.description
    several = [each for each in members(type) if each not in (NoneType, UnsetType)]
    if several != [type]:
        return " or ".join(dict.fromkeys(described(each) for each in several))
    plain = unannotated(type)
    if is_form(plain):
        return ", ".join(fields(plain))
    if get_origin(plain) is Literal:
        return ", ".join(get_args(plain))
    return _WORDS.get(get_origin(plain) or plain, "something else")


_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    tuple: "a list",
    dict: "names, each with a value",
    Any: "anything",
}
