"""Attributes as JSON texts, one per notification, into the table a matcher takes.

Most columns hold one kind of value, and Arrow holds those by itself. What it cannot hold (bags of
mixed types, numbers in one row and text in another) is passed on as JSON, to be read value by
value. A null is an absent attribute. Only the attributes asked for become columns; the parser skips
the others.

There are two ways to read. The plain one makes Python objects of the texts, and Arrow arrays of
those; it sees what types there are. The quick one is Arrow's own JSON reader, told the types that
the plain one saw last. It refuses whatever does not fit them, and is then not used; where it would
bend a value silently, what it read is checked. So the answer is that of the plain way, always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from kbn.errors import InvalidInputError
from kbn.matching.columns import TERM_KIND_METADATA, TERM_KINDS

_encode = msgspec.json.Encoder().encode
_ARROW_REFUSES = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError)
_WORTH_IT = 64
"""With fewer rows than this, the quick way costs more to set up than it saves."""

NO_ATTRIBUTES = "there are no attributes, not even {}"

# What the plain way saw last, by the names asked for.
_seen: dict[tuple[str, ...], pa.Schema] = {}


def table_from_json(texts: pa.Array | pa.ChunkedArray, wanted: Iterable[str]) -> pa.Table:
    """A row per text, a column per wanted attribute that some text has.

    >>> texts = pa.array(['{"kind": {"class": "urn:Tea"}, "price": 5}', '{"price": 7.5}'])
    >>> table_from_json(texts, ["kind", "price"]).to_pydict()
    {'kind': ['urn:Tea', None], 'price': [5.0, 7.5]}
    """
    names = tuple(sorted(wanted))
    rows = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    columns = _quickly(rows, names) if len(rows) >= _WORTH_IT else None
    if columns is None:
        columns = _plainly(rows.to_pylist(), names)
    kept = {name: found for name, found in columns.items() if found is not None}
    if not kept:
        # A table without columns has no rows: one that nobody asks for keeps their number.
        return pa.table({"": pa.nulls(len(rows))})
    fields = [
        pa.field(name, array.type, metadata={TERM_KIND_METADATA: kind} if kind else None)
        for name, (array, kind) in kept.items()
    ]
    return pa.table([array for array, _ in kept.values()], schema=pa.schema(fields))


def unreadable_rows(texts: pa.Array, wanted: Iterable[str]) -> dict[int, str]:
    """The rows that `table_from_json` refuses a table for, and why.

    >>> unreadable_rows(pa.array(['{"price": 5}', None]), ["price"])
    {1: 'there are no attributes, not even {}'}
    """
    decode = _decoder(tuple(sorted(wanted))).decode
    found = ((row, _unreadable(decode, text)) for row, text in enumerate(texts.to_pylist()))
    return {row: reason for row, reason in found if reason is not None}


Columns = dict[str, tuple[pa.Array, bytes] | None]
"""Name to column and the kind its texts are; None where no row has the attribute."""


# The plain way.


def _plainly(texts: Sequence[str | None], names: tuple[str, ...]) -> Columns:
    objects = _objects(texts, names)
    columns: Columns = {}
    seen: dict[str, pa.DataType] | None = {}
    for place, name in enumerate(names):
        values = list(map(attrgetter(f"a{place}"), objects))
        array = _held(values)
        column = None if array is None else _understood(array)
        if array is None or (column is None and not pa.types.is_null(array.type)):
            texts_of = [None if value is None else _encode(value).decode() for value in values]
            column, seen = (pa.array(texts_of, pa.string()), b"json"), None
        elif seen is not None:
            seen[name] = array.type
        columns[name] = column
    if seen is not None and len(_seen) < 1024:
        _seen[names] = pa.schema(list(seen.items()))
    return columns


def _objects(texts: Sequence[str | None], names: tuple[str, ...]) -> list[Any]:
    decode = _decoder(names).decode
    try:
        return [decode(text) for text in texts]  # type: ignore[arg-type]
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError):
        for row, text in enumerate(texts):
            _check(decode, row, text)
        raise


def _check(decode: Callable[[str], Any], row: int, text: str | None) -> None:
    reason = _unreadable(decode, text)
    if reason is not None:
        shown = "" if text is None else f": {text[:80]}"
        raise InvalidInputError(f"row {row}: {reason}{shown}")


def _unreadable(decode: Callable[[str], Any], text: str | None) -> str | None:
    """Why a text is no attributes, None when it is."""
    if text is None:
        return NO_ATTRIBUTES
    try:
        decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return f"not attributes in JSON: {error}"
    return None


@lru_cache(maxsize=16)
def _decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Reads objects into ones that have the names alone, as a0, a1, …"""
    fields: list[Any] = [(f"a{place}", Any, None) for place in range(len(names))]
    rename = {f"a{place}": name for place, name in enumerate(names)}
    return msgspec.json.Decoder(msgspec.defstruct("Attributes", fields, rename=rename, gc=False))


