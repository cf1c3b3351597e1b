"""Batches: matching a table of notifications, a row each and a column per attribute.

What the columns may hold is said in `columns.py`; `notification_table` makes such a table. Columns
are dictionary-encoded, so that what a value hits is worked out once per distinct value; the
kernels then gather the hits of each row. Rows go through in chunks that keep the scratch small.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from kbn.errors import InvalidInputError
from kbn.matching import kernels
from kbn.matching.bag_decisions import as_hit_column
from kbn.matching.columns import AttributeColumn, AxisColumn
from kbn.matching.elements import BagColumn, HitColumn
from kbn.matching.groups import Array
from kbn.matching.index import Index
from kbn.matching.indexed_subscriptions import IndexedSubscriptions
from kbn.matching.kernels.views import Points
from kbn.matching.matcher import Matcher, subscriptions_of
from kbn.matching.nested_bags import NestedColumn

__all__ = ["count_batch", "find_batch", "match_table"]

CHUNK = 8192


class EncodedTable:
    """A table of notifications, ready for the kernels."""

    def __init__(self, index: Index, table: pa.Table) -> None:
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if not isinstance(table, pa.Table):
            raise InvalidInputError(f"a batch is an Arrow table, not {type(table).__name__}")
        names = table.column_names
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise InvalidInputError(f"the table has several columns named {', '.join(twice)}")
        self.rows = table.num_rows
        self._columns = {name: AttributeColumn(table.field(name), table[name]) for name in names}
        self.hits: list[HitColumn] = []
        self.axes: list[AxisColumn] = []
        axes = index.axes_of()
        self._columns = {
            name: column
            for name, column in self._columns.items()
            if name in index.table.attributes or name in axes
        }
        for name, column in self._columns.items():
            value_index = index.table.attributes.get(name)
            if value_index is not None:
                self.hits += column.hit_columns(value_index)
            if name in axes:
                self.axes += column.axis_columns(axes[name])
        self._index = index
        self._bags: dict[str, BagColumn] = {}
        if index.bags.wants_sub_bags:
            for _, tokens, starts in index.bags.sub_bag_hits(self):
                self.hits.append(as_hit_column(tokens, starts))

    def bags(self, attribute: str) -> BagColumn | None:
        """The bags of one attribute; None when there is no such column."""
        column = self._columns.get(attribute)
        if column is None:
            return None
        if attribute not in self._bags:
            with_order = attribute in self._index.encoder.composites.with_order
            index = self._index.table.index(attribute)
            self._bags[attribute] = column.bag_column(index, with_order)
        return self._bags[attribute]

    def nested(self, attribute: str) -> NestedColumn | None:
        """The bags within bags of one attribute; None when there are none."""
        column = self._columns.get(attribute)
        return None if column is None else column.nested()

    def value(self, row: int, attribute: str) -> Any:
        """One cell's value; None when it is null or nobody asked for the column."""
        column = self._columns.get(attribute)
        return None if column is None else column.value(row)


def find_batch(index: Index, table: pa.Table) -> Iterator[tuple[int, Array, Array]]:
    """Chunk by chunk: the first row, the groups found, and where each row's groups begin."""
    encoded = EncodedTable(index, table)
    for start in range(0, encoded.rows, CHUNK):
        stop = min(start + CHUNK, encoded.rows)
        found, starts = _find_chunk(index, encoded, start, stop)
        if kernels.batch.some_remain(found):
            codes = index.view().codes
            found, starts = index.bags.settled(encoded, start, found, starts, codes)
            if kernels.batch.some_remain(found):
                found, starts = _checked(index, encoded, start, found, starts)
        found >>= 1  # in place: there may be millions
        yield start, found, starts


def match_table(held: IndexedSubscriptions, table: pa.Table, *, expand: bool) -> pa.Table:
    """`Matcher.match_batch`."""
    pieces = []
    groups = held.index.groups
    for start, found, starts in find_batch(held.index, table):
        if expand:
            pieces.append(_expanded(held, start, found, starts))
        else:
            rows = np.repeat(np.arange(starts.shape[0] - 1), np.diff(starts)) + start
            counts = groups.alive[found].astype(np.int64)
            pieces.append(pa.table({"notification": rows, "group": found, "subscriptions": counts}))
    if not pieces:
        none = np.zeros(0, np.int64)
        if expand:
            return pa.table({"notification": none, "key": held.subscribers.as_arrow().slice(0, 0)})
        return pa.table({"notification": none, "group": none, "subscriptions": none})
    return pa.concat_tables(pieces)


