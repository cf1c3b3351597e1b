"""A bulk load: many subscriptions on their way into a matcher, all of them or none.

Rows are taken in chunks and encoded together (`bulk_encoding.py`). The first row that is wrong, in
the order of rows, is the error, whatever is wrong with it: its key or what it says. Nothing of the
matcher changes before the whole load is encoded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import BulkReader, Filter
from kbn.matching.bulk_encoding import BulkEncoder, Encoded
from kbn.matching.groups import Array, Groups
from kbn.matching.index import Index
from kbn.ontology import Ontology

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 15


class Target(Protocol):
    """What a load needs of the matcher it is for."""

    ontology: Ontology | None
    index: Index

    def find_key(self, key: object) -> int | None: ...
    def filters_of(self, subscription: Any) -> tuple[Filter, ...]: ...


class BulkLoad:
    """The rows taken so far: their keys, and their codes."""

    def __init__(self, matcher: Target) -> None:
        self.keys: list[Hashable] = []
        self._matcher = matcher
        self._taken: set[Hashable] = set()
        prefixes = None if matcher.ontology is None else matcher.ontology.prefixes
        self._encoder = BulkEncoder(matcher.index.encoder, BulkReader(None, prefixes))
        self._encoded: list[Encoded] = []

    def take(self, rows: list[Any], keys: list[Any]) -> None:
        """Take some rows in, or raise what is wrong with the first that is wrong."""
        texts = _as_texts(rows)
        if texts is None:
            self._finish(self._encoder.of_rows(rows, self._matcher.filters_of), keys)
        else:
            self._finish(self._encoder.of_texts(texts, self._matcher.filters_of), keys)

    def take_table(self, table: pa.Table) -> None:
        """Take the rows of a table with the columns `key` and `filter`."""
        from kbn.matching.constraint_table import TableReader

        reader = TableReader(table, self._encoder, self._matcher.filters_of)
        for encoded, keys in reader.chunks(CHUNK):
            self._finish(encoded, keys)

    def groups_in(self, groups: Groups) -> tuple[Array, Array]:
        """The groups of all filters, and how many each subscription has."""
        found = []
        sizes = [encoded.sizes for encoded in self._encoded]
        while self._encoded:
            found.append(self._encoded.pop(0).groups_in(groups))  # its words are not kept
        return np.concatenate(found), np.concatenate(sizes)

    def _finish(self, encoded: Encoded, keys: list[Any]) -> None:
        wrong_key = self._check_keys(keys)
        first = min(encoded.errors, default=len(keys))
        if wrong_key is not None and wrong_key[0] <= first:
            raise wrong_key[1]
        if first < len(keys):
            raise encoded.errors[first]
        self.keys += keys
        self._encoded.append(encoded)

    def _check_keys(self, keys: list[Any]) -> tuple[int, KbnError] | None:
        """The first row whose key cannot be used, and why."""
        find, taken = self._matcher.find_key, self._taken
        if _are_new(keys, taken) and all(map(_is_none, map(find, keys))):
            taken.update(keys)
            return None
        for row, key in enumerate(keys):
            try:
                if key in taken or find(checked_key(key)) is not None:
                    return row, InvalidInputError(f"the key {key!r} is in use or given twice")
            except TypeError:
                return row, _unhashable(key)
            except InvalidInputError as error:
                return row, error
            taken.add(key)
        return None


def _are_new(keys: list[Any], taken: set[Hashable]) -> bool:
    """Whether the keys are usable, distinct and not taken; a quick look at all of them."""
    try:
        distinct = set(keys)
    except TypeError:
        return False
    return len(distinct) == len(keys) and None not in distinct and taken.isdisjoint(distinct)


def _is_none(number: int | None) -> bool:
    return number is None


def _as_texts(rows: list[Any]) -> pa.Array | None:
    """The rows as Arrow texts, None where some are none."""
    if not all(row.__class__ is str for row in rows):
        return None
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
