"""A broker on the network: a `Node`, driven by sockets and the clock.

The node decides; this shell reads, writes, listens and dials. Everything that arrived in one turn
of the event loop goes to the node together, and each connection is written to once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from ipaddress import ip_address
from itertools import count
from math import inf
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any, assert_never

from msgspec import Struct

from kbn.broker import (
    Broker,
    FrameError,
    Node,
    NodeSettings,
    StoreError,
    is_warm,
    notes,
    warm_up,
    wire,
)
from kbn.broker import node_effects as effects
from kbn.broker import node_events as events
from kbn.errors import KbnError
from kbn.transport.clock import now
from kbn.transport.connection import Connection
from kbn.transport.dialling import dial
from kbn.transport.note_log import log_note
from kbn.transport.ontology_folder import OntologyFolder
from kbn.transport.ontology_loader import OntologyLoader
from kbn.transport.security import common_name
from kbn.transport.settings import Listen, OntologyFiles, check_url
from kbn.transport.strangers import Strangers
from kbn.transport.turn_times import TurnTimes
from kbn.transport.urls import Address

TICK_S = 0.2
OPENING_BYTES_MAX = 1 << 16  # of a first message: anybody may send that much
CLOSE_S = 5.0
ACCEPTED_AT_ONCE = 16  # connections, before the others are served
WAITING_MAX = 1024  # connections that wait to be accepted
log = logging.getLogger("kbn.transport")

Observer = Callable[[notes.Note], None]
BackgroundTask = Callable[[], Coroutine[Any, Any, None]]


class BrokerServer:
    """Runs a `Node` on a port; see `url`. The store is closed with the server.

    `ontology` names the files that `reload` reads again, `folder` has those that a manager may
    ask for.
    """

    def __init__(
        self,
        settings: NodeSettings,
        listen: Listen = Listen(),  # noqa: B008  (it is immutable)
        *,
        ontology: OntologyFiles | None = None,
        folder: OntologyFolder = OntologyFolder(),  # noqa: B008  (it is immutable)
    ) -> None:
        for link in settings.links:
            check_url(link.url)
        settings = replace(
            settings,
            checks_certificates=listen.checks_certificates,
            check_url=check_url,
            check_ontologies=folder.check,
        )
        self.node = Node(settings, now(), Random().random)
        self.listen = listen
        self._ontologies = OntologyLoader(
            self.node, ontology, folder, tell=self.tell, tell_now=self._tell_now
        )
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._background: list[BackgroundTask] = []
        self._observers: list[Observer] = []
        self._connections: dict[int, Connection] = {}
        self.strangers = Strangers()
        self._ids = count(1)
        self._events: list[events.Event] = []
        self._turn_is_due = False
        self._wakes_at = inf
        self._ended: asyncio.Future[None] | None = None
        self.turn_times = TurnTimes()

    @property
    def broker(self) -> Broker:
        return self.node.broker

    # Beginning and end.

    async def start(self) -> None:
        """Listen, and connect to the neighbours."""
        loop = asyncio.get_running_loop()
        if not is_warm():
            await asyncio.to_thread(warm_up)  # not in the middle of serving somebody
        self._ended = loop.create_future()
        self._listener = await loop.create_server(
            self._new_connection,
            self.listen.host,
            self.listen.port,
            ssl=self.listen.tls,
            backlog=ACCEPTED_AT_ONCE,
        )
        for listening in self._listener.sockets:
            let_wait(listening.fileno(), WAITING_MAX)
        if not ip_address(self.address.host).is_unspecified:
            self.broker.listens_at(self.url)
        self._step(lambda: self.node.start(now()))
        self._run(self._tick())
        for task in self._background:
            self._run(task())

    def add_background_task(self, task: BackgroundTask) -> None:
        """Run something for as long as the server runs; call this before it is started."""
        self._background.append(task)

    def observe(self, observer: Observer) -> None:
        """Tell somebody what the node notes."""
        self._observers.append(observer)

    @property
    def address(self) -> Address:
        assert self._listener is not None, "start the server first"
        host, port = self._listener.sockets[0].getsockname()[:2]
        return Address(host, port, self.listen.tls is not None)

    @property
    def url(self) -> str:
        """Where clients and brokers find this one."""
        return self.address.url

    @property
    def is_running(self) -> bool:
        return self._listener is not None

    async def wait(self) -> None:
        """Return when the server is stopped; raise what stopped it, if that was an error."""
        assert self._ended is not None, "start the server first"
        await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """Accept nobody any more, handle what has arrived, commit, close."""
        if self._listener is None:
            return
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        self._turn()
        for connection in list(self._connections.values()):
            connection.close()
        closed = [connection.closed for connection in self._connections.values()]
        if closed:
            await asyncio.wait(closed, timeout=CLOSE_S)
        for connection in list(self._connections.values()):
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._turn()
        self._listener = None
        self.node.store.close()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def __aenter__(self) -> BrokerServer:
        await self.start()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.stop()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fail(self, error: BaseException) -> None:
        """What was promised cannot be kept: stop before anybody is told otherwise."""
        log.critical("%s stops: %s", self.node.name, error)
        self._note(notes.StoreFailed(str(error)))
        assert self._ended is not None and self._listener is not None
        self._ended.set_exception(error)
        self._listener.close()
        for connection in list(self._connections.values()):
            connection.abort()

    # What connections report.

    def _new_connection(self) -> Connection:
        return Connection(self, OPENING_BYTES_MAX, next(self._ids))

    def _outgoing_connection(self, link: int) -> Connection:
        connection = self._new_connection()
        connection.label = link
        return connection

    def opened(self, connection: Connection) -> None:
        self._connections[connection.id] = connection
        self.strangers.opened(connection)
        certificate = None
        if self.node.settings.checks_certificates:
            certificate = common_name(connection.extra("peercert"))
        self.tell(events.Opened(connection.id, connection.address, connection.label, certificate))

    def arrived(self, connection: Connection, frames: list[bytes]) -> None:
        self.tell(events.Received(connection.id, frames))

    def broken(self, connection: Connection, error: FrameError) -> None:
        self.tell(events.Broken(connection.id, str(error)))

    def paused(self, connection: Connection) -> None:
        self.tell(events.Stalled(connection.id, connection.unwritten_bytes))

    def resumed(self, connection: Connection) -> None:
        self.tell(events.Writable(connection.id, connection.unwritten_bytes))

    def lost(self, connection: Connection) -> None:
        self._connections.pop(connection.id, None)
        self.strangers.known(connection)
        self.tell(events.Closed(connection.id))

    # One turn of the loop.

    def tell(self, event: events.Event) -> None:
        """Have the node handle something, with all else that happens in this turn."""
        self._events.append(event)
        self._have_turn()

    def _tell_now(self, event: events.Event) -> None:
        self._events.append(event)
        self._turn()

    def _have_turn(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        happened, self._events = self._events, []
        self._step(lambda: self.node.handle(happened, now()))

    def _step(self, act: Callable[[], list[effects.Effect]]) -> None:
        if self._ended is None or self._ended.done() or self._listener is None:
            return
        begun = thread_time()
        try:
            to_do = act()
        except StoreError as error:
            self._fail(error)
            return
        for effect in to_do:
            if type(effect) is effects.Send:
                self._send(effect)
            else:
                self._perform(effect)
        self.turn_times.add(thread_time() - begun)
        if self.node.has_more:
            self._have_turn()
        if self.node.due_at < self._wakes_at:
            self._wake_at(self.node.due_at)

    def _perform(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Send():
                self._send(effect)
            case effects.Note(note):
                self._note(note)
            case effects.Dial(link, url):
                self._run(self._dial(link, url))
            case effects.LoadOntology(names, reasoning):
                self._run(self._ontologies.load_for_manager(names, reasoning))
            case _:
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    if isinstance(effect, effects.LimitFrames):
                        self.strangers.known(connection)
                    _change(connection, effect)

    def _send(self, effect: effects.Send) -> None:
        """Write all messages at once, and report how much of them waits."""
        id, messages, is_cut_short, in_older = effect
        connection = self._connections.get(id)
        if connection is None:
            return
        encode = self._encode_older if in_older else wire.encode
        for problem in connection.send_all(messages, encode):
            log.error("%s cannot send: %s", self.node.name, problem)
        waiting = connection.unwritten_bytes
        report = events.Stalled if connection.is_paused else events.Writable
        if is_cut_short:
            self.tell(report(id, waiting))
        elif waiting:
            self._events.append(report(id, waiting))  # it can wait for the next turn

    def _encode_older(self, message: Struct) -> bytes:
        """A frame in the version before; no bytes when that has no such message."""
        body = self.node.settings.wire.older(wire.encode(message)[wire.HEADER_BYTES :])
        return b"" if body is None else len(body).to_bytes(wire.HEADER_BYTES, "big") + body

    def _note(self, note: notes.Note) -> None:
        log_note(self.node.name, note)
        for observer in self._observers:
            observer(note)

    async def _dial(self, link: int, url: str) -> None:
        try:
            await dial(url, lambda: self._outgoing_connection(link), self.listen.link_tls)
        except KbnError as error:
            self.tell(events.DialFailed(link, str(error)))

    # By the clock.

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.tell(events.Tick())

    def _wake_at(self, time: float) -> None:
        self._wakes_at = time
        asyncio.get_running_loop().call_later(max(0.0, time - now()), self._wake)

    def _wake(self) -> None:
        self._wakes_at = inf
        if self.is_running:
            self._turn()

    # New rules and ontologies.

    async def load_ontology(
        self, paths: Iterable[str | Path], reasoning: Any = "rdfs", bytes_max: int | None = None
    ) -> str:
        """Load an ontology in the background, then reason with it; its digest.

        Whatever is wrong with it is raised, and the broker goes on with the one it has.
        """
        return await self._ontologies.load(paths, reasoning, bytes_max)

    def reload(self) -> None:
        """Read the access file and the ontology again, as they are now."""
        reread = getattr(self.node.settings.authorizer, "reload", None)
        if reread is not None:
            self._run(self._reload_access(reread))
        self._run(self._ontologies.load_again())

    async def _reload_access(self, reread: Callable[[], None]) -> None:
        """Read the access file in the background; then all who are connected obey it."""
        try:
            await asyncio.to_thread(reread)
        except KbnError as error:
            log.error("the access file stays as it was: %s", error)
        else:
            self._events.insert(0, events.AccessChanged())  # all of this turn obeys it
            self._have_turn()


def let_wait(listening: int, connections: int) -> None:
    """Have the system keep so many connections until they are accepted.

    To asyncio that is the same number as how many it accepts at once, before anybody is served.
    """
    with socket.socket(fileno=os.dup(listening)) as same:
        same.listen(connections)


def _change(
    connection: Connection,
    effect: effects.Close | effects.LimitFrames | effects.PauseReading | effects.ResumeReading,
) -> None:
    match effect:
        case effects.Close(_, aborts):
            connection.abort() if aborts else connection.close()
        case effects.LimitFrames(_, bytes_max):
            connection.allow(bytes_max)
        case effects.PauseReading():
            connection.pause_reading()
        case effects.ResumeReading():
            connection.resume_reading()
        case _:
            assert_never(effect)
