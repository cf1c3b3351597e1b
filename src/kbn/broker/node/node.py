"""A node: a broker and all that must be decided around it, without sockets, clock or chance.

What happened goes in, with the time; what to do comes out. All that happened in one turn is
handled together: notifications are matched in a batch, the store is committed once, and what is
to be sent on a connection is one `Send`. So nothing leaves before what it rests on is permanent,
and a loaded node commits rarely and a calm one at once.

**Who is who.** A connection is nobody's until its first message. It may first ask for our name
(`Who`). `Connect` makes it a client's, `Greet` a neighbour's, when the authorizer admits the
name; behind mutual TLS the name must be the certificate's. A newer connection takes the place
of an older one of the same client and epoch. `neighbourhood.py` decides between crossing ones.

**Turns.** A turn does so much work and no more (`work.py`); what does not fit waits in the inboxes
of the connections it came on, and `has_more` asks the shell for another turn. Long work of the
broker comes first, then messages, then deliveries, each with a share of its own.

**What is bounded.** Connections, the time to the first message, silence, the length of frames,
what waits to be written. A client whose socket does not drain is sent no deliveries (they wait in
the broker's own bounded queues, or in the store) and is not read from until it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from kbn.broker.administration import (
    AdminBody,
    AdminResult,
    GetStatus,
    LoadingOntology,
    LoadOntology,
    MoveBroker,
    MovingBroker,
    Status,
    Unlink,
    Unlinking,
)
from kbn.broker.broker import Broker
from kbn.broker.broker_status import BrokerStatus
from kbn.broker.messages import (
    AnyMessage,
    BestEffort,
    Bye,
    Connect,
    Credit,
    Forward,
    Frame,
    Greet,
    Peer,
    Publish,
    Refused,
    Who,
)
from kbn.broker.messages import Send as BrokerSend
from kbn.broker.node import effects, events, notes
from kbn.broker.node.admission import Admission, authorizer_of
from kbn.broker.node.connections import NodeConnection, NodeConnections, Stage
from kbn.broker.node.effects import Effect, LimitFrames, Send
from kbn.broker.node.inboxes import FRAMES_AT_ONCE, Inboxes
from kbn.broker.node.neighbourhood import Neighbourhood
from kbn.broker.node.settings import NodeSettings
from kbn.broker.node.turns import Turns
from kbn.broker.store import MemoryStore, StoreError
from kbn.broker.wire import (
    FrameError,
    decode_between_brokers,
    decode_farewell,
    decode_from_client,
    decode_name,
    decode_opening,
)
from kbn.broker.work import BYTES_DECODED, CONNECTED, MESSAGE, Work
from kbn.errors import InvalidInputError, KbnError

LATE_S = 2.0  # after so long without a tick it was us who did not listen

# Of a turn's work: how far long work goes, and messages; deliveries may spend the rest.
CHORES_SHARE, MESSAGES_SHARE = 0.25, 0.75
BATCH_MAX = 512  # messages handled together
PREMATCHED_BYTES = 1 << 17  # of contents matched together

LOOKED_AT = frozenset({Connect, Greet, Bye})
Arrived = tuple[AnyMessage, Peer]


class Node:
    """One broker of the overlay, as those who connect to it see it.

    `jitter` gives numbers from 0 to 1, by chance: for the waits between attempts to connect.
    """

    def __init__(
        self, settings: NodeSettings, now: float, jitter: Callable[[], float] = lambda: 0.5
    ) -> None:
        self.settings = settings
        self.store = MemoryStore() if settings.store is None else settings.store
        self.broker = Broker(
            settings.name,
            routing=settings.routing,
            adapts=settings.adapts,
            ontology=settings.ontology,
            ontology_digest=settings.digest,
            store=self.store,
            keeps=settings.keeps and settings.store is not None,
            advertisements=settings.advertisements,
            authorizer=authorizer_of(settings),
            limits=settings.limits,
            broker_limits=settings.broker_limits,
            keeps_roots=settings.keeps_roots,
            now=now,
            retransmit_s=settings.retransmit_s,
        )
        self.connections = NodeConnections()
        self.ontology_problem = ""
        self._admission = Admission(settings)
        self._neighbours = Neighbourhood(
            settings, self.broker, self.store, self.connections, jitter
        )
        self.turns = Turns()
        self._work = self.broker.work
        self._work.budget = settings.server_limits.turn_work
        self._inboxes = Inboxes()
        self._room_bytes = settings.server_limits.room_bytes
        self._clients = self.broker.clients
        self._batch: list[Arrived] = []
        self._sends: list[BrokerSend] = []
        self._requests: list[events.Unlink] = []
        self._now = self._ticked_at = now
        self.broker.administered_by(self.administer)

    @property
    def name(self) -> str:
        return self.broker.name

    @property
    def due_at(self) -> float:
        """When a `Tick` is due at the latest, whatever else happens; infinity when none is."""
        return self._neighbours.links.due_at

    @property
    def has_more(self) -> bool:
        """Whether something waits that did not fit into this turn: call `handle` again soon."""
        return bool(self._batch or self._inboxes) or self.broker.has_more

    def leaving(self, request: events.MoveBroker) -> str:
        """The neighbour that a move would leave; `InvalidInputError` when it cannot be made."""
        return self._neighbours.leaving(request)

    def start(self, now: float) -> list[Effect]:
        """Begin: know the neighbours from before a restart, and dial."""
        self._now = self._ticked_at = now
        self._neighbours.start(now)
        return self._end_turn()

    def handle(self, happened: Sequence[events.Event], now: float) -> list[Effect]:
        """What to do about all that happened in this turn, and about what waited for it."""
        self._now = now
        work = self._work
        work.begin()
        for event in happened:
            self._happened(event)
        work.allow(CHORES_SHARE)
        self._work_on_chores()
        work.allow(MESSAGES_SHARE)
        self._handle_messages()
        work.allow(1.0)
        self._sends += self.broker.deliver(now)
        for request in self._requests:
            if self._neighbours.give_up(request.broker):
                self._sends += self.broker.give_up(request.broker)
            else:
                self._sends += self.broker.unlink(request.broker, retired=request.retired)
        self._requests.clear()
        self.turns.add(work.done)
        return self._end_turn()

    def _work_on_chores(self) -> None:
        try:
            self._sends += self.broker.work_on(self._now)
        except StoreError:
            raise
        except Exception as error:
            self.connections.note(notes.Bug(Peer("broker", self.name), "long work", error))

    def _happened(self, event: events.Event) -> None:
        match event:
            case events.Received(id, frames):
                self._received(id, frames)
            case events.Opened():
                self._opened(event)
            case events.Broken(id) | events.Closed(id):
                if id in self.connections.all:  # after what came before it
                    self._inboxes.put(self.connections.all[id], event)
            case events.Stalled(id, waiting_bytes):
                self._stalled(id, waiting_bytes)
            case events.Writable(id, waiting_bytes):
                self._writable(id, waiting_bytes)
            case events.DialFailed(link, reason):
                self._dial_failed(link, reason)
            case events.Tick():
                self._tick()
            case events.Unlink():
                self._requests.append(event)
            case events.MoveBroker():
                self._neighbours.move(event, self._now)
            case events.UseOntology():
                self._use_ontology(event)
            case events.AccessChanged():
                self._run_batch()
                self._sends += self.broker.access_changed(self._now)
                self._sends += self._neighbours.access_changed(self._admission.objection)
            case events.OntologyFailed(reason):
                self.ontology_problem = reason
                self.connections.note(notes.OntologyFailed(reason))
            case _:
                assert_never(event)

    def _use_ontology(self, event: events.UseOntology) -> None:
        self.ontology_problem = ""
        if event.digest and event.digest == self.broker.ontology_digest:
            self.connections.note(notes.OntologyUnchanged(event.digest))
            return
        self._sends += self.broker.use_ontology(
            event.ontology, event.digest, self._now, event.table
        )
        self.connections.note(notes.OntologyUsed(event.digest))

    # What arrives.

    def _received(self, id: int, frames: list[bytes]) -> None:
        connection = self.connections.all.get(id)
        if connection is None or connection.is_closing or connection.is_superseded:
            return
        connection.heard_at = self._now
        self._inboxes.put(connection, frames)
        self.connections.pause_or_resume(connection)

    def _handle_messages(self) -> None:
        """Handle what waits, batch by batch, until the turn has done enough."""
        self._run_batch()
        work = self._work
        while self._inboxes and not work.is_spent:
            before = work.done
            for connection in self._inboxes.in_turn():
                self._take_from(connection)
                if len(self._batch) >= BATCH_MAX or work.is_spent:
                    break
            self._run_batch()
            if work.done == before:
                return  # what waits must wait for what is being done

    def _take_from(self, connection: NodeConnection) -> None:
        """Take the next frames of a connection into the batch, or handle what happened to it."""
        inbox, peer = connection.inbox, connection.peer
        if connection.is_closing:
            inbox.drop_frames()
        elif peer is not None and peer in self.broker.busy_with:
            return
        frames = inbox.take_frames(FRAMES_AT_ONCE)
        if frames:
            self._handle_frames(connection, frames)
            self.connections.pause_or_resume(connection)
        elif inbox and (peer is None or not self._has_in_batch(peer)):
            self._work.done += MESSAGE
            event = inbox.take_event()
            if isinstance(event, events.Closed):
                self._closed(event.connection)
            elif isinstance(event, events.Broken):
                self.connections.refuse(connection, event.reason, FrameError.__name__)

    def _handle_frames(self, connection: NodeConnection, frames: list[bytes]) -> None:
        if connection.is_open_to_anybody:
            frames = self._first(connection, frames)
        peer = connection.peer
        if connection.stage == "parting" and frames:
            self._parting(connection, frames)
        elif peer is not None and self.connections.bound.get(peer) is connection:
            self._decode(connection, peer, frames)

    def _decode(self, connection: NodeConnection, peer: Peer, frames: list[bytes]) -> None:
        """Add what the frames say to the batch, as far as they can be understood."""
        decode: Any = decode_from_client if peer.kind == "client" else decode_between_brokers
        batch = self._batch
        body = b""
        try:
            if connection.is_older:
                frames = [each for each in map(self._newer, frames) if each is not None]
            for body in frames:
                self._work.done += MESSAGE + len(body) // BYTES_DECODED
                message = decode(body)
                if type(message) in LOOKED_AT:
                    self._look_at(message, connection, peer)
                batch.append((message, peer))
        except FrameError as error:
            if not self._is_refusal(connection, body):
                self.connections.refuse(connection, str(error), FrameError.__name__)

    def _newer(self, body: bytes) -> bytes | None:
        """A message of the version before in the form of the newest."""
        try:
            return self.settings.wire.newer(body)
        except InvalidInputError as error:
            raise FrameError(str(error)) from None

    def _is_refusal(self, connection: NodeConnection, body: bytes) -> bool:
        """Whether a broker that we have greeted says that it will not have us."""
        if connection.link is None:
            return False
        try:
            answer = decode_farewell(body)
        except FrameError:
            return False
        assert isinstance(answer, Refused), "a last word has been understood before"
        given_up = self._neighbours.refused(connection, answer)
        if given_up is not None:
            self._requests.append(events.Unlink(given_up))
        return True

    def _look_at(
        self, message: Connect | Greet | Bye, connection: NodeConnection, peer: Peer
    ) -> None:
        name = message.client if isinstance(message, Connect) else message.broker
        if name != peer.name:
            raise FrameError(f"this connection is {peer.name}'s: {name!r} cannot greet on it")
        if isinstance(message, Bye):
            self._neighbours.heard_bye(connection, message)
        elif connection.link is None and message.token != connection.token:
            raise FrameError("another token than before: make another connection to show it")

    def _parting(self, connection: NodeConnection, frames: list[bytes]) -> None:
        """Wait until one that we have left answers; while it goes on, tell it again."""
        try:
            decode_farewell(frames[-1])
        except FrameError:
            self._neighbours.part_again(connection)
        else:
            self._neighbours.parted(connection)

    def _run_batch(self) -> None:
        """Let the broker handle what has arrived; one it stumbles over costs its sender only.

        What it has not come to when the turn has done enough stays in the batch.
        """
        batch, self._batch = self._batch, []
        if not batch:
            return
        contents = [found for message, _ in batch if (found := content_of(message)) is not None]
        if len(contents) > 1:
            self.broker.prematch(within_reach(contents))
        arrivals = Arrivals(batch, self._work, self.broker)
        for _ in range(len(batch) + 1):
            try:
                self._sends += self.broker.receive_many(arrivals, self._now)
                break
            except StoreError:
                raise
            except Exception as error:
                self._stumbled(*arrivals.current, error)
        self._batch = arrivals.left_over() + self._batch

    def _stumbled(self, message: AnyMessage, peer: Peer, error: Exception) -> None:
        self.connections.note(notes.Bug(peer, type(message).__name__, error))
        culprit = self.connections.bound.get(peer)
        if culprit is not None:
            self.connections.refuse(culprit, "this broker cannot handle that")

    # First messages.

    def _first(self, connection: NodeConnection, frames: list[bytes]) -> list[bytes]:
        """Learn whose connection it is; what remains of the frames is for the broker."""
        try:
            while frames and connection.is_open_to_anybody and not connection.is_closing:
                if connection.stage == "asked":
                    answer = decode_name(frames[0])
                    if isinstance(answer, Who):
                        agreed = self.settings.wire.agreed(answer.version, answer.newest)
                        self._speak(connection, agreed)
                    self._sends += self._neighbours.named(connection, answer, self._now)
                    frames = frames[1:]
                else:
                    frames = self._opening(connection, frames)
        except KbnError as error:
            self.connections.refuse(connection, str(error), type(error).__name__)
        return frames

    def _who(self) -> Who:
        """Our name, and the versions that we speak."""
        wire = self.settings.wire
        return Who(self.name, wire.oldest, wire.newest if wire.newest > wire.oldest else 0)

    def _speak(self, connection: NodeConnection, version: int) -> None:
        """Speak a version with the other side from now on."""
        connection.is_older = version != self.settings.wire.newest

    def _opening(self, connection: NodeConnection, frames: list[bytes]) -> list[bytes]:
        opening = decode_opening(frames[0])
        match opening:
            case Who():
                self.settings.wire.agreed(opening.version, opening.newest)
                if connection.stage == "introduced":
                    raise FrameError("you have asked before: say connect, or greet")
                connection.stage = "introduced"
                self.connections.send(connection, self._who())
                return frames[1:]
            case Connect():
                self._speak(connection, self.settings.wire.agreed(opening.version))
                if not self._client_came(connection, opening):
                    connection.inbox.put_back(frames)
                    return []
            case Greet():
                self._speak(connection, self.settings.wire.agreed(opening.version))
                self._admission.check_broker(opening, connection, self._now)
                self._sends += self._neighbours.came(connection, opening, self._now)
            case Bye():
                self._admission.check_broker(opening, connection, self._now)
                peer = Peer("broker", opening.broker)
                self._sends += self.broker.receive(opening, peer, self._now)
                self._neighbours.heard_bye(connection, opening)
                return []
            case _:
                assert_never(opening)
        return frames

    def _client_came(self, connection: NodeConnection, connect: Connect) -> bool:
        """Let a client in; False while what it said on another connection is not handled yet."""
        permission = self._admission.check_client(connect, connection, self._now)
        self.broker.check_owner(connect, permission, self._now)
        peer = Peer("client", connect.client)
        older = self.connections.bound.get(peer)
        if older is not None and connect.epoch < older.epoch:
            raise InvalidInputError(f"{connect.client!r} is attached with a newer epoch")
        if older is not None and (older.inbox or self._has_in_batch(peer)):
            older.is_superseded = True
            return False
        if older is not None and connect.epoch > older.epoch:
            # Of the older epoch nothing remains.
            self._sends += self.broker.disconnected(peer, self._now)
        if older is None:
            self.connections.note(notes.ClientAttached(peer.name, connection.address))
        connection.epoch = connect.epoch
        self.connections.bind(connection, peer, "client")
        bytes_max = self.settings.server_limits.frame_bytes
        self.connections.effect(LimitFrames(connection.id, bytes_max))
        self._give_room(peer, 0)
        self._work.done += CONNECTED
        return True

    def _has_in_batch(self, peer: Peer) -> bool:
        return any(sender == peer for _, sender in self._batch)

    # Connections.

    def _opened(self, opened: events.Opened) -> None:
        id, address, link_id, certificate = opened
        link = None if link_id is None else self._neighbours.links.get(link_id)
        stage: Stage = "new" if link_id is None else "asked"
        connection = NodeConnection(id, stage, address, link, certificate, self._now, self._now)
        self.connections.all[id] = connection
        limit = self.settings.server_limits.connections
        if link is not None:
            self._neighbours.links.opened(link, self._now)
            self.connections.send(connection, self._who())
        elif link_id is not None:
            self.connections.close(connection)  # the link has ended meanwhile
        elif len(self.connections.all) > limit:
            self.connections.refuse(connection, f"{limit} connections are the limit here")

    def _closed(self, id: int) -> None:
        connection = self.connections.all.pop(id, None)
        if connection is None:
            return
        connection.is_closing = True
        peer = self.connections.unbind(connection)
        self._neighbours.lost(connection, peer, self._now)
        if peer is None:
            return
        if peer.kind == "client":
            self.connections.note(notes.ClientLeft(peer.name))
        self._sends += self.broker.disconnected(peer, self._now)

    def _dial_failed(self, id: int, reason: str) -> None:
        link = self._neighbours.links.get(id)
        if link is not None:
            self._neighbours.links.failed(link, reason, self._now)
            self.connections.note(notes.DialFailed(link.to.url, reason))

    def _stalled(self, id: int, waiting_bytes: int) -> None:
        connection = self.connections.all.get(id)
        if connection is None:
            return
        self._check_reads(connection, waiting_bytes)
        if connection.stage == "client" and connection.peer is not None:
            attached = self.broker.clients.get(connection.peer.name)
            if attached is not None:
                attached.room_bytes = 0
        connection.is_stalled = True
        self.connections.pause_or_resume(connection)

    def _writable(self, id: int, waiting_bytes: int) -> None:
        connection = self.connections.all.get(id)
        if connection is None:
            return
        self._check_reads(connection, waiting_bytes)
        connection.is_stalled = False
        self.connections.pause_or_resume(connection)
        if connection.stage == "client" and connection.peer is not None:
            self._give_room(connection.peer, waiting_bytes)

    def _check_reads(self, connection: NodeConnection, waiting_bytes: int) -> None:
        if waiting_bytes > self.settings.server_limits.unwritten_bytes:
            self.connections.note(notes.NotReading(connection.peer))
            self.connections.close(connection, aborts=True)

    def _give_room(self, peer: Peer, waiting_bytes: int) -> None:
        """Let a client be sent what its socket has room for."""
        attached = self.broker.clients.get(peer.name)
        if attached is None:
            return
        if attached.room_bytes <= 0:
            # No new credit, but a reason to look whether something waits for this client.
            self._batch.append((Credit(0), peer))
        attached.room_bytes = max(1, self._room_bytes - waiting_bytes)

    # By the clock.

    def _tick(self) -> None:
        since, self._ticked_at = self._now - self._ticked_at, self._now
        self._sends += self.broker.tick(self._now)
        if since <= LATE_S:
            self._drop_silent()

    def _drop_silent(self) -> None:
        limits = self.settings.server_limits
        silent = self._now - limits.silent_s
        late = self._now - limits.connect_timeout_s
        for connection in list(self.connections.all.values()):
            if connection.peer is None:
                if connection.opened_at < late and not connection.inbox:
                    reason = f"no first message in {limits.connect_timeout_s} s"
                    self.connections.refuse(connection, reason)
            elif connection.heard_at < silent - limits.silent_s:
                self.connections.close(connection, aborts=True)
            elif connection.heard_at < silent and not connection.is_stalled:
                self.connections.refuse(connection, f"nothing heard for {limits.silent_s} s")

    # The end of a turn.

    def _end_turn(self) -> list[Effect]:
        """Make permanent what was done, then say what to do."""
        sends, self._sends = self._sends, []
        self._address(sends)
        for occurrence in self.broker.take_occurred():
            self.connections.note(occurrence)
        waiting = {peer.name for _, peer in self._batch if peer.kind == "broker"}
        self._neighbours.end_turn(waiting)
        if self.store.is_dirty:
            self.store.commit()
        to_do = self._to_send()
        to_do += self.connections.take_others()
        to_do += self._neighbours.links.dials(self._now, self._neighbours.is_connected)
        return to_do

    def _address(self, sends: list[BrokerSend]) -> None:
        """Find the connections on which the broker's messages go out."""
        bound, gathered = self.connections.bound, self.connections.sends
        for to, message in sends:
            kind = type(message)
            if kind is Bye:
                self._neighbours.say_bye(to, message, self._now)  # type: ignore[arg-type]
                continue
            connection = bound.get(to)
            if connection is None or connection.is_closing:
                continue
            if kind is Greet:
                message = self._in_version(connection, message)  # type: ignore[arg-type]
            gathered[connection].append(message)
            if kind is Refused:
                self._note_refusal(connection, to, message)  # type: ignore[arg-type]

    def _in_version(self, connection: NodeConnection, greet: Greet) -> Greet:
        """A greeting that says which version is spoken here."""
        wire = self.settings.wire
        version = wire.oldest if connection.is_older else wire.newest
        return greet if greet.version == version else replace(greet, version=version)

    def _note_refusal(self, connection: NodeConnection, to: Peer, refused: Refused) -> None:
        what, _, kind, reason = refused.what, refused.reference, refused.kind, refused.reason
        self.connections.note(notes.RequestRefused(to.name, what, kind, reason))
        if what == "connect":
            self.connections.close(connection)

    def _to_send(self) -> list[Effect]:
        to_send: list[Effect] = []
        for connection, messages in self.connections.take_sends().items():
            is_cut_short = False
            if connection.stage == "client" and connection.peer is not None:
                attached = self._clients.get(connection.peer.name)
                if attached is not None:
                    is_cut_short = attached.deliveries.room_bytes <= 0
                    if not is_cut_short:
                        attached.deliveries.room_bytes = self._room_bytes
            to_send.append(Send(connection.id, messages, is_cut_short, connection.is_older))
        return to_send

    # What an administrator asks.

    def administer(self, body: AdminBody) -> AdminResult:
        """Carry out what a manager asks: about connections here, all else by the broker."""
        match body:
            case GetStatus():
                return Status(self.status())
            case Unlink(name, retired):
                if not self.broker.expects(name):
                    self._check_neighbour(name)
                self._requests.append(events.Unlink(name, retired))  # not in the middle of a batch
                return Unlinking(name)
            case MoveBroker(url, leaving):
                request = events.MoveBroker(url, leaving)
                return MovingBroker(self._neighbours.move(request, self._now))
            case LoadOntology(paths, reasoning):
                self.settings.check_ontologies(paths)
                self.connections.effect(effects.LoadOntology(paths, reasoning))
                return LoadingOntology(paths)
            case _:
                return self.broker.administer(body)

    def _check_neighbour(self, name: str) -> None:
        if name not in self.broker.neighbours:
            known = ", ".join([*self.broker.neighbours, *self.broker.expected]) or "none"
            raise InvalidInputError(f"{name!r} is no neighbour here; neighbours are {known}")

    def status(self) -> BrokerStatus:
        """What a person wants to know of this node."""
        return replace(
            self.broker.status(),
            connections=len(self.connections.all),
            ontology_problem=self.ontology_problem,
            links=self._neighbours.link_statuses(),
            moved=self._neighbours.move_statuses(),
            turns=self.turns.status(),
        )


