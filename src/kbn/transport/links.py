"""A link to a neighbour that we connect to, kept up for as long as the server runs."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from kbn.errors import KbnError
from kbn.transport.clock import Backoff, now
from kbn.transport.dialling import dial
from kbn.transport.settings import LinkTo

if TYPE_CHECKING:
    from kbn.transport.server import BrokerServer

STEADY_S = 5.0  # a connection that lasted so long was a good one
log = logging.getLogger("kbn.transport")


class Link:
    """Connects, and connects again; `name` is known once the other side has answered.

    `replaces` names the neighbour that is left when this one is reached.
    """

    def __init__(
        self,
        server: BrokerServer,
        settings: LinkTo,
        tls: ssl.SSLContext | None,
        replaces: str | None = None,
    ) -> None:
        self._server = server
        self._tls = tls
        self.settings = settings
        self.name = settings.name
        self.replaces = replaces
        self.is_over = False
        self.problem = ""

    async def keep(self) -> None:
        """Have a connection, always; the waits between attempts grow."""
        backoff = Backoff()
        while not self.is_over:
            bound = self._server.bound_to(self.name) if self.name else None
            if bound is not None:  # the other side has connected to us, or we have to it
                self.problem = ""
                backoff.reset()
                await asyncio.shield(bound.closed)
            elif await self._attempt() >= STEADY_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _attempt(self) -> float:
        """Connect once; how long that lasted."""
        try:
            connection = await dial(
                self.settings.url, lambda: self._server.outgoing_connection(self), self._tls
            )
        except KbnError as error:
            self.problem = str(error)
            log.info("%s", error)
            return 0.0
        begun = now()
        await asyncio.shield(connection.closed)
        return now() - begun
