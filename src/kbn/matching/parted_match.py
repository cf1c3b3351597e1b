"""A parted match: one notification matched a part at a time, while subscriptions come and go.

Each part asks the index again and comes further, because a meter keeps what was answered. Some of
the answers are then older than others. They are right about every constraint that was there when
the match began, and may say nothing of those that came later. So the index is believed about the
subscriptions that were there at the beginning, and each that has come since is asked by itself.
Whatever comes and goes meanwhile, no part is done twice.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from kbn.filters import Filter, Notification
from kbn.matching.groups import Array
from kbn.matching.metering import Meter, OutOfWork, costs_of, metered
from kbn.matching.subscribers import is_key

if TYPE_CHECKING:
    from kbn.matching.indexed_subscriptions import IndexedSubscriptions

NO_LIMIT = float("inf")
LOOKED_AT = 200  # entries of groups for one unit


class PartedMatch:
    """Who wants one notification, found out in as many parts as it takes.

    >>> from kbn.matching import Matcher
    >>> matcher = Matcher()
    >>> for n in range(100):
    ...     matcher.add(f"title * 'tea {n}.'", n)
    >>> match = matcher.match_in_parts(Notification({"title": 20 * "a pot of tea 7. "}))
    >>> match.go_on(5)
    False
    >>> matcher.remove(7); matcher.add("title * 'pot'", "new")
    >>> match.go_on(1_000), match.keys()
    (True, ['new'])
    """

    __slots__ = ("__weakref__", "_accepted", "_attributes", "_found", "_held", "_meter",
                 "_more", "_newer", "_notification")  # fmt: skip

    def __init__(
        self, held: IndexedSubscriptions, notification: Notification, meter: Meter
    ) -> None:
        self._held = held
        self._notification = notification
        self._attributes = notification.attributes
        self._meter = meter
        # Subscriptions are numbered as they come: from this one on they are asked by themselves.
        self._newer = held.index.groups.subscription_count
        self._found: Array | None = None
        self._more: list[int] = []  # of those that have come since
        self._accepted: dict[int, bool] = {}  # what was found out by asking a group by itself

    @property
    def spent(self) -> int:
        """What the last part cost."""
        return self._meter.spent

    def go_on(self, units: float = NO_LIMIT, *, overdraws: bool = True) -> bool:
        """Do another part; whether all is known now.

        A part is so many units, or one question that takes more. Without `overdraws` no such
        question is asked.
        """
        self._meter.begin_part(units, overdraws=overdraws)
        with self._held.lock:
            try:
                if self._found is None:
                    with metered(self._meter):
                        groups = self._held.index.find(self._attributes)
                    self._found = self._older_of(groups)
                self._ask_newer()
            except OutOfWork:
                return False
        return True

    def keys(self) -> list[Hashable]:
        """The keys of the subscriptions that accept it and were not taken, as of the last part."""
        found = [] if self._found is None else self._found.tolist()
        return self._keys_at([*found, *self._more])

    @property
    def is_listed(self) -> bool:
        """Whether all that is known so far was taken."""
        return not self._more and (self._found is None or not self._found.shape[0])

    def take_keys(self, count: int) -> list[Hashable]:
        """The keys of the next so many of them, or a few less; each is given once.

        >>> from kbn.matching import Matcher
        >>> matcher = Matcher()
        >>> matcher.add_many((f"price < {n}", n) for n in (3, 20, 30))
        3
        >>> match = matcher.match_in_parts(Notification({"price": 5}))
        >>> match.go_on(1_000), match.take_keys(1), match.take_keys(10), match.is_listed
        (True, [20], [30], True)
        """
        with self._held.lock:
            if self._found is not None and self._found.shape[0]:
                numbers, self._found = self._found[:count].tolist(), self._found[count:]
            else:
                numbers, self._more = self._more[:count], self._more[count:]
            return self._keys_at(numbers)

    def _keys_at(self, numbers: list[int]) -> list[Hashable]:
        return [key for key in self._held.subscribers.at(numbers) if is_key(key)]

    def renumber(self, kept: Array) -> None:
        """Of all subscriptions these are kept, and numbered anew in their order."""
        self._accepted.clear()
        self._newer = int(np.searchsorted(kept, self._newer))
        if self._found is not None:
            self._found = np.flatnonzero(np.isin(kept, self._found))
        self._more = np.flatnonzero(np.isin(kept, np.array(self._more, np.int64))).tolist()

    def _older_of(self, groups: Array) -> Array:
        """The subscriptions in these groups that were there when the match began.

        Also some that were removed since they came, which have no key any more.
        """
        held, count = self._held.index.groups, self._held.index.groups.entry_count
        self._meter.spent += count // LOOKED_AT
        is_found = np.zeros(held.group_count, bool)
        is_found[groups] = True
        numbers = held.entry_subscription[:count][is_found[held.entry_group[:count]]]
        numbers = numbers[: np.searchsorted(numbers, self._newer)]
        # Entries stand in the order of their subscriptions, those of one side by side.
        found: Array = numbers[np.diff(numbers, prepend=-1) != 0].astype(np.int64)
        return found

    def _ask_newer(self) -> None:
        groups = self._held.index.groups
        while self._newer < groups.subscription_count:
            (key,) = self._held.subscribers.at([self._newer])
            if is_key(key) and any(
                self._is_accepted(group) for group in groups.groups_of(self._newer)
            ):
                self._more.append(self._newer)
            self._newer += 1

    def _is_accepted(self, group: int) -> bool:
        found = self._accepted.get(group)
        if found is None:
            filter = self._held.index.filter_of(group)
            self._meter.spend(self._cost(filter))
            found = filter.matches(self._notification, self._held.ontology)
            self._accepted[group] = found
        return found

    def _cost(self, filter: Filter) -> int:
        values = self._attributes
        return 1 + sum(
            costs_of(values.get(each.attribute))(each.operator, each.operand) for each in filter
        )
