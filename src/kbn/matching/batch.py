"""Batches: matching a table of notifications, a row each and a column per attribute.

A column's Arrow type says what its values are: booleans, integers, floats, strings, binary and
timestamps are themselves; lists are bags; a null is an absent attribute. Terms of the ontology are
strings in a column whose field metadata says so, {"kbn": "class"} (or property, individual, term);
lists alike. A column of values of several types holds their JSON form, {"kbn": "json"}. `to_table`
makes such a table from notifications.

Columns are dictionary-encoded, so that what a value hits is worked out once per distinct value; the
kernels then gather the hits of each row. Rows go through in chunks that keep the scratch small.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbn.errors import InvalidInputError
from kbn.filters import Bag, Notification
from kbn.filters.json_form import value_from_json, value_to_json
from kbn.filters.values import Family, family
from kbn.matching import batch_kernels, code_kernels, slab_kernels, trie_kernels
from kbn.matching.codes import as_pair, microseconds
from kbn.matching.groups import Array
from kbn.matching.index import GONE, Index
from kbn.matching.slabs import ARRAYS as SLAB_ARRAYS
from kbn.ontology import Class, Individual, Property, Term

if TYPE_CHECKING:
    from kbn.matching.matcher import Matcher

CHUNK = 8192
KIND = b"kbn"
_TERMS: dict[str, type[Term]] = {
    "class": Class, "property": Property, "individual": Individual, "term": Term,
}  # fmt: skip
_FAMILY_KIND = {
    Family.CLASS: "class", Family.PROPERTY: "property", Family.INDIVIDUAL: "individual",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HitColumn:
    """One column's elements as numbers of distinct values, and the tokens each value hits."""

    offsets: Array
    indices: Array
    valid: Array
    token_start: Array
    tokens: Array

    def rows(self, start: int, stop: int) -> Array:
        return self.offsets[start : stop + 1]


@dataclass(frozen=True, slots=True)
class AxisColumn:
    """One column's numbers or times on an axis, as exact pairs."""

    axis: int
    values: Array
    rests: Array
    present: Array


class EncodedTable:
    """A table of notifications, ready for the kernels."""

    def __init__(self, index: Index, table: pa.Table) -> None:
        self.rows = table.num_rows
        self._columns = {name: _Column(table.field(name), table[name]) for name in table.column_names}
        self.hits: list[HitColumn] = []
        self.axes: list[AxisColumn] = []
        axes = index.axes_of()
        for name, column in self._columns.items():
            value_index = index.table.attributes.get(name)
            if value_index is not None:
                self.hits += column.hit_columns(value_index)
            if name in axes:
                self.axes += column.axis_columns(axes[name])

    def attributes(self, row: int) -> Mapping[str, Any]:
        """One row as a notification's attributes."""
        values = {name: column.value(row) for name, column in self._columns.items()}
        return {name: value for name, value in values.items() if value is not None}


def find_batch(index: Index, table: pa.Table) -> Iterator[tuple[int, Array, Array]]:
    """Chunk by chunk: the first row, the groups found, and where each row's groups begin."""
    encoded = EncodedTable(index, table)
    arguments = _kernel_arguments(index)
    for start in range(0, encoded.rows, CHUNK):
        stop = min(start + CHUNK, encoded.rows)
        found, starts = _find_chunk(index, encoded, start, stop, arguments)
        if (found & 1).any():
            found, starts = _checked(index, encoded, start, found, starts)
        yield start, found >> 1, starts


def match_table(matcher: Matcher, table: pa.Table, *, expand: bool) -> pa.Table:
    """`Matcher.match_batch`."""
    pieces = []
    groups = matcher.index.groups
    for start, found, starts in find_batch(matcher.index, table):
        rows = np.repeat(np.arange(starts.shape[0] - 1), np.diff(starts)) + start
        if expand:
            pieces.append(_expanded(matcher, start, found, starts))
        else:
            counts = groups.alive[found].astype(np.int64)
            pieces.append(pa.table({"notification": rows, "group": found, "subscriptions": counts}))
    if not pieces:
        empty = EncodedTable(matcher.index, table)
        assert empty.rows == 0
        none = np.zeros(0, np.int64)
        if expand:
            return pa.table({"notification": none, "key": _keys(matcher).slice(0, 0)})
        return pa.table({"notification": none, "group": none, "subscriptions": none})
    return pa.concat_tables(pieces)


