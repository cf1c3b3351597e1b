"""A node: a broker and all that must be decided around it, without sockets, clock or chance.

What happened goes in, with the time; what to do comes out. All that happened in one turn is
handled together: notifications are matched in a batch, the store is committed once, and what is
to be sent on a connection is one `Send`. Nothing is sent before the state it depends on is
committed, and a loaded node commits rarely, a calm one at once.

Its parts write to one `Turn`:

    Inboxes        what has arrived and waits for its turn                     inboxes.py
    Introductions  first messages: whose connection it is, who may come in     introductions.py
    Reading        what the frames of a known peer say                         reading.py
    Shares         who is served first                                         shares.py
    Batch          messages that the broker handles together                   batch.py
    Neighbourhood  links to dial, crossing connections, known peers, moves     neighbourhood.py
    FlowControl    who is sent how much                                        flow_control.py
    Sending        what goes out, on which connections                         sending.py

**Turns.** A turn does so much work and no more (`work.py`); what does not fit waits in the inboxes
of the connections it came on, and `has_more` asks the shell for another turn. Long work of the
broker comes first, then messages, then deliveries, each with a share of its own.

**What is bounded.** Connections, the time to the first message, silence, the length of frames,
what waits to be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

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
from kbn.broker.messages import Peer
from kbn.broker.node import effects, events, notes
from kbn.broker.node.admission import authorizer_of
from kbn.broker.node.batch import Batch
from kbn.broker.node.connections import NodeConnection, NodeConnections, Stage
from kbn.broker.node.effects import Effect
from kbn.broker.node.flow_control import FlowControl
from kbn.broker.node.inboxes import Inboxes
from kbn.broker.node.introductions import Introductions
from kbn.broker.node.neighbourhood import Neighbourhood
from kbn.broker.node.reading import Reading
from kbn.broker.node.sending import Sending
from kbn.broker.node.settings import NodeSettings
from kbn.broker.node.shares import Shares
from kbn.broker.node.turn import Turn
from kbn.broker.node.turn_counts import TurnCounts
from kbn.broker.node.work_rates import WorkRates
from kbn.broker.store import MemoryStore, Store, StoreError
from kbn.broker.wire import FrameError
from kbn.broker.work import MESSAGE
from kbn.errors import InvalidInputError

# A longer gap between ticks means that this process stalled: peers are not to blame for silence.
LATE_S = 2.0

# Of a turn's work: how far long work goes, and messages; deliveries may spend the rest.
CHORES_SHARE, MESSAGES_SHARE = 0.25, 0.75
# What messages and deliveries get at least, when something before them took more than its share;
# and what is spent at most for reading messages before they are handled.
SHARE_MIN, READING_SHARE = 0.2, 0.25


class Node:
    """One broker of the overlay, as those who connect to it see it.

    `jitter` gives numbers from 0 to 1, by chance: for the waits between attempts to connect.
    """

    def __init__(
        self, settings: NodeSettings, now: float, jitter: Callable[[], float] = lambda: 0.5
    ) -> None:
        self.settings = settings
        self.store = MemoryStore() if settings.store is None else settings.store
        self.broker = broker = _broker_of(settings, self.store, now)
        broker.work.budget = settings.server_limits.turn_work
        self.connections = connections = NodeConnections()
        self.ontology_problem = ""
        self.turns = TurnCounts()
        self._turn = turn = Turn(now)
        self._ticked_at = now
        self._shares = Shares(settings.server_limits.turn_work)
        self._inboxes = Inboxes()
        self._rates = WorkRates(broker.clients)
        self._batch = batch = Batch(broker, connections, turn, self._shares, self._charge)
        broker.charge_to(self._charge)
        self._neighbours = near = Neighbourhood(settings, broker, self.store, connections, jitter)
        self._flow = flow = FlowControl(settings.server_limits, broker.clients, connections, batch)
        self._introductions = Introductions(settings, broker, connections, near, batch, flow, turn)
        self._reading = Reading(settings.wire, broker.work, connections, near, batch, turn)
        self._sending = Sending(settings.wire, connections, near, flow)
        broker.administered_by(self.administer)

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
        self._turn.now = self._ticked_at = now
        self._neighbours.start(now)
        return self._end_turn()

    def handle(self, happened: Sequence[events.Event], now: float) -> list[Effect]:
        """What to do about all that happened in this turn, and about what waited for it."""
        self._turn.now = now
        work = self.broker.work
        work.begin()
        work.allow(CHORES_SHARE)
        for event in happened:
            self._happened(event)
        self._work_on_chores()
        work.allow(MESSAGES_SHARE, at_least=SHARE_MIN)
        self._handle_messages()
        work.allow(1.0, at_least=SHARE_MIN)
        self._turn.sends += self.broker.deliver(now)
        for request in self._turn.take_unlinks():
            self._unlink(request)
        self.turns.add(work.done)
        return self._end_turn()

    def _unlink(self, request: events.Unlink) -> None:
        if self._neighbours.give_up(request.broker):
            self._turn.sends += self.broker.give_up(request.broker)
        else:
            self._turn.sends += self.broker.unlink(request.broker, retired=request.retired)

    def _work_on_chores(self) -> None:
        try:
            self._turn.sends += self.broker.work_on(self._turn.now)
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
                self._flow.stalled(id, waiting_bytes)
            case events.Writable(id, waiting_bytes):
                self._flow.writable(id, waiting_bytes)
            case events.DialFailed(link, reason):
                self._dial_failed(link, reason)
            case events.Tick():
                self._tick()
            case events.Unlink():
                self._turn.unlinks.append(event)
            case events.MoveBroker():
                self._neighbours.move(event, self._turn.now)
            case events.UseOntology():
                self._use_ontology(event)
            case events.AccessChanged():
                self._turn.sends += self.broker.access_changed(self._turn.now)
                self._turn.sends += self._neighbours.access_changed(
                    self._introductions.admission.objection
                )
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
        self._turn.sends += self.broker.use_ontology(
            event.ontology, event.digest, self._turn.now, event.table
        )
        self.connections.note(notes.OntologyUsed(event.digest))

    # What arrives.

    def _received(self, id: int, frames: list[bytes]) -> None:
        connection = self.connections.all.get(id)
        if connection is None or connection.is_closing or connection.is_superseded:
            return
        connection.heard_at = self._turn.now
        self._inboxes.put(connection, frames)
        self.connections.pause_or_resume(connection)

    def _handle_messages(self) -> None:
        """Handle what waits, batch by batch, until the turn has done enough."""
        work, batch = self.broker.work, self._batch
        while (batch or self._inboxes) and not work.is_spent:
            before, batch.taken = work.done, 0
            enough = min(work.limit, work.done + READING_SHARE * work.budget)
            for connection in self._inboxes.in_turn():
                self._take_from(connection)
                if batch.is_full or work.done >= enough:
                    break
            batch.run()
            if work.done == before:
                return  # what waits must wait for what is being done

    def _take_from(self, connection: NodeConnection) -> None:
        """Take the next frames of a connection into the batch, or handle what happened to it."""
        inbox, peer = connection.inbox, connection.peer
        if connection.is_closing:
            inbox.drop_frames()
        elif peer is not None and (peer in self.broker.busy_with or self._batch.has_from(peer)):
            return
        elif peer is not None and self._rates.must_rest(peer, self._turn.now):
            self._inboxes.rest(connection)
            return
        frames = inbox.take_frames(self._inboxes.frames_at_once)
        if frames:
            before = self.broker.work.done
            self._handle_frames(connection, frames)
            spent = self.broker.work.done - before
            if peer is not None:
                self._charge(peer, spent)
            else:
                self._shares.charge(connection, spent)
            self.connections.pause_or_resume(connection)
        elif inbox and (peer is None or not self._batch.has_from(peer)):
            self.broker.work.done += MESSAGE
            event = inbox.take_event()
            if isinstance(event, events.Closed):
                self._closed(event.connection)
            elif isinstance(event, events.Broken):
                self.connections.refuse(connection, event.reason, FrameError.__name__)

    def _charge(self, peer: Peer, units: int) -> None:
        self._rates.charge(peer, units, self._turn.now)
        connection = self.connections.bound.get(peer)
        if connection is not None:
            self._shares.charge(connection, units)

    def _has_rested(self, connection: NodeConnection) -> bool:
        peer = connection.peer
        return (
            connection.is_closing or peer is None or not self._rates.must_rest(peer, self._turn.now)
        )

    def _handle_frames(self, connection: NodeConnection, frames: list[bytes]) -> None:
        if connection.is_open_to_anybody:
            frames = self._introductions.read(connection, frames)
        peer = connection.peer
        if connection.stage == "parting" and frames:
            self._reading.read_farewell(connection, frames)
        elif peer is not None and self.connections.bound.get(peer) is connection:
            self._reading.read(connection, peer, frames)

    # Connections.

    def _opened(self, opened: events.Opened) -> None:
        id, address, link_id, certificate = opened
        link = None if link_id is None else self._neighbours.links.get(link_id)
        stage: Stage = "new" if link_id is None else "asked"
        connection = NodeConnection(
            id, stage, address, link, certificate, self._turn.now, self._turn.now
        )
        self.connections.all[id] = connection
        self._shares.begin(connection)
        limit = self.settings.server_limits.connections
        if link is not None:
            self._neighbours.links.opened(link, self._turn.now)
            self.connections.send(connection, self._introductions.who())
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
        self._neighbours.lost(connection, peer, self._turn.now)
        if peer is None:
            return
        if peer.kind == "client":
            self.connections.note(notes.ClientLeft(peer.name))
        self._turn.sends += self.broker.disconnected(peer, self._turn.now)

    def _dial_failed(self, id: int, reason: str) -> None:
        link = self._neighbours.links.get(id)
        if link is not None:
            self._neighbours.links.failed(link, reason, self._turn.now)
            self.connections.note(notes.DialFailed(link.to.url, reason))

    # By the clock.

    def _tick(self) -> None:
        since, self._ticked_at = self._turn.now - self._ticked_at, self._turn.now
        self._inboxes.wake(self._has_rested)
        self._rates.forget_idle(self._turn.now)
        self._turn.sends += self.broker.tick(self._turn.now)
        if since <= LATE_S:
            self._drop_silent()

    def _drop_silent(self) -> None:
        limits = self.settings.server_limits
        silent = self._turn.now - limits.silent_s
        late = self._turn.now - limits.connect_timeout_s
        for connection in list(self.connections.all.values()):
            if connection.peer is None:
                if connection.opened_at < late and not connection.inbox:
                    reason = f"no first message in {limits.connect_timeout_s} s"
                    self.connections.refuse(connection, reason)
            elif connection.inbox.rests:
                # This broker does not read from it, so its silence counts from when it does again.
                connection.heard_at = self._turn.now
            elif connection.heard_at < silent - limits.silent_s:
                self.connections.close(connection, aborts=True)
            elif connection.heard_at < silent and not connection.is_stalled:
                self.connections.refuse(connection, f"nothing heard for {limits.silent_s} s")

    # The end of a turn.

    def _end_turn(self) -> list[Effect]:
        """Make permanent what was done, then say what to do."""
        self._sending.address(self._turn.take_sends(), self._turn.now)
        for occurrence in self.broker.take_occurred():
            self.connections.note(occurrence)
        self._neighbours.end_turn(self._batch.brokers())
        if self.store.is_dirty:
            self.store.commit()
        to_do = self._sending.take()
        to_do += self.connections.take_others()
        to_do += self._neighbours.links.dials(self._turn.now, self._neighbours.is_connected)
        return to_do

    # What an administrator asks.

    def administer(self, body: AdminBody) -> AdminResult:
        """Carry out what a manager asks: about connections here, all else by the broker."""
        match body:
            case GetStatus():
                return Status(self.status())
            case Unlink(name, retired):
                if not self.broker.expects(name):
                    self._check_neighbour(name)
                self._turn.unlinks.append(
                    events.Unlink(name, retired)
                )  # not in the middle of a batch
                return Unlinking(name)
            case MoveBroker(url, leaving):
                request = events.MoveBroker(url, leaving)
                return MovingBroker(self._neighbours.move(request, self._turn.now))
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


def _broker_of(settings: NodeSettings, store: Store, now: float) -> Broker:
    """The broker in the middle of a node."""
    return Broker(
        settings.name,
        routing=settings.routing,
        adapts=settings.adapts,
        ontology=settings.ontology,
        ontology_digest=settings.digest,
        store=store,
        keeps=settings.keeps and settings.store is not None,
        advertisements=settings.advertisements,
        unknown_terms=settings.unknown_terms,
        authorizer=authorizer_of(settings),
        limits=settings.limits,
        broker_limits=settings.broker_limits,
        keeps_roots=settings.keeps_roots,
        now=now,
        retransmit_s=settings.retransmit_s,
    )
