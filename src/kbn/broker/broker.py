"""The broker: messages and the time go in, messages to send come out.

It opens no socket, reads no clock and rolls no dice, so the same object runs over TCP, in the
simulator and in a unit test. What it must not lose is in its store: whoever runs it commits the
store before sending what came out.

**Routing.** A subscription becomes an entry of the table; every neighbour is told the uncovered
filters of all but its own (`announcements.py`). A notification goes to the clients that want it and
to the neighbours that announced a filter for it, never back to where it came from. In a hierarchy
only masters are told, and are sent every notification. Between general peers this happens on the
edges of a spanning tree (`spanning.py`).

**What a neighbour has not said.** A neighbour whose announcements are not complete, or who reasons
with another ontology, is sent everything. We are complete towards it once everybody else is towards
us; so completeness spreads from the leaves of the tree, and until then nothing is lost, only sent
in vain.

**What must not be lost.** A durable notification is owed to every next hop, in the store, until it
says it took it; it says so once it owes it to the next. Rows increase, so the last row taken tells
repetitions. Between general peers a session is of one tree (its *view*): when the tree changes, all
sessions begin anew and what is still owed to neighbours is routed again on the new tree, to be told
from repetitions by its id. Within a view everybody who took it had the same tree, so it has reached
all of that tree; and brokers that cannot be reached are in the tree all the same.

**What must have arrived.** `waves.py`.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Literal, assert_never

from msgspec import msgpack
from msgspec.structs import replace

from kbn.broker import content
from kbn.broker.access import Guard, Limits, NotGreetedError, OpenDoor, Permission
from kbn.broker.announcements import Announcements
from kbn.broker.attached import ENVELOPES, Attached
from kbn.broker.messages import (
    Acknowledge,
    Advertise,
    Alive,
    Announce,
    Answer,
    AnyMessage,
    Ask,
    BetweenBrokers,
    Body,
    Bye,
    Carry,
    Complete,
    Credit,
    Done,
    Echo,
    Envelope,
    Fire,
    Frame,
    FromClient,
    Grant,
    Greet,
    Heard,
    Hello,
    Leave,
    Left,
    NewOntology,
    NotificationId,
    Peer,
    Publish,
    Redirect,
    Refused,
    Send,
    Settle,
    Settled,
    Subscribe,
    Taken,
    Took,
    Unadvertise,
    Unsubscribe,
    Wave,
    Welcome,
)  # fmt: skip
from kbn.broker.neighbour import CARRIED_AHEAD_MAX, FIRED_AHEAD_MAX, Neighbour, Role
from kbn.broker.owed import OwedQueue
from kbn.broker.rehoming import FIRST_WAVE, Rehoming
from kbn.broker.spanning import SpanningTree
from kbn.broker.store import MemoryStore, Store
from kbn.broker.table import Register, RoutingTable, Told
from kbn.broker.waves import Waves
from kbn.errors import InvalidInputError, KbnError, LimitError
from kbn.filters import Notification, Subscription
from kbn.filters.intersection import may_intersect
from kbn.ontology import Ontology

Routing = Literal["hierarchical", "acyclic", "general"]
ENCODER = msgpack.Encoder()
SEEN_MAX = 1_000_000
READ_MAX = 65_536
ROLE_SEEN_FROM_THERE: dict[Role, Role] = {"peer": "peer", "master": "child", "child": "master"}


class Broker:
    """One node of the overlay.

    `keeps` is False where the store does not outlive the process: durable requests are refused
    then. `now` is any clock that does not run backwards, in seconds; `retransmit_s` is None on
    links that neither lose nor reorder.
    """

    def __init__(
        self,
        name: str,
        *,
        routing: Routing = "acyclic",
        ontology: Ontology | None = None,
        ontology_digest: str = "",
        store: Store | None = None,
        keeps: bool = True,
        advertisements: bool = False,
        guard: Guard | None = None,
        limits: Limits | None = None,
        keeps_roots: bool = False,
        now: float = 0.0,
        heartbeat_s: float = 1.0,
        dead_after_s: float = 5.0,
        retransmit_s: float | None = None,
    ) -> None:
        self.name = name
        self.routing = routing
        self.limits = limits or Limits()
        self.counts = {
            "published": 0, "delivered": 0, "forwarded": 0, "received": 0, "dropped": 0,
            "refused": 0, "matched": 0,
        }  # fmt: skip
        self.table = RoutingTable(ontology, keeps_roots=keeps_roots)
        self.offers = Register()
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "status": lambda about: self.status(),
            "move": self._move_clients,
        }
        self._ontology_digest = ontology_digest
        self._store: Store = MemoryStore(name) if store is None else store
        self._keeps = keeps
        self._advertises = advertisements
        self._guard = guard or OpenDoor()
        self._heartbeat_s = heartbeat_s
        self._dead_after_s = dead_after_s
        self._retransmit_s = retransmit_s
        self._beat_at = now
        self._now = now
        self._out: list[Send] = []
        self._clients: dict[str, Attached] = {}
        self._neighbours: dict[str, Neighbour] = {}
        self._to_pump: dict[str, Attached] = {}
        self._next_key = 0
        self._read: dict[tuple[str, bool], Subscription] = {}
        self._seen: OrderedDict[NotificationId, str] = OrderedDict()
        self.run = self._begin_run(now)
        self._link_run = self.run << 20
        self._rows = count(self.run << 31)
        self._tree = SpanningTree(name, self._link_run)
        self._waves = Waves(name, self.run, self._send_wave)
        self._rehoming: Rehoming | None = None
        self._own_waves = Waves(name, self.run, self._send_wave, FIRST_WAVE)
        self._restore()

    # What the shell calls.

    def link(self, name: str, role: Role = "peer", token: str = "") -> list[Send]:
        """Have a neighbour; `role` is what it is to us."""
        self._check_link(name, role)
        self._store.unmark(f"abandoned/{name}")
        self._add_neighbour(name, role).token = token
        return self._finish()

    def unlink(self, name: str) -> list[Send]:
        """Have it no longer; what it wanted is forgotten, and what it was owed."""
        if name in self._neighbours:
            self._send(Peer("broker", name), Bye(self.name))
            self._remove_neighbour(name)
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
        reason when the move was given up.
        """
        self._now = now
        known = self._neighbours.get(old)
        if known is None or new in self._neighbours or self._rehoming is not None:
            raise InvalidInputError(
                f"{self.name!r} cannot move from {old!r} to {new!r}: the first must be a neighbour "
                "and the second none, and one move must be over before the next"
            )
        if self.routing == "general":
            raise InvalidInputError("general peers do not move: link the new one, unlink the old")
        self._rehoming = Rehoming(old, new, done)
        self.table.apart = self.offers.apart = self._rehoming.both
        # Should we stop in the middle, we start again at the old place: the new one must know.
        self._store.mark(f"abandoned/{new}", b"")
        self._add_neighbour(new, known.role).token = token
        self._own_waves.begin(self._joined, [new])
        return self._finish()

    def connected(self, peer: Peer, now: float) -> list[Send]:
        """A link to a neighbour works (again)."""
        self._now = now
        neighbour = self._neighbours.get(peer.name)
        if peer.kind == "broker" and neighbour is not None:
            neighbour.is_connected = True
            neighbour.heard_at = now
            neighbour.fired_heard = (
                neighbour.fired
            )  # what was under way is lost: do not wait for it
            self._greet(neighbour)
        return self._finish()

    def disconnected(self, peer: Peer, now: float) -> list[Send]:
        """A link is broken: a client or a neighbour cannot be reached that way."""
        self._now = now
        if peer.kind == "client":
            attached = self._clients.get(peer.name)
            if attached is not None:
                self._detach(attached)
        elif peer.name in self._neighbours:
            self._neighbours[peer.name].is_connected = False
            self._say_link(peer.name, is_up=False)
        return self._finish()

    def receive(self, message: AnyMessage, sender: Peer, now: float) -> list[Send]:
        """Handle one message."""
        return self.receive_many([(message, sender)], now)

    def receive_many(self, arrived: Iterable[tuple[AnyMessage, Peer]], now: float) -> list[Send]:
        """Handle messages in the order they came; answers are gathered at the end."""
        self._now = now
        for message, sender in arrived:
            if sender.kind == "client":
                self._from_client(message, sender)  # type: ignore[arg-type]
            else:
                self._from_neighbour(message, sender.name)  # type: ignore[arg-type]
        return self._finish()

    def tick(self, now: float) -> list[Send]:
        """Do what is due by the clock: greet, repeat, give up on the silent."""
        self._now = now
        if self._retransmit_s is not None:
            for neighbour in self._neighbours.values():
                self._repeat(neighbour, self._retransmit_s)
            for attached in self._clients.values():
                self._deliver_again(attached, self._retransmit_s)
        if now - self._beat_at >= self._heartbeat_s:
            self._beat_at = now
            self._beat()
        return self._finish()

    def use_ontology(self, ontology: Ontology | None, digest: str, now: float) -> list[Send]:
        """Reason with another ontology from now on, and tell clients and neighbours.

        Subscriptions with terms that it does not know are kept and served again by one that does;
        whose they are is told.
        """
        self._now = now
        self._read.clear()
        table = RoutingTable(ontology, keeps_roots=self.table.keeps_roots)
        for attached in self._clients.values():
            self._send(attached.peer, NewOntology(digest))
            for id, subscription in attached.subscriptions.items():
                try:
                    table.add((attached.peer, id), subscription)
                except KbnError as error:
                    self._refuse(attached.peer, Subscribe(id, ""), error)
        self.table, self._ontology_digest = table, digest
        self._link_run += 1
        for neighbour in self._neighbours.values():
            self._relearn(neighbour)
        self._waves.begin_anew(self._wave_targets())
        return self._finish()

    def _relearn(self, neighbour: Neighbour) -> None:
        """Have a neighbour say everything again, and say everything again to it."""
        neighbour.channel = None
        neighbour.wants, neighbour.stale_wants = {}, []
        neighbour.is_complete = neighbour.told_complete = False
        self._tell_of_others(neighbour)
        if neighbour.is_connected:
            self._greet(neighbour)

    @property
    def neighbours(self) -> dict[str, Neighbour]:
        return self._neighbours

    @property
    def clients(self) -> dict[str, Attached]:
        return self._clients

    @property
    def is_complete(self) -> bool:
        """Whether every neighbour has said all it has to say."""
        return all(self._is_trusted(n) for n in self._tree_neighbours() if n.role != "master")

    def status(self) -> dict[str, Any]:
        """What a person wants to know of this broker."""
        roots = self.table.roots
        return {
            "broker": self.name,
            "run": self.run,
            "routing": self.routing,
            "ontology": self._ontology_digest,
            "subscriptions": len(self.table),
            "filters": self.table.filter_count,
            "roots": None if roots is None else len(roots),
            "advertisements": len(self.offers),
            "counts": dict(self.counts),
            "clients": [self._client_status(each) for each in self._clients.values()],
            "neighbours": [self._link_status(each) for each in self._neighbours.values()],
        }

    # Clients.

    def _from_client(self, message: FromClient, sender: Peer) -> None:
        attached = self._clients.get(sender.name)
        try:
            if isinstance(message, Hello):
                self._hello(message, sender, attached)
            elif attached is None or not attached.is_connected:
                self._from_stranger(message, sender)
            else:
                attached.heard_at = self._now
                self._request(message, attached)
        except KbnError as error:
            self._refuse(sender, message, error)

    def _from_stranger(self, message: FromClient, sender: Peer) -> None:
        if (
            isinstance(message, Leave) and sender.name not in self._clients
        ):  # it has left before, and did not hear our answer
            self._send(sender, Left(message.request))
            return
        raise NotGreetedError("say hello first: this broker does not know you (any more)")

    def _request(self, message: FromClient, attached: Attached) -> None:
        match message:
            case Publish():
                self._publish(message, attached)
            case Acknowledge(number):
                if attached.owed is not None:
                    attached.owed.settle(number)
                attached.progress_at = self._now
                self._to_pump[attached.peer.name] = attached
            case Credit(total):
                attached.credit = max(attached.credit, total)
                self._to_pump[attached.peer.name] = attached
            case Subscribe(id, subscription, is_text):
                self._subscribe(attached, id, self._parsed(subscription, is_text))
                self._send(attached.peer, Done("subscribe", id))
            case Unsubscribe(id):
                self._unsubscribe(attached, id)
                self._send(attached.peer, Done("unsubscribe", id))
            case Advertise(id, advertisement, is_text):
                self._advertise(attached, id, self._parsed(advertisement, is_text))
            case Unadvertise(id):
                self._unadvertise(attached, id)
                self._send(attached.peer, Done("unadvertise", id))
            case Settle(request):
                peer = attached.peer
                self._wave(lambda: self._send(peer, Settled(request)))
            case Leave(request):
                self._leave(attached, request)
            case Ask(request, what, about):
                self._answer(attached, request, what, about)
            case Alive():
                self._send(attached.peer, Grant(attached.granted))
            case Hello():
                raise AssertionError("a greeting is handled before")
            case _:
                assert_never(message)

    def _hello(self, hello: Hello, sender: Peer, known: Attached | None) -> None:
        permission = self._guard.admit(hello.client, hello.token)
        if permission is None:
            raise InvalidInputError(f"client {hello.client!r} is not admitted: check its token")
        if known is not None and hello.run < known.run:
            raise InvalidInputError(f"a newer run of {hello.client!r} is attached")
        if hello.durable and not self._keeps:
            raise InvalidInputError("this broker keeps nothing: start it with a store")
        attached = known or Attached(
            sender,
            hello.run,
            permission,
            hello.window,
            hello.when_slow,
            self._owed_to(sender, hello),
        )
        resumed = known is not None and known.run == hello.run
        self._clients[sender.name] = attached
        attached.permission = permission
        attached.greet(hello, self.limits)
        attached.taken = max(attached.taken, self._taken_of(hello))
        attached.heard_at = self._now
        if attached.owed is not None:
            self._store.keep_client(sender.name, attached.window, attached.when_slow)
        self._to_pump[sender.name] = attached
        self._send(
            sender,
            Welcome(
                self.name, self.run, self._ontology_digest, attached.taken, attached.granted,
                self._keeps, resumed,
            ),
        )  # fmt: skip
        if attached.redirect is not None:
            self._send(sender, Redirect(*attached.redirect))

    def _owed_to(self, peer: Peer, hello: Hello) -> OwedQueue | None:
        return OwedQueue(self._store, peer, self._rows) if hello.durable else None

    def _taken_of(self, hello: Hello) -> int:
        """The last durable notification taken of this run of a publisher."""
        known = self._store.marked(f"publisher/{hello.client}")
        if known is None:
            return 0
        run, number = msgpack.decode(known)
        return int(number) if run == hello.run else 0

    def _publish(self, publish: Publish, attached: Attached) -> None:
        if publish.durable:
            if publish.number <= attached.taken:
                self._send(attached.peer, Taken(attached.taken))
                return
            if publish.number != attached.taken + 1:
                return  # one before it is missing, and will be repeated
        elif publish.number <= attached.last_fired:
            return
        if attached.published >= attached.granted:
            if attached.waits_for:
                return
            raise LimitError(
                f"more than {self.limits.publish_ahead} notifications ahead of what was granted",
                limit="notifications published ahead",
                maximum=self.limits.publish_ahead,
            )
        self._count_publication(publish, attached)
        try:
            self.limits.check_content(len(publish.content))
            notification = content.decode(publish.content)
            attached.permission.check_publish(notification)
            if publish.durable and not self._keeps:
                raise InvalidInputError("this broker keeps nothing: start it with a store")
        except KbnError as error:
            self._refuse(attached.peer, publish, error)  # before `Taken`, which would confirm it
            return
        finally:
            self._grant(attached)
            if publish.durable:
                self._send(attached.peer, Taken(publish.number))
        self.counts["published"] += 1
        envelope = Envelope(
            attached.peer.name,
            attached.run,
            publish.number * 2 + publish.durable,
            publish.time,
            publish.content,
            publish.durable,
            everywhere=self._advertises and not self._is_advertised(notification, attached),
            path=() if attached.with_path else None,
        )
        self._route(envelope, notification, None, attached)

    def _count_publication(self, publish: Publish, attached: Attached) -> None:
        """The number is used up, whether the notification is good or refused."""
        if not publish.durable:
            attached.published += publish.number - attached.last_fired  # those lost count as well
            attached.last_fired = publish.number
            return
        attached.published += 1
        attached.taken = publish.number
        mark = msgpack.encode((attached.run, publish.number))
        self._store.mark(f"publisher/{attached.peer.name}", mark)

    def _grant(self, attached: Attached) -> None:
        """Let a publisher go on before it has to wait, unless a slow subscriber stops it."""
        ahead = self.limits.publish_ahead
        if not attached.waits_for and attached.granted - attached.published <= ahead // 2:
            attached.granted = attached.published + ahead
            self._send(attached.peer, Grant(attached.granted))

    def _is_advertised(self, notification: Notification, attached: Attached) -> bool:
        return any(
            attached.advertisements[id].matches(notification, self.table.ontology)
            for id in attached.in_force
        )

    def _subscribe(self, attached: Attached, id: int, subscription: Subscription) -> None:
        known = attached.subscriptions.get(id)
        if known == subscription:
            return
        self.limits.check_subscription(subscription, len(attached.subscriptions))
        attached.permission.check_subscribe(subscription)
        if known is not None:
            raise InvalidInputError(f"your subscription {id} is another: unsubscribe it first")
        self._tell_interest(self.table.add((attached.peer, id), subscription))
        attached.subscriptions[id] = subscription
        if attached.owed is not None:
            text = json.dumps(subscription.to_json(), separators=(",", ":"))
            self._store.keep_subscription(attached.peer.name, id, text)

    def _unsubscribe(self, attached: Attached, id: int) -> None:
        if attached.subscriptions.pop(id, None) is None:
            return
        self._tell_interest(self.table.remove((attached.peer, id)))
        if attached.owed is not None:
            self._store.forget_subscription(attached.peer.name, id)

    def _advertise(self, attached: Attached, id: int, advertisement: Subscription) -> None:
        attached.permission.check_publish(
            {c.attribute for filter in advertisement.filters for c in filter}
        )
        peer = attached.peer
        if id not in attached.advertisements:
            self.limits.check_subscription(advertisement, len(attached.advertisements))
            attached.advertisements[id] = advertisement
            if self._advertises:
                self._tell_offer(self.offers.add((peer, id), advertisement))

        def in_force() -> None:
            attached.in_force.add(id)
            self._send(peer, Done("advertise", id))

        self._wave(in_force)

    def _unadvertise(self, attached: Attached, id: int) -> None:
        attached.in_force.discard(id)
        if attached.advertisements.pop(id, None) is not None:
            self._tell_offer(self.offers.remove((attached.peer, id)))

    def _leave(self, attached: Attached, request: int) -> None:
        if attached.leaving == request:
            return
        attached.leaving = request
        self._wave(lambda: self._drained(attached))

    def _drained(self, attached: Attached) -> None:
        """All that was on its way to a leaving client is here; nothing more need come."""
        for id in list(attached.subscriptions):
            self._unsubscribe(attached, id)
        attached.is_drained = True
        self._to_pump[attached.peer.name] = attached

    def _detach(self, attached: Attached) -> None:
        """A client is away: a durable one is kept, another forgotten."""
        attached.is_connected = False
        self._release_publishers(attached.peer.name)
        for id in list(attached.advertisements):
            self._unadvertise(attached, id)
        if attached.owed is None:
            self._forget(attached)

    def _forget(self, attached: Attached) -> None:
        for id in list(attached.subscriptions):
            self._unsubscribe(attached, id)
        for id in list(attached.advertisements):
            self._unadvertise(attached, id)
        if attached.owed is not None:
            self._store.forget_client(attached.peer.name)
            self._store.unmark(f"redirect/{attached.peer.name}")
        self._clients.pop(attached.peer.name, None)
        self._to_pump.pop(attached.peer.name, None)
        self._release_publishers(attached.peer.name)

    def _answer(self, attached: Attached, request: int, what: str, about: dict[str, Any]) -> None:
        answer = self.answers.get(what)
        if answer is None:
            known = ", ".join(sorted(self.answers))
            raise InvalidInputError(f"this broker cannot be asked {what!r}; it knows {known}")
        attached.permission.check_manage()
        self._send(attached.peer, Answer(request, answer(about)))

    def _move_clients(self, about: dict[str, Any]) -> dict[str, Any]:
        """Send clients to another: `clients` names them; `broker` and `url` say where."""
        broker, url = about.get("broker"), about.get("url")
        if not isinstance(broker, str) or not isinstance(url, str) or broker == self.name:
            raise InvalidInputError("to move clients, name another broker and its url")
        names = about.get("clients")
        if names is None:
            names = [name for name, each in self._clients.items() if each.subscriptions]
        unknown = [name for name in names if name not in self._clients]
        if unknown:
            raise InvalidInputError(f"no client here is called {unknown[0]!r}")
        for name in names:
            attached = self._clients[name]
            attached.redirect = (broker, url)
            if attached.owed is not None:
                self._store.mark(f"redirect/{name}", msgpack.encode(attached.redirect))
            if attached.is_connected:
                self._send(attached.peer, Redirect(broker, url))
        return {"moving": len(names)}

    def _refuse(self, sender: Peer, message: FromClient, error: KbnError) -> None:
        self.counts["refused"] += 1
        what = str(message.__struct_config__.tag)
        reference = next(
            (
                getattr(message, name)
                for name in ("id", "number", "request")
                if hasattr(message, name)
            ),
            0,
        )
        if isinstance(message, Publish):
            reference = message.number * 2 + message.durable  # as in the notification's id
        self._send(sender, Refused(what, reference, type(error).__name__, str(error)))

    # Deliveries.

    def _route(
        self,
        envelope: Envelope,
        notification: Notification,
        source: Neighbour | None,
        publisher: Attached | None = None,
    ) -> None:
        """Deliver here and pass on."""
        is_new = True
        if self.routing == "general":
            known = self._known_view(envelope)
            if known == self._tree.view:
                return
            is_new = known is None
        path = None if envelope.path is None else (*envelope.path, self.name)
        envelope = replace(envelope, hops=envelope.hops + 1, path=path)
        wanted = self.table.match(notification)
        kept = _Kept(self._store, envelope)
        if is_new:
            for name, ids in wanted.clients.items():
                self._deliver(self._clients[name], tuple(ids), kept, publisher)
        came_from = None if source is None else source.name
        if self._rehoming is not None:
            self._rehoming.saw(envelope)
        for neighbour in self._tree_neighbours():
            if self._rehoming is not None and not self._rehoming.lets_pass(
                came_from, neighbour.name
            ):
                continue
            if neighbour is not source and self._takes(neighbour, wanted.neighbours, envelope):
                self._pass_on(neighbour, kept)

    def _known_view(self, envelope: Envelope) -> str | None:
        """In which view this notification was handled before; from now on, in the present one."""
        id = envelope.id
        known = self._seen.pop(id, None)
        self._seen[id] = self._tree.view
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        if envelope.durable:
            mark = ENCODER.encode(id)
            if known is None and self._store.has_seen(mark):
                known = ""
            if known is None:
                self._store.saw(mark, SEEN_MAX)
        return known

    def _takes(self, neighbour: Neighbour, wanted: set[str], envelope: Envelope) -> bool:
        return (
            neighbour.role == "master"
            or neighbour.name in wanted
            or envelope.everywhere
            or not self._is_trusted(neighbour)
        )

    def _is_trusted(self, neighbour: Neighbour) -> bool:
        """Whether a neighbour wants nothing but what it announced."""
        return neighbour.is_complete and neighbour.ontology == self._ontology_digest

    def _deliver(
        self, attached: Attached, ids: tuple[int, ...], kept: _Kept, publisher: Attached | None
    ) -> None:
        self.counts["matched"] += 1
        if attached.owed is not None:
            attached.owed.push(kept.key(), ENCODER.encode(ids), kept.body())
        else:
            attached.enqueue(ids, kept.envelope, self.limits)
            if publisher is not None and attached.is_full(self.limits):
                publisher.waits_for.add(attached.peer.name)
        self._to_pump[attached.peer.name] = attached

    def _pass_on(self, neighbour: Neighbour, kept: _Kept) -> None:
        self.counts["forwarded"] += 1
        if kept.envelope.durable:
            neighbour.owed.push(kept.key(), b"", kept.body())
            self._carry(neighbour)
        else:
            neighbour.enqueue(kept.envelope)
            self._fire(neighbour)

    def _carry(self, neighbour: Neighbour) -> None:
        """Send what a neighbour is owed, so far ahead of what it took."""
        if self._is_put_aside(neighbour):
            return
        while neighbour.channel is not None and neighbour.owed.in_flight < CARRIED_AHEAD_MAX:
            owed = neighbour.owed.next()
            if owed is None:
                break
            self._send_body(neighbour.name, Carry(owed.row, ENVELOPES.decode(owed.envelope)))
        self._follow(neighbour)

    def _is_put_aside(self, neighbour: Neighbour) -> bool:
        return self._rehoming is not None and neighbour.name == self._rehoming.new

    def _fire(self, neighbour: Neighbour) -> None:
        if self._is_put_aside(neighbour):
            return
        for fire in neighbour.fires():
            self._send(neighbour.peer, fire)
        self._follow(neighbour)

    def _follow(self, neighbour: Neighbour) -> None:
        for body in neighbour.no_longer_behind():
            self._send_body(neighbour.name, body)

    def _send_wave(self, name: str, body: Wave | Echo) -> None:
        """Send a wave or an echo, but not ahead of notifications that wait."""
        neighbour = self._neighbours.get(name)
        if neighbour is not None and neighbour.channel is not None:
            neighbour.put_behind(body)
            self._follow(neighbour)

    def _pump(self, attached: Attached) -> None:
        """Send a client what it is owed, as far as its credit goes."""
        for delivery in attached.deliveries():
            self.counts["delivered"] += 1
            self._send(attached.peer, delivery)
        if attached.when_slow == "block" and attached.has_room(self.limits):
            self._release_publishers(attached.peer.name)
        if attached.is_drained and attached.is_empty and attached.leaving is not None:
            self._send(attached.peer, Left(attached.leaving))
            self._forget(attached)

    def _release_publishers(self, slow: str) -> None:
        for publisher in self._clients.values():
            if slow in publisher.waits_for:
                publisher.waits_for.discard(slow)
                self._grant(publisher)

    # Neighbours.

    def _from_neighbour(self, message: BetweenBrokers, name: str) -> None:
        neighbour = self._neighbours.get(name)
        if neighbour is None:
            if not isinstance(message, Greet):
                return
            neighbour = self._stranger(message, name)
            if neighbour is None:
                return
        neighbour.heard_at = self._now
        match message:
            case Frame():
                self._framed(message, neighbour)
            case Fire():
                self._fired(message, neighbour)
            case Heard():
                self._heard(message, neighbour)
            case Greet():
                self._greeted(message, neighbour)
            case Bye():
                self._remove_neighbour(name)
            case _:
                assert_never(message)

    def _stranger(self, greet: Greet, name: str) -> Neighbour | None:
        """A broker nobody told us of greets: take it in, or tell it why not."""
        try:
            self._check_link(name, greet.role)
            if self._store.marked(f"abandoned/{name}") is not None:
                raise InvalidInputError("a move to you was not finished: link again")
            if self._guard.admit(name, greet.token) is None:
                raise InvalidInputError(f"broker {name!r} is not admitted: check its token")
        except KbnError as error:
            self._send(Peer("broker", name), Bye(self.name, str(error)))
            return None
        neighbour = self._add_neighbour(name, greet.role)
        neighbour.is_connected = True
        return neighbour

    def _check_link(self, name: str, role: Role) -> None:
        if name == self.name:
            raise InvalidInputError(f"broker {name!r} cannot be its own neighbour")
        if (self.routing == "hierarchical") == (role == "peer"):
            raise InvalidInputError(
                f"a {self.routing} broker has no {role}: both sides must use the same routing"
            )
        moves_to_it = self._rehoming is not None and name == self._rehoming.new
        if (
            role == "master"
            and not moves_to_it
            and any(n.role == "master" and n.name != name for n in self._neighbours.values())
        ):
            raise InvalidInputError("a broker has one master at most")

    def _add_neighbour(self, name: str, role: Role) -> Neighbour:
        known = self._neighbours.get(name)
        if known is not None:
            return known
        peer = Peer("broker", name)
        neighbour = Neighbour(peer, role, OwedQueue(self._store, peer, self._rows))
        neighbour.taken = neighbour.took = int(self._store.marked(f"taken/{name}") or 0)
        self._neighbours[name] = neighbour
        self._tell_of_others(neighbour)
        if self.routing == "general" and self._tree.set_link(name, False):
            self._new_view()
        self._tell_complete()
        return neighbour

    def _tell_of_others(self, neighbour: Neighbour) -> None:
        """Work out what a neighbour is to be told, from the beginning."""
        ontology = self.table.ontology
        if neighbour.role != "child":
            gate = self._gate(neighbour) if self._advertises else None
            neighbour.announcements = Announcements(ontology, "interest", gate)
            self.table.join(neighbour.name, neighbour.announcements)
        if self._advertises:
            neighbour.offers = Announcements(ontology, "advertisement")
            self.offers.join(neighbour.name, neighbour.offers)

    def _gate(self, neighbour: Neighbour) -> Callable[[Subscription], bool]:
        return lambda subscription: self._may_be_published(neighbour, subscription)

    def _remove_neighbour(self, name: str) -> None:
        neighbour = self._neighbours.pop(name, None)
        if neighbour is None:
            return
        self.table.leave(name)
        self.offers.leave(name)
        neighbour.channel = None
        self._forget_said(neighbour)
        owed = neighbour.owed.take_all()
        if self.routing == "general" and self._tree.remove_link(name):
            self._new_view()
            for body in owed:
                self._route_again(ENVELOPES.decode(body))
        self._waves.gone(name, self._wave_targets())
        self._tell_complete()

    def _may_be_published(self, neighbour: Neighbour, subscription: Subscription) -> bool:
        """Whether the neighbour's side may publish what the subscription wants."""
        if not neighbour.is_complete:
            return True
        return any(
            may_intersect(wanted, offered, self.table.ontology)
            for _, advertisement in neighbour.all_advertised()
            for offered in advertisement.filters
            for wanted in subscription.filters
        )

    def _tree_neighbours(self) -> list[Neighbour]:
        if self.routing != "general":
            return list(self._neighbours.values())
        return [n for n in self._neighbours.values() if n.name in self._tree.neighbours]

    def _greet(self, neighbour: Neighbour) -> None:
        self._send(
            neighbour.peer,
            Greet(
                self.name,
                self._link_run,
                neighbour.run,
                ROLE_SEEN_FROM_THERE[neighbour.role],
                self._ontology_digest,
                self._tree.view if self.routing == "general" else "",
                self._tree.states if self.routing == "general" else (),
                token=neighbour.token,
            ),
        )

    def _greeted(self, greet: Greet, neighbour: Neighbour) -> None:
        if greet.run < neighbour.run:
            return
        is_new_run = greet.run > neighbour.run
        if is_new_run:
            neighbour.run = greet.run
            neighbour.channel = None
        self._learn(greet, neighbour)
        if neighbour.ontology != greet.ontology:
            neighbour.ontology = greet.ontology
            self._tell_complete()
        is_heard = greet.heard == self._link_run
        if is_new_run or not is_heard:
            self._greet(neighbour)  # ahead of the session's frames: without it they are dropped
        view = self._tree.view if self.routing == "general" else ""
        if is_heard and greet.view == view and self._is_in_tree(neighbour):
            if neighbour.channel is None:
                self._begin_session(neighbour)
            elif not is_new_run:
                self._say_again(neighbour)

    def _is_in_tree(self, neighbour: Neighbour) -> bool:
        return self.routing != "general" or neighbour.name in self._tree.neighbours

    def _learn(self, greet: Greet, neighbour: Neighbour) -> None:
        """Take in what a neighbour knows of the network; tell the others when it is news."""
        if self.routing != "general":
            return
        changed = self._tree.set_link(neighbour.name, True)
        news, tree_changed = self._tree.learn(greet.states)
        if changed or tree_changed:
            self._new_view()
        elif news:
            for other in self._neighbours.values():
                if other is not neighbour and other.is_connected:
                    self._greet(other)

    def _say_link(self, name: str, is_up: bool) -> None:
        if self.routing == "general" and self._tree.set_link(name, is_up):
            self._new_view()

    def _new_view(self) -> None:
        """The tree is another: begin all sessions anew, and route again what is still owed."""
        self._link_run += 1
        owed: dict[NotificationId, Envelope] = {}
        for neighbour in self._neighbours.values():
            neighbour.channel = None
            for body in neighbour.owed.take_all():
                envelope = ENVELOPES.decode(body)
                owed[envelope.id] = envelope
            if not self._is_in_tree(neighbour):
                self._forget_said(neighbour)
                neighbour.fire_queue.clear()
            neighbour.is_complete = neighbour.told_complete = False
        self._waves.begin_anew(self._wave_targets())
        for envelope in owed.values():
            self._route_again(envelope)
        for neighbour in self._neighbours.values():
            if neighbour.is_connected:
                self._greet(neighbour)

    def _route_again(self, envelope: Envelope) -> None:
        self._known_view(envelope)
        kept = _Kept(self._store, envelope)
        for neighbour in self._tree_neighbours():
            self._pass_on(neighbour, kept)

    def _forget_said(self, neighbour: Neighbour) -> None:
        """Forget all a neighbour wanted and advertised."""
        neighbour.begin_session(self._link_run)
        neighbour.channel = None
        self._forget_stale(neighbour)

    def _forget_stale(self, neighbour: Neighbour) -> None:
        stale, neighbour.stale_wants = neighbour.stale_wants, []
        for key in stale:
            self._tell_interest(self.table.remove(key))
        offered, neighbour.stale_advertises = neighbour.stale_advertises, []
        for key, _ in offered:
            self._tell_offer(self.offers.remove(key))

    def _begin_session(self, neighbour: Neighbour) -> None:
        neighbour.begin_session(self._link_run)
        if self._advertises:
            self.table.reconsider(neighbour.name)
        for announcements in (neighbour.announcements, neighbour.offers):
            if announcements is not None and announcements.filters:
                self._send_body(neighbour.name, announcements.everything())
        self._tell_complete()
        self._carry(neighbour)
        self._fire(neighbour)
        self._waves.started_again(neighbour.name)
        self._own_waves.started_again(neighbour.name)

    def _say_again(self, neighbour: Neighbour) -> None:
        """After a reconnection within a session: what was not heard may be lost."""
        if neighbour.channel is not None and self._retransmit_s is None:
            for frame in neighbour.channel.repeated(at_most=neighbour.channel.unheard):
                self._send(neighbour.peer, frame)

    def _framed(self, frame: Frame, neighbour: Neighbour) -> None:
        channel = neighbour.channel
        if channel is None or (frame.sender_run, frame.receiver_run) != (
            channel.receiver_run,
            channel.sender_run,
        ):
            return
        body = channel.receive(frame, self._now)
        if body is None:
            return
        match body:
            case Carry(row, envelope):
                if not self._holds_back(body, neighbour):
                    self._carried(row, envelope, neighbour)
            case Took(row):
                neighbour.owed.settle(row)
                self._carry(neighbour)
            case Announce():
                self._announced(body, neighbour)
            case Complete(is_complete):
                self._completed(is_complete, neighbour)
            case Wave():
                self._waved(body, neighbour)
            case Echo(origin, _, number):
                is_own = origin == self.name and number >= FIRST_WAVE
                waves = self._own_waves if is_own else self._waves
                waves.echoed(body, neighbour.name, [] if is_own else self._wave_targets())
            case _:
                assert_never(body)

    def _holds_back(self, message: Carry | Fire, neighbour: Neighbour) -> bool:
        """Whether it must wait until a move of ours is over."""
        if self._rehoming is None or neighbour.name != self._rehoming.new:
            return False
        self._rehoming.held.append(message)
        return True

    def _joined(self) -> None:
        """The whole network knows what we want from the new side: drain the old one."""
        move = self._rehoming
        assert move is not None
        if not move.came_round:
            self._rehoming = None
            self.table.apart = self.offers.apart = frozenset()
            self._store.unmark(f"abandoned/{move.new}")
            self._remove_neighbour(move.new)
            self._send(Peer("broker", move.new), Bye(self.name, "not moving here after all"))
            move.done(
                f"{move.new!r} hangs below {self.name!r}, or is not connected to {move.old!r}"
            )
            return
        move.phase = "draining"
        self._own_waves.begin(self._rehomed, [move.old])

    def _rehomed(self) -> None:
        """The old side is drained: leave it, and go on at the new one."""
        move, self._rehoming = self._rehoming, None
        assert move is not None
        self.table.apart = self.offers.apart = frozenset()
        self._store.unmark(f"abandoned/{move.new}")
        self._send(Peer("broker", move.old), Bye(self.name, "moved"))
        self._remove_neighbour(move.old)
        new = self._neighbours[move.new]
        for message in move.held:
            known = move.is_past(message.envelope)
            if isinstance(message, Carry):
                self._carried(message.row, message.envelope, new, known=known)
            elif not known:
                self._arrived(message.envelope, new)
        self._tell_complete()
        self._carry(new)
        self._fire(new)
        move.done(None)

    def _carried(
        self, row: int, envelope: Envelope, neighbour: Neighbour, *, known: bool = False
    ) -> None:
        if row <= neighbour.taken:
            neighbour.took = 0  # say again that it was taken
            return
        neighbour.taken = row
        self._store.mark(f"taken/{neighbour.name}", str(row).encode())
        if not known:
            self._arrived(envelope, neighbour)

    def _fired(self, fire: Fire, neighbour: Neighbour) -> None:
        channel = neighbour.channel
        if channel is None or (fire.sender_run, fire.receiver_run) != (
            channel.receiver_run,
            channel.sender_run,
        ):
            return
        if fire.number > neighbour.last_fired:
            neighbour.last_fired = fire.number
            if not self._holds_back(fire, neighbour):
                self._arrived(fire.envelope, neighbour)

    def _arrived(self, envelope: Envelope, neighbour: Neighbour) -> None:
        self.counts["received"] += 1
        try:
            notification = content.decode(envelope.content)
        except KbnError:
            self.counts["dropped"] += 1  # its first broker has checked it: this is not one of us
            return
        self._route(envelope, notification, neighbour)

    def _heard(self, heard: Heard, neighbour: Neighbour) -> None:
        channel = neighbour.channel
        if channel is not None and heard.receiver_run == channel.sender_run:
            channel.hear(heard.number, self._now)
            neighbour.fired_heard = max(neighbour.fired_heard, heard.fired)
            self._fire(neighbour)

    def _announced(self, announce: Announce, neighbour: Neighbour) -> None:
        for number, text in announce.add:
            self._next_key += 1
            key = (neighbour.peer, self._next_key)
            try:
                subscription = self._parsed(text, is_text=False)
                if announce.what == "interest":
                    self._tell_interest(self.table.add(key, subscription))
                    neighbour.wants[number] = key
                else:
                    self._tell_offer(self.offers.add(key, subscription))
                    neighbour.advertises[number] = (key, subscription)
            except KbnError:
                # Its ontology has a term that ours has not. While they differ it is sent
                # everything anyway, and when they agree again it announces anew.
                neighbour.unread.add(number)
        for number in announce.drop:
            neighbour.unread.discard(number)
            if announce.what == "interest":
                if (dropped := neighbour.wants.pop(number, None)) is not None:
                    self._tell_interest(self.table.remove(dropped))
            elif (offered := neighbour.advertises.pop(number, None)) is not None:
                self._tell_offer(self.offers.remove(offered[0]))
        if announce.what == "advertisement":
            self._reconsider(neighbour)

    def _reconsider(self, neighbour: Neighbour) -> None:
        for announce in self.table.reconsider(neighbour.name):
            self._send_body(neighbour.name, announce)

    def _completed(self, is_complete: bool, neighbour: Neighbour) -> None:
        neighbour.is_complete = is_complete
        if is_complete:
            self._forget_stale(neighbour)
        self._tell_complete()
        if self._advertises:
            self._reconsider(neighbour)

    def _tell_complete(self) -> None:
        """Tell each neighbour whether it has been told everything, where that has changed."""
        neighbours = self._tree_neighbours()
        unsure = [n.name for n in neighbours if not self._is_trusted(n) and self._tells_us(n)]
        apart = frozenset() if self._rehoming is None else self._rehoming.both
        for neighbour in neighbours:
            other = apart if neighbour.name in apart else {neighbour.name}
            is_complete = all(name in other for name in unsure)
            if neighbour.channel is not None and neighbour.told_complete != is_complete:
                neighbour.told_complete = is_complete
                self._send_body(neighbour.name, Complete(is_complete))

    def _tells_us(self, neighbour: Neighbour) -> bool:
        return neighbour.role != "master" or self._advertises

    def _tell_interest(self, told: list[Told]) -> None:
        for name, announce in told:
            self._send_body(name, announce)

    _tell_offer = _tell_interest

    def _wave(self, request: Callable[[], None]) -> None:
        self._waves.begin(request, self._wave_targets())

    def _waved(self, wave: Wave, neighbour: Neighbour) -> None:
        targets = self._wave_targets()
        if self._rehoming is not None:
            if wave.origin == self.name and neighbour.name == self._rehoming.old:
                self._rehoming.came_round = True
            if wave.origin == self.name:  # not behind what is put aside: that waits for this wave
                self._send_body(neighbour.name, Echo(wave.origin, wave.run, wave.number))
                return
            if neighbour.name in self._rehoming.both:
                targets = [name for name in targets if name not in self._rehoming.both]
        self._waves.pass_on(wave, neighbour.name, targets)

    def _wave_targets(self) -> list[str]:
        return [neighbour.name for neighbour in self._tree_neighbours()]

    # By the clock.

    def _beat(self) -> None:
        for neighbour in list(self._neighbours.values()):
            if neighbour.is_connected and self._now - neighbour.heard_at > self._dead_after_s:
                self._say_link(neighbour.name, is_up=False)
        for neighbour in self._neighbours.values():
            if neighbour.is_connected:
                self._greet(neighbour)
                self._unstick(neighbour)
        if self._retransmit_s is not None:
            silent = self._now - self._dead_after_s
            for attached in list(self._clients.values()):
                if attached.is_connected and attached.heard_at < silent:
                    self._detach(attached)

    def _unstick(self, neighbour: Neighbour) -> None:
        """When all that was fired is lost nobody says how far it is: go on after a while."""
        if neighbour.channel is not None:
            neighbour.channel.owes_answer = True
        if self._retransmit_s is not None and neighbour.fire_queue:
            neighbour.fired_heard = neighbour.fired
            self._fire(neighbour)

    def _repeat(self, neighbour: Neighbour, after_s: float) -> None:
        if neighbour.channel is not None:
            for frame in neighbour.channel.overdue(self._now, after_s):
                self._send(neighbour.peer, frame)

    def _deliver_again(self, attached: Attached, after_s: float) -> None:
        unheard = attached.owed is not None and attached.owed.in_flight
        is_stuck = unheard or attached.sent >= attached.credit
        if attached.is_connected and is_stuck and self._now - attached.progress_at >= after_s:
            attached.start_again(self._now)
            self._to_pump[attached.peer.name] = attached

    # Beginnings and ends.

    def _begin_run(self, now: float) -> int:
        run = max(int(now), int(self._store.marked("run") or 0) + 1)
        self._store.mark("run", str(run).encode())
        return run

    def _restore(self) -> None:
        """Attach the durable clients that the store has kept."""
        for kept in self._store.clients():
            peer = Peer("client", kept.name)
            permission = self._guard.admit(kept.name, "") or _UNTIL_IT_COMES
            attached = Attached(
                peer, 0, permission, kept.window, kept.when_slow,  # type: ignore[arg-type]
                OwedQueue(self._store, peer, self._rows), is_connected=False,
            )  # fmt: skip
            redirect = self._store.marked(f"redirect/{kept.name}")
            attached.redirect = (
                None if redirect is None else msgpack.decode(redirect, type=tuple[str, str])
            )
            self._clients[kept.name] = attached
            for id, text in kept.subscriptions.items():
                self._restore_subscription(attached, id, text)

    def _restore_subscription(self, attached: Attached, id: int, text: str) -> None:
        subscription = self._parsed(text, is_text=False)
        attached.subscriptions[id] = subscription
        self.table.add((attached.peer, id), subscription)

    def _parsed(self, text: str, is_text: bool) -> Subscription:
        known = self._read.get((text, is_text))
        if known is None:
            if len(self._read) >= READ_MAX:
                self._read.clear()
            known = self._read[text, is_text] = self._parse(text, is_text)
        return known

    def _parse(self, text: str, is_text: bool) -> Subscription:
        if is_text:
            ontology = self.table.ontology
            return Subscription.parse(text, None if ontology is None else ontology.prefixes)
        return Subscription.from_json(text)

    def _client_status(self, attached: Attached) -> dict[str, Any]:
        owed = attached.owed
        return {
            "client": attached.peer.name,
            "connected": attached.is_connected,
            "durable": owed is not None,
            "subscriptions": len(attached.subscriptions),
            "queued": len(attached.queue) if owed is None else len(owed),
            "dropped": attached.dropped,
            "published": attached.published,
        }

    def _link_status(self, neighbour: Neighbour) -> dict[str, Any]:
        told = neighbour.announcements
        return {
            "broker": neighbour.name,
            "role": neighbour.role,
            "connected": neighbour.is_connected,
            "in_session": neighbour.channel is not None,
            "complete": self._is_trusted(neighbour),
            "in_tree": self._is_in_tree(neighbour),
            "wants": len(neighbour.wants),
            "told": 0 if told is None else len(told.filters),
            "owed": len(neighbour.owed),
            "queued": len(neighbour.fire_queue),
            "dropped": neighbour.fire_dropped,
        }

    def _send(self, to: Peer, message: AnyMessage) -> None:
        self._out.append(Send(to, message))

    def _send_body(self, name: str, body: Body) -> None:
        neighbour = self._neighbours.get(name)
        if neighbour is not None and neighbour.channel is not None:
            self._send(neighbour.peer, neighbour.channel.send(body, self._now))

    def _finish(self) -> list[Send]:
        """Gather what is to be sent: deliveries and answers last."""
        to_pump, self._to_pump = self._to_pump, {}
        for attached in to_pump.values():
            self._pump(attached)
        for neighbour in self._neighbours.values():
            self._answer_neighbour(neighbour)
        out, self._out = self._out, []
        return out

    def _answer_neighbour(self, neighbour: Neighbour) -> None:
        channel = neighbour.channel
        if channel is None:
            return
        if neighbour.took < neighbour.taken:
            neighbour.took = neighbour.taken
            self._send_body(neighbour.name, Took(neighbour.taken))
        fired_much = neighbour.last_fired - neighbour.answered_fired >= FIRED_AHEAD_MAX // 8
        if channel.owes_answer or fired_much:
            neighbour.answered_fired = neighbour.last_fired
            self._send(neighbour.peer, channel.answer(neighbour.last_fired))


# A kept client may do nothing until it comes and shows its token; what it wanted stays.
_UNTIL_IT_COMES = Permission(frozenset(), frozenset(), manage=False)


class _Kept:
    """A notification being routed: encoded and stored when the first asks for it, then shared."""

    __slots__ = ("_body", "_key", "_store", "envelope")

    def __init__(self, store: Store, envelope: Envelope) -> None:
        self.envelope = envelope
        self._store = store
        self._body: bytes | None = None
        self._key: int | None = None

    def body(self) -> bytes:
        if self._body is None:
            self._body = ENCODER.encode(self.envelope)
        return self._body

    def key(self) -> int:
        if self._key is None:
            self._key = self._store.keep(self.body())
        return self._key