def count_batch(matcher: Matcher, table: pa.Table) -> Array:
    """The number of matching (filter, subscription) entries per row, groups never expanded.

    >>> from kbn.matching import Matcher
    >>> matcher = Matcher()
    >>> matcher.add("price < 20", "ann")
    >>> count_batch(matcher, pa.table({"price": [5, 50]})).tolist()
    [1, 0]
    """
    index = subscriptions_of(matcher).index
    counts = [
        kernels.code.count_members(found, starts, index.groups.alive)
        for _, found, starts in find_batch(index, table)
    ]
    return np.concatenate(counts) if counts else np.zeros(0, np.int64)


def _find_chunk(index: Index, encoded: EncodedTable, start: int, stop: int) -> tuple[Array, Array]:
    view = index.view()
    hits, hit_start = _gather(encoded, start, stop)
    points = _points(index, encoded, start, stop)
    found, found_start = index.walk_trie(hits, hit_start, points)
    if index.slabs.count == 0:
        return found, found_start
    more, owner = kernels.slab.scan(
        hits, hit_start, False, view.slabs, view.lanes, view.codes, view.stamps, points
    )
    return kernels.batch.merge_by_event(found, found_start, more, owner)  # type: ignore[no-any-return]


def _gather(encoded: EncodedTable, start: int, stop: int) -> tuple[Array, Array]:
    """The hit tokens of each row, one after another, and where each row's begin."""
    counts = np.zeros(stop - start, np.int64)
    for column in encoded.hits:
        kernels.batch.count_hits(
            column.offsets[start : stop + 1],
            column.indices,
            column.valid,
            column.token_start,
            column.token_end,
            counts,
        )
    hit_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    hits = np.empty(int(hit_start[-1]), np.int64)
    fill = hit_start[:-1].copy()
    for column in encoded.hits:
        kernels.batch.fill_hits(
            column.offsets[start : stop + 1], column.indices, column.valid, column.token_start,
            column.token_end, column.tokens, fill, hits,
        )  # fmt: skip
    return hits, hit_start


def _points(index: Index, encoded: EncodedTable, start: int, stop: int) -> Points:
    points = index.axis_room(stop - start)
    for column in encoded.axes:
        chosen = column.present[start:stop]
        points.values[chosen, column.axis] = column.values[start:stop][chosen]
        points.rests[chosen, column.axis] = column.rests[start:stop][chosen]
        points.present[:, column.axis] |= chosen
    return points


def _checked(
    index: Index, encoded: EncodedTable, first: int, found: Array, starts: Array
) -> tuple[Array, Array]:
    """Keep the candidates whose residual constraints hold."""
    kept = np.ones(found.shape[0], bool)
    rows = np.repeat(np.arange(starts.shape[0] - 1), np.diff(starts))
    unchecked = np.flatnonzero(found & 1)
    candidates = list(zip(rows[unchecked].tolist(), (found[unchecked] >> 1).tolist(), strict=True))
    memos = index.residuals.nested_answers(candidates, first, encoded.nested)
    row, memo = -1, {}  # type: int, dict[int, bool]
    for position, (of_row, group) in zip(unchecked.tolist(), candidates, strict=True):
        if of_row != row:
            row, memo = of_row, memos.get(of_row, {})
            value_of = partial(encoded.value, first + row)
        kept[position] = index.residuals.satisfies(group, value_of, memo)
    sizes = np.bincount(rows[kept], minlength=starts.shape[0] - 1)
    return found[kept], np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def _expanded(held: IndexedSubscriptions, start: int, found: Array, starts: Array) -> pa.Table:
    groups = held.index.groups
    totals = kernels.code.count_members(found, starts, groups.alive)
    owners, subscriptions = kernels.code.expand(
        found, starts, totals, groups.first, groups.next_entry, groups.entry_subscription
    )
    if groups.entry_count > groups.subscription_count:
        pairs = np.unique(owners.astype(np.int64) << 32 | subscriptions)
        owners, subscriptions = pairs >> 32, pairs & 0xFFFFFFFF
    keys = held.subscribers.as_arrow().take(pa.array(subscriptions))
    return pa.table({"notification": owners.astype(np.int64) + start, "key": keys})
