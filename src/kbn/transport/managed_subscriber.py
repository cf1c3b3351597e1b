"""A subscriber that notices by its own hop counts that it is misplaced, and asks to be moved.

It says so at the trigger broker; a policy then has its broker send it elsewhere, as any client. It
also listens there for `Recluster`, by which a policy server asks whether it is well placed. A
trigger broker that is away changes nothing: what is delivered goes on being delivered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from kbn.errors import KbnError
from kbn.management import SubscriberAgent, instructions, reports, terms
from kbn.transport.client import Client
from kbn.transport.clock import Backoff, now
from kbn.transport.connecting import connect
from kbn.transport.feed import Delivery, Feed
from kbn.transport.triggers import Triggers

LOOK_EVERY_S = 0.5

log = logging.getLogger("kbn.transport")


class ManagedSubscriber:
    """Watches the deliveries of a client, which is to be open; use it with `async with`.

    `agent` decides when to ask. Options are those of `kbn.connect`, for the trigger broker.
    """

    def __init__(
        self,
        client: Client,
        triggers: str | Sequence[str],
        *,
        overlay: str = terms.MAIN,
        agent: SubscriberAgent | None = None,
        **options: Any,
    ) -> None:
        self._client = client
        self._triggers = Triggers(triggers)
        self._overlay = overlay
        self._agent = agent or SubscriberAgent(client.name)
        self._options = options
        self._asked = False
        self._managing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ManagedSubscriber:
        self._managing = asyncio.ensure_future(self._be_managed())
        return self

    async def __aexit__(self, *details: Any) -> None:
        if self._managing is not None:
            self._managing.cancel()
            await asyncio.gather(self._managing, return_exceptions=True)

    async def deliveries(self, feed: Feed) -> AsyncIterator[Delivery]:
        """What `feed.deliveries` gives, counted."""
        async for delivery in feed.deliveries():
            self._agent.received(delivery.broker, delivery.hops, delivery.id.publisher)
            yield delivery

    async def _be_managed(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._report()
            except KbnError as error:
                log.warning("%s: management: %s", self._client.name, error)
            await asyncio.sleep(backoff.next_s())

    async def _report(self) -> None:
        options = {**self._options, "timeout": self._triggers.wait_s}
        me, overlay = self._client.name, self._overlay
        name = terms.name_at_trigger(me, overlay)
        async with connect(self._triggers.next(), name=name, **options) as client:
            feed = await client.subscribe(
                instructions.of_type("Recluster", overlay, subscriberId=me)
            )
            listening = asyncio.ensure_future(self._listen(feed))
            try:
                while not listening.done():
                    report = self._agent.report(now(), asked=self._asked)
                    if report is not None:
                        self._asked = False
                        await client.publish(reports.to_notification(report, now(), overlay))
                    await asyncio.wait({listening}, timeout=LOOK_EVERY_S)
                listening.result()
            finally:
                listening.cancel()

    async def _listen(self, feed: Feed) -> None:
        async for delivery in feed.deliveries():
            if delivery.by_manager:
                self._asked = True