def count_batch(matcher: Matcher, table: pa.Table) -> Array:
    """The number of matching (filter, subscription) entries per row, groups never expanded."""
    counts = [
        code_kernels.count_members(found, starts, matcher.index.groups.alive)
        for _, found, starts in find_batch(matcher.index, table)
    ]
    return np.concatenate(counts) if counts else np.zeros(0, np.int64)


def to_table(notifications: Iterable[Notification | Mapping[str, Any]]) -> pa.Table:
    """Notifications as a table that `match_batch` takes.

    >>> to_table([{"a": 1}, {"a": 2, "b": ["x"]}]).schema.names
    ['a', 'b']
    """
    rows = [n if isinstance(n, Notification) else Notification(n) for n in notifications]
    names = dict.fromkeys(name for row in rows for name in row.attributes)
    fields, columns = [], []
    for name in names:
        values = [row.attributes.get(name) for row in rows]
        field, column = _to_column(name, values)
        fields.append(field)
        columns.append(column)
    if not fields:
        # A table without columns has no rows: one that nobody has set keeps their number.
        return pa.table({"_": pa.nulls(len(rows))})
    return pa.table(columns, schema=pa.schema(fields))


def _kernel_arguments(index: Index) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    groups, trie, slabs = index.groups, index.trie, index.slabs
    trie.cover_tokens(len(index.table))
    tree = (trie.slots, trie.bits, trie.masks, trie.chains, trie.chain_next)
    code = (groups.code, groups.code_as_float, groups.code_start, groups.alive)
    slab = (slabs.axes, slabs.slab_count, *(getattr(slabs, name) for name in SLAB_ARRAYS))
    return tree, code, slab


def _find_chunk(
    index: Index, encoded: EncodedTable, start: int, stop: int, arguments: tuple[Any, ...]
) -> tuple[Array, Array]:
    tree, code, slab = arguments
    hits, hit_start = _gather(encoded, start, stop)
    axes = max(len(index.encoder.axes), index.slabs.axes)
    values, rests, present = _axis_arrays(encoded, start, stop, axes)
    stamps, clock = index.stamps(), index.clock
    found, found_start = trie_kernels.walk_many(
        hits, hit_start, index.trie.rank, *tree, *code, index.groups.dead_groups > 0, clock,
        stamps, values, rests, present,
    )  # fmt: skip
    if index.slabs.count == 0:
        return found, found_start
    more, owner = slab_kernels.scan_many(
        hits, hit_start, index.slabs.with_tokens, *code, clock, stamps, values, rests, present,
        *slab,
    )  # fmt: skip
    return batch_kernels.merge_by_event(found, found_start, more, owner)  # type: ignore[no-any-return]


def _gather(encoded: EncodedTable, start: int, stop: int) -> tuple[Array, Array]:
    """The hit tokens of each row, one after another, and where each row's begin."""
    counts = np.zeros(stop - start, np.int64)
    for column in encoded.hits:
        batch_kernels.count_hits(
            column.rows(start, stop), column.indices, column.valid, column.token_start, counts
        )
    hit_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    hits = np.empty(int(hit_start[-1]), np.int64)
    fill = hit_start[:-1].copy()
    for column in encoded.hits:
        batch_kernels.fill_hits(
            column.rows(start, stop), column.indices, column.valid, column.token_start,
            column.tokens, fill, hits,
        )  # fmt: skip
    return hits, hit_start


