"""A publisher that publishes where its subject is at home.

It subscribes at the trigger broker to what is addressed to it, tells what it publishes about, and
goes to the broker it is told. A trigger broker or policy server that does not answer holds it up
once, for a bounded time; then it publishes at a broker it knows, and moves when it is told to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any
from uuid import uuid4

from kbn.broker import TermNote
from kbn.errors import KbnError, TransportError
from kbn.filters import Notification
from kbn.management import (
    Departure,
    ManagementMessage,
    PlacePublisher,
    PublisherAgent,
    instructions,
    reports,
    terms,
)
from kbn.ontology import Ontology
from kbn.placement import SemanticMap
from kbn.transport.client import Client
from kbn.transport.clock import Backoff, now
from kbn.transport.connecting import connect
from kbn.transport.triggers import Triggers

TELL_EVERY_S = 1.0
GOODBYE_S = 1.0

log = logging.getLogger("kbn.transport")


class ManagedPublisher:
    """Use it with `async with`; `url` is where to publish until told otherwise.

    `name` is the id it is managed by: a new UUID unless given. `wait_s` is how long the first
    notification waits to be told where to go, and for the broker there unless a `timeout` is given.
    Several `triggers` are linked with each other; `overlay` names the one it is managed in. Other
    options are those of `kbn.connect`.
    """

    def __init__(
        self,
        triggers: str | Sequence[str],
        ontology: Ontology | SemanticMap,
        *,
        url: str,
        name: str | None = None,
        wait_s: float = 5.0,
        overlay: str = terms.MAIN,
        **options: Any,
    ) -> None:
        self.name = name or str(uuid4())
        self._triggers = Triggers(triggers)
        self._overlay = overlay
        self._url = url
        self._wait_s = wait_s
        self._options = options
        semantic_map = ontology if isinstance(ontology, SemanticMap) else SemanticMap(ontology)
        self._agent = PublisherAgent(self.name, semantic_map)
        self._stack = AsyncExitStack()
        self._client: Client | None = None
        self._place: PlacePublisher | None = None
        self._is_placed = asyncio.Event()
        self._is_wanted = asyncio.Event()
        self._connecting = asyncio.Lock()
        self._managing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ManagedPublisher:
        self._managing = asyncio.ensure_future(self._be_managed())
        return self

    async def __aexit__(self, *details: Any) -> None:
        if self._managing is not None:
            self._managing.cancel()
            await asyncio.gather(self._managing, return_exceptions=True)
        await self._stack.__aexit__(*details)

    @property
    def broker(self) -> str | None:
        """The broker it publishes at; None before the first notification."""
        return None if self._client is None else self._client.broker

    async def publish(
        self, notification: Notification | Mapping[str, object], *, durable: bool = False
    ) -> None:
        """Publish, as `Client.publish` does."""
        if not isinstance(notification, Notification):
            notification = Notification(notification)
        self._agent.publishing(notification)
        client = await self._connected()
        await client.publish(notification, durable=durable)

    async def barrier(self) -> None:
        """Wait until everything published so far was handled, as `Client.barrier` does."""
        if self._client is not None:
            await self._client.barrier()

    def take_refusals(self) -> list[KbnError]:
        """As `Client.take_refusals`."""
        return [] if self._client is None else self._client.take_refusals()

    def take_unknown_terms(self) -> list[TermNote]:
        """As `Client.take_unknown_terms`."""
        return [] if self._client is None else self._client.take_unknown_terms()

    @property
    def unknown_count(self) -> int:
        """As `Client.unknown_count`."""
        return 0 if self._client is None else self._client.unknown_count

    async def _connected(self) -> Client:
        """A client at the broker we are told, or at the one we know when nobody tells in time."""
        async with self._connecting:  # several may publish at once; they go in their order
            return self._client or await self._connect()

    async def _connect(self) -> Client:
        self._is_wanted.set()
        try:
            async with asyncio.timeout(self._wait_s):
                await self._is_placed.wait()
        except TimeoutError:
            log.info("%s: nobody says where to publish: at %s", self.name, self._url)
        url = self._url if self._place is None else self._place.url
        try:
            self._client = await self._at(url)
        except TransportError:
            if url == self._url:
                raise
            log.warning("%s: %s does not answer: publishing at %s", self.name, url, self._url)
            self._client = await self._at(self._url)
        return self._client

    async def _at(self, url: str) -> Client:
        return await self._stack.enter_async_context(
            connect(url, name=self.name, **{"timeout": self._wait_s, **self._options})
        )

    # Beside publishing.

    async def _be_managed(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._report()
            except* KbnError as errors:
                log.warning("%s: management: %s", self.name, errors.exceptions[0])
            await asyncio.sleep(backoff.next_s())

    async def _report(self) -> None:
        """Tell the trigger broker what we publish about, whenever that changes or is asked for."""
        options = {**self._options, "timeout": self._triggers.wait_s}
        overlay = self._overlay
        name = terms.name_at_trigger(self.name, overlay)
        async with connect(self._triggers.next(), name=name, **options) as client:
            to_me = instructions.of_type("Instruction", overlay, publisherId=self.name)
            mine = client.subscribe(to_me)
            asked = client.subscribe(instructions.of_type("RequestInfo", overlay))
            medoids = client.subscribe(instructions.of_type("RequestPublisherMedoids", overlay))
            await mine, await asked, await medoids
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._follow(mine))
                    group.create_task(self._tell_again(client, asked))
                    group.create_task(self._tell_again(client, medoids))
                    group.create_task(self._tell_news(client))
            except asyncio.CancelledError:
                # A trigger broker that is away, or refuses it, does not keep us from ending.
                with suppress(TimeoutError, KbnError):
                    async with asyncio.timeout(GOODBYE_S):
                        gone = Departure("publisher", self.name)
                        await client.publish(self._said(gone))
                raise

    async def _tell_news(self, client: Client) -> None:
        await self._is_wanted.wait()
        while True:
            await self._tell(client, again=False)
            await asyncio.sleep(TELL_EVERY_S)

    async def _tell_again(self, client: Client, asks: Any) -> None:
        async for _ in asks:
            if self._is_wanted.is_set():
                await self._tell(client, again=True)

    async def _tell(self, client: Client, *, again: bool) -> None:
        info = self._agent.info(self.broker, again=again)
        if info is not None:
            await client.publish(self._said(info))

    def _said(self, message: ManagementMessage) -> Notification:
        return reports.to_notification(message, now(), self._overlay)

    async def _follow(self, orders: Any) -> None:
        """Go where we are sent."""
        async for delivery in orders.deliveries():
            order = instructions.from_notification(delivery.notification)
            if not isinstance(order, PlacePublisher):
                continue
            if not delivery.by_manager:
                log.warning("%s: %s may send nobody anywhere", self.name, delivery.id.publisher)
                continue
            self._place = order
            self._is_placed.set()
            if self._client is None or self._client.broker == order.broker:
                continue
            try:
                await self._client.move(order.url)
            except KbnError as error:
                log.warning("%s: cannot go to %s: %s", self.name, order.broker, error)
