"""A bulk load: many subscriptions on their way into a matcher, all of them or none.

Rows are taken in chunks. Those of a chunk are encoded together (`bulk_encoding.py`) and get their
groups and numbers at once, so that a load holds little more than what it leaves in the matcher. The
first row that is wrong, in the order of rows, is the error, whatever is wrong with it: its key or
what it says. Then all is taken back: nobody has entered the new groups, so they are forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import BulkReader, Filter
from kbn.matching.bulk_encoding import TEXT_MAX, BulkEncoder, Encoded, runs
from kbn.matching.groups import Array
from kbn.matching.index import Index
from kbn.matching.subscribers import Subscribers
from kbn.ontology import Ontology

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 12
"""How many rows are encoded together at most; fewer where they are long."""


class Target(Protocol):
    """What a load needs of the subscriptions it adds to."""

    ontology: Ontology | None
    index: Index
    subscribers: Subscribers
    version: int

    def filters_of(self, subscription: Any) -> tuple[Filter, ...]: ...


class BulkLoad:
    """The rows taken so far, for a `with` block that takes them back when it ends by an error."""

    def __init__(self, target: Target) -> None:
        self.keys: list[Hashable] = []
        self._target = target
        self._version = target.version
        self._numbers = target.subscribers.numbers()
        self._groups_before = target.index.groups.group_count
        prefixes = None if target.ontology is None else target.ontology.prefixes
        self._encoder = BulkEncoder(target.index.encoder, BulkReader(None, prefixes))
        self._groups: list[Array] = []
        self._sizes: list[Array] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            return
        for key in self.keys:
            self._numbers.pop(key, None)
        if self._target.version == self._version:
            self._target.index.groups.forget_from(self._groups_before)

    def take(self, rows: list[Any], keys: list[Any]) -> None:
        """Take some rows in, or raise what is wrong with the first that is wrong."""
        read = self._target.filters_of
        if not all(row.__class__ is str for row in rows):
            self._finish(self._encoder.of_rows(rows, read), keys)
            return
        for first, last in runs(np.fromiter(map(len, rows), np.int64, len(rows)), TEXT_MAX):
            texts = _as_texts(rows[first:last])
            if texts is None:
                self._finish(self._encoder.of_rows(rows[first:last], read), keys[first:last])
            else:
                self._finish(self._encoder.of_texts(texts, read), keys[first:last])

    def take_table(self, table: pa.Table) -> None:
        """Take the rows of a table with the columns `key` and `filter`."""
        from kbn.matching.constraint_table import FilterColumn

        for name in ("key", "filter"):
            if name not in table.column_names:
                raise InvalidInputError(
                    f"a table of subscriptions has the columns key and filter; {name} is missing"
                )
        filters = FilterColumn(table.schema.field("filter").type, self._encoder)
        for batch in table.select(["key", "filter"]).to_batches(max_chunksize=CHUNK):
            keys, taken = batch.column("key").to_pylist(), 0
            for encoded in filters.encoded(batch.column("filter"), self._target.filters_of):
                count = encoded.sizes.shape[0]
                self._finish(encoded, keys[taken : taken + count])
                taken += count

    def groups(self) -> tuple[Array, Array]:
        """The groups of all filters, and how many each subscription has."""
        return np.concatenate(self._groups), np.concatenate(self._sizes)

    def _finish(self, encoded: Encoded, keys: list[Any]) -> None:
        wrong_key = self._wrong_key(keys)
        first = min(encoded.errors, default=len(keys))
        if wrong_key is not None and wrong_key[0] <= first:
            first, error = wrong_key
            raise self._in_row(first, keys[first], error)
        if first < len(keys):
            raise self._in_row(first, keys[first], encoded.errors[first])
        if self._target.version != self._version:
            raise InvalidInputError("the matcher was changed by what it is loading: load a list")
        number = self._target.index.groups.subscription_count + len(self.keys)
        self.keys += keys
        self._numbers.update(zip(keys, range(number, number + len(keys)), strict=True))
        self._groups.append(encoded.groups_in(self._target.index.groups))
        self._sizes.append(encoded.sizes)

    def _in_row(self, row: int, key: object, error: KbnError) -> KbnError:
        """The error, with the row it is in."""
        error.args = (f"row {len(self.keys) + row + 1}, key {key!r:.80}: {error}",)
        return error

    def _wrong_key(self, keys: list[Any]) -> tuple[int, KbnError] | None:
        """The first row whose key cannot be used, and why."""
        if _are_new(keys, self._numbers):
            return None
        taken: set[Hashable] = set()
        for row, key in enumerate(keys):
            try:
                if checked_key(key) in taken or key in self._numbers:
                    return row, InvalidInputError(f"the key {key!r} is in use or given twice")
            except InvalidInputError as error:
                return row, error
            taken.add(key)
        return None


def _are_new(keys: list[Any], numbers: dict[Hashable, int]) -> bool:
    """Whether the keys are usable, distinct and not in use; a quick look at all of them."""
    try:
        distinct = set(keys)
    except TypeError:
        return False
    return len(distinct) == len(keys) and None not in distinct and numbers.keys().isdisjoint(keys)


def _as_texts(rows: list[str]) -> pa.Array | None:
    """The rows as Arrow texts, None where one cannot be."""
    import pyarrow as pa

    try:
        return pa.array(rows, pa.large_string())
    except UnicodeEncodeError:  # half of a surrogate pair: the parser says what is wrong
        return None


def in_chunks(given: Iterable[Any]) -> Iterator[tuple[list[Any], list[Any], Exception | None]]:
    """The subscriptions and the keys of (subscription, key) pairs, in chunks.

    The last chunk comes with the error that ended the pairs, if one did: what is wrong with a pair
    before it is to be told first.
    """
    if not isinstance(given, Iterable):
        raise InvalidInputError(f"give (subscription, key) pairs, not {type(given).__name__}")
    rows: list[Any] = []
    keys: list[Any] = []
    trouble: Exception | None = None
    pairs = iter(given)
    while trouble is None:
        try:
            for pair in pairs:
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    raise InvalidInputError(f"give (subscription, key) pairs, not {pair!r}"[:200])
                rows.append(pair[0])
                keys.append(pair[1])
                if len(rows) == CHUNK:
                    break
            else:
                break
        except Exception as error:
            trouble = error
            break
        yield rows, keys, None
        rows, keys = [], []
    yield rows, keys, trouble


def checked_key(key: Hashable) -> Hashable:
    """The key, or an error that says why it is none."""
    if key is None:
        raise InvalidInputError("None is no key: give each subscription one of its own")
    try:
        hash(key)
    except TypeError:
        raise _unhashable(key) from None
    return key


def _unhashable(key: object) -> InvalidInputError:
    return InvalidInputError(f"a key must be hashable, and {key!r} is not")