def _axis_arrays(
    encoded: EncodedTable, start: int, stop: int, axes: int
) -> tuple[Array, Array, Array]:
    values = np.zeros((stop - start, axes), np.float64)
    rests = np.zeros((stop - start, axes), np.int64)
    present = np.zeros((stop - start, axes), bool)
    for column in encoded.axes:
        # Several columns may feed one axis only if they are the same attribute: never at one row.
        chosen = column.present[start:stop]
        values[chosen, column.axis] = column.values[start:stop][chosen]
        rests[chosen, column.axis] = column.rests[start:stop][chosen]
        present[:, column.axis] |= chosen
    return values, rests, present


def _checked(
    index: Index, encoded: EncodedTable, first: int, found: Array, starts: Array
) -> tuple[Array, Array]:
    """Keep the candidates whose checks hold."""
    kept = np.ones(found.shape[0], bool)
    rows = np.repeat(np.arange(starts.shape[0] - 1), np.diff(starts))
    unchecked = np.flatnonzero(found & 1)
    row, attributes, memo = -1, {}, {}  # type: int, Mapping[str, Any], dict[int, bool]
    for position in unchecked.tolist():
        if rows[position] != row:
            row = int(rows[position])
            attributes, memo = encoded.attributes(first + row), {}
        kept[position] = index.satisfies(int(found[position]) >> 1, attributes, memo)
    sizes = np.bincount(rows[kept], minlength=starts.shape[0] - 1)
    return found[kept], np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def _expanded(matcher: Matcher, start: int, found: Array, starts: Array) -> pa.Table:
    groups = matcher.index.groups
    totals = code_kernels.count_members(found, starts, groups.alive)
    owners, subscriptions = code_kernels.expand(
        found, starts, totals, groups.first, groups.next_entry, groups.entry_subscription
    )
    if groups.entry_count > groups.subscription_count:
        pairs = np.unique(owners.astype(np.int64) << 32 | subscriptions)
        owners, subscriptions = pairs >> 32, pairs & 0xFFFFFFFF
    keys = _keys(matcher).take(pa.array(subscriptions))
    return pa.table({"notification": owners.astype(np.int64) + start, "key": keys})


def _keys(matcher: Matcher) -> pa.Array:
    """Every subscription's key as an Arrow array, made once per change."""
    if isinstance(matcher.keys, pa.Array):
        return matcher.keys
    version, keys = matcher.arrow_keys
    if version != matcher.version:
        live = [None if key is GONE else key for key in matcher.keys]
        kinds = {type(key) for key in live} - {type(None)}
        if not (kinds <= {str} or kinds <= {int}):
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise InvalidInputError(
                f"the matches of a batch need keys that are all str or all int, not {names}: "
                "pass expand=False, or call match()"
            )
        keys = pa.array(live)
        if pa.types.is_null(keys.type):
            keys = keys.cast(pa.string())
        matcher.arrow_keys = (matcher.version, keys)
    return keys