def _held(values: Sequence[Any]) -> pa.Array | None:
    """The values as Arrow holds them, None when it does not."""
    try:
        return pa.array(values)
    except _ARROW_REFUSES:
        return None


# The quick way.


def _quickly(texts: pa.Array, names: tuple[str, ...]) -> Columns | None:
    """What Arrow's reader makes of the texts, None when the plain way has to tell."""
    schema = _seen.get(names)
    if schema is None or not _one_object_each(texts):
        return None
    try:
        table = _parsed(texts, schema)
    except _ARROW_REFUSES:
        return None
    if table.num_rows != len(texts):
        return None
    columns: Columns = {}
    for name in names:
        column = table[name]
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if not _is_exact(array):
            return None
        column = _understood(array)
        if column is None and array.null_count < len(array):
            return None
        columns[name] = column
    return columns


def _one_object_each(texts: pa.Array) -> bool:
    # An object or more in each: as many objects as texts then means just one in each.
    braced = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    return texts.null_count == 0 and bool(pc.all(braced).as_py())


def _parsed(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    every = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    content = pc.binary_join(every, "\n").buffers()[2]
    return pa.json.read_json(
        pa.BufferReader(content),
        pa.json.ReadOptions(use_threads=False, block_size=max(1, content.size)),
        pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _is_exact(array: pa.Array) -> bool:
    """Whether numbers are what was written: an integer past 2⁵³ may not be, as a float."""
    while pa.types.is_list(array.type):
        array = array.flatten()
    if not pa.types.is_floating(array.type) or not len(array):
        return True
    largest = pc.max(pc.abs(array)).as_py()
    return largest is None or bool(np.isfinite(largest) and largest < 2**53)


# What an array means.


def _understood(array: pa.Array) -> tuple[pa.Array, bytes] | None:
    """The column a matcher takes, and its texts' kind; None when it is all null, or mixed."""
    if pa.types.is_struct(array.type):
        return _tagged(array)
    if pa.types.is_list(array.type) and pa.types.is_struct(array.type.value_type):
        inside = _tagged(array.values)
        if inside is None:
            return None
        return pa.ListArray.from_arrays(array.offsets, inside[0], mask=pc.is_null(array)), inside[1]
    return (array, b"") if _is_plain(array.type) else None


def _is_plain(type_: pa.DataType) -> bool:
    """Whether values of the type stand for themselves, alone or in a bag."""
    inner = type_.value_type if pa.types.is_list(type_) else type_
    tests = (pa.types.is_boolean, pa.types.is_int64, pa.types.is_float64, pa.types.is_string)
    return any(test(inner) for test in tests)


def _tagged(array: pa.Array) -> tuple[pa.Array, bytes] | None:
    """{"class": iri} and the like, all of one kind."""
    if array.type.num_fields != 1 or array.type.field(0).name not in (*TERM_KINDS, "time"):
        return None
    name = array.type.field(0).name
    inner = pc.struct_field(array, 0)
    if not pa.types.is_string(inner.type) or inner.null_count != array.null_count:
        return None
    if name != "time":
        return inner, name.encode()
    if not pc.all(pc.match_substring_regex(inner, r"T.*Z$")).as_py():
        return None
    try:
        return inner.cast(pa.timestamp("us", "UTC")), b""
    except _ARROW_REFUSES:
        return None
