"""Indexed subscriptions: an index, and who is behind its groups.

This is what a `Matcher` is made of, and what batches, snapshots, bulk loads and shards work on. It
takes no turns: whoever shares one holds its `lock`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from threading import RLock
from typing import Any, TypeAlias
from weakref import WeakSet

import numpy as np

from kbn.errors import InvalidInputError
from kbn.filters import Filter, Subscription
from kbn.matching.bulk_load import BulkLoad, checked_key
from kbn.matching.groups import Array, each_once
from kbn.matching.index import Index, encode_filters
from kbn.matching.json_columns import is_json
from kbn.matching.parted_match import PartedMatch
from kbn.matching.renewal import Renewal
from kbn.matching.subscribers import Subscribers
from kbn.ontology import Ontology

COMPACT_MIN = 1024
AT_ONCE_MAX = 4_096
"""Of so many filters, of some constraints each, an index is made anew at once, in parts or not."""
WORDS_EACH = 8

Given: TypeAlias = Subscription | Filter | str | dict[str, Any] | list[Any]
"""A subscription as a caller may give it: an object, a text of the language, or its JSON form."""


class IndexedSubscriptions:
    """Subscriptions under keys; `version` counts their changes.

    With `in_parts` a large index is made anew in steps: while it `is_renewing`, call `renew`.

    >>> held = IndexedSubscriptions()
    >>> held.add("price < 20", "ann")
    >>> len(held), held.group_count
    (1, 1)
    """

    def __init__(self, ontology: Ontology | None = None, *, in_parts: bool = False) -> None:
        self.ontology = ontology
        self._in_parts = in_parts
        self._renewal: Renewal | None = None
        self._renewal_steps: Iterator[int] = iter(())
        self.index = Index(ontology)
        self.subscribers = Subscribers()
        self.version = 0
        self.lock = RLock()
        self.frozen = False
        self.shares = False
        self._parted: WeakSet[PartedMatch] = WeakSet()
        self.index.in_parts = in_parts
        if in_parts:
            for memory in self.index.memories:
                memory.keep_small()

    def __getstate__(self) -> dict[str, Any]:
        own = ("lock", "_parted", "_renewal", "_renewal_steps")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.lock = RLock()
        self._parted = WeakSet()
        self._renewal, self._renewal_steps = None, iter(())

    def __len__(self) -> int:
        return self.subscribers.live

    @property
    def group_count(self) -> int:
        """The number of distinct filters."""
        groups = self.index.groups
        return groups.group_count - groups.dead_groups

    # --- changing ------------------------------------------------------------------------------

    def add(self, subscription: Given, key: Hashable) -> None:
        """`Matcher.add`."""
        self.before_change()
        filters = self.filters_of(subscription)
        if checked_key(key) in self.subscribers.numbers():
            raise InvalidInputError(f"the key {key!r} is in use: remove it first")
        self._enter(*encode_filters(self.index, filters), key)

    def add_code(self, code: bytes, key: Hashable) -> None:
        """Add one filter under a key that is not in use, as the encoder gave it."""
        words = np.frombuffer(code, np.int64)
        self._enter(words, np.array((0, words.shape[0]), np.int64), key)

    def add_codes(self, words: Array, starts: Array, keys: list[Hashable]) -> None:
        """Add filters under keys that are not in use: their codes, and where each begins."""
        groups = self.index.groups.intern(words, starts)
        first = self.index.groups.add_entries(groups, np.ones(len(keys), np.int32))
        self.index.place(groups)
        self.subscribers.numbers().update(zip(keys, range(first, first + len(keys)), strict=True))
        self.subscribers.extend(keys)
        self.version += 1

    def _enter(self, words: Array, starts: Array, key: Hashable) -> None:
        groups = self.index.groups.intern(words, starts).tolist()
        if len(groups) > 1:
            groups = sorted(set(groups))
        number = self.index.groups.add_one(groups)
        for group in groups:
            self.index.place_one(group)
        self.subscribers.enter(key, number)
        self.version += 1
        if self._in_parts and self.index.is_out_of_order:
            self._make_anew()

    def commit(self, load: BulkLoad) -> int:
        """Enter what a bulk load has taken; how many subscriptions that is."""
        if not load.keys:
            return 0
        interned, sizes = load.groups()
        if sizes.max() > 1:
            interned, sizes = each_once(interned, sizes)
        self.index.groups.add_entries(interned, sizes)
        self.index.place(interned)
        self.subscribers.extend(load.keys)
        self.version += 1
        return len(load.keys)

    def remove(self, key: Hashable) -> None:
        """`Matcher.remove`."""
        self.before_change()
        number = self.subscribers.remove(checked_key(key))
        if number is None:
            raise InvalidInputError(f"no subscription has the key {key!r}")
        self.index.groups.remove(number)
        self.version += 1
        self.index.changed()
        if self._renewal is not None:
            self._renewal.removed(key)
        if self.index.groups.subscription_count > 2 * len(self) + COMPACT_MIN:
            self._make_anew() if self._in_parts else self._compact()

    def before_change(self) -> None:
        """Refuse to change a snapshot; copy the arrays that snapshots share."""
        if self.frozen:
            raise InvalidInputError("a snapshot is read-only: change the matcher it came from")
        if self.shares:
            from kbn.matching.snapshot import unshare

            unshare(self.index)
            self.shares = False

    @property
    def is_renewing(self) -> bool:
        """Whether the index is being made anew."""
        return self._renewal is not None

    def renew(self) -> int:
        """Do a step of making the index anew; about how many microseconds it took."""
        renewal = self._renewal
        if renewal is None:
            return 0
        took = next(self._renewal_steps)
        if renewal.is_complete:
            self._renewal, self._renewal_steps = None, iter(())
            self.index.take_from(renewal.index)
            self.subscribers = renewal.subscribers
            self.shares = False
            self.version += 1
            for match in list(self._parted):
                match.renumber(renewal.kept)
        return took

    def _make_anew(self) -> None:
        """Begin to make the index anew, without what was removed; a small one at once."""
        if self._renewal is None:
            if self._is_small:
                self._compact()
            else:
                self._renewal = Renewal(self)
                self._renewal_steps = self._renewal.steps()

    @property
    def _is_small(self) -> bool:
        groups = self.index.groups
        words = int(groups.code_start[groups.group_count])
        return groups.entry_count <= AT_ONCE_MAX and words <= WORDS_EACH * AT_ONCE_MAX

    def _compact(self) -> None:
        """Forget removed subscriptions and the groups and tokens only they used."""
        numbers = self.subscribers.compact()
        self.index.groups = self.index.groups.compacted(numbers)
        self.index.rebuild()
        for match in list(self._parted):
            match.renumber(numbers)

    # --- asking --------------------------------------------------------------------------------

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

    def begin_parted(self, match: PartedMatch) -> None:
        """Let a match in parts know when subscriptions are numbered anew."""
        self._parted.add(match)

    def keys_of_groups(self, groups: Iterable[int]) -> list[Any]:
        """The keys of the subscriptions in some groups."""
        members = self.index.groups.members
        return [key for group in groups for key in self.subscribers.at(members(group))]

    def subscription(self, number: int) -> Subscription:
        """What the subscription of a number asks for, in the index' normal form."""
        groups = self.index.groups.groups_of(number)
        return Subscription([self.index.filter_of(group) for group in groups])

    def snapshot(self) -> IndexedSubscriptions:
        """The same, read-only, whatever happens to this one; they share arrays until then."""
        from kbn.matching.snapshot import shared

        twin = IndexedSubscriptions(self.ontology)
        twin.index = shared(self.index)
        twin.subscribers = self.subscribers.shared()
        twin.frozen = True
        twin.lock = self.lock  # they share the token tables
        self.shares = True
        return twin
