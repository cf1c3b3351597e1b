"""What peers and coordinators of publisher groups share over TCP: a core, sockets and the clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

from kbn.broker import FrameError
from kbn.errors import KbnError
from kbn.peering import FRAME_BYTES_MAX, effects
from kbn.transport.clock import now
from kbn.transport.connection import Connection
from kbn.transport.dialling import dial
from kbn.transport.security import common_name
from kbn.transport.server import ACCEPTED_AT_ONCE, WAITING_MAX, let_wait
from kbn.transport.settings import Listen
from kbn.transport.strangers import Strangers
from kbn.transport.urls import Address

TICK_S = 0.05
UNWRITTEN_MAX = 8 << 20
"""Who reads so little that more than this waits for it is cut off; it comes back and asks."""
CLOSE_S = 2.0
log = logging.getLogger("kbn.transport")


class Core(Protocol):
    """A `Peer` or a `Coordinator`."""

    def opened(
        self, connection: int, key: str | None, now: float, certificate: str | None = None
    ) -> list[effects.Effect]: ...
    def received(
        self, connection: int, bodies: list[bytes], now: float
    ) -> list[effects.Effect]: ...
    def closed(self, connection: int, now: float) -> list[effects.Effect]: ...
    def dial_failed(self, key: str, reason: str, now: float) -> list[effects.Effect]: ...
    def tick(self, now: float) -> list[effects.Effect]: ...


class GroupShell:
    """Runs a core on a port; what is for the application goes to `handed`."""

    def __init__(self, listen: Listen, handed: Callable[[effects.Effect], None]) -> None:
        self.listen = listen
        self.strangers = Strangers()
        self._handed = handed
        self._core: Core | None = None
        self._listener: asyncio.Server | None = None
        self._connections: dict[int, Connection] = {}
        self._known: set[int] = set()
        self._ids = count(1)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> str:
        """Listen; where."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self, FRAME_BYTES_MAX, next(self._ids)),
            self.listen.host,
            self.listen.port,
            ssl=self.listen.tls,
            backlog=ACCEPTED_AT_ONCE,
        )
        for listening in self._listener.sockets:
            let_wait(listening.fileno(), WAITING_MAX)
        return self.url

    def run(self, core: Core) -> None:
        """Drive the core from now on."""
        self._core = core
        self._spawn(self._tick())

    @property
    def url(self) -> str:
        assert self._listener is not None, "start it first"
        host, port = self._listener.sockets[0].getsockname()[:2]
        return Address(host, port, self.listen.tls is not None).url

    @property
    def is_running(self) -> bool:
        return self._listener is not None

    async def stop(self) -> None:
        """Close everything."""
        if self._listener is None:
            return
        self._listener.close()
        self._listener, self._core = None, None
        for task in self._tasks:
            task.cancel()
        closed = [connection.closed for connection in self._connections.values()]
        for connection in [*self._connections.values()]:
            connection.close()
        if closed:
            await asyncio.wait(closed, timeout=CLOSE_S)
        for connection in [*self._connections.values()]:
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What connections report.

    def opened(self, connection: Connection) -> None:
        self._connections[connection.id] = connection
        if self._core is None:
            connection.abort()
            return
        key: str | None = connection.label
        if key is None:
            self.strangers.opened(connection)
        certificate = None
        if key is None and self.listen.checks_certificates:
            certificate = common_name(connection.extra("peercert"))
        self.do(self._core.opened(connection.id, key, now(), certificate))

    def arrived(self, connection: Connection, frames: list[bytes]) -> None:
        if connection.id not in self._known:
            self._known.add(connection.id)
            self.strangers.known(connection)
        if self._core is not None:
            self.do(self._core.received(connection.id, frames, now()))

    def broken(self, connection: Connection, error: FrameError) -> None:
        log.warning("%s: %s", connection.address, error)
        connection.abort()

    def paused(self, connection: Connection) -> None:
        pass

    def resumed(self, connection: Connection) -> None:
        pass

    def lost(self, connection: Connection) -> None:
        self._connections.pop(connection.id, None)
        self._known.discard(connection.id)
        self.strangers.known(connection)
        if self._core is not None:
            self.do(self._core.closed(connection.id, now()))

    # What the core wants done.

    def do(self, to_do: list[effects.Effect]) -> None:
        """Perform effects; each connection is written to once."""
        written: dict[int, Connection] = {}
        for effect in to_do:
            match effect:
                case effects.Send(id, message):
                    connection = self._connections.get(id)
                    if connection is not None:
                        connection.send(message)
                        written[id] = connection
                case effects.Close(id):
                    connection = self._connections.get(id)
                    if connection is not None:
                        connection.close()
                case effects.Dial(key, url):
                    self._spawn(self._dial(key, url))
                case _:
                    self._handed(effect)
        for connection in written.values():
            connection.flush()
            if connection.unwritten_bytes > UNWRITTEN_MAX:
                log.warning("%s does not read: it is cut off", connection.address)
                connection.abort()

    async def _dial(self, key: str, url: str) -> None:
        def made() -> Connection:
            connection = Connection(self, FRAME_BYTES_MAX, next(self._ids))
            connection.label = key
            return connection

        try:
            await dial(url, made, self.listen.link_tls)
        except KbnError as error:
            if self._core is not None:
                self.do(self._core.dial_failed(key, str(error), now()))

    async def _tick(self) -> None:
        while self._core is not None:
            self.do(self._core.tick(now()))
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(TICK_S)
                continue
            return
