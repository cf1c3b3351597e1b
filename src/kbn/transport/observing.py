"""An observer on the network: a subscriber of a trigger broker, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

from kbn.errors import KbnError
from kbn.management import News, Observer, Sender
from kbn.transport.client import Client
from kbn.transport.clock import Backoff, now
from kbn.transport.triggers import Triggers

log = logging.getLogger("kbn.transport")


class Observing:
    """Has an observer hear what one of the trigger brokers delivers."""

    def __init__(
        self,
        observer: Observer,
        triggers: str | Sequence[str],
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._observer = observer
        self._triggers = Triggers(triggers)
        self._name = f"observer-{uuid4()}"
        self._token = token
        self._tls = tls

    async def news(self) -> AsyncIterator[tuple[float, News]]:
        """What policy servers do, with the time it came; a trigger broker that is away is awaited.

        What is published while none is there is missed.
        """
        backoff = Backoff()
        while True:
            options = self._triggers.options(self._token, self._tls)
            try:
                async with Client(self._triggers.next(), self._name, options) as client:
                    feed = await client.subscribe(self._observer.wanted)
                    async for delivery in feed.deliveries():
                        sender = Sender(delivery.id.publisher, delivery.by_manager)
                        told = self._observer.received(delivery.notification, sender, now())
                        if told is not None:
                            yield now(), told
            except KbnError as error:
                log.warning("%s", error)
            await asyncio.sleep(backoff.next_s())