class _Column:
    """One column of the table, and how its cells become values."""

    def __init__(self, field: pa.Field, column: pa.ChunkedArray) -> None:
        self.name = field.name
        metadata = field.metadata or {}
        self.kind = metadata[KIND].decode() if KIND in metadata else ""
        if self.kind and self.kind != "json" and self.kind not in _TERMS:
            raise InvalidInputError(
                f"column {field.name!r}: metadata kbn={self.kind!r} is not one of "
                f"{', '.join([*_TERMS, 'json'])}"
            )
        array = column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
        if pa.types.is_dictionary(array.type) and not _is_text(array.type.value_type):
            array = array.dictionary_decode()
        self.array = array
        self.type = array.type
        self.is_list = pa.types.is_list(self.type) or pa.types.is_large_list(self.type)

    def value(self, row: int) -> Any:
        """The value of one cell, None when it is null."""
        cell = self.array[row].as_py()
        if cell is None:
            return None
        if self.is_list:
            return Bag(*(self._converted(one) for one in cell if one is not None))
        return self._converted(cell)

    def hit_columns(self, value_index: Any) -> list[HitColumn]:
        if not self.is_list:
            return [self._scalar_hits(value_index.hits)]
        if value_index.has_only_elements:
            return [self._element_hits(value_index), self._every_bag_hits(value_index)]
        return [self._whole_bag_hits(value_index)]

    def axis_columns(self, axes: tuple[int, int]) -> list[AxisColumn]:
        if self.is_list:
            return []
        if self.kind == "json":
            return self._json_axes(axes)
        numbers, times = axes
        if numbers >= 0 and (pa.types.is_integer(self.type) or pa.types.is_floating(self.type)):
            return [AxisColumn(numbers, *_number_pairs(self.array))]
        if times >= 0 and pa.types.is_timestamp(self.type):
            return [AxisColumn(times, *_time_pairs(self.array))]
        return []

    def _scalar_hits(self, hits: Callable[[Any], tuple[int, ...]]) -> HitColumn:
        indices, valid, distinct = _dictionary(self.array)
        rows = np.arange(len(self.array) + 1, dtype=np.int64)
        return HitColumn(rows, indices, valid, *self._tokens(distinct, hits))

    def _element_hits(self, value_index: Any) -> HitColumn:
        indices, valid, distinct = _dictionary(self.array.values)
        offsets = _offsets(self.array)
        return HitColumn(offsets, indices, valid, *self._tokens(distinct, value_index.element_hits))

    def _every_bag_hits(self, value_index: Any) -> HitColumn:
        tokens = np.array(value_index.every_bag_hits(), np.int64)
        rows = len(self.array)
        return HitColumn(
            np.arange(rows + 1, dtype=np.int64), np.zeros(rows, np.int64), _valid(self.array),
            np.array([0, tokens.shape[0]], np.int64), tokens,
        )  # fmt: skip

    def _whole_bag_hits(self, value_index: Any) -> HitColumn:
        numbers: dict[Any, int] = {}
        rows = [self.value(row) for row in range(len(self.array))]
        indices = [0 if bag is None else numbers.setdefault(bag, len(numbers)) for bag in rows]
        valid = np.array([bag is not None for bag in rows], bool)
        tokens = _token_runs(value_index.hits(bag) for bag in numbers)
        return HitColumn(
            np.arange(len(rows) + 1, dtype=np.int64), np.array(indices, np.int64), valid, *tokens
        )

    def _tokens(self, distinct: pa.Array, hits: Callable[[Any], Any]) -> tuple[Array, Array]:
        return _token_runs(hits(self._converted(value)) for value in distinct.to_pylist())

    def _converted(self, cell: Any) -> Any:
        if self.kind == "json":
            return _from_text(self.name, cell)
        if self.kind:
            return _TERMS[self.kind](cell)
        if hasattr(cell, "tzinfo"):
            cell = cell if cell.tzinfo is not None else cell.replace(tzinfo=UTC)
            return cell.to_pydatetime() if hasattr(cell, "to_pydatetime") else cell
        if isinstance(cell, list):
            return Bag(*(self._converted(one) for one in cell))
        return cell

    def _json_axes(self, axes: tuple[int, int]) -> list[AxisColumn]:
        cells = self.array.to_pylist()
        rows = [None if cell is None else self._converted(cell) for cell in cells]
        found = []
        for axis, kind in zip(axes, (Family.NUMBER, Family.TIME), strict=True):
            if axis < 0:
                continue
            present = np.array([v is not None and family(v) is kind for v in rows], bool)
            pairs = [
                as_pair(v if kind is Family.NUMBER else microseconds(v)) if held else (0.0, 0)
                for v, held in zip(rows, present.tolist(), strict=True)
            ]
            values = np.array([pair[0] for pair in pairs], np.float64)
            rests = np.array([pair[1] for pair in pairs], np.int64)
            found.append(AxisColumn(axis, values, rests, present))
        return found


