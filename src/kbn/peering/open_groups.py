"""Publisher groups whose attributes are not known beforehand: they come with the publishers."""

from __future__ import annotations

from collections.abc import Hashable

from kbn.grouping import Combination, Groups


class OpenGroups:
    """`Groups` over the attributes advertised so far; new ones have all publishers arrive anew."""

    def __init__(self, strategy: str = "4") -> None:
        self.strategy = strategy
        self._groups = Groups((), strategy=strategy)
        self._publishers: dict[str, tuple[Combination, int | None]] = {}
        self._subscribers: dict[Hashable, Combination] = {}

    def arrive(self, publisher: str, attributes: Combination, connections: int | None) -> None:
        """Add a publisher; nothing changes if it is refused."""
        before = self._groups
        self._publishers[publisher] = (attributes, connections)
        try:
            if attributes <= frozenset(before.attributes.names):
                before.arrive(publisher, attributes, connections)
            else:
                self._groups = self._anew(attributes | frozenset(before.attributes.names))
        except BaseException:
            self._groups = before
            del self._publishers[publisher]
            raise

    def change(self, publisher: str, attributes: Combination, connections: int | None) -> None:
        """A publisher sends something else from now on; nothing changes if that is refused."""
        known = self._publishers[publisher]
        self.depart(publisher)
        try:
            self.arrive(publisher, attributes, connections)
        except BaseException:
            self.arrive(publisher, *known)
            raise

    def depart(self, publisher: str) -> None:
        del self._publishers[publisher]
        self._groups.depart(publisher)

    def subscribe(self, subscriber: Hashable, combination: Combination) -> None:
        self._subscribers[subscriber] = combination
        if combination <= frozenset(self._groups.attributes.names):
            self._groups.subscribe(subscriber, combination)

    def unsubscribe(self, subscriber: Hashable) -> None:
        del self._subscribers[subscriber]
        if subscriber in self._groups.subscribers:
            self._groups.unsubscribe(subscriber)

    def cluster_of(self, combination: Combination) -> int | None:
        """The cluster that holds a combination; None when nobody advertises it."""
        if not combination <= frozenset(self._groups.attributes.names):
            return None
        return self._groups.cluster_of(combination)

    @property
    def connections(self) -> dict[Hashable, tuple[int, ...]]:
        return self._groups.connections

    @property
    def limits(self) -> dict[str, int | None]:
        return {name: limit for name, (_, limit) in self._publishers.items()}

    def attributes_of(self, publisher: str) -> Combination:
        return self._publishers[publisher][0]

    def _anew(self, names: Combination) -> Groups:
        made = Groups(names, strategy=self.strategy)
        for publisher, (attributes, limit) in self._publishers.items():
            made.arrive(publisher, attributes, limit)
        for subscriber, combination in self._subscribers.items():
            if combination <= names:
                made.subscribe(subscriber, combination)
        return made
