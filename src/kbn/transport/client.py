"""The client that an application uses: publish, subscribe, move.

Its methods ask the pure `ClientCore` and wait for the answers; `ClientDriver` does the rest.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kbn.broker import (
    AdminBody,
    AdminResult,
    BrokerStatus,
    ClientCore,
    Effect,
    TermNote,
    administration,
    content,
)
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Explanation, Notification, Subscription
from kbn.transport.client_driver import ClientDriver, tls_problem
from kbn.transport.client_options import ClientOptions
from kbn.transport.dialling import ask_name
from kbn.transport.explained import explanation_of
from kbn.transport.feed import Feed
from kbn.transport.item import Item

# A publisher that never has to wait lets others run after so many notifications.
YIELD_EVERY = 128

log = logging.getLogger("kbn.transport")


class Client:
    """A client of a broker. Make one with `kbn.connect`, and use it with `async with`::

        async with kbn.connect("kbn://localhost:7420") as client:
            await client.publish({"price": 5})

    A lost connection is made again by itself.
    """

    def __init__(self, url: str, name: str, options: ClientOptions) -> None:
        self.name = name
        self._driver = ClientDriver(url, name, options)
        self._published = 0

    async def __aenter__(self) -> Client:
        await self._driver.begin()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *details: object) -> None:
        await self.close(all_is_done=kind is None)
        if kind is None and self._driver.refusals:
            raise self._driver.refusals[0]

    async def close(self, *, all_is_done: bool = True) -> None:
        """Close the connection; the end of `async with` does it.

        A broker keeps a durable client, see `leave`. With `all_is_done`, what the application was
        given counts as done with; otherwise a durable notification that it was given last comes
        again::

            await client.close(all_is_done=False)
        """
        driver = self._driver
        if driver.is_running:
            if all_is_done:
                driver.feeds.done_with_all()
            driver.do(driver.core.acknowledge())
        await driver.end()

    @property
    def core(self) -> ClientCore:
        """The pure client; raises what ended the connection, once it is over::

        client.core.unpublished
        """
        return self._driver.core

    @property
    def url(self) -> str:
        """Where the broker is that the client is at::

        print(client.url)
        """
        return self._driver.url

    @property
    def ontology(self) -> str:
        """The digest of the broker's ontology::

        print(client.ontology)
        """
        return self._driver.ontology

    @property
    def broker(self) -> str:
        """The name of the broker the client is at::

        print(client.name, "is at", client.broker)
        """
        return self.core.broker

    @property
    def is_moving(self) -> bool:
        """Whether the client is between two brokers::

        while client.is_moving:
            await asyncio.sleep(0.1)
        """
        return self.core.is_moving

    @property
    def former(self) -> tuple[str, ...]:
        """The brokers that it left because they were away, and that may have something for it::

        while client.former:
            await asyncio.sleep(1)
        """
        return self.core.former

    # What the application asks.

    async def publish(
        self, notification: Notification | Mapping[str, object], *, durable: bool = False
    ) -> None:
        """Publish; returns when the broker has stored it (`durable`), or when it is sent::

            await client.publish({"price": 5})
            await client.publish({"price": 7}, durable=True)

        A broker that is slow, or away, makes this wait. When a broker refuses a notification that
        is not durable, a later `publish` raises the error, or the end of `async with`. Terms that
        the ontology of the broker does not know are told in the log, see `take_unknown_terms`.
        """
        core = self.core
        if self._driver.refusals:
            raise self._driver.refusals.popleft()
        if not isinstance(notification, Notification):
            notification = Notification(notification)
        number, effects = core.publish(content.encode(notification), time.time(), durable)
        if durable:
            confirmed = self._driver.pending.expect("publish", number)
            self._driver.do(effects)
            await confirmed
            return
        if not effects:  # nothing was granted, so it waits its turn
            await self._driver.pending.expect("sent", number)
            return
        self._driver.do(effects)
        self._published += 1
        if not self._published % YIELD_EVERY:
            await self._let_others_run()

    async def _let_others_run(self) -> None:
        if self._driver.connections.is_paused(self.core.broker):
            await self._driver.pending.expect("drained")
        await asyncio.sleep(0)

    def take_refusals(self) -> list[KbnError]:
        """The errors of refused notifications that no `publish` has raised yet::

        for error in client.take_refusals():
            print("not published:", error)
        """
        taken = list(self._driver.refusals)
        self._driver.refusals.clear()
        return taken

    def take_unknown_terms(self) -> list[TermNote]:
        """What the broker said of terms in what was published that its ontology does not know::

            await client.publish({"kind": Class("b:Fam")}, durable=True)
            for note in client.take_unknown_terms():
                print(note.attribute, note.iri, note)

        Each term is told once on a connection. A durable notification is stored after that, so
        what is wrong with it is here when `publish` returns; for others, wait for a `barrier`.
        """
        taken = list(self._driver.unknown_terms)
        self._driver.unknown_terms.clear()
        return taken

    @property
    def unknown_count(self) -> int:
        """How many of the notifications published had terms that the ontology does not know::

        print(client.unknown_count)
        """
        return self._driver.unknown_count

    def subscribe(self, subscription: Subscription | str) -> Feed:
        """Subscribe; the feed gives the notifications::

            async for notification in client.subscribe("price < 10"):
                print(notification["price"])

        Await the feed to know that the broker has accepted the subscription, or its `in_force` to
        know that the whole network knows it.
        """
        text, is_text = _text(subscription)
        id, effects = self.core.subscribe(text, is_text=is_text)
        accepted = self._driver.pending.expect("subscribe", id)
        accepted.add_done_callback(_look_at)
        feed = Feed(self, id, accepted)
        self._driver.feeds.add(feed)
        self._driver.do(effects)
        return feed

    async def advertise(self, advertisement: Subscription | str) -> int:
        """Say what will be published; returns its number when the whole network knows::

        number = await client.advertise("price any")
        """
        text, is_text = _text(advertisement)
        id, effects = self.core.advertise(text, is_text=is_text)
        await self._asked("advertise", id, effects)
        return id

    async def unadvertise(self, id: int) -> None:
        """Take an advertisement back::

        await client.unadvertise(number)
        """
        effects = self.core.unadvertise(id)
        if effects:
            await self._asked("unadvertise", id, effects)

    async def barrier(self) -> None:
        """Wait until everything asked for so far is in force in the whole network::

        cheap, red = client.subscribe("price < 10"), client.subscribe('colour = "red"')
        await client.barrier()
        """
        request, effects = self.core.barrier()
        await self._asked("barrier", request, effects)

    async def admin(self, body: AdminBody) -> AdminResult:
        """Ask the broker itself something, or tell it to do something::

        await client.admin(administration.CollectHops(every_s=60))
        """
        request, effects = self.core.admin(body)
        result: AdminResult = await self._asked("admin-request", request, effects)
        return result

    async def explain(
        self,
        notification: Notification | Mapping[str, object],
        subscription: Feed | Subscription | str | int,
    ) -> Explanation:
        """Ask the broker why a subscription accepts a notification, or why it does not::

            feed = await client.subscribe("kind @> animals:Mammal and age < 3")
            print(await client.explain({"kind": Class("animals:Cow"), "age": 7}, feed))

        The subscription is one of this client's own, by its feed or number, or any that it may
        have. What the broker says goes by the ontology of the broker; nothing is published.
        """
        given = notification if type(notification) is Notification else Notification(notification)
        encoded = content.encode(given)
        if isinstance(subscription, Feed | int):
            id = subscription if isinstance(subscription, int) else subscription.id
            request, effects = self.core.explain(encoded, id)
        else:
            text, is_text = _text(subscription)
            request, effects = self.core.explain(encoded, 0, text, is_text=is_text)
        return explanation_of(await self._asked("explain", request, effects), given)

    async def status(self) -> BrokerStatus:
        """What a person wants to know of the broker::

        print((await client.status()).connections)
        """
        result = await self.admin(administration.GetStatus())
        assert isinstance(result, administration.Status)
        return result.status

    async def move_clients(
        self, broker: str, url: str, clients: Sequence[str] | None = None
    ) -> int:
        """Send clients of this broker to another, all subscribers or those named; how many::

        await client.move_clients("east", "kbn://east:7420", ["ann"])
        """
        named = None if clients is None else tuple(clients)
        result = await self.admin(administration.MoveClients(broker, url, named))
        assert isinstance(result, administration.MovingClients)
        return result.count

    async def move_broker(self, url: str, leaving: str | None = None) -> str:
        """Move the broker below, or next to, the one at a URL; the neighbour that it leaves::

        await client.move_broker("kbn://east:7420")
        """
        result = await self.admin(administration.MoveBroker(url, leaving))
        assert isinstance(result, administration.MovingBroker)
        return result.leaving

    async def unlink(self, broker: str, *, retired: bool = False) -> None:
        """Have the broker drop a neighbour; one that was never met is named by its URL::

            await client.unlink("east")

        One that is `retired` never comes back: what was kept for it goes once more to whoever wants
        it now.
        """
        await self.admin(administration.Unlink(broker, retired))

    async def load_ontology(
        self, paths: Sequence[str], reasoning: administration.Level = "rdfs"
    ) -> None:
        """Have the broker load an ontology from files on its machine::

        await client.load_ontology(["podcast.ttl"])
        """
        await self.admin(administration.LoadOntology(tuple(paths), reasoning))

    async def move(self, url: str) -> None:
        """Move to the broker at another URL; nothing is lost on the way, nothing comes twice::

        await client.move("kbn://east:7420")
        """
        if self._driver.pending.is_expected("move"):
            raise InvalidInputError("the client is moving: wait until it is there")
        if problem := tls_problem(self.url, url):
            raise InvalidInputError(problem)
        broker = await ask_name(url, self._driver.options.tls)
        if broker == self.core.broker:
            return
        moved = self._driver.pending.expect("move")
        self._driver.do(self.core.move(broker, url))
        await asyncio.shield(moved)

    async def leave(self) -> None:
        """Ask the broker to forget this client, after it has delivered what is on its way here::

            reading = asyncio.create_task(read(feed))
            await client.leave()

        That comes to the feeds as always: continue to read them meanwhile. What an earlier process
        subscribed to, and this one did not, is dropped.
        """
        left = self._driver.pending.expect("leave")
        self._driver.consume(self._driver.feeds.disclaim())
        self._driver.do(self.core.leave())
        await left

    async def _asked(self, what: str, number: int, effects: list[Effect]) -> Any:
        answered = self._driver.pending.expect(what, number)
        self._driver.do(effects)
        return await answered

    # What a feed calls.

    async def _unsubscribe(self, feed: Feed) -> None:
        feed.done()
        if not self._driver.feeds.remove(feed.id):
            return
        for item in feed.end():
            self._done_with(item)
        await self._asked("unsubscribe", feed.id, self.core.unsubscribe(feed.id))

    def _done_with(self, item: Item) -> None:
        """One feed's application is done with an item."""
        self._driver.consume(self._driver.feeds.done_with(item))

    def _log_unreadable(self, error: KbnError) -> None:
        log.warning("%s: a notification cannot be read: %s", self.name, error)


def _text(subscription: Subscription | str) -> tuple[str, bool]:
    """A subscription as it is sent, and whether that is text rather than JSON."""
    if isinstance(subscription, str):
        return subscription, True
    data = json.dumps(subscription.to_json(), separators=(",", ":"), ensure_ascii=False)
    return data, False


def _look_at(future: asyncio.Future[Any]) -> None:
    """Whoever iterates is told; a feed that nobody looks at is no mistake of asyncio's."""
    if not future.cancelled():
        future.exception()