def _from_text(column: str, text: str) -> Any:
    try:
        return value_from_json(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(f"column {column!r}: {text[:80]!r} is not a value: {error}") from error


def _token_runs(hits: Iterable[Iterable[int]]) -> tuple[Array, Array]:
    starts, tokens = [0], []  # type: list[int], list[int]
    for of_value in hits:
        tokens.extend(of_value)
        starts.append(len(tokens))
    return np.array(starts, np.int64), np.array(tokens, np.int64)


def _dictionary(array: pa.Array) -> tuple[Array, Array, pa.Array]:
    """Each element's number among the distinct values, which elements are valid, and the values."""
    if pa.types.is_nested(array.type):
        texts = pa.array([repr(cell) for cell in array.to_pylist()])
        encoded = texts.dictionary_encode()
        chosen = [int(np.argmax(encoded.indices.to_numpy() == i)) for i in range(len(encoded.dictionary))]
        return encoded.indices.to_numpy().astype(np.int64), _valid(array), array.take(pa.array(chosen))
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices, _valid(array), array.dictionary


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _valid(array: pa.Array) -> Array:
    valid: Array = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return valid


def _offsets(array: pa.Array) -> Array:
    """Row offsets into `array.values`, in which a null row is empty."""
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    if array.null_count:
        # A null row may still span values: rows are laid out again without them.
        raise_spans = np.diff(offsets)[~_valid(array)]
        if raise_spans.any():
            return _offsets(pa.array(array.to_pylist(), array.type))
    return offsets


def _number_pairs(array: pa.Array) -> tuple[Array, Array, Array]:
    present = _valid(array)
    filled = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    values = filled.astype(np.float64) + 0.0
    rests = np.zeros(values.shape[0], np.int64)
    if pa.types.is_integer(array.type):
        large = np.flatnonzero(np.abs(values) >= 2.0**53)
        for position in large.tolist():
            values[position], rests[position] = as_pair(int(filled[position]))
    else:
        present = present & ~np.isnan(values)
    return values, rests, present


def _time_pairs(array: pa.Array) -> tuple[Array, Array, Array]:
    whole = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    return _number_pairs(whole)


def _to_column(name: str, values: list[Any]) -> tuple[pa.Field, pa.Array]:
    """One attribute's column: typed where its values agree on a type, else in JSON form."""
    some = [value for value in values if value is not None]
    kinds = {_arrow_kind(value) for value in some}
    if len(kinds) == 1 and None not in kinds:
        type_, kind = next(iter(kinds))  # type: ignore[misc]
        metadata = {KIND: kind.encode()} if kind else None
        plain = [None if value is None else _plain(value) for value in values]
        return pa.field(name, type_, metadata=metadata), pa.array(plain, type_)
    texts = [None if value is None else json.dumps(value_to_json(value)) for value in values]
    return pa.field(name, pa.string(), metadata={KIND: b"json"}), pa.array(texts, pa.string())


def _arrow_kind(value: Any) -> tuple[pa.DataType, str] | None:
    """The Arrow type and kind that hold a value, None when only JSON does."""
    if isinstance(value, Bag):
        kinds = {_arrow_kind(element) for element in value}
        if len(kinds) != 1 or None in kinds:
            return None
        type_, kind = next(iter(kinds))  # type: ignore[misc]
        return None if pa.types.is_list(type_) else (pa.list_(type_), kind)
    kind = family(value)
    if kind in _FAMILY_KIND:
        return pa.string(), _FAMILY_KIND[kind]
    if kind is Family.NUMBER:
        return (pa.int64() if isinstance(value, int) else pa.float64()), ""
    return _PLAIN_TYPES.get(kind)


_PLAIN_TYPES: dict[Family, tuple[pa.DataType, str]] = {
    Family.BOOL: (pa.bool_(), ""),
    Family.STRING: (pa.string(), ""),
    Family.BYTES: (pa.binary(), ""),
    Family.TIME: (pa.timestamp("us", "UTC"), ""),
}


def _plain(value: Any) -> Any:
    if isinstance(value, Bag):
        return [_plain(element) for element in value]
    return value.iri if isinstance(value, Term) else value
