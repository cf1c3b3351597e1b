"""The feeds of one client: which delivery goes to which, and when it is done with.

Durable deliveries are acknowledged up to a number, so they count in the order they came: one that a
slower feed still has holds back those after it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kbn.broker import Delivered
from kbn.errors import KbnError
from kbn.transport.item import Item

if TYPE_CHECKING:
    from kbn.transport.feed import Feed


NOBODY_ASKS = 2**63  # more than the number of any subscription


class Feeds:
    """The feeds of a client by the number of their subscription."""

    __slots__ = ("_feeds", "_last_id", "_unclaimed", "_undone")

    def __init__(self) -> None:
        self._feeds: dict[int, Feed] = {}
        self._last_id = 0
        self._unclaimed: dict[int, list[Item]] = {}
        self._undone: deque[Item] = deque()  # durable ones that are not done with, as they came

    def add(self, feed: Feed) -> None:
        """A feed for a new subscription; it gets what came for its number before."""
        self._feeds[feed.id] = feed
        self._last_id = feed.id
        for item in self._unclaimed.pop(feed.id, []):
            feed.put(item)

    def remove(self, id: int) -> bool:
        """Whether there was such a feed; it gets nothing more."""
        return self._feeds.pop(id, None) is not None

    def disclaim(self) -> list[Delivered]:
        """Nobody asks for the feeds of an earlier process any more: what is done with."""
        self._last_id = NOBODY_ASKS
        items = [item for left in self._unclaimed.values() for item in left]
        self._unclaimed.clear()
        return [delivered for item in items for delivered in self.done_with(item)]

    def deliver(self, delivered: Delivered) -> list[Delivered]:
        """Give a delivery to the feeds that want it; what nobody has to be done with."""
        item = Item(delivered)
        if delivered.delivery.durable:
            self._undone.append(item)
        for id in delivered.delivery.subscriptions:
            feed = self._feeds.get(id)
            if feed is not None:
                item.remaining += 1
                feed.put(item)
            elif id > self._last_id:  # of an earlier process: its feed is still to be asked for
                item.remaining += 1
                self._unclaimed.setdefault(id, []).append(item)
        return [] if item.remaining else self._consumed(item)

    def done_with(self, item: Item) -> list[Delivered]:
        """One feed's application is done with an item: the deliveries that all are done with."""
        item.remaining -= 1
        return [] if item.remaining else self._consumed(item)

    def done_with_all(self) -> None:
        """What the application was given counts as done with."""
        for feed in list(self._feeds.values()):
            feed.done()

    def objected(self, id: int, problem: KbnError) -> bool:
        """A broker has an objection to a subscription that it had accepted; whether we have it."""
        feed = self._feeds.get(id)
        if feed is not None:
            feed.problem = problem
        return feed is not None

    def withdraw(self, id: int, error: KbnError) -> list[Delivered]:
        """A subscription is not allowed any more: its feed ends so. What is done with."""
        feed = self._feeds.pop(id, None)
        left = [] if feed is None else feed.end(error)
        return [delivered for item in left for delivered in self.done_with(item)]

    def end(self, error: KbnError | None) -> None:
        """Nothing more comes to any feed."""
        for feed in self._feeds.values():
            feed.end(error)

    def _consumed(self, item: Item) -> list[Delivered]:
        if not item.delivered.delivery.durable:
            return [item.delivered]
        consumed = []
        while self._undone and not self._undone[0].remaining:
            consumed.append(self._undone.popleft().delivered)
        return consumed
