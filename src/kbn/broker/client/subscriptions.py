"""What a client subscribes to and advertises, to be said again to a broker that does not know."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kbn.broker.messages import Advertise, Subscribe, Unadvertise, Unsubscribe


class Subscriptions:
    """The subscriptions and advertisements of one client, under numbers it gives them.

    >>> mine = Subscriptions()
    >>> mine.subscribe("price < 10", is_text=True).id, mine.advertise("price any", is_text=True).id
    (1, 2)
    >>> mine.unsubscribe(1), mine.unsubscribe(1)
    (Unsubscribe(id=1), None)
    >>> [each.id for each in mine]
    [2]
    """

    __slots__ = ("_advertisements", "_last_id", "_subscriptions")

    def __init__(self) -> None:
        self._last_id = 0
        self._subscriptions: dict[int, Subscribe] = {}
        self._advertisements: dict[int, Advertise] = {}

    def __iter__(self) -> Iterator[Subscribe | Advertise]:
        return chain(self._subscriptions.values(), self._advertisements.values())

    def subscribe(self, subscription: str, *, is_text: bool) -> Subscribe:
        id = self._next_id()
        made = self._subscriptions[id] = Subscribe(id, subscription, is_text)
        return made

    def unsubscribe(self, id: int) -> Unsubscribe | None:
        """What to tell a broker; None for a number that is not subscribed."""
        return None if self._subscriptions.pop(id, None) is None else Unsubscribe(id)

    def advertise(self, advertisement: str, *, is_text: bool) -> Advertise:
        id = self._next_id()
        made = self._advertisements[id] = Advertise(id, advertisement, is_text)
        return made

    def unadvertise(self, id: int) -> Unadvertise | None:
        """What to tell a broker; None for a number that is not advertised."""
        return None if self._advertisements.pop(id, None) is None else Unadvertise(id)

    def refused(self, what: str, id: int) -> None:
        """A broker refuses to `subscribe` or `advertise` this one: forget it."""
        if what == "subscribe":
            self._subscriptions.pop(id, None)
        elif what == "advertise":
            self._advertisements.pop(id, None)

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id
