"""The matcher: subscriptions in, notifications asked, keys out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from weakref import WeakSet

import numpy as np

from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Filter, Notification, Subscription
from kbn.matching.bulk_load import BulkLoad, checked_key, in_chunks
from kbn.matching.groups import each_once
from kbn.matching.index import TOMBSTONE, Index, encode_filters
from kbn.matching.json_columns import is_json
from kbn.matching.matches import Matches
from kbn.matching.metering import Meter
from kbn.matching.parted_match import PartedMatch
from kbn.ontology import Ontology

if TYPE_CHECKING:
    import pyarrow as pa

COMPACT_MIN = 1024

Given: TypeAlias = Subscription | Filter | str | dict[str, Any] | list[Any]
"""A subscription as a caller may give it: an object, a text of the language, or its JSON form."""


P = ParamSpec("P")
R = TypeVar("R")


def _in_turn(method: Callable[Concatenate[Matcher, P], R]) -> Callable[Concatenate[Matcher, P], R]:
    """Let one thread at a time into the matcher: matching shares scratch, changes take steps."""

    @wraps(method)
    def call(matcher: Matcher, /, *given: P.args, **named: P.kwargs) -> R:
        with matcher.lock:
            return method(matcher, *given, **named)

    return call


class Matcher:
    """An index of subscriptions that answers which of them accept a notification.

    Agrees with `Subscription.matches` for every input, whatever was added and removed before; it is
    only faster. Threads may share one: their calls take turns.

    >>> from kbn import Matcher, Notification, Subscription
    >>> matcher = Matcher()
    >>> matcher.add(Subscription.parse('price < 20 and kind = "book"'), "ann")
    >>> matcher.add(Subscription.parse("price < 10"), "bob")
    >>> sorted(matcher.match(Notification({"price": 5, "kind": "book"})))
    ['ann', 'bob']
    >>> matcher.remove("bob")
    >>> len(matcher.match(Notification({"price": 5})))
    0
    """

    def __init__(self, ontology: Ontology | None = None) -> None:
        self.ontology = ontology
        self.index = Index(ontology)
        self.keys: Any = []
        self.version = 0
        self.arrow_keys: tuple[int, Any] = (-1, None)
        self.lock = RLock()
        self._parted: WeakSet[PartedMatch] = WeakSet()
        self._frozen = False
        self._shares = False
        self._ids: dict[Hashable, int] | None = {}
        self._live = 0

    def __getstate__(self) -> dict[str, Any]:
        own = ("lock", "_parted")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.lock = RLock()
        self._parted = WeakSet()

    def __len__(self) -> int:
        """The number of subscriptions."""
        return self._live

    def __contains__(self, key: Hashable) -> bool:
        return self.find_key(checked_key(key)) is not None

    @property
    def group_count(self) -> int:
        """The number of distinct filters."""
        groups = self.index.groups
        return groups.group_count - groups.dead_groups

    @_in_turn
    def add(self, subscription: Given, key: Hashable) -> None:
        """Add one subscription under a key of its own.

        A text is parsed with the ontology's prefixes, unless it is a JSON form. An error leaves the
        matcher as it was.
        """
        self._before_change()
        filters = self.filters_of(subscription)
        ids = self.numbers()
        if checked_key(key) in ids:
            raise InvalidInputError(f"the key {key!r} is in use: remove it first")
        words, starts = encode_filters(self.index, filters)
        groups = self.index.groups.intern(words, starts).tolist()
        if len(groups) > 1:
            groups = sorted(set(groups))
        number = self.index.groups.add_one(groups)
        for group in groups:
            self.index.place_one(group)
        self._enter(key, number, ids)
        self.version += 1

    @_in_turn
    def add_many(self, subscriptions: Iterable[tuple[Given, Hashable]]) -> int:
        """Add (subscription, key) pairs in bulk; returns how many. All are added, or none.

        The error of a pair that is wrong names its row, counted from 1, and its key.
        """
        self._before_change()
        with BulkLoad(self) as load:
            for rows, keys, trouble in in_chunks(subscriptions):
                load.take(rows, keys)
                if trouble is not None:
                    raise trouble
        return self._commit(load)

    @_in_turn
    def add_table(self, subscriptions: pa.Table) -> int:
        """Add the rows of an Arrow table in bulk; returns how many. All are added, or none.

        The table has a column `key` and a column `filter`: texts, or lists of constraints (see
        `kbn.matching.constraint_table`).
        """
        self._before_change()
        with BulkLoad(self) as load:
            load.take_table(subscriptions)
        return self._commit(load)

    @_in_turn
    def remove(self, key: Hashable) -> None:
        """Remove the subscription added under `key`."""
        self._before_change()
        ids = self.numbers()
        number = ids.pop(checked_key(key), None)
        if number is None:
            raise InvalidInputError(f"no subscription has the key {key!r}")
        self._own_keys()
        self.index.groups.remove(number)
        self.keys[number] = TOMBSTONE
        self._live -= 1
        self.version += 1
        self.index.changed()
        if self.index.groups.subscription_count > 2 * self._live + COMPACT_MIN:
            self._compact()

    @_in_turn
    def match(self, notification: Notification | Mapping[str, Any]) -> Matches:
        """The subscriptions that accept the notification."""
        if notification.__class__ is not Notification:
            notification = Notification(notification)
        return Matches(self, self.index.find(notification.attributes), self.version)

    @_in_turn
    def match_in_parts(self, notification: Notification, meter: Meter | None = None) -> PartedMatch:
        """Begin a match that is done in parts; subscriptions may come and go in between.

        A meter that ran out of work on this notification, a moment ago, has the first part.
        """
        match = PartedMatch(self, notification, Meter(0) if meter is None else meter)
        self._parted.add(match)
        return match

    @_in_turn
    def match_groups(self, notifications: Sequence[Notification]) -> list[list[int]]:
        """For each notification the numbers of the groups that accept it (see `keys_of_groups`);
        they hold until the next change. For many at once, where no table of them is at hand.
        """
        return self.index.find_many([each.attributes for each in notifications])

    @_in_turn
    def match_batch(self, notifications: pa.Table, *, expand: bool = True) -> pa.Table:
        """Match a table of notifications, a row each; see `kbn.matching.batch`.

        With `expand`, one row per (notification, key); without, one per (notification, group) with
        the number of subscriptions in the group.
        """
        from kbn.matching.batch import match_table

        return match_table(self, notifications, expand=expand)

    @_in_turn
    def snapshot(self) -> Matcher:
        """A read-only matcher with what is added so far, whatever happens to this one.

        Costs next to nothing now; the next change to this matcher copies the arrays first.
        """
        from kbn.matching.snapshot import shared

        twin = Matcher(self.ontology)
        twin.index = shared(self.index)
        twin.keys = list(self.keys) if isinstance(self.keys, list) else self.keys
        twin._ids = None
        twin._live = self._live
        twin._frozen = True
        twin.lock = self.lock  # they share the token tables
        self._shares = True
        return twin

    @_in_turn
    def save(self, directory: str | Path) -> None:
        """Write a snapshot that `load` maps into memory, shared by the processes of a machine."""
        from kbn.matching.snapshot import save

        try:
            save(self, Path(directory))
        except OSError as error:
            raise KbnError(f"the matcher cannot be saved to {directory}: {error}") from error

    @classmethod
    def load(cls, directory: str | Path, ontology: Ontology | None = None) -> Matcher:
        """Open a saved snapshot; it must have been saved with the same ontology.

        The arrays are memory-mapped. Adding or removing copies them first.
        """
        from kbn.matching.snapshot import load

        return load(Path(directory), ontology)

    @_in_turn
    def subscription(self, key: Hashable) -> Subscription:
        """What was added under `key`, in the index's own normal form."""
        number = self.find_key(key)
        if number is None:
            raise InvalidInputError(f"no subscription has the key {key!r}")
        groups = self.index.groups.groups_of(number)
        return Subscription([self.index.filter_of(group) for group in groups])

    def memory(self) -> int:
        """The bytes of the index' arrays (keys and token dictionaries not counted)."""
        return self.index.memory()

    def keys_at(self, numbers: list[int]) -> list[Hashable]:
        """The keys of subscriptions by number."""
        keys = self.keys
        if isinstance(keys, list):
            return [keys[number] for number in numbers]
        found: list[Hashable] = keys.take(np.array(numbers, np.int64)).to_pylist()
        return found

    @staticmethod
    def is_key(found: Hashable) -> bool:
        """Whether what `keys_at` found is a key, and not what is left of a removed one."""
        return found is not None and found is not TOMBSTONE

    def keys_of_groups(self, groups: Iterable[int]) -> list[Any]:
        """The keys of the subscriptions in some groups."""
        members = self.index.groups.members
        return [key for group in groups for key in self.keys_at(members(group))]

    def find_key(self, key: object) -> int | None:
        """The number of the subscription under `key`, if there is one."""
        return self.numbers().get(key)

    def adopt(self, keys: pa.Array, live: int) -> None:
        """Take over what a saved snapshot says of its subscribers (used by `load`)."""
        self.keys = keys
        self._ids = None
        self._live = live
        self._shares = True

    def _before_change(self) -> None:
        if self._frozen:
            raise InvalidInputError("a snapshot is read-only: change the matcher it came from")
        if self._shares:
            from kbn.matching.snapshot import unshare

            unshare(self.index)
            self._shares = False

    def filters_of(self, subscription: Given) -> tuple[Filter, ...]:
        """The filters of a subscription, a filter, a text or a JSON form."""
        if subscription.__class__ is Subscription:
            return subscription.filters
        if is_json(subscription):
            return Subscription.from_json(subscription).filters
        if isinstance(subscription, str):
            prefixes = None if self.ontology is None else self.ontology.prefixes
            return Subscription.parse(subscription, prefixes).filters
        if isinstance(subscription, Filter):
            return (subscription,)
        raise InvalidInputError(
            f"cannot subscribe with {type(subscription).__name__}: give a Subscription, a Filter, "
            "its text or its JSON form"
        )

    def numbers(self) -> dict[Hashable, int]:
        """Key to number. A loaded snapshot builds it when first asked."""
        if self._ids is None:
            keys = self.keys if isinstance(self.keys, list) else self.keys.to_pylist()
            self._ids = {key: n for n, key in enumerate(keys) if self.is_key(key)}
        return self._ids

    def _own_keys(self) -> None:
        if not isinstance(self.keys, list):
            self.keys = [TOMBSTONE if key is None else key for key in self.keys.to_pylist()]

    def _enter(self, key: Hashable, number: int, ids: dict[Hashable, int]) -> None:
        self._own_keys()
        assert len(self.keys) == number
        self.keys.append(key)
        ids[key] = number
        self._live += 1

    def _commit(self, load: BulkLoad) -> int:
        if not load.keys:
            return 0
        self._own_keys()
        interned, sizes = load.groups()
        if sizes.max() > 1:
            interned, sizes = each_once(interned, sizes)
        self.index.groups.add_entries(interned, sizes)
        self.index.place(interned)
        self.keys.extend(load.keys)
        self._live += len(load.keys)
        self.version += 1
        return len(load.keys)

    def _compact(self) -> None:
        """Forget removed subscriptions and the groups and tokens only they used."""
        kept = [n for n, key in enumerate(self.keys) if key is not TOMBSTONE]
        keys = [self.keys[n] for n in kept]
        numbers = np.array(kept, np.int64)
        self.index.groups = self.index.groups.compacted(numbers)
        self.index.rebuild()
        for match in list(self._parted):
            match.renumber(numbers)
        self.keys = keys
        self._ids = {key: number for number, key in enumerate(keys)}
