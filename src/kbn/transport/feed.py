"""What an application gets from a subscription: notifications, one after the other.

Asking for the next one says that the last is done with: only then is another sent in its place, and
a durable one acknowledged. A notification that several subscriptions of one client want is done
with when all of them are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbn.broker import NotificationId
from kbn.errors import KbnError
from kbn.filters import Notification
from kbn.transport.item import Item

if TYPE_CHECKING:
    from kbn.transport.client import Client


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification and how it came: `hops` counts the brokers that handled it, `path` names them
    if the client asked for that, `dropped` says how many were dropped before it because the client
    was slow. `by_manager` says that its publisher had the right `manage`.
    """

    notification: Notification
    id: NotificationId
    hops: int
    path: tuple[str, ...] | None
    durable: bool
    dropped: int
    broker: str
    by_manager: bool = False


class Feed:
    """An async iterator of the notifications of one subscription; `Client.subscribe` makes it.

    It ends when the subscription is cancelled or the client is
    closed, and raises the error that ended it otherwise. `problem` is what a broker said against
    the subscription later: that it names a term which a new ontology does not know, say.

    Await the feed itself to know that the broker has accepted the subscription::

        feed = await client.subscribe("price < 10")
        async for notification in feed:
            print(notification["price"])
    """

    def __init__(self, client: Client, id: int, accepted: asyncio.Future[None]) -> None:
        self.id = id
        self.problem: KbnError | None = None
        self._client = client
        self._accepted = accepted
        self._items: deque[Item] = deque()
        self._last: Item | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_over = False
        self._ended_by: KbnError | None = None

    def __await__(self) -> Generator[object, None, Feed]:
        return self._wait_accepted().__await__()

    async def _wait_accepted(self) -> Feed:
        await asyncio.shield(self._accepted)
        return self

    async def in_force(self) -> Feed:
        """Wait until every broker knows of this subscription; the feed itself.

        From then on, whatever is published anywhere in the network reaches it::

            feed = await client.subscribe("price < 10").in_force()
        """
        await self
        await self._client.barrier()
        return self

    async def cancel(self) -> None:
        """End the subscription; what has arrived and was not read is dropped::

        await feed.cancel()
        """
        await self._client._unsubscribe(self)

    def __aiter__(self) -> Feed:
        return self

    async def __anext__(self) -> Notification:
        while True:
            item = await self._next()
            try:
                return item.notification
            except KbnError as error:
                self._client._log_unreadable(error)

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """The same notifications, each with how it came::

        async for delivery in feed.deliveries():
            print(delivery.notification, "over", delivery.hops, "brokers")
        """
        async for notification in self:
            assert self._last is not None
            broker, delivery = self._last.delivered.broker, self._last.delivered.delivery
            envelope = delivery.envelope
            yield Delivery(
                notification, envelope.id, envelope.hops, envelope.path, delivery.durable,
                delivery.dropped, broker, envelope.by_manager,
            )  # fmt: skip

    # For those who process several at once: none counts as done with before they say so.

    async def arrival(self) -> None:
        """Wait until something has arrived that was not taken::

        await feed.arrival()
        items = feed.take(at_most=100)
        """
        self._items.appendleft(await self._next())
        self._last = None

    def take(self, at_most: int) -> list[Item]:
        """What has arrived, and is not done with until `done_with` says so::

        items = feed.take(at_most=100)
        write([item.notification for item in items])
        feed.done_with(items)
        """
        return [self._items.popleft() for _ in range(min(at_most, len(self._items)))]

    def done_with(self, items: list[Item]) -> None:
        """The application is done with items that it took::

        feed.done_with(items)
        """
        for item in items:
            self._client._done_with(item)

    async def _next(self) -> Item:
        self.done()
        if not self._accepted.done() or self._accepted.exception() is not None:
            await asyncio.shield(self._accepted)
        while not self._items:
            if self._is_over:
                raise self._ended_by or StopAsyncIteration
            if self._waiter is not None and not self._waiter.done():
                raise RuntimeError("two tasks wait for the same feed: subscribe once for each")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._last = self._items.popleft()
        return self._last

    # What the client calls.

    def put(self, item: Item) -> None:
        """Something has arrived."""
        self._items.append(item)
        self._wake()

    def done(self) -> None:
        """The application is done with what it was given last."""
        last, self._last = self._last, None
        if last is not None:
            self._client._done_with(last)

    def end(self, error: KbnError | None = None) -> list[Item]:
        """Nothing more comes, because of an error or not; what nobody has read."""
        self._is_over = True
        self._ended_by = error
        self.problem = error or self.problem
        left = list(self._items)
        self._items.clear()
        self._wake()
        return left

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
