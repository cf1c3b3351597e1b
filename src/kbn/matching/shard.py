"""A shard: compiled subscriptions in a directory, with who wants what, mapped by every reader.

    matcher/         the index, as `Matcher.save` writes it; a subscription's key is its row below
    who.arrow        subscription, subscriber
    rejected.arrow   subscription, subscriber, filter, reason: what could not be compiled
    shard.json       counts

Rows of `who` are ordered by group, so that those who want the same lie side by side: expanding a
popular group reads memory in order. All columns are mapped, so that the processes of a machine
share one copy of everything that is large.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kbn.errors import InvalidInputError
from kbn.filters import BulkReader, Filter, Subscription
from kbn.matching import kernels, snapshot
from kbn.matching.batch import find_batch
from kbn.matching.bulk_encoding import BulkEncoder, Encoded
from kbn.matching.constraint_table import FilterColumn
from kbn.matching.groups import Array, each_once
from kbn.matching.indexed_subscriptions import IndexedSubscriptions
from kbn.matching.subscribers import Subscribers
from kbn.ontology import Ontology

NAMES = ("subscription", "subscriber", "filter")
ID_IN_USE = (
    "an earlier subscription has this id: give each its own (one subscriber may have several), "
    "or join their filters with `or`"
)
PAIRS_MAX = 1 << 16
"""How many pairs a reader makes at a time; one notification with more makes all of its own. Each is
copied several times on its way through Spark: so many stay in the cache of a CPU meanwhile."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """What a shard was built from."""

    live: int
    groups: int
    rejected: int
    example: str
    """Why the first rejected subscription was, empty when none was."""


class ShardBuilder:
    """Compiles tables of subscriptions; what is wrong with one is that one's reason, no error.

    >>> from tempfile import mkdtemp
    >>> wanted = {"subscription": ["s1"], "subscriber": ["ann"], "filter": ["price < 20"]}
    >>> builder = ShardBuilder(None)
    >>> builder.add(pa.table(wanted))
    >>> builder.save(Path(mkdtemp()) / "shard").live
    1
    """

    def __init__(self, ontology: Ontology | None) -> None:
        self._held = IndexedSubscriptions(ontology)
        self._reader = BulkReader(ontology)
        self._encoder = BulkEncoder(self._held.index.encoder, self._reader)
        self._who: list[pa.Table] = []
        self._rejected: list[pa.Table] = []
        self._groups: list[Array] = []
        self._sizes: list[Array] = []

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Compile a batch with the columns subscription, subscriber and filter."""
        table = pa.table({name: batch.column(name) for name in NAMES})
        missing = pc.or_(pc.is_null(table["subscription"]), pc.is_null(table["subscriber"]))
        reasons = [
            "no subscription id or no subscriber" if m else None for m in missing.to_pylist()
        ]
        rows = [row for row, reason in enumerate(reasons) if reason is None]
        taken = 0
        for encoded in self._encoded(_whole(table.filter(pc.invert(missing))["filter"])):
            self._groups.append(encoded.groups_in(self._held.index.groups))
            self._sizes.append(encoded.sizes[encoded.sizes > 0])
            for place, error in encoded.errors.items():
                reasons[rows[taken + place]] = str(error)
            taken += encoded.sizes.shape[0]
        reason = pa.array(reasons, pa.string())
        self._who.append(table.filter(pc.is_null(reason)).select(NAMES))
        self._reject(table.append_column("reason", reason).filter(pc.is_valid(reason)))

    def save(self, directory: Path) -> ShardReport:
        """Write the shard, whole or not at all; one that is there already is left as it is."""
        who = self._placed()
        rejected = pa.concat_tables(self._rejected) if self._rejected else None
        index = self._held.index
        count = 0 if rejected is None else rejected.num_rows
        example = rejected["reason"][0].as_py() if rejected is not None and count else ""
        report = ShardReport(who.num_rows, index.groups.group_count, count, example)
        directory.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        try:
            snapshot.save(self._held, fresh / "matcher")
            _write(who, fresh / "who.arrow")
            if rejected is not None:
                _write(rejected, fresh / "rejected.arrow")
            facts = {"live": report.live, "groups": report.groups, "rejected": count}
            (fresh / "shard.json").write_text(json.dumps(facts), encoding="utf-8")
            fresh.chmod(0o755)
            # A task that Spark ran twice made the same shard: the first to arrive stays.
            if not directory.exists():
                os.rename(fresh, directory)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return report

    def _filters(self, text: Any) -> tuple[Filter, ...]:
        return self._reader.read(text).filters

    def _encoded(self, filters: pa.Array) -> Iterator[Encoded]:
        """The codes of a column: texts, lists of constraints, or whatever each is refused for."""
        try:
            column = FilterColumn(filters.type, self._encoder)
        except InvalidInputError:
            yield self._encoder.of_rows(filters.to_pylist(), self._filters)
            return
        yield from column.encoded(filters, self._filters)

    def _reject(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._rejected.append(rows.select([*NAMES, "reason"]))

    def _placed(self) -> pa.Table:
        """Enter the subscriptions in the order of their groups; who they are, in that order."""
        index = self._held.index
        if not self._who:
            empty = pa.array([], pa.string())
            self._held.subscribers = Subscribers.saved(pa.array([], pa.int64()), 0)
            return pa.table({"subscription": empty, "subscriber": empty})
        who = pa.concat_tables(self._who)
        groups, sizes = np.concatenate(self._groups), np.concatenate(self._sizes)
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        firsts = groups[starts[:-1]] if sizes.shape[0] else groups
        order = np.argsort(firsts, kind="stable")
        order = order[self._distinct(who, order)]
        entries = _runs(starts[order], sizes[order])
        groups, sizes = groups[entries], sizes[order]
        if sizes.shape[0] and sizes.max() > 1:
            groups, sizes = each_once(groups, sizes)
        index.groups.add_entries(groups, sizes)
        index.place(np.unique(groups))
        rows = pa.array(np.arange(order.shape[0]))
        self._held.subscribers = Subscribers.saved(rows, order.shape[0])
        return who.select(["subscription", "subscriber"]).take(pa.array(order)).combine_chunks()

    def _distinct(self, who: pa.Table, order: Array) -> Array:
        """Which of `order` have an id that no earlier row has; the others are rejected."""
        ids = who["subscription"]
        if pc.count_distinct(ids).as_py() == who.num_rows:
            return np.ones(order.shape[0], bool)
        rows = pa.table({"id": ids, "row": pa.array(np.arange(who.num_rows))})
        first = np.sort(rows.group_by("id").aggregate([("row", "min")])["row_min"].to_numpy())
        again = np.setdiff1d(np.arange(who.num_rows), first)
        reason = pa.array([ID_IN_USE] * len(again), pa.string())
        self._reject(who.take(pa.array(again)).append_column("reason", reason))
        return np.isin(order, first)


class Shard:
    """A saved shard, mapped into memory; subscriptions can be taken out of this reader's view.

    >>> from tempfile import mkdtemp
    >>> wanted = {"subscription": ["s1"], "subscriber": ["ann"], "filter": ["price < 20"]}
    >>> builder, place = ShardBuilder(None), Path(mkdtemp()) / "shard"
    >>> builder.add(pa.table(wanted))
    >>> _ = builder.save(place)
    >>> Shard(place, None).attributes
    {'price'}
    """

    def __init__(self, directory: Path, ontology: Ontology | None) -> None:
        self.held = snapshot.load(directory / "matcher", ontology)
        self.who = _mapped(directory / "who.arrow")
        self.ids, self.subscribers = (_whole(column) for column in self.who.columns)
        self._gone: set[int] = set()

    @property
    def attributes(self) -> set[str]:
        """The attributes some subscription asks for."""
        index = self.held.index
        return {*index.table.attributes, *index.axes_of()}

    @property
    def group_count(self) -> int:
        """The number of distinct filters."""
        return self.held.group_count

    def filter_of(self, group: int) -> Filter:
        """The filter that a group stands for."""
        return self.held.index.filter_of(group)

    def members(self, group: int) -> list[int]:
        """The rows of the subscriptions in a group."""
        return self.held.index.groups.members(group)

    def remove(self, subscription: object) -> bool:
        """Take one out of this view, if it is here. Only the pages it touches become private."""
        number = self.number_of(subscription)
        if number is None:
            return False
        self._gone.add(number)
        self.held.index.groups.remove(number)
        self.held.index.changed()
        return True

    def number_of(self, subscription: object) -> int | None:
        """The row of a subscription, by its id; None when it is not here, or not any more."""
        try:
            wanted = pa.scalar(subscription, self.ids.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return None
        found = pc.index(self.ids, wanted).as_py()
        return None if found < 0 or found in self._gone else int(found)

    def subscription_at(self, number: int) -> Subscription:
        """What the subscription in a row asks for, in the index' normal form."""
        return self.held.subscription(number)

    def rows(self, size: int = 1 << 16) -> Iterator[pa.Table]:
        """What is in the view, as tables of subscription, subscriber and filter (its JSON form)."""
        for first in range(0, self.who.num_rows, size):
            numbers = range(first, min(first + size, self.who.num_rows))
            kept = [number for number in numbers if number not in self._gone]
            texts = [json.dumps(self.subscription_at(number).to_json()) for number in kept]
            yield self.who.take(pa.array(kept, pa.int64())).append_column(
                "filter", pa.array(texts, pa.string())
            )

    def pairs(self, table: pa.Table) -> Iterator[tuple[Array, Array]]:
        """Rows of `table` and rows of `who` that match, some at a time."""
        yield from pairs_of(self.held, table)


def pairs_of(held: IndexedSubscriptions, table: pa.Table) -> Iterator[tuple[Array, Array]]:
    """Rows of `table` and numbers of subscriptions that match, about PAIRS_MAX at a time."""
    groups = held.index.groups
    several = groups.entry_count > groups.subscription_count
    for start, found, starts in find_batch(held.index, table):
        totals = kernels.code.count_members(found, starts, groups.alive)
        for first, last in _pieces(totals):
            piece = starts[first : last + 1]
            rows, numbers = kernels.code.expand(
                found, piece, totals[first:last],
                groups.first, groups.next_entry, groups.entry_subscription,
            )  # fmt: skip
            if several:
                pairs = np.unique(rows.astype(np.int64) << 32 | numbers)
                rows, numbers = pairs >> 32, pairs & 0xFFFFFFFF
            yield rows.astype(np.int64) + (start + first), numbers


class FoundPairs(NamedTuple):
    """Pairs, and the groups they were found by: the i-th is of found_groups[by[i]]."""

    numbers: Array
    """Of subscriptions."""
    by: Array
    found_rows: Array
    found_groups: Array

    @property
    def rows(self) -> Array:
        """The rows of the table."""
        return self.found_rows[self.by]


def found_pairs_of(held: IndexedSubscriptions, table: pa.Table) -> Iterator[FoundPairs]:
    """What `pairs_of` gives, and which group it was; of a subscription's groups the first."""
    groups = held.index.groups
    several = groups.entry_count > groups.subscription_count
    for start, found, starts in find_batch(held.index, table):
        totals = kernels.code.count_members(found, starts, groups.alive)
        for first, last in _pieces(totals):
            begin, end = int(starts[first]), int(starts[last])
            piece, in_piece = starts[first : last + 1] - begin, found[begin:end]
            _, numbers = kernels.code.expand(
                in_piece, piece, totals[first:last],
                groups.first, groups.next_entry, groups.entry_subscription,
            )  # fmt: skip
            rows = np.repeat(np.arange(start + first, start + last), np.diff(piece))
            by = np.repeat(np.arange(end - begin), groups.alive[in_piece])
            if several:
                order = np.lexsort((in_piece[by], numbers, rows[by]))
                pairs = (rows[by] << 32 | numbers)[order]
                kept = order[np.concatenate(([True], pairs[1:] != pairs[:-1]))]
                numbers, by = numbers[kept], by[kept]
            yield FoundPairs(numbers, by, rows, in_piece)


class GroupCounts(NamedTuple):
    """Groups found for the rows first, first + 1, …: those of the i-th at starts[i]:starts[i+1]."""

    first: int
    starts: Array
    groups: Array
    counts: Array
    """How many subscriptions each of `groups` has."""


def counts_of(held: IndexedSubscriptions, table: pa.Table, base: int = 0) -> Iterator[GroupCounts]:
    """The groups that rows of `table` satisfy, never expanded; `base` is added to their numbers."""
    alive = held.index.groups.alive
    for first, found, starts in find_batch(held.index, table):
        yield GroupCounts(first, starts, found + base, alive[found].astype(np.int64))


def _pieces(totals: Array) -> Iterator[tuple[int, int]]:
    """Cut notifications into runs of at most PAIRS_MAX pairs, or of one notification."""
    ends = np.cumsum(totals)
    first, done = 0, 0
    while first < totals.shape[0]:
        last = int(np.searchsorted(ends, done + PAIRS_MAX, side="right"))
        last = min(max(last, first + 1), totals.shape[0])
        if ends[last - 1] > done:
            yield first, last
        first, done = last, int(ends[last - 1])


def _runs(starts: Array, sizes: Array) -> Array:
    """The positions starts[i], starts[i] + 1, … of every run, one run after another."""
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if ends.shape[0] else 0
    return np.arange(total) + np.repeat(starts - (ends - sizes), sizes)


def _write(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _mapped(path: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInputError(f"{path} is no part of a shard: {error}") from error


def rejected(directory: Path) -> pa.Table | None:
    """What a shard's builder rejected, if it did."""
    path = directory / "rejected.arrow"
    return _mapped(path) if path.exists() else None
