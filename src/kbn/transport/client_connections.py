"""A client's connections to brokers: one, or two while it moves; each is made again when it breaks.

The waits between attempts grow. Nothing here knows what is said over a connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Protocol

from kbn.broker import AnyMessage, FrameError, wire
from kbn.errors import KbnError
from kbn.transport.clock import Backoff, now
from kbn.transport.connection import Connection
from kbn.transport.dialling import dial

SILENT_S = 5.0
CLOSE_S = 5.0
MOVE_ATTEMPTS_MAX = 5
FRAME_BYTES_MAX = 256 << 20

log = logging.getLogger("kbn.transport")


class Listener(Protocol):
    """Who is told what happens on the connections."""

    def connected(self, broker: str) -> None: ...

    def received(self, broker: str, message: AnyMessage, time: float) -> None: ...

    def disconnected(self, broker: str) -> None: ...

    def drained(self) -> None:
        """A broker that did not read does so again, or is gone."""

    def may_give_up(self, broker: str) -> bool:
        """Whether a broker that cannot be reached may be told as `unreachable`."""

    def unreachable(self, broker: str, reason: str) -> None: ...


class KeptConnection:
    """A broker, and the connection to it while there is one."""

    __slots__ = ("broker", "connection", "keeper", "url", "was_admitted")

    def __init__(self, broker: str, url: str) -> None:
        self.broker = broker
        self.url = url
        self.connection: Connection | None = None
        self.keeper: asyncio.Task[None] | None = None
        self.was_admitted = False


class ClientConnections:
    """Connections to brokers by name, kept up until they are closed."""

    def __init__(self, listener: Listener, tls: ssl.SSLContext | None) -> None:
        self._listener = listener
        self._tls = tls
        self._kept: dict[str, KeptConnection] = {}
        self._unflushed: set[Connection] = set()

    # What the client calls.

    def open(self, broker: str, url: str) -> None:
        """Keep a connection to a broker from now on."""
        kept = self._kept[broker] = KeptConnection(broker, url)
        kept.keeper = asyncio.get_running_loop().create_task(self._keep(kept))

    def close(self, broker: str) -> None:
        """Close the connection to a broker; it is not made again."""
        kept = self._kept.pop(broker, None)
        if kept is None:
            return
        if kept.connection is not None:
            kept.connection.close()
        if kept.keeper is not None:
            kept.keeper.cancel()

    def url_of(self, broker: str) -> str | None:
        """Where a broker is reached; None for one that we keep no connection to."""
        kept = self._kept.get(broker)
        return None if kept is None else kept.url

    def is_paused(self, broker: str) -> bool:
        """Whether a broker does not read what it was sent."""
        kept = self._kept.get(broker)
        return kept is not None and kept.connection is not None and kept.connection.is_paused

    def admitted(self, broker: str) -> None:
        """The broker has admitted the client: a next attempt need not wait long."""
        if kept := self._kept.get(broker):
            kept.was_admitted = True

    def send(self, broker: str, message: AnyMessage) -> None:
        """Send a message soon; it is dropped while there is no connection."""
        kept = self._kept.get(broker)
        connection = None if kept is None else kept.connection
        if connection is None or connection.is_closing:
            return
        connection.send(message)
        if not self._unflushed:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unflushed.add(connection)

    def drop_silent(self, time: float) -> None:
        """Break connections to brokers that gave no sign of life for long."""
        for kept in self._kept.values():
            connection = kept.connection
            if connection is not None and connection.heard_at < time - SILENT_S:
                connection.abort()

    async def shut(self) -> None:
        """Close all connections, after what was sent is written, within a bounded time."""
        open_ones = [kept.connection for kept in self._kept.values() if kept.connection is not None]
        keepers = [kept.keeper for kept in self._kept.values() if kept.keeper is not None]
        self._kept.clear()
        for keeper in keepers:
            keeper.cancel()
        for connection in open_ones:
            connection.close()
        if open_ones:
            await asyncio.wait([each.closed for each in open_ones], timeout=CLOSE_S)
        for connection in open_ones:
            connection.abort()
        await asyncio.gather(*keepers, return_exceptions=True)

    def _flush(self) -> None:
        unflushed, self._unflushed = self._unflushed, set()
        for connection in unflushed:
            connection.flush()

    # Keeping.

    async def _keep(self, kept: KeptConnection) -> None:
        """Connect again and again, until closed or given up."""
        backoff = Backoff()
        while self._kept.get(kept.broker) is kept:
            reason = await self._connection_lost(kept)
            if kept.was_admitted:
                backoff.reset()
                kept.was_admitted = False
            elif backoff.attempts >= MOVE_ATTEMPTS_MAX and self._listener.may_give_up(kept.broker):
                self._listener.unreachable(kept.broker, reason)
                return
            await asyncio.sleep(backoff.next_s())

    async def _connection_lost(self, kept: KeptConnection) -> str:
        """Connect, and wait until the connection is lost; why there is none."""
        try:
            connection = await dial(kept.url, lambda: self._made(kept), self._tls)
        except KbnError as error:
            return str(error)
        await asyncio.shield(connection.closed)
        return f"{kept.url} turns us away"

    def _made(self, kept: KeptConnection) -> Connection:
        connection = Connection(self, FRAME_BYTES_MAX)
        connection.label = kept
        return connection

    # What a connection calls.

    def opened(self, connection: Connection) -> None:
        kept: KeptConnection = connection.label
        kept.connection = connection
        connection.heard_at = now()
        self._listener.connected(kept.broker)

    def arrived(self, connection: Connection, frames: list[bytes]) -> None:
        kept: KeptConnection = connection.label
        if kept.connection is not connection:
            return
        time = connection.heard_at = now()
        broker, received = kept.broker, self._listener.received
        try:
            for body in frames:
                received(broker, wire.decode_to_client(body), time)
        except FrameError as error:
            self.broken(connection, error)

    def broken(self, connection: Connection, error: FrameError) -> None:
        log.error("%s does not speak our language: %s", connection.address, error)
        connection.abort()

    def paused(self, connection: Connection) -> None:
        pass

    def resumed(self, connection: Connection) -> None:
        self._listener.drained()

    def lost(self, connection: Connection) -> None:
        kept: KeptConnection = connection.label
        self._listener.drained()
        if kept.connection is connection:
            kept.connection = None
            self._listener.disconnected(kept.broker)