class Arrivals:
    """The messages of a batch, handed out once while the turn may go on.

    `current` is the one that is being handled. What a peer says while the broker is busy with what
    it said before waits.
    """

    def __init__(self, batch: list[Arrived], work: Work, broker: Broker) -> None:
        self._rest = iter(batch)
        self._work = work
        self._broker = broker
        self._deferred: list[Arrived] = []
        self.current: Arrived

    def __iter__(self) -> Iterator[Arrived]:
        work, busy, is_ready = self._work, self._broker.busy_with, self._broker.is_ready_for
        for arrived in self._rest:
            message, peer = arrived
            content = content_of(message)
            if peer in busy or (content is not None and not is_ready(content, peer)):
                self._deferred.append(arrived)
                continue
            self.current = arrived
            yield arrived
            if content is not None:
                self._broker.was_handled(content)
            if work.done >= work.limit:
                return

    def left_over(self) -> list[Arrived]:
        """What was not handed out."""
        return [*self._deferred, *self._rest]


def within_reach(contents: list[bytes]) -> list[bytes]:
    """The contents to match together: the small ones, and not too many for one turn."""
    found, total = [], 0
    for content in contents:
        if len(content) <= PREMATCHED_BYTES // 8:
            total += len(content) + PREMATCHED_BYTES // BATCH_MAX
            if total > PREMATCHED_BYTES:
                break
            found.append(content)
    return found


def content_of(message: AnyMessage) -> bytes | None:
    """The content of a notification that a message brings, if it brings one."""
    match message:
        case Publish():
            return message.content
        case BestEffort():
            return message.envelope.content
        case Frame(body=Forward(envelope=envelope)):
            return envelope.content
        case _:
            return None
