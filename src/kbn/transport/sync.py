"""The same client for scripts without asyncio: it runs in a thread of its own.

with kbn.sync.connect("kbn://localhost:7420") as client:
    client.publish({"price": 5})
    for notification in client.subscribe("price < 10"):
        ...
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from kbn.broker import AdminBody, AdminResult, BrokerStatus, TermNote
from kbn.filters import Explanation, Notification, Subscription
from kbn.transport.client import Client
from kbn.transport.connecting import connect
from kbn.transport.feed import Delivery, Feed

__all__ = ["SyncClient", "SyncFeed", "connect_sync"]

T = TypeVar("T")


def connect_sync(url: str, **options: Any) -> SyncClient:
    """A client of the broker at a URL; options as for `kbn.connect`. Use it with `with`::

        with kbn.sync.connect("kbn://localhost:7420", name="ann") as client:
            client.publish({"price": 5})

    Mistakes are told at once:

    >>> import kbn.sync
    >>> kbn.sync.connect("localhost")
    Traceback (most recent call last):
    kbn.errors.InvalidInputError: 'localhost' is not a broker's address: it begins with ...
    """
    return SyncClient(connect(url, **options))


class SyncClient:
    """A client whose methods wait; `timeout` (in seconds) ends a wait with TimeoutError::

    with kbn.sync.connect("kbn://localhost:7420") as client:
        client.publish({"price": 5}, timeout=10)
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> SyncClient:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kbn", daemon=True)
        self._thread.start()
        try:
            self.call(self._client.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *details: Any) -> None:
        try:
            self.call(self._client.__aexit__(*details))
        finally:
            self._end()

    def _end(self) -> None:
        assert self._loop is not None and self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine in the client's thread, and wait for its result::

        client.call(asyncio.sleep(1))
        """
        assert self._loop is not None, "use `with kbn.sync.connect(…) as client`"

        async def bounded() -> T:
            # The time runs out over there, so nothing is handed over that nobody takes.
            async with asyncio.timeout(timeout):
                return await work

        return asyncio.run_coroutine_threadsafe(bounded(), self._loop).result()

    @property
    def name(self) -> str:
        """How brokers and subscribers know the client::

        print(client.name)
        """
        return self._client.name

    @property
    def broker(self) -> str:
        """The name of the broker the client is at::

        print(client.broker)
        """
        return self._client.broker

    @property
    def ontology(self) -> str:
        """The digest of the broker's ontology::

        print(client.ontology)
        """
        return self._client.ontology

    def publish(
        self,
        notification: Notification | Mapping[str, object],
        *,
        durable: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Publish, as `Client.publish` does::

        client.publish({"price": 5}, durable=True)
        """
        self.call(self._client.publish(notification, durable=durable), timeout)

    def take_unknown_terms(self) -> list[TermNote]:
        """What the broker said of unknown terms, as `Client.take_unknown_terms` does::

        client.publish({"kind": Class("b:Fam")}, durable=True)
        print(client.take_unknown_terms())
        """

        async def taken() -> list[TermNote]:
            return self._client.take_unknown_terms()

        return self.call(taken())

    @property
    def unknown_count(self) -> int:
        """How many of the notifications published had terms that the ontology does not know::

        print(client.unknown_count)
        """
        return self._client.unknown_count

    def subscribe(
        self, subscription: Subscription | str, *, timeout: float | None = None
    ) -> SyncFeed:
        """Subscribe; returns a feed when the broker has accepted the subscription::

            for notification in client.subscribe("price < 10", timeout=5):
                print(notification["price"])

        Iterating ends when nothing came for `timeout` seconds; never, without one.
        """

        async def subscribed() -> Feed:
            return await self._client.subscribe(subscription)

        return SyncFeed(self, self.call(subscribed()), timeout)

    def advertise(self, advertisement: Subscription | str, *, timeout: float | None = None) -> int:
        """Say what will be published; returns its number when the whole network knows::

        number = client.advertise("price any")
        """
        return self.call(self._client.advertise(advertisement), timeout)

    def unadvertise(self, id: int, *, timeout: float | None = None) -> None:
        """Take an advertisement back::

        client.unadvertise(number)
        """
        self.call(self._client.unadvertise(id), timeout)

    def barrier(self, *, timeout: float | None = None) -> None:
        """Wait until everything asked for so far is in force in the whole network::

        client.barrier(timeout=10)
        """
        self.call(self._client.barrier(), timeout)

    def admin(self, body: AdminBody, *, timeout: float | None = None) -> AdminResult:
        """Ask the broker itself something, or tell it to do something, as `Client.admin` does::

        client.admin(administration.MoveClients("east", "kbn://east:7420", ("ann",)))
        """
        return self.call(self._client.admin(body), timeout)

    def explain(
        self,
        notification: Notification | Mapping[str, object],
        subscription: SyncFeed | Subscription | str | int,
        *,
        timeout: float | None = None,
    ) -> Explanation:
        """Ask why a subscription accepts a notification, or why not, as `Client.explain` does::

        print(client.explain({"price": 12}, "price < 10").reasons)
        """
        own = subscription.id if isinstance(subscription, SyncFeed) else subscription
        return self.call(self._client.explain(notification, own), timeout)

    def status(self, *, timeout: float | None = None) -> BrokerStatus:
        """What a person wants to know of the broker::

        print(client.status().connections)
        """
        return self.call(self._client.status(), timeout)

    def move(self, url: str, *, timeout: float | None = None) -> None:
        """Move to the broker at another URL::

        client.move("kbn://east:7420")
        """
        self.call(self._client.move(url), timeout)

    def leave(self, *, timeout: float | None = None) -> None:
        """Ask the broker to forget this client, as `Client.leave` does::

        client.leave()
        """
        self.call(self._client.leave(), timeout)


