"""A filter index: which stored subscriptions a given one may have a notification in common with.

Two filters that ask one attribute to equal different values have none. So each filter is posted
under one of its equalities; whoever asks with an equality on the same attribute meets only those
with the same value there. All others are candidates, and `may_intersect` decides about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbn.broker.wanted import Key
from kbn.filters import Filter, Operator, Subscription, value_key

_PLAIN = (str, int, float, bool)

Posted = dict[tuple[Key, int], Filter]


class FilterIndex:
    """Subscriptions (or advertisements) under keys, posted by equalities.

    >>> from kbn.broker.messages import Peer
    >>> index, ann = FilterIndex(), Peer("client", "ann")
    >>> index.add((ann, 1), Subscription.parse("kind = 'tea' and price < 5"))
    >>> index.add((ann, 2), Subscription.parse("kind = 'pot'"))
    >>> index.add((ann, 3), Subscription.parse("price < 9"))
    >>> wanted = Subscription.parse("kind = 'pot'").filters[0]
    >>> [number for (_, number), _ in index.candidates(wanted)]
    [2, 3]
    """

    def __init__(self) -> None:
        self._by_value: dict[str, dict[object, Posted]] = {}
        self._others: Posted = {}

    def add(self, key: Key, subscription: Subscription) -> None:
        for place, filter in enumerate(subscription.filters):
            self._posted(filter)[key, place] = filter

    def remove(self, key: Key, subscription: Subscription) -> None:
        """Take out what was added under a key, if it is there."""
        for place, filter in enumerate(subscription.filters):
            self._posted(filter).pop((key, place), None)
            self._tidy(filter)

    def candidates(self, filter: Filter) -> Iterator[tuple[Key, Filter]]:
        """Whoever may intersect a filter is among these; nothing may change meanwhile."""
        values = dict(_equalities(filter))
        for attribute, by_value in self._by_value.items():
            if attribute in values:
                for (key, _), found in by_value.get(values[attribute], {}).items():
                    yield key, found
            else:
                for posted in by_value.values():
                    for (key, _), found in posted.items():
                        yield key, found
        for (key, _), found in self._others.items():
            yield key, found

    def _posted(self, filter: Filter) -> Posted:
        for attribute, value in _equalities(filter):
            return self._by_value.setdefault(attribute, {}).setdefault(value, {})
        return self._others

    def _tidy(self, filter: Filter) -> None:
        for attribute, value in _equalities(filter):
            by_value = self._by_value[attribute]
            if not by_value[value]:
                del by_value[value]
                if not by_value:
                    del self._by_value[attribute]
            return


def _equalities(filter: Filter) -> Iterator[tuple[str, object]]:
    for constraint in filter.constraints:
        operand: Any = constraint.operand
        if constraint.operator is Operator.EQ and operand.__class__ in _PLAIN:
            yield constraint.attribute, value_key(operand)
