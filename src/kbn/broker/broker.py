"""The broker: messages and the time go in, messages to send come out.

It opens no socket, reads no clock and rolls no rng, so the same object runs over TCP, in the
simulator and in a unit test. What it must not lose is in its store: whoever runs it commits the
store before sending what came out.

**Parts.** The broker holds parts and passes values between them. `ClientSessions` and
`NeighbourSessions` know who is there and what each is sent, `Interests` who wants what and who is
told of it; `ClientRequests` handles what clients ask; `route` decides where a notification goes;
`Waves` tell when something has arrived everywhere; `Mover` carries out a move of the broker itself.
All write to one `Outbox`.

**Routing.** A subscription becomes an entry of the table; every neighbour is told the uncovered
filters of all but its own (`announcements.py`). A notification goes to the clients that want it and
to the neighbours that announced a filter for it, never back to where it came from. In a hierarchy
only parents are told, and are sent every notification. Between general peers this happens on the
edges of a spanning tree (`spanning.py`).

**What a neighbour has not said.** A neighbour whose announcements are not complete, or who reasons
with another ontology, is sent everything. We are complete towards it once everybody else is towards
us; so completeness spreads from the leaves of the tree, and until then nothing is lost, only sent
in vain.

**What must not be lost.** The store keeps a durable notification for every next hop until that one
acknowledges it, which it does once it has stored it for its own next hops. Sequences increase, so
the last sequence received tells repetitions. Between general peers a session belongs to one tree
(its *view*): when the tree changes, all sessions begin anew, and what neighbours have not
acknowledged is routed again on the new tree, where its id tells repetitions. Within a view
everybody who acknowledged it had the same tree, so it has reached all of that tree; and brokers
that cannot be reached are in the tree all the same.

**What must have arrived.** `waves.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Unpack, assert_never

from msgspec.structs import replace

from kbn.broker.access import Permission, admits_broker
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
    status_of,
)
from kbn.broker.broker_status import BrokerStatus
from kbn.broker.changes import Changes
from kbn.broker.chores import Chores
from kbn.broker.client_requests import ClientRequests, Network
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.contents import Contents
from kbn.broker.fan_out import AT_ONCE, FanOuts
from kbn.broker.fields import HOPS_MAX, check_name, shortened
from kbn.broker.interests import Interests
from kbn.broker.kept import Kept
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    REFUGES_MAX,
    Ack,
    Announce,
    AnyMessage,
    BestEffort,
    BetweenBrokers,
    Body,
    Bye,
    ByeCause,
    Complete,
    Connect,
    Echo,
    Envelope,
    Forward,
    Frame,
    Greet,
    Heard,
    Peer,
    Send,
    Subscribe,
    Wave,
)
from kbn.broker.mover import Mover, Surroundings
from kbn.broker.neighbour import Neighbour, Role
from kbn.broker.neighbour_sessions import NeighbourSessions, Routing
from kbn.broker.occurrences import Occurrence
from kbn.broker.outbox import Outbox
from kbn.broker.room import Room
from kbn.broker.route import route
from kbn.broker.routing_table import RoutingTable
from kbn.broker.seen import SeenViews
from kbn.broker.set_aside import Aside
from kbn.broker.settings import Settings, SettingsGiven
from kbn.broker.shape import Shape
from kbn.broker.store import MemoryStore, Store
from kbn.broker.unacked import UnackedQueue
from kbn.broker.waves import Waves
from kbn.broker.work import CONSTRAINT, SENT, Work
from kbn.errors import InvalidInputError, KbnError
from kbn.filters import Notification
from kbn.ontology import Ontology

__all__ = ["Broker", "Routing"]

HELD_MAX = 10_000
"""When so much of what a neighbour says waits for room, its session ends and begins anew."""


class Broker:
    """One node of the overlay; `Settings` says what its arguments mean."""

    def __init__(self, name: str, **given: Unpack[SettingsGiven]) -> None:
        check_name(name, "broker")
        settings, store = Settings.of(given), given.get("store")
        now, digest = given.get("now", 0.0), given.get("ontology_digest", "")
        self.name = name
        self.changes = Changes()
        self._settings = settings
        self._store: Store = MemoryStore() if store is None else store
        self.epoch = _next_epoch(self._store, now)
        self._beat_at = now
        self._counts = dict.fromkeys(("forwarded", "received", "dropped"), 0)
        self._outbox = outbox = Outbox(now)
        self._sequences = count(self.epoch << 31)
        self._aside = Aside(self._store, outbox)
        self._clients = ClientSessions(
            settings.limits, self._store, outbox, self._unacked_of, self._aside
        )
        self._neighbours = neighbours = NeighbourSessions(
            name, self.epoch, settings.routing, self._store, outbox, self._unacked_of
        )
        neighbours.greetings.ontology = digest
        neighbours.traffic.uses_advertisements = settings.advertisements
        neighbours.queue_bytes = settings.broker_limits.neighbour_queue_bytes
        self._interests = Interests(
            RoutingTable(given.get("ontology"), keeps_roots=given.get("keeps_roots", False)),
            neighbours.traffic.send,
            neighbours.by_name.get,
            outbox.work,
            gated=settings.advertisements,
        )
        self._contents = Contents(outbox.work)
        self._chores = Chores()
        self._fan_outs = FanOuts(self._clients)
        self._seen = SeenViews(self._store)
        self._waves = Waves(name, self.epoch, neighbours.traffic.send_wave)
        around = Surroundings(self._part_with, self._pass_on, self._handle, self._tell_complete)
        self._mover = Mover(
            name, self.epoch, self._store, neighbours, self._interests, self._waves, around
        )
        self._room = Room(settings.broker_limits, self._store, outbox, self._clients.free_most)
        self._shape = Shape(neighbours, self._store, adapts=settings.adapts)
        network = Network(
            name,
            self.epoch,
            self._shape.keeps_order,
            partial(self._route, came_from=None),
            self._check_room,
            self._begin_wave,
            self._begin_chore,
            self._fan_outs.deliver_to,
        )
        self._requests = ClientRequests(
            network, settings, outbox, self._clients, self._interests, self._contents, self.changes
        )
        self._requests.ontology = digest
        self.reporter: Callable[[Report], Reporting] | None = None
        self._requests.administer = self.administer
        self._mover.give_up_unfinished(self._sequences)
        for kept in self._store.clients():
            self._requests.restore(kept)
        self._access = AccessChange(settings.authorizer, outbox, self._clients, self._requests)
        self._access.obey()

    # What whoever runs it calls.

    def link(self, name: str, role: Role = "peer", token: str = "", url: str = "") -> list[Send]:
        """Have a neighbour; `role` is what it is to us, `url` where it was expected."""
        self._neighbours.check_link(name, role, self._mover.new)
        self._neighbours.forget_leaving(name)
        late = self._meet(url, name)
        self._add_neighbour(name, role).token = token
        for envelope in late:
            self._route_late(envelope, name)
        self._tell_complete()
        return self._finish()

    def listens_at(self, url: str) -> None:
        """Where clients find this broker; neighbours tell theirs."""
        self._neighbours.greetings.url = url

    def expect(self, url: str, role: Role = "peer") -> list[Send]:
        """Have whoever is at a url as neighbour later: keep everything durable until it is met."""
        self._neighbours.unmet.expect(url, is_parent=role == "parent")
        self._tell_complete()
        return self._finish()

    def expects(self, url: str) -> bool:
        """Whether whoever is at a url was never met."""
        return url in self._neighbours.unmet

    @property
    def expected(self) -> list[str]:
        """Where the brokers are that were never met."""
        return list(self._neighbours.unmet)

    def kept_for(self, url: str) -> int:
        """How much is kept for whoever is at a url, and was never met."""
        return self._neighbours.unmet.unacked(url)

    def expect_no_others(self, urls: set[str]) -> None:
        """Forget who else was expected before a restart."""
        self._neighbours.unmet.forget_others(urls)

    def give_up(self, url: str) -> list[Send]:
        """Nobody is expected at a url any more; what was kept for it is forgotten."""
        queue = self._neighbours.unmet.met(url)
        if queue is not None:
            queue.take_all()
            self._waves.gone(url, self._neighbours.names_in_tree())
            self._tell_complete()
        return self._finish()

    def unlink(self, name: str, *, retired: bool = False) -> list[Send]:
        """Drop a neighbour; what it wanted is forgotten, and what it has not acknowledged.

        What one that is `retired` has not acknowledged goes once more to everybody who wants it
        now: clients of that broker are elsewhere, and may have come there later than it.
        """
        if name == self._mover.new:
            self._mover.refused("unlinked")
        elif name in self._neighbours.by_name:
            unacked = self._neighbours.by_name[name].unacked.take_all() if retired else []
            self._part_with(name, "unlinked", "unlinked")
            strand = next(self._sequences)
            for envelope in unacked:
                self._send_once_more(replace(envelope, strand=strand))
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
        known = self._neighbours.by_name.get(old)
        is_known = new in self._neighbours.by_name or new == self.name
        if known is None or is_known or self._mover.move is not None:
            raise InvalidInputError(
                f"{self.name!r} cannot move from {old!r} to {new!r}: the first must be a neighbour "
                "and the second none, and one move must be over before the next"
            )
        if self.routing == "general":
            raise InvalidInputError("general peers do not move: link the new one, unlink the old")
        self._mover.prepare(old, new, done)
        self._add_neighbour(new, known.role).token = token
        self._mover.join()
        return self._finish()

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
            self._link_is_down(peer.name)
        return self._finish()

    def receive(self, message: AnyMessage, sender: Peer, now: float) -> list[Send]:
        """Handle one message."""
        return self.receive_many([(message, sender)], now)

    def receive_many(self, arrived: Iterable[tuple[AnyMessage, Peer]], now: float) -> list[Send]:
        """Handle messages in the order they came; answers are gathered at the end."""
        self._outbox.now = now
        for message, sender in arrived:
            if sender.kind == "client":
                self._requests.handle(message, sender)  # type: ignore[arg-type]
            else:
                self._from_neighbour(message, sender.name)  # type: ignore[arg-type]
        return self._finish()

    def take_occurred(self) -> list[Occurrence]:
        """What a person should hear of, since the last time."""
        return self._outbox.take_occurred()

    def tick(self, now: float) -> list[Send]:
        """Do what is due by the clock: greet, repeat, give up on the silent."""
        self._outbox.now = now
        settings = self._settings
        if settings.retransmit_s is not None:
            self._neighbours.traffic.repeat_overdue(settings.retransmit_s)
            self._clients.deliver_again(settings.retransmit_s)
        self._clients.end_long_waits()
        self._room.look()
        since = now - self._beat_at
        if since >= settings.heartbeat_s:
            self._beat_at = now
            # After a long turn of our own nobody is called silent: it was us who did not listen.
            self._beat(judges=since < 2 * settings.heartbeat_s)
        return self._finish()

    # Turns.

    @property
    def work(self) -> Work:
        """What was done in this turn; whoever runs the broker sets its budget."""
        return self._outbox.work

    @property
    def has_more(self) -> bool:
        """Whether something is left to do, whatever else happens: `work_on` it, then `deliver`."""
        return bool(self._chores) or self._clients.has_ready

    @property
    def busy_with(self) -> Container[Peer]:
        """The peers that must wait, with what they say next, for what they said before."""
        return self._chores.busy_with

    def is_ready_for(self, content: bytes, sender: Peer) -> bool:
        """Whether a notification can be handled now; if not, it is matched first, in steps."""
        if sender.kind == "client" and self._requests.is_refused(content, sender.name):
            return True
        if self._contents.is_ready(content, self.table):
            return True
        self._chores.begin(self._preparing(content), sender)
        return False

    def was_handled(self, content: bytes) -> None:
        """The message that brought a notification was handled."""
        self._contents.handled(content)

    def _preparing(self, content: bytes) -> Iterator[None]:
        while not self._contents.prepare(content, self.table):
            yield

    def work_on(self, now: float) -> list[Send]:
        """Go on with what takes more than one turn."""
        self._outbox.now = now
        if self._chores:
            self._chores.work_on(self._outbox.work)
        return self._outbox.take()

    def deliver(self, now: float) -> list[Send]:
        """Send clients what waits for them, as far as this turn goes."""
        self._outbox.now = now
        return self._finish() if self._clients.has_ready else self._outbox.take()

    def prematch(self, contents: Iterable[bytes]) -> None:
        """Read and match contents that are about to come, together: routing them is cheaper then.

        It changes nothing else: what was not prematched, or before a change of the table, is
        matched when it comes.
        """
        self._contents.prematch(contents, self.table)

    def rebuilding(self, ontology: Ontology | None) -> Callable[[], RoutingTable]:
        """A function that makes the table anew for another ontology.

        It may run in another thread while this broker goes on; `use_ontology` makes up for what
        has changed meanwhile.
        """
        neighbours = self._neighbours.by_name.values()
        return self._interests.rebuilding(ontology, self._requests.subscriptions(), neighbours)

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
        if table is None:
            table = self.rebuilding(ontology)()
        self._contents.clear()
        self._requests.ontology = digest
        self._clients.tell_ontology(digest)
        unknown = self._interests.use_table(table, self._requests.subscriptions())
        for (peer, id), error in unknown:
            self._requests.refuse(peer, Subscribe(id, ""), error)
        self._neighbours.use_ontology(digest)
        for neighbour in self._neighbours.by_name.values():
            again = self._interests.learn_again(neighbour)
            self._begin_chore(self._telling(again, neighbour))
            if neighbour.is_connected:
                self._neighbours.greetings.greet(neighbour)
        self._waves.begin_anew(self._neighbours.names_in_tree())
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

    def expel(self, name: str, reason: str) -> list[Send]:
        """A neighbour may not come in any more; it may come back when it may again."""
        if name in self._neighbours.by_name:
            self._say_bye(name, reason, "refused")
            self._remove_neighbour(name)
        return self._finish()

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
                return CollectingHops(self._clients.ask_for_hops(every_s, clients))
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
        return self._settings.limits

    @property
    def neighbours(self) -> dict[str, Neighbour]:
        return self._neighbours.by_name

    def unreached(self) -> tuple[str, ...]:
        """The neighbours that it does not hear, by name."""
        silent = self._outbox.now - self._settings.dead_after_s
        return tuple(sorted(self._neighbours.unreached(silent)))

    @property
    def clients(self) -> dict[str, ClientSession]:
        return self._clients.by_name

    @property
    def counts(self) -> dict[str, int]:
        """What the broker has done since it started."""
        return {
            **self._counts,
            "published": self._requests.published,
            "refused": self._requests.refused,
            "matched": self._clients.matched,
            "delivered": self._clients.delivered,
            "lost": self._clients.lost,
            "set_aside": self._aside.count,
        }

    @property
    def is_complete(self) -> bool:
        """Whether every neighbour has said all it has to say."""
        neighbours = self._neighbours
        is_unmet = neighbours.unmet.may_subscribe(parents_count=False)
        return not is_unmet and all(
            n.is_trusted for n in neighbours.in_tree() if n.role != "parent"
        )

    def status(self) -> BrokerStatus:
        """What a person wants to know of this broker."""
        return status_of(self._facts())

    def _facts(self) -> dict[str, object]:
        roots = self.table.roots
        clients, neighbours = self._clients, self._neighbours
        return {
            "broker": self.name,
            "epoch": self.epoch,
            "routing": self.routing,
            "ontology": self._neighbours.greetings.ontology,
            "subscriptions": len(self.table),
            "filters": self.table.filter_count,
            "roots": None if roots is None else len(roots),
            "advertisements": len(self._interests.advertisements),
            "store_bytes": self._store.used_bytes,
            "counts": self.counts,
            "clients": [clients.status(each) for each in clients.by_name.values()],
            "neighbours": [neighbours.status(each) for each in neighbours.by_name.values()],
        }

    # Turns.

    def _finish(self) -> list[Send]:
        """End a turn: deliveries and answers last."""
        self._requests.finish()
        self._neighbours.traffic.answer()
        if self._neighbours.traffic.overfull:
            self._neighbours.end_overfull()
        return self._outbox.take()

    def _beat(self, judges: bool) -> None:
        silent = self._outbox.now - self._settings.dead_after_s
        if judges:
            for name in self._neighbours.silent(silent):
                self._link_is_down(name)
        may_lose = self._settings.retransmit_s is not None
        self._neighbours.beat(may_lose)
        if judges and may_lose:
            for session in self._clients.silent(silent):
                self._requests.detach(session)

    def _begin_chore(self, steps: Iterator[None], peer: Peer | None = None) -> None:
        """Do something in steps: now as far as this turn goes, the rest in the next ones."""
        for _ in steps:
            if self._outbox.work.is_spent:
                self._chores.begin(steps, peer)
                return

    def _begin_wave(self, request: Callable[[], None]) -> None:
        """Call `request` when all that was said before now has arrived everywhere."""
        self._waves.begin(request, self._neighbours.names_in_tree())

    def _unacked_of(self, peer: Peer) -> UnackedQueue:
        return UnackedQueue(self._store, peer, self._sequences, self._aside)

    # Notifications.

    def _route(
        self,
        envelope: Envelope,
        notification: Notification,
        publisher: ClientSession | None = None,
        *,
        came_from: str | None,
    ) -> None:
        """Deliver here and pass on: what a client of ours publishes, or a neighbour brings."""
        is_repetition = False
        if self._neighbours.routing == "general":
            view = self._neighbours.tree.view
            known = self._seen.see(envelope, view)
            if known == view:
                return
            is_repetition = known is not None
        move = self._mover.move
        if move is not None:
            move.saw(envelope)
        targets = route(
            self._contents.match(envelope.content, notification, self._interests.table),
            came_from,
            self._neighbours.in_tree(),
            everywhere=envelope.everywhere,
            move=move,
            is_repetition=is_repetition,
        )
        kept = Kept(self._store, envelope)
        for neighbour in targets.neighbours:
            self._pass_on(neighbour, kept)
        if len(targets.clients) <= AT_ONCE:
            for name, ids in targets.clients.items():
                self._clients.deliver(name, ids, kept, publisher)
        else:
            sender = publisher.peer if publisher is not None else Peer("broker", str(came_from))
            self._begin_chore(self._fan_outs.begin(targets.clients, kept, publisher), sender)
        if envelope.durable and self._neighbours.unmet and not is_repetition:
            for url, queue in self._neighbours.unmet.keep(kept):
                self._room.queued(url, queue)

    def _pass_on(self, neighbour: Neighbour, kept: Kept) -> None:
        self._counts["forwarded"] += 1
        self._outbox.work.done += SENT
        self._neighbours.traffic.pass_on(neighbour, kept)
        if kept.envelope.durable:
            self._room.queued(neighbour.name, neighbour.unacked)

    def _check_room(self, content: bytes, notification: Notification) -> None:
        """Raise `LimitError` when there is no room for a durable notification of our client."""
        self._room.check(len(content))
        if self._room.full:
            self._room.refuse(self._durable_hops(content, notification, None))

    def _durable_hops(
        self, content: bytes, notification: Notification, came_from: str | None
    ) -> list[str]:
        """Whom a durable notification would be kept for, beside clients."""
        wanted = self._contents.match(content, notification, self.table)
        move = self._mover.move
        # Where advertisements are used it may go everywhere, and better waits in vain.
        everywhere = self._settings.advertisements
        hops = self._neighbours.in_tree()
        targets = route(wanted, came_from, hops, everywhere=everywhere, move=move)
        return [*(each.name for each in targets.neighbours), *self._neighbours.unmet]

    def _must_wait(self, body: Body, neighbour: Neighbour) -> bool:
        """Whether there is no room for what a neighbour brings."""
        if not isinstance(body, Forward) or body.sequence <= neighbour.received.sequence:
            return False
        content = body.envelope.content
        try:
            notification = self._contents.read(content)
        except KbnError:
            return False
        hops = self._durable_hops(content, notification, neighbour.name)
        return not self._room.full.isdisjoint(hops)

    def _release_held(self) -> None:
        """Handle what waited for room, as far as there is some now."""
        for neighbour in list(self._neighbours.by_name.values()):
            held = neighbour.held
            while held and not self._must_wait(held[0], neighbour):
                self._take_in(held.popleft(), neighbour)

    def _take_in_held(self, neighbour: Neighbour) -> None:
        while neighbour.held:
            self._take_in(neighbour.held.popleft(), neighbour)

    def _route_again(self, envelope: Envelope) -> None:
        """Send what a neighbour has not acknowledged to all neighbours in the new tree."""
        self._seen.see(envelope, self._neighbours.tree.view)
        kept = Kept(self._store, envelope)
        for neighbour in self._neighbours.in_tree():
            self._pass_on(neighbour, kept)

    def _send_once_more(self, envelope: Envelope) -> None:
        with suppress(KbnError):  # an ontology may have changed since it came
            notification = self._contents.read(envelope.content)
            self._route(envelope, notification, came_from=None)

    # Neighbours.

    def _from_neighbour(self, message: BetweenBrokers, name: str) -> None:
        neighbour = self._neighbours.by_name.get(name)
        if neighbour is None:
            if not isinstance(message, Greet):
                return
            neighbour = self._admit(message, name)
            if neighbour is None:
                return
        neighbour.link.heard_at = self._outbox.now
        match message:
            case Frame():
                body = self._neighbours.traffic.receive_frame(message, neighbour)
                if body is not None:
                    self._from_frame(body, neighbour)
            case BestEffort():
                if self._neighbours.traffic.receive_best_effort(message, neighbour):
                    self._hold_or_handle(message, neighbour)
            case Heard():
                self._neighbours.traffic.heard(message, neighbour)
            case Greet():
                self._greeted(message, neighbour)
            case Bye():
                self._left_by(message, neighbour)
            case _:
                assert_never(message)

    def _from_frame(self, body: Body, neighbour: Neighbour) -> None:
        """Take in what a neighbour says, or hold it; its acknowledgements never wait."""
        if isinstance(body, Ack):
            self._acked(body.sequence, neighbour)
        elif neighbour.held or (self._room.full and self._must_wait(body, neighbour)):
            neighbour.held.append(body)
            if isinstance(body, Wave | Echo) and body.kind == "move":
                # The broker that moves takes nothing from us before this has passed: it must not
                # wait for room that only comes when that broker goes on.
                self._take_in_held(neighbour)
            elif len(neighbour.held) > HELD_MAX:
                self._neighbours.end(neighbour)
        else:
            self._take_in(body, neighbour)

    def _acked(self, sequence: int, neighbour: Neighbour) -> None:
        self._neighbours.traffic.acked(sequence, neighbour)
        if self._room.full and self._room.acked(neighbour.name, neighbour.unacked):
            self._release_held()

    def _take_in(self, body: Body, neighbour: Neighbour) -> None:
        match body:
            case Forward():
                self._hold_or_handle(body, neighbour)
            case Ack(sequence):
                self._acked(sequence, neighbour)
            case Announce():
                self._begin_chore(self._interests.announced(body, neighbour), neighbour.peer)
            case Complete(is_complete):
                self._begin_chore(self._interests.completed(is_complete, neighbour))
                self._tell_complete()
                self._interests.reconsider(neighbour)
            case Wave():
                self._mover.waved(body, neighbour.name)
            case Echo(origin, kind=kind):
                if kind == "move" and origin == self.name:
                    self._mover.echoed(body, neighbour.name)
                else:
                    targets = self._neighbours.names_in_tree()
                    self._waves.echoed(body, neighbour.name, targets)
            case _:
                assert_never(body)

    def _hold_or_handle(self, message: Forward | BestEffort, neighbour: Neighbour) -> None:
        if self._mover.move is None or not self._mover.holds_back(message, neighbour.name):
            self._handle(message, neighbour)

    def _handle(self, message: Forward | BestEffort, neighbour: Neighbour) -> None:
        """Handle a notification that a neighbour has sent; a durable one only once."""
        if isinstance(message, BestEffort) or self._neighbours.traffic.receive_forward(
            message.sequence, neighbour
        ):
            self._arrived(message.envelope, neighbour)

    def _arrived(self, envelope: Envelope, neighbour: Neighbour) -> None:
        self._counts["received"] += 1
        move = self._mover.move
        if move is not None and move.drops(neighbour.name):
            return
        if neighbour.received.past and neighbour.received.is_past(envelope):
            return
        path = envelope.path
        if envelope.hops >= HOPS_MAX or (path is not None and len(path) >= HOPS_MAX):
            self._counts["dropped"] += 1
            return
        try:
            notification = self._contents.read(envelope.content)
        except KbnError:
            self._counts["dropped"] += 1  # its first broker has checked it: this is not one of us
            return
        path = None if path is None else (*path, self.name)
        envelope = replace(envelope, hops=envelope.hops + 1, path=path)
        self._route(envelope, notification, came_from=neighbour.name)

    def _admit(self, greet: Greet, name: str) -> Neighbour | None:
        """A broker nobody told us of greets: take it in, or tell it why not."""
        left = self._neighbours.left(name)
        if greet.heard and left is not None:
            # It does not know that we have left it; one that comes anew is welcome.
            self._say_bye(name, "this broker has left you", left)
            return None
        try:
            self._shape.look_at(greet)
            self._neighbours.check_link(name, greet.role, self._mover.new)
            self._neighbours.forget_leaving(name)
            if not admits_broker(self._settings.authorizer, name, greet.token):
                raise InvalidInputError(f"broker {name!r} is not admitted: check its token")
        except KbnError as error:
            self._say_bye(name, str(error), "refused")
            return None
        neighbour = self._add_neighbour(name, greet.role)
        neighbour.link.is_connected = True
        return neighbour

    def _add_neighbour(self, name: str, role: Role) -> Neighbour:
        known = self._neighbours.by_name.get(name)
        if known is not None:
            return known
        neighbour = self._neighbours.add(name, role)
        self._begin_chore(self._telling(self._interests.join(neighbour), neighbour))
        if self._neighbours.set_link(name, False):
            self._begin_new_view()
        self._tell_complete()
        return neighbour

    def _meet(self, url: str, name: str) -> list[Envelope]:
        """Whoever was expected at a url has a name, and goes on with its queue; what it cannot
        take over like that, because it is a neighbour already or the tree decides.
        """
        queue = self._neighbours.unmet.met(url)
        if queue is None:
            return []
        self._waves.renamed(url, name)
        if self.routing != "general" and name not in self._neighbours.by_name:
            self._neighbours.unmet.take_over(url, name)
            return []
        known = self._neighbours.by_name.get(name)
        # What came since it is a neighbour is in its own queue, as far as it wants it.
        return queue.take_all() if known is None else queue.take_up_to(known.since)

    def _route_late(self, envelope: Envelope, name: str) -> None:
        """Send what was kept for a neighbour before we knew that it was one."""
        if self.routing == "general":
            self._route_again(envelope)
        else:
            self._pass_on(self._neighbours.by_name[name], Kept(self._store, envelope))

    def _part_with(self, name: str, reason: str, cause: ByeCause) -> None:
        """Leave a neighbour. It may not hear of it, and greet on: then it is told again."""
        self._say_bye(name, reason, cause)
        self._neighbours.leave(name, cause)
        self._remove_neighbour(name)

    def _say_bye(self, name: str, reason: str, cause: ByeCause) -> None:
        bye = Bye(self.name, self._neighbours.epoch, shortened(reason), cause)
        self._outbox.send(Peer("broker", name), bye)

    def _left_by(self, bye: Bye, neighbour: Neighbour) -> None:
        if bye.epoch < neighbour.link.epoch:
            return
        if neighbour.name == self._mover.new:
            self._mover.refused(f"{neighbour.name!r} refuses: {bye.reason}")
        else:
            self._remove_neighbour(neighbour.name)

    def _remove_neighbour(self, name: str) -> None:
        neighbour = self._neighbours.remove(name)
        if neighbour is None:
            return
        self._begin_chore(self._interests.leave(neighbour))
        unacked = neighbour.unacked.take_all()
        if self._room.gone(name):
            self._release_held()
        self._neighbours.unmet.forget_queue(name)
        if self._neighbours.remove_link(name):
            self._begin_new_view()
            for envelope in unacked:
                self._route_again(envelope)
        self._waves.gone(name, self._neighbours.names_in_tree())
        self._mover.lost(name)
        self._tell_complete()
        self._tell_refuges()

    def _greeted(self, greet: Greet, neighbour: Neighbour) -> None:
        greeted = self._neighbours.greetings.greeted(greet, neighbour)
        if greeted is None:
            return
        if greeted.is_new_epoch:
            self._tell_refuges()
        if greeted.has_new_tree:
            self._begin_new_view()
        if greeted.has_new_ontology:
            self._tell_complete()
        if self._neighbours.greetings.answer_greeting(greet, neighbour, greeted.is_new_epoch):
            if neighbour.link.channel is None:
                self._begin_session(neighbour)
            elif not greeted.is_new_epoch:
                self._neighbours.traffic.repeat_unheard(neighbour)

    def _begin_session(self, neighbour: Neighbour) -> None:
        neighbour.begin_session()
        self._begin_chore(self._telling(self._everything_for(neighbour), neighbour))
        self._tell_complete()
        self._neighbours.traffic.forward(neighbour)
        self._neighbours.traffic.send_best_effort(neighbour)
        self._waves.started_again(neighbour.name)
        self._mover.session_began(neighbour.name)

    def _everything_for(self, neighbour: Neighbour) -> Iterator[None]:
        """Tell a neighbour all there is, in parts, as long as the session lasts."""
        channel = neighbour.link.channel
        for announce in self._interests.everything_for(neighbour):
            self._outbox.work.done += CONSTRAINT * len(announce.add)
            self._neighbours.traffic.send_to(neighbour, announce)
            yield
            if neighbour.link.channel is not channel:
                return

    def _telling(self, steps: Iterator[None], neighbour: Neighbour) -> Iterator[None]:
        """While a neighbour is being told, it has not been told everything."""
        neighbour.told.pending += 1
        yield from steps
        neighbour.told.pending -= 1
        self._neighbours.traffic.was_told(neighbour)
        self._tell_complete()

    def _link_is_down(self, name: str) -> None:
        if self._neighbours.set_link(name, False):
            self._begin_new_view()

    def _begin_new_view(self) -> None:
        """The tree is another: begin all sessions anew, and route again what is unacked."""
        unacked = self._neighbours.end_all()
        for neighbour in self._neighbours.by_name.values():
            if not self._neighbours.is_in_tree(neighbour):
                self._begin_chore(self._interests.forget(neighbour))
                neighbour.best_effort.clear()
        self._waves.begin_anew(self._neighbours.names_in_tree())
        for envelope in unacked:
            self._route_again(envelope)
        self._neighbours.greetings.greet_connected()

    def _tell_refuges(self) -> None:
        """Tell clients where to go when we are away: to our neighbours."""
        links = ((each.name, each.link) for each in self._neighbours.by_name.values())
        known = sorted((not link.is_connected, name, link.url) for name, link in links if link.url)
        found = tuple((name, url) for _, name, url in known[:REFUGES_MAX])
        if found and found != self._requests.refuges:
            self._requests.use_refuges(found)

    def _tell_complete(self) -> None:
        self._neighbours.tell_complete(
            self._mover.apart, parents_tell=self._settings.advertisements
        )


def _next_epoch(store: Store, now: float) -> int:
    """The broker's epoch: larger each time it starts."""
    epoch = max(int(now), int(store.marked("epoch") or 0) + 1)
    store.mark("epoch", str(epoch).encode())
    return epoch
