"""Matches: the answer to one notification, by group, expanded only when someone iterates."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from kbn.errors import InvalidInputError
from kbn.filters import Filter
from kbn.matching.groups import Array

if TYPE_CHECKING:
    from kbn.matching.indexed_subscriptions import IndexedSubscriptions


class Matches:
    """The subscriptions that accept one notification.

    A popular notification matches a hundred thousand subscriptions of a few hundred distinct
    filters. This holds the filters found; `len` and `groups` never expand them, and iterating gives
    each matching subscription's key once. It is a view of the matcher: after the next `add` or
    `remove` it is out of date and says so.

    >>> from kbn.matching import Matcher
    >>> matcher = Matcher()
    >>> matcher.add_many([("price < 20", "ann"), ("price < 20", "bob")])
    2
    >>> matches = matcher.match({"price": 5})
    >>> len(matches), len(matches.groups), sorted(matches)
    (2, 1, ['ann', 'bob'])
    """

    __slots__ = ("_found", "_held", "_version")

    def __init__(self, held: IndexedSubscriptions, found: Array, version: int) -> None:
        self._held = held
        self._found = found
        self._version = version

    def __len__(self) -> int:
        groups = self._current().index.groups
        single = int(groups.single[self._found].sum())
        return single + len(self._in_several())

    def __bool__(self) -> bool:
        return bool(self._found.shape[0])

    def __iter__(self) -> Iterator[Hashable]:
        held = self._current()
        groups = held.index.groups
        several: set[int] = set()
        for group in self._found.tolist():
            members = groups.members(group)
            if groups.single[group] != groups.alive[group]:
                members = [s for s in members if s not in several]
                several.update(members)
            yield from held.subscribers.at(members)

    def __contains__(self, key: object) -> bool:
        held = self._current()
        subscription = held.subscribers.number_of(key)
        if subscription is None:
            return False
        found = set(self._found.tolist())
        return any(g in found for g in held.index.groups.groups_of(subscription))

    def __repr__(self) -> str:
        return f"<Matches: {len(self)} subscriptions in {self._found.shape[0]} groups>"

    @property
    def group_ids(self) -> Array:
        """The matcher's numbers of the groups found."""
        return self._found

    @property
    def groups(self) -> Sequence[Filter]:
        """The distinct filters that accepted the notification."""
        return FiltersFound(self._current(), self._found)

    def _in_several(self) -> set[int]:
        """The matching subscriptions that have more than one filter."""
        groups = self._current().index.groups
        found = self._found
        mixed = found[groups.single[found] != groups.alive[found]]
        return {
            subscription
            for group in mixed.tolist()
            for subscription in groups.members(group)
            if groups.has_several(subscription)
        }

    def _current(self) -> IndexedSubscriptions:
        if self._held.version != self._version:
            raise InvalidInputError(
                "the matcher has changed since this match: match the notification again, or take "
                "list(matches) before adding or removing"
            )
        return self._held


class FiltersFound(Sequence[Filter]):
    """The filters of some groups, decoded one by one when asked for."""

    def __init__(self, held: IndexedSubscriptions, found: Array) -> None:
        self._held = held
        self._found = found

    def __len__(self) -> int:
        return int(self._found.shape[0])

    @overload
    def __getitem__(self, position: int) -> Filter: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Filter]: ...
    def __getitem__(self, position: int | slice) -> Filter | Sequence[Filter]:
        if isinstance(position, slice):
            return FiltersFound(self._held, self._found[position])
        return self._held.index.filter_of(int(self._found[position]))

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self[:5]))}{', …' if len(self) > 5 else ''}]"
