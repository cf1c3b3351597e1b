"""The broker: messages and the time go in, messages to send come out.

It opens no socket, reads no clock and draws no random number, so the same object runs over TCP, in
the simulator and in a unit test. What it must not lose is in its store: whoever runs it commits the
store before sending what came out.

**Parts.** The broker is made of parts that write to one `Outbox` (`parts.py`):

    ClientSessions     who is attached, wants what, and is sent what   client_sessions.py
    NeighbourSessions  the neighbours, their links, queues and tree    neighbour_sessions.py
    Interests          who wants what, and who is told of it           interests.py
    Router             takes a notification to whom it is for          router.py
    Waves              tell when something has arrived everywhere      waves.py
    Room               how much the store holds, for whom              room.py

and of what handles an occasion with them:

    ClientRequests     what a client says                              client_requests.py
    NeighbourMessages  what a neighbour says                           neighbour_messages.py
    Membership         a neighbour comes, greets anew, goes            membership.py
    Mover              the broker moves to another neighbour           mover.py
    Heartbeat          time passes                                     heartbeat.py
    OntologyChange, AccessChange                                       there are new rules

**Routing.** A subscription becomes an entry of the table; every neighbour is told the uncovered
filters of all but its own (`announcements.py`). In a hierarchy only parents are told, and are sent
every notification. Between general peers this happens on the edges of a spanning tree
(`spanning.py`).

**What must not be lost.** The store keeps a durable notification for every next hop until that one
acknowledges it, which it does once it has stored it for its own next hops. Sequences increase, so
the last sequence received tells repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from functools import partial
from typing import Unpack, assert_never

from msgspec.structs import replace

from kbn.broker.access import Permission
from kbn.broker.access_change import AccessChange
from kbn.broker.administration import (
    AdminBody,
    AdminResult,
    CollectHops,
    CollectingHops,
    GetStatus,
    LoadOntology,
    MoveBroker,
    MoveClients,
    MovingClients,
    Report,
    Reporting,
    Status,
    Unlink,
)
from kbn.broker.broker_facts import BrokerFacts
from kbn.broker.broker_status import BrokerStatus
from kbn.broker.changes import Changes
from kbn.broker.client_requests import ClientRequests
from kbn.broker.client_session import ClientSession
from kbn.broker.fields import check_name
from kbn.broker.heartbeat import Heartbeat
from kbn.broker.incoming import Incoming
from kbn.broker.limits import ClientLimits
from kbn.broker.membership import Membership
from kbn.broker.messages import AnyMessage, Connect, Envelope, Peer, Send
from kbn.broker.mover import Mover, Surroundings
from kbn.broker.neighbour import Neighbour
from kbn.broker.neighbour_messages import NeighbourMessages
from kbn.broker.network import Network
from kbn.broker.occurrences import Occurrence
from kbn.broker.ontology_change import OntologyChange
from kbn.broker.parts import parts_of
from kbn.broker.routing_table import RoutingTable
from kbn.broker.settings import SettingsGiven
from kbn.broker.topology import Role, Routing
from kbn.broker.work import Work
from kbn.errors import InvalidInputError, KbnError
from kbn.ontology import Ontology


class Broker:
    """One node of the overlay; `Settings` says what its arguments mean."""

    def __init__(self, name: str, **given: Unpack[SettingsGiven]) -> None:
        check_name(name, "broker")
        self.name = name
        self.changes = Changes()
        self.reporter: Callable[[Report], Reporting] | None = None
        self._parts = parts = parts_of(name, given)
        self._outbox = parts.outbox
        self._clients = parts.clients
        self._neighbours = parts.neighbours
        self._interests = parts.interests
        self._router = parts.router
        self._requests = requests = self._client_requests(given.get("ontology_digest", ""))
        self._membership = membership = Membership(parts, requests)
        incoming = Incoming(name, parts.neighbours, parts.router)
        mover = self._mover_between(membership, incoming)
        self._messages = NeighbourMessages(parts, incoming, membership, mover)
        membership.mover, membership.release_held = mover, self._messages.release_held
        self._heartbeat = Heartbeat(parts, requests, membership)
        self._ontology = OntologyChange(parts, requests, membership)
        self._facts = BrokerFacts(parts, requests, incoming)
        mover.give_up_unfinished(parts.sequences)
        for kept in parts.store.clients():
            requests.restore(kept)
        parts.router.restore()
        authorizer = parts.settings.authorizer
        self._access = AccessChange(authorizer, parts.outbox, parts.clients, requests, parts.router)
        self._access.obey()

    def _client_requests(self, ontology: str) -> ClientRequests:
        parts, router = self._parts, self._parts.router
        network = Network(
            name=self.name,
            epoch=parts.epoch,
            keeps_order=parts.shape.keeps_order,
            publish=partial(router.route, came_from=None),
            check_room=router.check_room,
            begin_wave=parts.begin_wave,
            begin_chore=router.chores.start,
            deliver_to=router.fan_outs.deliver_to,
        )
        requests = ClientRequests(
            network,
            parts.settings,
            parts.outbox,
            parts.clients,
            parts.interests,
            router.contents,
            self.changes,
        )
        requests.ontology = ontology
        requests.administer = self.administer
        return requests

    def _mover_between(self, membership: Membership, incoming: Incoming) -> Mover:
        parts = self._parts
        around = Surroundings(
            part_with=membership.part_with,
            pass_on=parts.router.pass_on,
            handle=incoming.take,
            tell_complete=membership.tell_complete,
        )
        return Mover(
            self.name,
            parts.epoch,
            parts.store,
            parts.neighbours,
            parts.interests,
            parts.waves,
            around,
        )

    # Neighbours.

    def link(
        self,
        name: str,
        role: Role = "peer",
        token: str = "",
        url: str = "",
        *,
        again: bool = False,
    ) -> list[Send]:
        """Add a neighbour; `role` is what it is to us, `url` where it was expected.

        `again`: it was one before this broker was started.
        """
        self._membership.link(name, role, token, url, again=again)
        return self._finish()

    def listens_at(self, url: str) -> None:
        """Say where clients find this broker; neighbours tell their clients."""
        self._neighbours.greetings.url = url

    def expect(self, url: str, role: Role = "peer") -> list[Send]:
        """Expect a neighbour at a URL: everything durable is kept for it until it is met."""
        self._neighbours.unmet.expect(url, is_parent=role == "parent")
        self._membership.tell_complete()
        return self._finish()

    def expects(self, url: str) -> bool:
        """Whether a neighbour is expected at a URL and was never met."""
        return url in self._neighbours.unmet

    @property
    def expected(self) -> list[str]:
        """The URLs of the brokers that are expected and were never met."""
        return list(self._neighbours.unmet)

    def kept_for(self, url: str) -> int:
        """How many notifications are kept for the neighbour that is expected at a URL."""
        return self._neighbours.unmet.unacked(url)

    def expect_no_others(self, urls: set[str]) -> None:
        """Forget the neighbours that were expected elsewhere before a restart."""
        self._neighbours.unmet.forget_others(urls)

    def give_up(self, url: str) -> list[Send]:
        """Expect nobody at a URL any more; what was kept for it is forgotten."""
        self._membership.give_up(url)
        return self._finish()

    def unlink(self, name: str, *, retired: bool = False) -> list[Send]:
        """Drop a neighbour; what it wanted is forgotten, and what it has not acknowledged.

        What one that is `retired` has not acknowledged goes once more to everybody who wants it
        now: clients of that broker are elsewhere, and may have come there later than it.
        """
        if name == self._neighbours.moving_to:
            self._membership.mover.refused("unlinked")
        elif name in self._neighbours.by_name:
            unacked = self._neighbours.by_name[name].unacked.take_all() if retired else []
            self._membership.part_with(name, "unlinked", "unlinked")
            strand = next(self._parts.sequences)
            for envelope in unacked:
                self._send_once_more(replace(envelope, strand=strand))
        return self._finish()

    def _send_once_more(self, envelope: Envelope) -> None:
        with suppress(KbnError):  # an ontology may have changed since it came
            notification = self._router.contents.read(envelope.content)
            self._router.route(envelope, notification, came_from=None)

    def expel(self, name: str, reason: str) -> list[Send]:
        """A neighbour may not come in any more; it may come back when it may again."""
        if name in self._neighbours.by_name:
            self._membership.say_bye(name, reason, "refused")
            self._membership.remove(name)
        return self._finish()

    def rehome(
        self,
        old: str,
        new: str,
        now: float,
        *,
        token: str = "",
        done: Callable[[str | None], None] = lambda trouble: None,
    ) -> list[Send]:
        """Move from one neighbour to another, with all clients and brokers behind us.

        The shell connects to `new` as to any neighbour. `done` is called in the end, with the
        reason when the broker stays.
        """
        self._outbox.now = now
        self._membership.move(old, new, token=token, done=done)
        return self._finish()

    # What happens.

    def connected(self, peer: Peer, now: float) -> list[Send]:
        """A link to a neighbour works (again)."""
        self._outbox.now = now
        neighbour = self._neighbours.by_name.get(peer.name)
        if peer.kind == "broker" and neighbour is not None:
            self._neighbours.greetings.connected(neighbour)
        return self._finish()

    def disconnected(self, peer: Peer, now: float) -> list[Send]:
        """A link is broken: a client or a neighbour cannot be reached that way."""
        self._outbox.now = now
        if peer.kind == "client":
            session = self._clients.by_name.get(peer.name)
            if session is not None:
                self._requests.detach(session)
        elif peer.name in self._neighbours.by_name:
            self._neighbours.by_name[peer.name].link.is_connected = False
            self._membership.link_is_down(peer.name)
        return self._finish()

    def receive(self, message: AnyMessage, sender: Peer, now: float) -> list[Send]:
        """Handle one message."""
        return self.receive_many([(message, sender)], now)

    def receive_many(self, arrived: Iterable[tuple[AnyMessage, Peer]], now: float) -> list[Send]:
        """Handle messages in the order they came; answers are gathered at the end."""
        self._outbox.now = now
        from_client, from_neighbour = self._requests.handle, self._messages.handle
        for message, sender in arrived:
            if sender.kind == "client":
                from_client(message, sender)  # type: ignore[arg-type]
            else:
                from_neighbour(message, sender.name)  # type: ignore[arg-type]
        return self._finish()

    def take_occurred(self) -> list[Occurrence]:
        """What a person should hear of, since the last time."""
        return self._outbox.take_occurred()

    def tick(self, now: float) -> list[Send]:
        """Do what is due by the clock: greet, repeat, give up on the silent."""
        self._outbox.now = now
        self._heartbeat.tick()
        self._facts.rounds.tick()
        self._interests.tidy(self._router.chores.start)
        return self._finish()

    def check_owner(self, connect: Connect, permission: Permission, now: float) -> None:
        """Raise a KbnError when the name of a client that comes is another's."""
        self._outbox.now = now
        self._requests.check_owner(connect, permission)

    def access_changed(self, now: float) -> list[Send]:
        """The authorizer decides by other rules from now on: clients obey them at once."""
        self._outbox.now = now
        self._access.obey()
        return self._finish()

    def rebuilding(self, ontology: Ontology | None) -> Callable[[], RoutingTable]:
        """A function that makes the table anew for another ontology.

        It may run in another thread while this broker goes on; `use_ontology` makes up for what
        has changed meanwhile.
        """
        return self._ontology.rebuilding(ontology)

    def use_ontology(
        self,
        ontology: Ontology | None,
        digest: str,
        now: float,
        table: RoutingTable | None = None,
    ) -> list[Send]:
        """Reason with another ontology from now on, and tell clients and neighbours.

        `table` is what `rebuilding` made for it, if there was time. Subscriptions with terms that
        the ontology does not know are kept, and served again by one that does; whose they are is
        told.
        """
        self._outbox.now = now
        self._ontology.use(self.rebuilding(ontology)() if table is None else table, digest)
        return self._finish()

    # Turns.

    @property
    def work(self) -> Work:
        """What was done in this turn; whoever runs the broker sets its budget."""
        return self._outbox.work

    def charge_to(self, charge: Callable[[Peer, int], None]) -> None:
        """Have somebody told what is done for whom between its messages."""
        self._router.chores.charge = charge

    @property
    def has_more(self) -> bool:
        """Whether something is left to do, whatever else happens: `work_on` it, then `deliver`."""
        return bool(self._router.chores) or self._clients.traffic.has_ready

    @property
    def busy_with(self) -> Container[Peer]:
        """The peers that must wait, with what they say next, for what they said before."""
        return self._router.chores.busy_with

    def is_ready_for(self, content: bytes, sender: Peer) -> bool:
        """Whether a notification can be handled now; if not, it is matched first, in steps."""
        if self._router.has_matched(content):
            return True
        if sender.kind == "client" and self._requests.publishing.is_refused(content, sender.name):
            return True
        return self._router.is_ready_for(content, sender)

    def was_handled(self, content: bytes) -> None:
        """The message that brought a notification was handled."""
        self._router.contents.handled(content)

    def work_on(self, now: float) -> list[Send]:
        """Go on with what takes more than one turn."""
        self._outbox.now = now
        if self._router.chores:
            self._router.chores.work_on()
        return self._outbox.take()

    def deliver(self, now: float) -> list[Send]:
        """Send clients what waits for them, as far as this turn goes."""
        self._outbox.now = now
        return self._finish() if self._clients.traffic.has_ready else self._outbox.take()

    def prematch(self, contents: Iterable[bytes]) -> None:
        """Read and match contents that are about to come, together: routing them is cheaper then.

        It changes nothing else: what was not prematched, or before a change of the table, is
        matched when it comes.
        """
        self._router.contents.prematch(contents, self.table)

    def _finish(self) -> list[Send]:
        """End a turn: deliveries and answers last."""
        self._requests.finish()
        self._neighbours.traffic.answer()
        if self._neighbours.traffic.overfull:
            self._neighbours.end_overfull()
        return self._outbox.take()

    # Administration.

    def administered_by(self, administer: Callable[[AdminBody], AdminResult]) -> None:
        """Let another carry out what managers ask; `administer` is what the broker does itself."""
        self._requests.administer = administer

    def administer(self, body: AdminBody) -> AdminResult:
        """Carry out what a manager asks."""
        match body:
            case GetStatus():
                return Status(self.status())
            case MoveClients():
                return self._move_clients(body)
            case CollectHops(every_s, clients):
                return CollectingHops(self._clients.hops.ask(every_s, clients))
            case Report():
                if self.reporter is None:
                    raise InvalidInputError("this broker is not managed: it reports to nobody")
                return self.reporter(body)
            case MoveBroker() | Unlink() | LoadOntology():
                raise InvalidInputError("this broker has no node around it that could do that")
            case _:
                assert_never(body)

    def _move_clients(self, request: MoveClients) -> MovingClients:
        if request.broker == self.name:
            raise InvalidInputError("to move clients, name another broker and its url")
        names = self._clients.subscribers() if request.clients is None else list(request.clients)
        self._clients.check_known(names)
        self._clients.redirect(names, request.broker, request.url)
        return MovingClients(len(names))

    # What it shows.

    @property
    def table(self) -> RoutingTable:
        """Who wants what."""
        return self._interests.table

    @property
    def ontology_digest(self) -> str:
        """The digest of the ontology in use; '' without one."""
        return self._neighbours.greetings.ontology

    @property
    def routing(self) -> Routing:
        return self._neighbours.routing

    @property
    def limits(self) -> ClientLimits:
        return self._parts.settings.limits

    @property
    def neighbours(self) -> dict[str, Neighbour]:
        return self._neighbours.by_name

    def unreached(self) -> tuple[str, ...]:
        """The neighbours that it does not hear, by name."""
        silent = self._outbox.now - self._parts.settings.dead_after_s
        return tuple(sorted(self._neighbours.unreached(silent)))

    @property
    def clients(self) -> dict[str, ClientSession]:
        return self._clients.by_name

    @property
    def epoch(self) -> int:
        """Larger each time the broker starts."""
        return self._parts.epoch

    @property
    def counts(self) -> dict[str, int]:
        """What the broker has done since it started."""
        return self._facts.counts

    @property
    def is_complete(self) -> bool:
        """Whether every neighbour has said all it has to say."""
        return self._facts.is_complete

    def status(self) -> BrokerStatus:
        """What a person wants to know of this broker."""
        return self._facts.status()
