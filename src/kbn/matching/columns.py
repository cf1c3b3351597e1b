"""Columns: how the cells of an Arrow column become values, hit tokens and points on axes.

A column's type says what its values are: booleans, integers, floats, strings, binary and
timestamps are themselves (a timestamp without a zone is in UTC, and is cut to microseconds); lists
are bags; a null is an absent attribute, and inside a list it is nothing. Terms are strings in a
column whose field metadata says so, {"kbn": "class"} (or property, individual, term); lists alike.
{"kbn": "json"} says that each cell is the JSON form of a value of any type.

Only columns that some subscription asks for are looked at, and those are refused when they hold
what is no value: a NaN, an unsigned integer past 64 bits, a decimal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbn.errors import InvalidInputError
from kbn.filters import Bag, Family, value_family, value_from_json
from kbn.matching.elements import (
    BagColumn,
    HitColumn,
    OrderedValues,
    bag_column,
    ordered_values,
    token_runs,
)
from kbn.matching.groups import Array
from kbn.matching.nested_bags import NestedColumn, read_nested
from kbn.matching.pairs import as_pair, microseconds
from kbn.matching.text_search import Texts
from kbn.matching.value_index import ValueIndex
from kbn.ontology import Class, Individual, Property, Term

TERM_KIND_METADATA = b"kbn"
TERM_KINDS: dict[str, type[Term]] = {
    "class": Class, "property": Property, "individual": Individual, "term": Term,
}  # fmt: skip


PARSED_MAX = 10_000
"""How many cells in JSON are parsed once, however often they are asked for."""


@dataclass(frozen=True, slots=True)
class AxisColumn:
    """One row's number or time each on an axis, as exact pairs, where present."""

    axis: int
    values: Array
    rests: Array
    present: Array