class SyncFeed:
    """The notifications of one subscription, for a `for` loop::

    for notification in client.subscribe("price < 10"):
        print(notification["price"])
    """

    def __init__(self, client: SyncClient, feed: Feed, timeout: float | None) -> None:
        self._client = client
        self._feed = feed
        self._timeout = timeout

    @property
    def id(self) -> int:
        """The client's number of the subscription::

        print(client.subscribe("price < 10").id)
        """
        return self._feed.id

    def __iter__(self) -> Iterator[Notification]:
        while True:
            try:
                yield self.next(self._timeout)
            except (TimeoutError, StopIteration):
                return

    def next(self, timeout: float | None = None) -> Notification:
        """The next one; TimeoutError when none comes, StopIteration after the end::

        notification = feed.next(timeout=5)
        """

        async def next_one() -> Notification | None:
            try:
                return await self._feed.__anext__()
            except StopAsyncIteration:
                return None

        found = self._client.call(next_one(), timeout)
        if found is None:
            raise StopIteration
        return found

    def next_delivery(self, timeout: float | None = None) -> Delivery:
        """The next one, with how it came::

        delivery = feed.next_delivery(timeout=5)
        print(delivery.notification, "over", delivery.hops, "brokers")
        """

        async def next_one() -> Delivery | None:
            async for delivery in self._feed.deliveries():
                return delivery
            return None

        found = self._client.call(next_one(), timeout)
        if found is None:
            raise StopIteration
        return found

    def in_force(self, timeout: float | None = None) -> SyncFeed:
        """Wait until every broker knows of this subscription; the feed itself::

        feed = client.subscribe("price < 10").in_force(timeout=10)
        """
        self._client.call(self._feed.in_force(), timeout)
        return self

    def cancel(self, timeout: float | None = None) -> None:
        """End the subscription; what has arrived and was not read is dropped::

        feed.cancel()
        """
        self._client.call(self._feed.cancel(), timeout)
