"""Content: a notification's attributes in bytes, as MessagePack.

One map from names to values. Truth values, numbers, strings, bytes and times are MessagePack's own;
a bag is an array; a term is an extension that holds its IRI in UTF-8, with code 1 for a class, 2
for a property, 3 for an individual and 4 for a term whose kind was not stated.

Brokers read every notification that passes, so what the decoder has proved is not proved again: a
decoded string is valid Unicode and a decoded time is in UTC. Left to check are NaN, integers of 64
bits without a sign, names, and what a map of MessagePack can hold and a notification cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, cast

from msgspec import Meta, MsgspecError
from msgspec.msgpack import Decoder, Encoder, Ext

from kbn.errors import InvalidInputError, LimitError
from kbn.filters import (
    INT_MAX,
    MAX_ATTRIBUTES,
    MAX_BAG_DEPTH,
    MAX_BAG_SIZE,
    MAX_NAME,
    Bag,
    Notification,
    Value,
)
from kbn.ontology import Class, Individual, Property, Term

__all__ = ["decode", "encode"]

_CODES: dict[type, int] = {Class: 1, Property: 2, Individual: 3, Term: 4}
_KINDS: dict[int, type[Term]] = {1: Class, 2: Property, 3: Individual, 4: Term}

# Terms recur from one notification to the next. An IRI longer than this is not worth remembering,
# and might be meant to fill our memory.
_TERMS_REMEMBERED = 16_384
_REMEMBERED_IRI_BYTES_MAX = 256

SMALL_MAP = 0x80  # the header of a map of fewer than sixteen is this and their number

_PROVED = frozenset({bool, str, bytes, datetime, Class, Property, Individual, Term})


def encode(attributes: Mapping[str, Value]) -> bytes:
    """The attributes as bytes; InvalidInputError for what no notification can hold.

    A `Notification` was checked when it was made, and is not checked again.

    >>> decode(encode({"kind": "tea", "sizes": Bag(1, 2)})).attributes
    {'kind': 'tea', 'sizes': Bag(1, 2)}
    """
    known = attributes if type(attributes) is Notification else Notification(attributes)
    try:
        return _encode(known.attributes)
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{error.object!r} is not valid Unicode text") from None


def decode(
    content: bytes,
    *,
    id: str | None = None,
    publisher: str | None = None,
    time: datetime | None = None,
) -> Notification:
    """The notification whose attributes these bytes are.

    Whatever the bytes, nothing but InvalidInputError is raised (LimitError for what is too large).
    `id`, `publisher` and `time` are taken as they are.
    """
    attributes = _read(content)
    if len(attributes) != content[0] - SMALL_MAP:
        _check_count(len(attributes), content)
    for name, value in attributes.items():
        kind = type(value)
        if kind in _PROVED:
            continue
        if kind is int:
            if value > INT_MAX:
                raise _of_attribute(name, f"{value} does not fit in 64 bits")
        elif kind is float:
            if value != value:
                raise _of_attribute(name, "NaN is not a value")
        elif kind is list:
            attributes[name] = _bag(name, value, 1)
        else:
            raise _of_attribute(name, _not_a_value(value))
    return Notification.trusted(attributes, id=id, publisher=publisher, time=time)


def _read(content: bytes) -> dict[str, Any]:
    try:
        return _decode(content)
    except InvalidInputError:
        raise
    except (MsgspecError, UnicodeError, RecursionError, MemoryError, OverflowError) as error:
        raise InvalidInputError(f"not the content of a notification: {error}") from None


def _check_count(count: int, content: bytes) -> None:
    if count > MAX_ATTRIBUTES:
        raise LimitError(
            f"a notification of {count} attributes; the limit is {MAX_ATTRIBUTES}",
            limit="attributes per notification",
            maximum=MAX_ATTRIBUTES,
        )
    if count != _stated_count(content):
        raise InvalidInputError("a notification has an attribute twice")


def _stated_count(content: bytes) -> int:
    """How many attributes the map's own header says there are."""
    head = content[0]
    if head < 0x90:
        return head & 0x0F
    return int.from_bytes(content[1 : 3 if head == 0xDE else 5], "big")


def _bag(name: str, items: list[Any], depth: int) -> Bag:
    """The bag of these decoded items, `depth` bags deep."""
    if depth > MAX_BAG_DEPTH:
        raise LimitError(
            f"attribute {name!r}: bags are nested more than {MAX_BAG_DEPTH} deep",
            limit="bag depth",
            maximum=MAX_BAG_DEPTH,
        )
    if len(items) > MAX_BAG_SIZE:
        raise LimitError(
            f"attribute {name!r}: a bag of {len(items)} elements; the limit is {MAX_BAG_SIZE}",
            limit="bag size",
            maximum=MAX_BAG_SIZE,
        )
    kinds = set(map(type, items))
    if list in kinds:
        return Bag.of([_element(name, item, depth) for item in items])
    if not kinds <= _PROVED:
        for item in items:
            _element(name, item, depth)
    is_prefixed = any(issubclass(kind, Term) for kind in kinds) and any(
        "://" not in item.iri for item in items if isinstance(item, Term)
    )
    return _flat_bag(tuple(items), Term in kinds, is_prefixed)


def _flat_bag(items: tuple[Value, ...], is_bare: bool, is_prefixed: bool) -> Bag:
    """What `Bag.of` makes of checked items without bags among them, without looking at each."""
    bag = Bag.__new__(Bag)
    _store(bag, "items", items)
    _store(bag, "depth", 1)
    _store(bag, "bare", is_bare)
    _store(bag, "prefixed", is_prefixed)
    _store(bag, "relational", False)
    _store(bag, "_counts", None)
    _store(bag, "_hash", None)
    return bag


def _element(name: str, item: Any, depth: int) -> Value:
    kind = type(item)
    if kind is list:
        return _bag(name, item, depth + 1)
    if kind is int:
        if item > INT_MAX:
            raise _of_attribute(name, f"{item} does not fit in 64 bits")
    elif kind is float:
        if item != item:
            raise _of_attribute(name, "NaN is not a value")
    elif kind not in _PROVED:
        raise _of_attribute(name, _not_a_value(item))
    return cast(Value, item)


def _of_attribute(name: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"attribute {name!r}: {reason}")


def _not_a_value(value: object) -> str:
    if value is None:
        return "nil is not a value; leave the attribute out instead"
    return f"a {type(value).__name__} is not a value"


def _unfamiliar(value: object) -> object:
    """What the encoder does not know by itself, in terms of what it does."""
    if type(value) is Bag:
        return value.items
    return Ext(_CODES[type(value)], cast(Term, value).iri.encode())


def _extension(code: int, data: memoryview) -> Term:
    if len(data) > _REMEMBERED_IRI_BYTES_MAX:
        return _term(code, bytes(data))
    return _remembered_term(code, bytes(data))


def _term(code: int, iri: bytes) -> Term:
    kind = _KINDS.get(code)
    if kind is None:
        raise InvalidInputError(f"there is no kind of value with code {code}")
    return kind(iri.decode())


# The decoder checks the length of names as it reads them.
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]

_store = object.__setattr__
_remembered_term = lru_cache(_TERMS_REMEMBERED)(_term)
_encode = Encoder(enc_hook=_unfamiliar).encode
_decode = Decoder(dict[_Name, Any], ext_hook=_extension).decode
