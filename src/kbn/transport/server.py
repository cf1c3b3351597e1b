"""A broker on the network: the pure `Broker`, driven by sockets and the clock.

Everything that arrived in one turn of the event loop is handled together: all messages go into
`Broker.receive_many`, the store is committed once, and each connection is written to once. So
nothing leaves before what it rests on is permanent, and a loaded broker commits rarely and a calm
one at once.

**Who is who.** A connection is nobody's until its first message. It may first ask for our name
(`Who`). `Connect` makes it a client's, `Greet` a neighbour's, when the authorizer admits the
name; behind mutual TLS the name must be the certificate's. A newer connection takes the place
of an older one of the same client and run. Two brokers that connect to each other keep the
connection that the one with the lesser name made.

**What is bounded.** Connections, the time to the first message, the length of frames, what waits to
be written. A client whose socket does not drain is sent no deliveries (they wait in the broker's
own bounded queues, or in the store) and is not read from until it does.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from operator import length_hint
from pathlib import Path
from typing import Any

from kbn.broker import (
    VERSION,
    AllowAll,
    AnyMessage,
    Authorizer,
    BestEffort,
    Broker,
    Bye,
    Connect,
    Credit,
    Forward,
    Frame,
    FrameError,
    Greet,
    Peer,
    Publish,
    Refused,
    Send,
    Store,
    StoreError,
    Who,
    decode_between_brokers,
    decode_from_client,
    decode_name,
    decode_opening,
)
from kbn.errors import InvalidInputError, KbnError, RemotePeerError
from kbn.ontology import Ontology
from kbn.transport.clock import now
from kbn.transport.connection import Connection
from kbn.transport.known_peers import KnownPeers
from kbn.transport.links import Link
from kbn.transport.security import common_name
from kbn.transport.settings import LinkTo, ServerLimits
from kbn.transport.urls import Address

TICK_S = 0.2
OPENING_BYTES_MAX = 1 << 20
CLOSE_S = 5.0
log = logging.getLogger("kbn.transport")

LOOKED_AT = frozenset({Connect, Greet, Bye})
Arrived = list[tuple[AnyMessage, Peer]]


class BrokerServer:
    """Runs a `Broker` on a port; port 0 takes a free one, see `url`.

    `tls` is for those who connect to us, `link_tls` for the connections we make. The store is
    closed with the server. `Broker(…, now=clock.now())` is the clock it must be made with.
    """

    def __init__(
        self,
        broker: Broker,
        store: Store,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        links: Iterable[LinkTo] = (),
        tls: ssl.SSLContext | None = None,
        link_tls: ssl.SSLContext | None = None,
        authorizer: Authorizer | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self.broker = broker
        self.limits = limits or ServerLimits()
        self._store = store
        self._host, self._port = host, port
        self._tls = tls
        self._authorizer: Authorizer = authorizer or AllowAll()
        self._link_tls = link_tls
        self._known_peers = KnownPeers(broker, store)
        self._links = [Link(self, self._known_peers.followed(each), link_tls) for each in links]
        self._moved: list[dict[str, Any]] = []
        self._newly_linked: list[tuple[str, str]] = []
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._connections: set[Connection] = set()
        self._bound: dict[Peer, Connection] = {}
        self._inbox: list[tuple[Connection, list[bytes]]] = []
        self._turn_is_due = False
        # Clients for whom more may wait than their sockets had room for.
        self._hungry: dict[Peer, None] = {}
        self._ended: asyncio.Future[None] | None = None
        self._ontology: tuple[list[Path], Any] | None = None
        self.ontology_problem = ""
        status = broker.answers["status"]
        broker.answers["status"] = lambda about: {**status(about), **self._status()}
        broker.answers["ontology"] = self._asked_for_ontology
        broker.answers["unlink"] = self._asked_to_unlink
        broker.answers["rehome"] = self._asked_to_rehome

    # Beginning and end.

    async def start(self) -> None:
        """Listen, and connect to the neighbours."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._known_peers.recall(link.settings for link in self._links)
        self._store.commit()
        self._listener = await loop.create_server(
            self.new_connection, self._host, self._port, ssl=self._tls, backlog=1024
        )
        self._run(self._tick())
        for link in self._links:
            self._run(link.keep())
        for work in self._beside:
            self._run(work())

    def beside(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have something run for as long as the server does; before it is started."""
        self._beside.append(work)

    @property
    def address(self) -> Address:
        assert self._listener is not None, "start the server first"
        host, port = self._listener.sockets[0].getsockname()[:2]
        return Address(host, port, self._tls is not None)

    @property
    def url(self) -> str:
        """Where clients and brokers find this one."""
        return self.address.url

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
        for connection in list(self._connections):
            connection.close()
        closed = [connection.closed for connection in self._connections]
        if closed:
            await asyncio.wait(closed, timeout=CLOSE_S)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener = None
        self._store.close()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def __aenter__(self) -> BrokerServer:
        await self.start()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.stop()

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fail(self, error: BaseException) -> None:
        """What was promised cannot be kept: stop before anybody is told otherwise."""
        log.critical("%s stops: %s", self.broker.name, error)
        assert self._ended is not None and self._listener is not None
        self._ended.set_exception(error)
        self._listener.close()
        for connection in list(self._connections):
            connection.abort()

    # Connections.

    def new_connection(self) -> Connection:
        return Connection(self, OPENING_BYTES_MAX, "new")

    def outgoing_connection(self, link: Link) -> Connection:
        """One that we make: the other side is asked for its name first."""
        connection = Connection(self, OPENING_BYTES_MAX, "asked")
        connection.label = link
        return connection

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        connection.heard_at = now()
        wait_s = self.limits.connect_timeout_s
        connection.timer = asyncio.get_running_loop().call_later(
            wait_s, self._give_up, connection, f"no first message in {wait_s} s"
        )
        if connection.stage == "asked":
            connection.send(Who(self.broker.name))
            connection.flush()
        elif len(self._connections) > self.limits.connections:
            self._give_up(connection, f"{self.limits.connections} connections are the limit here")

    def arrived(self, connection: Connection, frames: list[bytes]) -> None:
        self._inbox.append((connection, frames))
        self._be_due()

    def broken(self, connection: Connection, error: FrameError) -> None:
        self._give_up(connection, str(error), "FrameError")

    def paused(self, connection: Connection) -> None:
        # Between brokers both may have much to say at once, so both go on reading.
        if connection.stage == "client":
            connection.pause_reading()

    def resumed(self, connection: Connection) -> None:
        if connection.stage == "client" and connection.peer is not None:
            connection.resume_reading()
            self._give_room(connection, connection.peer)

    def lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        peer = connection.peer
        if peer is not None and self._bound.get(peer) is connection:
            del self._bound[peer]
            self._step(lambda: self._disconnected(peer))

    def _disconnected(self, peer: Peer) -> list[Send]:
        sends = self.broker.disconnected(peer, now())
        if peer.kind == "broker":
            self._known_peers.forget_former(peer.name)
        return sends

    def unlink(self, name: str) -> None:
        """Have a neighbour no longer, and give up what it is owed."""

        def act() -> list[Send]:
            sends = self.broker.unlink(name)
            self._known_peers.forget_former(name)
            return sends

        self._step(act)

    def _asked_to_unlink(self, about: dict[str, Any]) -> dict[str, Any]:
        name = about.get("broker")
        if not isinstance(name, str) or name not in self.broker.neighbours:
            known = ", ".join(self.broker.neighbours) or "none"
            raise InvalidInputError(f"{name!r} is no neighbour here; neighbours are {known}")
        asyncio.get_running_loop().call_soon(self.unlink, name)  # not in the middle of a batch
        return {"unlinking": name}

    def _asked_to_rehome(self, about: dict[str, Any]) -> dict[str, Any]:
        """Move this broker, with all that hangs on it, to the broker at `url`.

        `old` names the neighbour it leaves; it may be left out when there is one. The outcome
        is in the status, under `moved`.
        """
        ups = [n.name for n in self.broker.neighbours.values() if n.role != "child"]
        old = about.get("old", ups[0] if len(ups) == 1 else None)
        if old not in ups:
            raise InvalidInputError(f"name the neighbour to leave: {', '.join(ups) or 'none'}")
        neighbour = self.broker.neighbours[old]
        settings = LinkTo(str(about.get("url")), neighbour.role, neighbour.token)
        link = Link(self, settings, self._link_tls, replaces=old)
        self._links.append(link)
        self._run(link.keep())
        return {"leaving": old}

    def _rehome(self, link: Link, name: str) -> list[Send]:
        """The broker to move to has answered: move."""
        old = link.replaces or ""

        def done(trouble: str | None) -> None:
            self._moved.append({"from": old, "to": name, "trouble": trouble})
            over = link if trouble is not None else None
            for each in self._links:
                if each is over:
                    each.is_over = True
                elif trouble is None and each.name == old and not each.is_over:
                    each.is_over = True
                    self._known_peers.moved(each.settings.url, link.settings.url)
            if trouble is None:
                self._known_peers.forget_former(old)

        token = link.settings.token
        sends = self.broker.rehome(old, name, now(), token=token, done=done)
        link.replaces = None
        return sends

    def bound_to(self, name: str) -> Connection | None:
        """The connection with a neighbour, if there is one."""
        return self._bound.get(Peer("broker", name))

    def _give_up(
        self, connection: Connection, reason: str, kind: str = RemotePeerError.__name__
    ) -> None:
        """Say why, and close."""
        if connection.is_closing:
            return
        log.info("%s drops %s: %s", self.broker.name, connection.address, reason)
        connection.send(Refused("connect" if connection.peer is None else "frame", 0, kind, reason))
        connection.close()

    # One turn of the loop.

    def _be_due(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        inbox, self._inbox = self._inbox, []
        self._step(lambda: self._handled(inbox))

    def _step(self, act: Callable[[], list[Send]]) -> None:
        """Act, make it permanent, then send what came out."""
        if self._ended is None or self._ended.done():
            return
        try:
            sends = act()
            if self._store.is_dirty:
                self._store.commit()
        except StoreError as error:
            self._fail(error)
            return
        self._write(sends)

    def _handled(self, inbox: list[tuple[Connection, list[bytes]]]) -> list[Send]:
        sends: list[Send] = []
        # No new credit, but a reason to look whether something waits for this client.
        batch: Arrived = [
            (Credit(0), peer) for peer in self._hungry if peer.name in self.broker.clients
        ]
        self._hungry.clear()
        time = now()
        for connection, frames in inbox:
            connection.heard_at = time
            if connection.is_closing:
                continue
            if connection.stage not in ("client", "broker"):
                sends += self._received(batch)
                batch.clear()
                sends += self._first(connection, frames)
            if connection.peer is not None and self._bound.get(connection.peer) is connection:
                batch.extend(self._messages(connection, connection.peer, frames))
        sends += self._received(batch)
        for name, url in self._newly_linked:
            self._known_peers.keep(name, url)
        self._newly_linked.clear()
        return sends

    def _messages(
        self, connection: Connection, peer: Peer, frames: list[bytes]
    ) -> Iterator[tuple[AnyMessage, Peer]]:
        """What the frames say, as far as they can be understood."""
        decode: Any = decode_from_client if peer.kind == "client" else decode_between_brokers
        try:
            for body in frames:
                message = decode(body)
                if type(message) in LOOKED_AT:
                    self._look_at(message, connection, peer)
                yield message, peer
        except FrameError as error:
            self._give_up(connection, str(error), "FrameError")

    def _look_at(self, message: Connect | Greet | Bye, connection: Connection, peer: Peer) -> None:
        name = message.client if isinstance(message, Connect) else message.broker
        if isinstance(message, Bye) and isinstance(connection.label, Link):
            connection.label.problem = message.reason
            log.error("%s: %s says: %s", self.broker.name, peer.name, message.reason)
        if name != peer.name:
            raise FrameError(f"this connection is {peer.name}'s: {name!r} cannot greet on it")

    def _received(self, batch: Arrived) -> list[Send]:
        """Have the broker handle messages; a message it stumbles over costs its sender only."""
        if not batch:
            return []
        sends: list[Send] = []
        contents = [found for message, _ in batch if (found := content_of(message)) is not None]
        if len(contents) > 1:
            self.broker.prematch(contents)
        rest = iter(batch)
        for _ in range(len(batch)):
            try:
                return sends + self.broker.receive_many(rest, now())
            except StoreError:
                raise
            except Exception:
                message, peer = batch[len(batch) - length_hint(rest) - 1]
                log.exception("a bug: %s of %s", type(message).__name__, peer)
                culprit = self._bound.get(peer)
                if culprit is not None:
                    self._give_up(culprit, "this broker cannot handle that")
        return sends

    def _write(self, sends: list[Send]) -> None:
        """Write each connection's messages at once."""
        bound = self._bound
        written: dict[Connection, None] = {}
        for to, message in sends:
            connection = bound.get(to)
            if connection is None or connection.is_closing:
                continue
            try:
                connection.send(message)
            except InvalidInputError as error:
                log.error("%s cannot tell %s: %s", self.broker.name, to.name, error)
                continue
            written[connection] = None
            if type(message) is Bye:
                if connection.label is not None:
                    connection.label.is_over = True
                connection.close()
            elif type(message) is Refused and message.what == "connect":
                connection.close()
        for connection in written:
            self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        connection.flush()
        if connection.unwritten_bytes > self.limits.unwritten_bytes:
            log.warning("%s does not read: dropped", connection.peer)
            connection.abort()
        elif connection.peer is not None and connection.peer.kind == "client":
            self._give_room(connection, connection.peer)

    def _give_room(self, connection: Connection, peer: Peer) -> None:
        attached = self.broker.clients.get(peer.name)
        if attached is None:
            return
        if connection.is_paused:
            attached.room_bytes = 0
            return
        if attached.room_bytes <= 0:  # it ran out, and yet all went into the socket
            self._hungry[peer] = None
            self._be_due()
        attached.room_bytes = max(1, self.limits.room_bytes - connection.unwritten_bytes)

    # First messages.

    def _first(self, connection: Connection, frames: list[bytes]) -> list[Send]:
        """Learn whose connection it is; what remains of `frames` is for the broker."""
        try:
            if connection.stage == "asked":
                return self._named(connection, decode_name(frames.pop(0)))
            opening = decode_opening(frames[0])
            if opening.version != VERSION:
                raise FrameError(f"version {opening.version} of the protocol; here it is {VERSION}")
            if isinstance(opening, Who):
                if connection.stage == "introduced":
                    raise FrameError("you have asked before: say connect, or greet")
                connection.stage = "introduced"
                frames.pop(0)
                connection.send(Who(self.broker.name))
                connection.flush()
                return self._first(connection, frames) if frames else []
            if isinstance(opening, Connect):
                return self._client_came(connection, opening)
            return self._neighbour_came(connection, opening)
        except KbnError as error:
            self._give_up(connection, str(error), type(error).__name__)
            return []

    def _client_came(self, connection: Connection, connect: Connect) -> list[Send]:
        peer = Peer("client", connect.client)
        self._check_certificate(connection, connect.client)
        if self._authorizer.admit(connect.client, connect.token) is None:
            raise InvalidInputError(f"client {connect.client!r} is not admitted: check its token")
        older = self._bound.get(peer)
        if older is not None and connect.epoch < older.run:
            raise InvalidInputError(f"a newer run of {connect.client!r} is attached")
        connection.run = connect.epoch
        sends = []
        if older is not None and connect.epoch > older.run:
            sends = self.broker.disconnected(peer, now())  # of the older run nothing remains
        self._bind(connection, peer, "client")
        connection.allow(self.limits.frame_bytes)
        self._give_room(connection, peer)
        return sends

    def _neighbour_came(self, connection: Connection, greet: Greet) -> list[Send]:
        self._check_certificate(connection, greet.broker)
        admits = getattr(self._authorizer, "admit_broker", None)
        if admits is not None and not admits(greet.broker, greet.token):
            raise InvalidInputError(f"broker {greet.broker!r} is not admitted: check its token")
        older = self.bound_to(greet.broker)
        if older is not None and older.label is not None and self.broker.name < greet.broker:
            raise InvalidInputError(f"{self.broker.name} has connected to {greet.broker} itself")
        return self._linked(connection, greet.broker)

    def _named(self, connection: Connection, answer: Who | Refused) -> list[Send]:
        """A broker that we connected to says its name."""
        link: Link = connection.label
        if not isinstance(answer, Who):
            link.problem = answer.reason
            raise RemotePeerError(answer.reason, peer=link.settings.url)
        name = answer.broker
        older = self.bound_to(name)
        link.name = name
        if older is not None and older.label is not None:
            raise InvalidInputError(f"{self.broker.name} is connected to {name} already")
        if older is not None and name < self.broker.name:
            connection.close()  # it has connected to us, and its connection is the one to keep
            return []
        try:
            if link.replaces is None:
                sends = self.broker.link(name, link.settings.role, link.settings.token)
            else:
                sends = self._rehome(link, name)
        except KbnError as error:
            link.problem = str(error)
            log.error("%s: %s: %s", self.broker.name, link.settings.url, error)
            link.is_over = link.replaces is not None
            raise
        return sends + self._linked(connection, name)

    def _linked(self, connection: Connection, name: str) -> list[Send]:
        peer = Peer("broker", name)
        self._bind(connection, peer, "broker")
        connection.allow(self.limits.broker_frame_bytes)
        link = connection.label
        self._newly_linked.append((name, "" if link is None else link.settings.url))
        return self.broker.connected(peer, now())

    def _bind(self, connection: Connection, peer: Peer, stage: str) -> None:
        older = self._bound.get(peer)
        self._bound[peer] = connection
        connection.peer, connection.stage = peer, stage
        if connection.timer is not None:
            connection.timer.cancel()
        if older is not None and older is not connection:
            older.close()

    def _check_certificate(self, connection: Connection, name: str) -> None:
        if self._tls is None or self._tls.verify_mode != ssl.CERT_REQUIRED:
            return
        shown = common_name(connection.extra("peercert"))
        if shown != name:
            raise InvalidInputError(f"your certificate is {shown!r}'s: you are not {name!r}")

    # By the clock.

    async def _tick(self) -> None:
        while True:
            asked = now()
            await asyncio.sleep(TICK_S)
            self._step(lambda: self.broker.tick(now()))
            if now() - asked > 10 * TICK_S:
                continue  # it was us who did not listen
            silent = now() - self.limits.silent_s
            for connection in list(self._bound.values()):
                if connection.heard_at < silent and not connection.is_paused:
                    self._give_up(connection, f"nothing heard for {self.limits.silent_s} s")
                elif connection.heard_at < silent - self.limits.silent_s:
                    connection.abort()

    # Ontologies.

    async def load_ontology(self, paths: Iterable[str | Path], reasoning: Any = "rdfs") -> str:
        """Load and reason beside the work, then reason with that; its digest.

        Whatever is wrong with it is raised, and the broker goes on with the one it has.
        """
        files = [Path(path) for path in paths]
        try:
            ontology = await asyncio.to_thread(Ontology.load, files, reasoning)
        except KbnError as error:
            self.ontology_problem = str(error)
            raise
        self._ontology, self.ontology_problem = (files, reasoning), ""
        self._step(lambda: self.broker.use_ontology(ontology, ontology.digest, now()))
        return ontology.digest

    def reload(self) -> None:
        """Read the access file and the ontology again, as they are now."""
        reread = getattr(self._authorizer, "reload", None)
        if reread is not None:
            try:
                reread()
            except KbnError as error:
                log.error("the access file stays as it was: %s", error)
        if self._ontology is not None:
            self._run(self._load_quietly(*self._ontology))

    def _asked_for_ontology(self, about: dict[str, Any]) -> dict[str, Any]:
        """Begin to load: `paths` (on this machine) and `reasoning`; clients are told when done."""
        paths, reasoning = about.get("paths"), about.get("reasoning", "rdfs")
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise InvalidInputError("to load an ontology, give its paths: a list of files")
        self._run(self._load_quietly([Path(path) for path in paths], reasoning))
        return {"loading": paths}

    async def _load_quietly(self, paths: list[Path], reasoning: Any) -> None:
        try:
            await self.load_ontology(paths, reasoning)
        except Exception as error:
            self.ontology_problem = str(error)
            log.error("the ontology stays as it was: %s", error)

    def _status(self) -> dict[str, Any]:
        return {
            "connections": len(self._connections),
            "ontology_problem": self.ontology_problem,
            "links": [
                {"url": each.settings.url, "broker": each.name, "problem": each.problem}
                for each in self._links
            ],
            "moved": self._moved,
        }


async def serve(
    server: BrokerServer, ready: Callable[[BrokerServer], None] = lambda server: None
) -> None:
    """Run a server until the process is told to end (SIGTERM, SIGINT); SIGHUP reloads.

    `ready` is called when it listens.
    """
    import signal

    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    async with server:
        for name in ("SIGTERM", "SIGINT"):
            with suppress(NotImplementedError):
                loop.add_signal_handler(getattr(signal, name), ending.set)
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, server.reload)
        ready(server)
        ended = asyncio.ensure_future(server.wait())
        waiting = asyncio.ensure_future(ending.wait())
        await asyncio.wait({ended, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if ended.done():
            ended.result()
        else:
            ended.cancel()


def content_of(message: AnyMessage) -> bytes | None:
    """The content of a notification that a message brings, if it brings one."""
    if isinstance(message, Publish):
        return message.content
    if isinstance(message, BestEffort):
        return message.envelope.content
    if isinstance(message, Frame) and isinstance(message.body, Forward):
        return message.body.envelope.content
    return None
