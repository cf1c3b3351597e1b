"""Attributes as JSON texts, one per notification, into the table a matcher takes.

Most columns hold one kind of value, and Arrow reads those from Python's objects by itself. What it
cannot hold (bags of mixed types, numbers in one row and text in another) is passed on as JSON, to
be read value by value. A null is an absent attribute. Only the attributes asked for become columns,
and the parser skips the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kbn.errors import InvalidInputError
from kbn.matching.columns import KIND, TERMS

_encode = msgspec.json.Encoder().encode
_ARROW_REFUSES = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError)


def table_from_json(texts: pa.Array | pa.ChunkedArray, wanted: Iterable[str]) -> pa.Table:
    """A row per text, a column per wanted attribute that some text has.

    >>> texts = pa.array(['{"kind": {"class": "urn:Tea"}, "price": 5}', '{"price": 7.5}'])
    >>> table_from_json(texts, ["kind", "price"]).to_pydict()
    {'kind': ['urn:Tea', None], 'price': [5.0, 7.5]}
    """
    names = tuple(sorted(wanted))
    objects = _objects(texts.to_pylist(), names)
    fields, columns = [], []
    for place, name in enumerate(names):
        values = list(map(attrgetter(f"a{place}"), objects))
        if values.count(None) == len(values):
            continue
        column, kind = _column(values)
        fields.append(pa.field(name, column.type, metadata={KIND: kind} if kind else None))
        columns.append(column)
    if not columns:
        # A table without columns has no rows: one that nobody asks for keeps their number.
        return pa.table({"": pa.nulls(len(objects))})
    return pa.table(columns, schema=pa.schema(fields))


def _objects(texts: Sequence[str | None], names: tuple[str, ...]) -> list[Any]:
    decode = _decoder(names).decode
    try:
        return [decode(text) for text in texts]  # type: ignore[arg-type]
    except (msgspec.DecodeError, TypeError, ValueError):
        for row, text in enumerate(texts):
            _check(decode, row, text)
        raise


def _check(decode: Callable[[str], Any], row: int, text: str | None) -> None:
    if text is None:
        raise InvalidInputError(f"row {row}: there are no attributes, not even {{}}")
    try:
        decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidInputError(
            f"row {row}: not attributes in JSON: {error}: {text[:80]}"
        ) from error


@lru_cache(maxsize=16)
def _decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Reads objects into ones that have the names alone, as a0, a1, …"""
    fields: list[Any] = [(f"a{place}", Any, None) for place in range(len(names))]
    rename = {f"a{place}": name for place, name in enumerate(names)}
    return msgspec.json.Decoder(msgspec.defstruct("Attributes", fields, rename=rename, gc=False))


def _column(values: Sequence[Any]) -> tuple[pa.Array, bytes]:
    """The column of one attribute's values, and what kind its texts are."""
    try:
        array = pa.array(values)
        if pa.types.is_struct(array.type):
            return _tagged(array)
        if pa.types.is_list(array.type) and pa.types.is_struct(array.type.value_type):
            inner, kind = _tagged(array.values)
            return pa.ListArray.from_arrays(array.offsets, inner, mask=pc.is_null(array)), kind
        if _is_plain(array.type):
            return array, b""
    except _ARROW_REFUSES:
        pass
    texts = [None if value is None else _encode(value).decode() for value in values]
    return pa.array(texts, pa.string()), b"json"


def _is_plain(type_: pa.DataType) -> bool:
    """Whether values of the type stand for themselves, alone or in a bag."""
    inner = type_.value_type if pa.types.is_list(type_) else type_
    tests = (pa.types.is_boolean, pa.types.is_int64, pa.types.is_float64, pa.types.is_string)
    return any(test(inner) for test in tests)


def _tagged(array: pa.Array) -> tuple[pa.Array, bytes]:
    """{"class": iri} and the like, all of one kind; anything else is refused."""
    if array.type.num_fields != 1 or array.type.field(0).name not in (*TERMS, "time"):
        raise pa.ArrowInvalid("not one kind of term")
    name = array.type.field(0).name
    inner = pc.struct_field(array, 0)
    if not pa.types.is_string(inner.type) or inner.null_count != array.null_count:
        raise pa.ArrowInvalid("not one kind of term")
    if name != "time":
        return inner, name.encode()
    if not pc.all(pc.match_substring_regex(inner, r"T.*Z$")).as_py():
        raise pa.ArrowInvalid("times in several forms")
    return inner.cast(pa.timestamp("us", "UTC")), b""