class AttributeColumn:
    """One attribute's column.

    >>> AttributeColumn(pa.field("price", pa.int64()), pa.chunked_array([[5, 50]])).name
    'price'
    """

    def __init__(self, field: pa.Field, column: pa.ChunkedArray) -> None:
        self.name = field.name
        metadata = field.metadata or {}
        self.kind = (
            metadata[TERM_KIND_METADATA].decode(errors="replace")
            if TERM_KIND_METADATA in metadata
            else None
        )
        array = column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
        self._array = _flat(array)
        self._checked = False
        self._elements: HitColumn | None = None
        self._parsed: dict[str, Any] = {}
        self._nested: NestedColumn | None = None
        self._looked_for_nested = False

    def value(self, row: int) -> Any:
        """The value of one cell, None when it is null."""
        if self._nested is not None and self._nested.is_read[row]:
            return self._nested.bag(row)
        return self._converted(self._checked_array()[row].as_py())

    def codes(self) -> Array:
        """A number for each cell, the same only where the cells are.

        >>> column = pa.chunked_array([[["a", "b"], ["b"], ["a", "b"]]])
        >>> AttributeColumn(pa.field("tags", column.type), column).codes().tolist()
        [0, 1, 0]
        """
        array = self._checked_array()
        if not pa.types.is_list(array.type):
            return _indices(array)
        if pa.types.is_list(array.type.value_type):
            return np.arange(len(array))
        offsets = array.offsets.to_numpy(zero_copy_only=False).tolist()
        elements = _indices(array.values).tolist()
        known: dict[tuple[int, ...], int] = {}
        runs = (tuple(elements[start:end]) for start, end in pairwise(offsets))
        return np.array([known.setdefault(run, len(known)) for run in runs], np.int64)

    def hit_columns(self, index: ValueIndex) -> list[HitColumn]:
        """What the rows hit of one attribute's tokens."""
        array = self._checked_array()
        if pa.types.is_null(array.type):
            return []
        if self.kind == "json" and index.every_bag_hits_the_same:
            nested = self.nested()
            if nested is not None:
                return self._hits_besides(nested.is_read, array, index)
        if not pa.types.is_list(array.type):
            return [self._hits(np.arange(len(array) + 1, dtype=np.int64), array, index)]
        if index.has_only_elements and not pa.types.is_list(array.type.value_type):
            return [self._element_hits(index), _every_row_hits(array, index.every_bag_hits())]
        return [self._whole_bags(array, index)]

    def nested(self) -> NestedColumn | None:
        """The cells that are bags within bags, if the column is in JSON; read once."""
        if self.kind == "json" and not self._looked_for_nested:
            self._looked_for_nested = True
            self._nested = read_nested(self._checked_array())
        return self._nested

    def _hits_besides(
        self, is_nested: Array, array: pa.Array, index: ValueIndex
    ) -> list[HitColumn]:
        """What the rows hit, where some are known to be bags within bags."""
        rows = len(array)
        tokens = np.array(index.every_bag_hits(), np.int64)
        of_bags = HitColumn(
            np.arange(rows + 1, dtype=np.int64), np.zeros(rows, np.int64), is_nested,
            np.zeros(1, np.int64), np.array([tokens.shape[0]], np.int64), tokens,
        )  # fmt: skip
        if int(is_nested.sum()) == rows - array.null_count:
            return [of_bags]
        others = pc.if_else(pa.array(is_nested), pa.scalar(None, array.type), array)
        return [of_bags, self._hits(np.arange(rows + 1, dtype=np.int64), others, index)]

    def bag_column(self, index: ValueIndex, with_order: bool) -> BagColumn:
        """The rows' bags and what their elements hit; `with_order` where elements are ordered."""
        array = self._checked_array()
        plain = pa.types.is_list(array.type) and not pa.types.is_list(array.type.value_type)
        if not plain or self.kind == "json":
            cells = [self._converted(cell) for cell in array.to_pylist()]
            bags = [cell if isinstance(cell, Bag) else None for cell in cells]
            return bag_column(bags, index.element_hits, with_order)
        hits = self._element_hits(index)
        if not with_order:
            return BagColumn(hits, _valid(array))
        return BagColumn(hits, _valid(array), self._ordered(_encoded(array.values).dictionary))

    def _element_hits(self, index: ValueIndex) -> HitColumn:
        """What the elements of a column of lists hit; worked out once."""
        if self._elements is None:
            array = self._checked_array()
            offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
            self._elements = self._hits(offsets, array.values, index.elements)
        return self._elements

    def _ordered(self, distinct: pa.Array) -> OrderedValues:
        if self.kind is None and pa.types.is_floating(distinct.type):
            values = distinct.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
            ones = np.ones(values.shape[0], np.int8)
            return OrderedValues(ones, values, np.zeros(values.shape[0], np.int64))
        return ordered_values(self._converted(cell) for cell in distinct.to_pylist())

    def axis_columns(self, axes: tuple[int, int]) -> list[AxisColumn]:
        """The rows' numbers on the first axis and times on the second; -1 for no axis."""
        array = self._checked_array()
        numbers, times = axes
        if self.kind == "json":
            return self._axes_of_values(axes)
        if numbers >= 0 and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
            return [AxisColumn(numbers, *_number_pairs(array))]
        if times >= 0 and pa.types.is_timestamp(array.type):
            return [AxisColumn(times, *_number_pairs(array.cast(pa.int64())))]
        return []

    def _checked_array(self) -> pa.Array:
        if not self._checked:
            self._array = self._normal(self._array)
            self._checked = True
        return self._array

    def _normal(self, array: pa.Array) -> pa.Array:
        """The array in one of the few layouts the rest handles, or an error naming the column."""
        element = array.type
        while pa.types.is_list(element):
            element = element.value_type
        if pa.types.is_dictionary(element):
            element = element.value_type
        if self.kind is not None:
            self._check_kind(element)
        elif not _is_value_type(element):
            raise self._error(f"values of type {element} are no values: cast the column first")
        cells = array
        while pa.types.is_list(cells.type):
            cells = cells.values
        if pa.types.is_floating(cells.type) and pc.any(pc.is_nan(cells)).as_py():
            raise self._error("NaN is not a value: use null for what is absent")
        if pa.types.is_uint64(cells.type) and (pc.max(cells).as_py() or 0) >= 2**63:
            raise self._error("integers must fit in 64 bits, signed: cast the column to float64")
        if pa.types.is_timestamp(array.type):
            return array.cast(pa.timestamp("us", array.type.tz or "UTC"), safe=False)
        return array

    def _check_kind(self, element: pa.DataType) -> None:
        if self.kind not in (*TERM_KINDS, "json"):
            raise self._error(
                f"metadata kbn={self.kind!r} is none of {', '.join(TERM_KINDS)}, json"
            )
        if not (_is_text(element) or pa.types.is_null(element)):
            raise self._error(f"metadata kbn={self.kind!r} goes with strings, not {element}")

    def _error(self, reason: str) -> InvalidInputError:
        return InvalidInputError(f"column {self.name!r}: {reason}")

    def _converted(self, cell: Any) -> Any:
        """The value of one cell or list element."""
        if cell is None:
            return None
        if isinstance(cell, list):
            values = (self._converted(one) for one in cell)
            return Bag(*(value for value in values if value is not None))
        if self.kind == "json":
            if cell not in self._parsed:
                if len(self._parsed) >= PARSED_MAX:
                    self._parsed.clear()
                self._parsed[cell] = self._from_text(cell)
            return self._parsed[cell]
        if self.kind is not None:
            return TERM_KINDS[self.kind](cell)
        if isinstance(cell, datetime):
            return cell.astimezone(UTC) if cell.tzinfo else cell.replace(tzinfo=UTC)
        return cell

    def _from_text(self, text: str) -> Any:
        try:
            return value_from_json(json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._error(f"{text[:80]!r} is not a value in JSON: {error}") from error

    def _hits(self, offsets: Array, array: pa.Array, index: ValueIndex | None) -> HitColumn:
        encoded = _encoded(array)
        indices = _indices(encoded)
        return HitColumn(
            offsets, indices, _valid(array), *self._runs(encoded.dictionary, indices, index)
        )

    def _runs(
        self, distinct: pa.Array, indices: Array, index: ValueIndex | None
    ) -> tuple[Array, Array, Array]:
        """Where the tokens of each distinct cell begin and end, and the tokens."""
        starts, ends = np.zeros(len(distinct), np.int64), np.zeros(len(distinct), np.int64)
        if index is None or len(distinct) == 0:
            return starts, ends, np.zeros(0, np.int64)
        used: Any = slice(None)
        has_more = len(distinct) > indices.shape[0]  # a dictionary with more entries than rows use
        if self.kind is None and _is_searched(distinct) and not has_more:
            found = index.text_hits(Texts(distinct))
            if found is not None:
                return found
        if has_more:
            used = np.unique(indices)
            cells = [distinct[place].as_py() for place in used.tolist()]
        else:
            cells = distinct.to_pylist()

        def hits(cell: Any) -> tuple[int, ...]:
            value = self._converted(cell)
            return () if value is None else index.hits(value)

        column_type = f"{self.kind} {distinct.type}"
        starts[used], ends[used], tokens = index.known.runs_of(
            column_type, cells, hits, index.version
        )
        return starts, ends, tokens

    def _whole_bags(self, array: pa.Array, index: ValueIndex) -> HitColumn:
        """Bag by bag: some constraint looks at whole bags."""
        numbers: dict[Any, int] = {}
        bags = [self._converted(cell) for cell in array.to_pylist()]
        indices = [0 if bag is None else numbers.setdefault(bag, len(numbers)) for bag in bags]
        runs = token_runs(index.hits(bag) for bag in numbers)
        rows = np.arange(len(array) + 1, dtype=np.int64)
        return HitColumn(rows, np.array(indices, np.int64), _valid(array), *runs)

    def _axes_of_values(self, axes: tuple[int, int]) -> list[AxisColumn]:
        rows = [self._converted(cell) for cell in self._checked_array().to_pylist()]
        found = []
        for axis, kind in zip(axes, (Family.NUMBER, Family.TIME), strict=True):
            if axis < 0:
                continue
            present = np.array([v is not None and value_family(v) is kind for v in rows], bool)
            pairs = [
                as_pair(v if kind is Family.NUMBER else microseconds(v)) if held else (0.0, 0)
                for v, held in zip(rows, present.tolist(), strict=True)
            ]
            values = np.array([pair[0] for pair in pairs], np.float64)
            rests = np.array([pair[1] for pair in pairs], np.int64)
            found.append(AxisColumn(axis, values, rests, present))
        return found


def _indices(array: pa.Array) -> Array:
    """The number of each distinct cell; that of nulls says nothing."""
    indices = pc.fill_null(_encoded(array).indices, 0).to_numpy(zero_copy_only=False)
    found: Array = indices.astype(np.int64)
    return found


def _encoded(array: pa.Array) -> pa.DictionaryArray:
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def _flat(array: pa.Array) -> pa.Array:
    """The array with every list an ordinary list, and dictionaries only of whole strings."""
    type_ = array.type
    if pa.types.is_dictionary(type_):
        plain = _is_text(type_.value_type) and not array.dictionary.null_count
        return array if plain else array.dictionary_decode()
    if not _is_list_like(type_):
        return array
    # A list's values are taken as they lie, so rows that are null or out of the slice must go.
    lies_flat = pa.types.is_list(type_) and array.offset == 0 and not array.null_count
    if lies_flat and not pa.types.is_nested(type_.value_type):
        inner = _flat(array.values)
        return pa.ListArray.from_arrays(array.offsets, inner)
    return pa.array(array.to_pylist(), _list_type(type_))


def _is_list_like(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
        or pa.types.is_list_view(type_)
        or pa.types.is_large_list_view(type_)
    )


def _list_type(type_: pa.DataType) -> pa.DataType:
    if _is_list_like(type_):
        return pa.list_(_list_type(type_.value_type))
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    )


def _is_value_type(type_: pa.DataType) -> bool:
    return _is_text(type_) or any(
        test(type_)
        for test in (
            pa.types.is_null,
            pa.types.is_boolean,
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_timestamp,
        )
    )


def _every_row_hits(array: pa.Array, tokens: list[int]) -> HitColumn:
    rows = len(array)
    return HitColumn(
        np.arange(rows + 1, dtype=np.int64), np.zeros(rows, np.int64), _valid(array),
        np.zeros(1, np.int64), np.array([len(tokens)], np.int64), np.array(tokens, np.int64),
    )  # fmt: skip


def _is_searched(texts: pa.Array) -> bool:
    return bool(pa.types.is_string(texts.type)) and not texts.null_count


def _valid(array: pa.Array) -> Array:
    valid: Array = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return valid


def _number_pairs(array: pa.Array) -> tuple[Array, Array, Array]:
    filled = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    values = filled.astype(np.float64) + 0.0
    rests = np.zeros(values.shape[0], np.int64)
    if pa.types.is_integer(array.type):
        for position in np.flatnonzero(np.abs(values) >= 2.0**53).tolist():
            values[position], rests[position] = as_pair(int(filled[position]))
    return values, rests, _valid(array)
