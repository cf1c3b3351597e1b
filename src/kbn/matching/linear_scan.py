"""The plain matcher: ask every subscription in turn. Slow, obviously right, and so the meaning."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

from kbn.errors import InvalidInputError
from kbn.filters import Filter, Notification, Subscription, matches_by_definition
from kbn.ontology import Ontology

FilterMatches: TypeAlias = Callable[[Filter, Notification, Ontology | None], bool]


class LinearScan:
    """Answers as `Matcher` does, with sets of keys, by asking each subscription.

    It asks by definition, which makes it the oracle. A benchmark, which wants the best a scan can
    do, gives `Filter.matches` instead.

    >>> scan = LinearScan()
    >>> scan.add(Subscription.parse("price < 10"), "bob")
    >>> scan.match({"price": 5})
    {'bob'}
    """

    def __init__(
        self, ontology: Ontology | None = None, matches: FilterMatches = matches_by_definition
    ) -> None:
        self._ontology = ontology
        self._matches = matches
        self._subscriptions: dict[Hashable, Subscription] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, subscription: Subscription, key: Hashable) -> None:
        """Add one subscription under a key of its own."""
        if key in self._subscriptions:
            raise InvalidInputError(f"the key {key!r} is in use: remove it first")
        self._subscriptions[key] = subscription

    def add_many(self, subscriptions: Iterable[tuple[Subscription, Hashable]]) -> int:
        """Add (subscription, key) pairs; returns how many."""
        before = len(self)
        for subscription, key in subscriptions:
            self.add(subscription, key)
        return len(self) - before

    def remove(self, key: Hashable) -> None:
        """Remove the subscription added under `key`."""
        if key not in self._subscriptions:
            raise InvalidInputError(f"no subscription has the key {key!r}")
        del self._subscriptions[key]

    def match(self, notification: Notification | Mapping[str, Any]) -> set[Hashable]:
        """The keys of the subscriptions that accept the notification."""
        seen = (
            notification if isinstance(notification, Notification) else Notification(notification)
        )
        return {
            key
            for key, subscription in self._subscriptions.items()
            if any(self._matches(f, seen, self._ontology) for f in subscription.filters)
        }

    def filters(self) -> list[Filter]:
        """The filters of all subscriptions."""
        return [f for subscription in self._subscriptions.values() for f in subscription.filters]
