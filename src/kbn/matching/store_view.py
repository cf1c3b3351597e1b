"""A view: one version of a store, as one reader sees it.

A view maps the base of the version, takes the removed subscriptions out of its own copy-on-write
view of that base, and keeps the added ones in a small matcher beside it. So advancing to a later
version costs the changes between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kbn.errors import InvalidInputError
from kbn.filters import BulkReader, Subscription, UnknownTerm
from kbn.matching.groups import Array
from kbn.matching.indexed_subscriptions import IndexedSubscriptions
from kbn.matching.shard import (
    FoundPairs,
    GroupCounts,
    Shard,
    counts_of,
    found_pairs_of,
    pairs_of,
)
from kbn.matching.unsuited_terms import classes_for_individuals
from kbn.ontology import Term

if TYPE_CHECKING:
    from kbn.matching.store import SubscriptionStore


GROUP_BITS = 40
"""A group's number says in its upper bits which shard it is of; the added ones come after."""


class AddedRow(NamedTuple):
    """A subscription that a change adds; `filter` is a text."""

    subscription: Any
    subscriber: Any
    filter: str


class StoreView:
    """One version of a store, for one reader; `advance` takes it to a later one.

    >>> from kbn.matching import SubscriptionStore
    >>> from tempfile import mkdtemp
    >>> store = SubscriptionStore.create(mkdtemp() + "/store")
    >>> store.change(add=[("s1", "ann", "price < 20")])
    1
    >>> store.at(1).matches(pa.table({"price": [5]}))["subscriber"].to_pylist()
    ['ann']
    """

    def __init__(
        self, store: SubscriptionStore, base: int, only: Iterable[int] | None = None
    ) -> None:
        """View `only` some shards of the base, by number; added rows belong to the first shard."""
        paths = store.shards(base)
        self.only = range(len(paths)) if only is None else sorted(only)
        self.base = base
        self.version = base
        self.shards = {n: Shard(paths[n], store.ontology) for n in self.only}
        self.ontology = store.ontology
        self._store = store
        self._reader = BulkReader(store.ontology)
        self._takes_added = not paths or 0 in self.only
        self._added = IndexedSubscriptions(store.ontology)
        self._added_rows: dict[int, AddedRow] = {}
        self._added_numbers: dict[Any, int] = {}
        self._group_of_added = len(paths) << GROUP_BITS

    def advance(self, version: int) -> None:
        """Apply the changes up to `version`."""
        if version < self.version:
            raise InvalidInputError(f"this view is at version {self.version}, past {version}")
        while self.version < version:
            added, removed = self._store.changes(self.version + 1)
            for subscription in removed:
                self._remove(subscription)
            for row in added if self._takes_added else ():
                self._add(row)
            self.version += 1

    def holds(self, subscription: Any) -> bool:
        """Whether a subscription of this id is in this version."""
        if subscription in self._added_numbers:
            return True
        return any(shard.number_of(subscription) is not None for shard in self.shards.values())

    @cached_property
    def types(self) -> tuple[pa.DataType, pa.DataType]:
        """The types of subscription ids and of subscribers: those of the base, or text."""
        for shard in self.shards.values():
            return shard.ids.type, shard.subscribers.type
        return pa.string(), pa.string()

    @property
    def attributes(self) -> set[str]:
        """The attributes that any subscription asks about."""
        index = self._added.index
        found = {*index.table.attributes, *index.axes_of()}
        return found.union(*(shard.attributes for shard in self.shards.values()))

    def unsuited_terms(self, named: Iterable[tuple[str, Term]]) -> Iterator[UnknownTerm]:
        """Classes, with their attributes, where subscriptions ask for individuals only."""
        parts = [shard.held.index.table for shard in self.shards.values()]
        return classes_for_individuals([*parts, self._added.index.table], named)

    def pairs(self, table: pa.Table) -> Iterator[tuple[Array, pa.Array, pa.Array]]:
        """Rows of `table`, the subscriptions they satisfy and their subscribers, in pieces."""
        for shard in self.shards.values():
            for rows, numbers in shard.pairs(table):
                chosen = pa.array(numbers)
                yield rows, shard.ids.take(chosen), shard.subscribers.take(chosen)
        if len(self._added):
            for rows, numbers in pairs_of(self._added, table):
                yield rows, *self._who_added(numbers)

    def found_pairs(
        self, table: pa.Table
    ) -> Iterator[tuple[IndexedSubscriptions, FoundPairs, pa.Array, pa.Array]]:
        """The same pairs with the groups they were found by, and whose groups those are."""
        for shard in self.shards.values():
            for found in found_pairs_of(shard.held, table):
                chosen = pa.array(found.numbers)
                yield shard.held, found, shard.ids.take(chosen), shard.subscribers.take(chosen)
        if len(self._added):
            for found in found_pairs_of(self._added, table):
                yield self._added, found, *self._who_added(found.numbers)

    def _who_added(self, numbers: Array) -> tuple[pa.Array, pa.Array]:
        keys: list[Any] = self._added.subscribers.at(numbers.tolist())
        found = [self._added_rows[key] for key in keys]
        ids, who = self.types
        return (
            pa.array([row.subscription for row in found], ids),
            pa.array([row.subscriber for row in found], who),
        )

    def matches(self, table: pa.Table) -> pa.Table:
        """Every (notification, subscription, subscriber); a notification is a row number."""
        ids, subscribers = self.types
        columns = [("notification", pa.int64()), ("subscription", ids), ("subscriber", subscribers)]
        schema = pa.schema(columns)
        pieces = [pa.record_batch(list(piece), schema=schema) for piece in self.pairs(table)]
        return pa.Table.from_batches(pieces, schema)

    def counts(self, table: pa.Table) -> Iterator[GroupCounts]:
        """The groups that each row of `table` satisfies, counted and not expanded, in pieces."""
        for number, shard in self.shards.items():
            yield from counts_of(shard.held, table, number << GROUP_BITS)
        if len(self._added):
            yield from counts_of(self._added, table, self._group_of_added)

    def subscription(self, subscription: Any) -> Subscription:
        """What one subscription asks for."""
        if subscription in self._added_numbers:
            return self._added_subscription(self._added_numbers[subscription])
        for shard in self.shards.values():
            number = shard.number_of(subscription)
            if number is not None:
                return shard.subscription_at(number)
        raise InvalidInputError(f"version {self.version} has no subscription {subscription!r}")

    def listing(self, subscriber: Any = None) -> Iterator[AddedRow]:
        """Who subscribes to what, or what one subscriber does; `filter` as a person writes it."""
        for table in self.rows(1 << 10):
            if subscriber is not None:
                named = pc.cast(table["subscriber"], pa.string())
                table = table.filter(pc.equal(named, str(subscriber)))
            for row in table.to_pylist():
                asked = self._reader.read(row["filter"])
                yield AddedRow(row["subscription"], row["subscriber"], str(asked))

    def rows(self, size: int = 1 << 16) -> Iterator[pa.Table]:
        """All subscriptions, as tables of subscription, subscriber and filter."""
        for shard in self.shards.values():
            yield from shard.rows(size)
        if self._added_rows:
            columns = zip(*self._added_rows.values(), strict=True)
            names = AddedRow._fields
            yield pa.table({n: pa.array(c) for n, c in zip(names, columns, strict=True)})

    def _added_subscription(self, key: int) -> Subscription:
        number = self._added.subscribers.number_of(key)
        assert number is not None
        return self._added.subscription(number)

    def _add(self, row: AddedRow) -> None:
        number = self._added.index.groups.subscription_count
        while number in self._added_rows:
            number += 1
        self._added.add(self._reader.read(row.filter), number)
        self._added_rows[number] = row
        self._added_numbers[row.subscription] = number

    def _remove(self, subscription: Any) -> None:
        number = self._added_numbers.pop(subscription, None)
        if number is not None:
            del self._added_rows[number]
            self._added.remove(number)
            return
        for shard in self.shards.values():
            if shard.remove(subscription):
                return
