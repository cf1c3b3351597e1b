"""Sessions with clients: who is attached, what each is sent, and how much each may publish."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable

from msgspec import msgpack

from kbn.broker.access import Permission
from kbn.broker.broker_status import ClientStatus
from kbn.broker.client_session import ClientSession
from kbn.broker.deliveries import Deliveries
from kbn.broker.fields import Sequence
from kbn.broker.kept import Kept
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    Connect,
    Grant,
    Hops,
    Left,
    NewOntology,
    Peer,
    PubAck,
    Publish,
    Redirect,
    Refused,
    ReportHops,
)
from kbn.broker.occurrences import Lost, StoppedWaiting
from kbn.broker.outbox import Outbox
from kbn.broker.owners import Owners
from kbn.broker.publisher_marks import PublisherMarks
from kbn.broker.set_aside import Aside
from kbn.broker.store import INTEGER_MAX, KeptClient, Store
from kbn.broker.unacked import UnackedQueue
from kbn.broker.work import BYTES_SENT, IDS_QUEUED, QUEUED, SENT, STORED, WRITTEN
from kbn.errors import InvalidInputError, LimitError
from kbn.filters import Subscription

SENT_AT_ONCE = 128  # to one client, before others have their turn

# A report of hops has at most this many hop counts, and this many publishers.
HOPS_REPORTED_MAX = 1024
WITHDRAWN = "withdrawn/"
FORMER = "former/"

_NUMBER = msgpack.Decoder(Sequence)
_WITHDRAWN = msgpack.Decoder(dict[int, int])
_FORMER = msgpack.Decoder(frozenset[int])
_REDIRECT: msgpack.Decoder[tuple[str, str] | None] = msgpack.Decoder(tuple[str, str])

# A kept client may do nothing until it comes and shows its token; what it wanted stays.
_UNTIL_IT_COMES = Permission(frozenset(), frozenset(), manage=False, block=False)


class ClientSessions:
    """The clients of one broker. `hops_every_s`: how often subscribers report their hops."""

    def __init__(
        self,
        limits: ClientLimits,
        store: Store,
        outbox: Outbox,
        unacked_of: Callable[[Peer], UnackedQueue],
        aside: Aside,
    ) -> None:
        self.by_name: dict[str, ClientSession] = {}
        self.durable_count = 0  # of them, here or away
        self.hops_every_s = 0.0
        self.matched = 0
        self.delivered = 0
        self.lost = 0
        self._ready: dict[str, ClientSession] = {}  # who may have something to be sent
        self._limits = limits
        self._store = store
        self._outbox = outbox
        self._unacked_of = unacked_of
        self._aside = aside
        self._publishers = PublisherMarks(store, aside, outbox.now)
        self._waited_for: dict[str, ClientSession] = {}  # those that publishers wait for
        self.owners = Owners(store)
        self.when_forgotten: Callable[[str], None] = lambda name: None
        self.look_at: Callable[[ClientSession], None] = lambda session: None

    # Coming and going.

    def connect(self, connect: Connect, peer: Peer, permission: Permission) -> ClientSession:
        """Begin a connection, with the session the client had or a new one."""
        session = self.by_name.get(peer.name)
        if session is None:
            deliveries = self._deliveries(peer, connect)
            session = ClientSession(peer, connect.epoch, permission, deliveries, self._limits)
            self.by_name[peer.name] = session
            self.durable_count += session.is_durable
        session.connect(connect, permission, self._limits.changed(permission.limits))
        stored = self._publishers.of(peer.name, connect.epoch)
        session.publications.resume(stored, connect.published)
        session.heard_at = self._outbox.now
        if session.is_durable:
            deliveries = session.deliveries
            self._store.keep_client(peer.name, deliveries.window, deliveries.when_slow)
            self.owners.keep(connect, permission)
        self._ready[peer.name] = session
        return session

    def _deliveries(self, peer: Peer, how: Connect | KeptClient) -> Deliveries:
        """The delivery queue of a client without a session; for a durable one, as stored."""
        if isinstance(how, Connect) and not how.durable:
            return Deliveries(None, how.window, how.when_slow)
        deliveries = Deliveries(self._unacked_of(peer), how.window, "drop")
        deliveries.dropped = self._aside.read_mark(f"lost/{peer.name}", _NUMBER, 0)
        return deliveries

    def restore(self, kept: KeptClient, permission: Permission | None) -> ClientSession:
        """The session of a durable client that the store has kept; its subscriptions come next."""
        peer = Peer("client", kept.name)
        deliveries = self._deliveries(peer, kept)
        permission = permission or _UNTIL_IT_COMES
        limits = self._limits.changed(permission.limits)
        session = ClientSession(peer, 0, permission, deliveries, limits, is_connected=False)
        session.redirect = self._aside.read_mark(f"redirect/{kept.name}", _REDIRECT, None)
        withdrawn = self._aside.read_mark(WITHDRAWN + kept.name, _WITHDRAWN, {})
        deliveries.restore_withdrawn(withdrawn)
        self.by_name[kept.name] = session
        self.durable_count += 1
        return session

    def set_aside(self, name: str, id: int, text: str, error: Exception) -> None:
        """A kept subscription cannot be read. The client says it again when it comes."""
        self._store.forget_subscription(name, id)
        self._aside.put(f"subscription/{name}/{id}", text.encode(), error)

    def forget(self, session: ClientSession) -> None:
        """The client is no longer ours; its subscriptions are withdrawn by now."""
        if self.by_name.get(session.name) is not session:
            return  # it has left before, and has perhaps come again
        if session.is_durable:
            self._store.forget_client(session.name)
            self._store.unmark(f"redirect/{session.name}")
            self._store.unmark(f"lost/{session.name}")
            self._store.unmark(WITHDRAWN + session.name)
            self._store.unmark(FORMER + session.name)
            self.owners.forget(session.name)
        self.when_forgotten(session.name)
        del self.by_name[session.name]
        self.durable_count -= session.is_durable
        self._ready.pop(session.name, None)
        self.release_publishers(session)

    def silent(self, since: float) -> list[ClientSession]:
        """Who is connected and was not heard since then."""
        sessions = self.by_name.values()
        return [each for each in sessions if each.is_connected and each.heard_at < since]

    def redirect(self, names: Iterable[str], broker: str, url: str) -> None:
        """Send clients to another broker."""
        for name in names:
            session = self.by_name[name]
            session.redirect = (broker, url)
            if session.is_durable:
                self._store.mark(f"redirect/{name}", msgpack.encode(session.redirect))
            if session.is_connected:
                self._outbox.send(session.peer, Redirect(broker, url))

    def tell_ontology(self, digest: str) -> None:
        """Tell everybody that the broker reasons with another ontology."""
        for session in self.by_name.values():
            self._outbox.send(session.peer, NewOntology(digest))

    # What they want.

    def add_subscription(self, session: ClientSession, id: int, subscription: Subscription) -> None:
        """Keep a subscription that the routing table has taken."""
        if not session.subscriptions and self.hops_every_s:
            self._outbox.send(session.peer, ReportHops(self.hops_every_s))
        session.subscriptions[id] = subscription
        if session.former.pop(id, None) is not None:
            self._mark_former(session)
        if session.is_durable:
            text = json.dumps(subscription.to_json(), separators=(",", ":"))
            self._store.keep_subscription(session.name, id, text)

    def remove_subscription(self, session: ClientSession, id: int) -> bool:
        """Forget a subscription; whether there was one."""
        session.count_text(id, 0)
        if session.subscriptions.pop(id, None) is None:
            return False
        if session.is_durable:
            self._store.forget_subscription(session.name, id)
        return True

    def make_former(self, session: ClientSession) -> None:
        """Stop matching for this client's subscriptions, also after a restart.

        The store keeps them until the client has left, because queued deliveries refer to them.
        """
        session.former |= session.subscriptions
        session.subscriptions = {}
        self._mark_former(session)

    def former_of(self, name: str) -> frozenset[int]:
        """Of the subscriptions kept for a client, those for which nothing more is to come."""
        return self._aside.read_mark(FORMER + name, _FORMER, frozenset())

    def _mark_former(self, session: ClientSession) -> None:
        if session.is_durable:
            self._store.mark(FORMER + session.name, msgpack.encode(sorted(session.former)))

    def allow(self, session: ClientSession, permission: Permission) -> None:
        """From now on a client may do this, and use so much."""
        session.allow(permission, self._limits.changed(permission.limits))

    def hold_up(self, session: ClientSession) -> None:
        """Deliver nothing to a client until it is known what it may have: `withdraw`."""
        session.deliveries.held_up += 1

    def withdraw(self, session: ClientSession, ids: Collection[int], *, is_over: bool) -> None:
        """A client may have these subscriptions no more: drop what waits for them.

        Until that `is_over` more may come for them, also after a restart.
        """
        if self.by_name.get(session.name) is not session:
            return  # it has left meanwhile
        deliveries = session.deliveries
        if ids:
            deliveries.withdraw(ids, is_over=is_over)
        if ids and session.is_durable:
            self._store.mark(WITHDRAWN + session.name, msgpack.encode(deliveries.withdrawn))
        if is_over:
            deliveries.held_up -= 1
            self._ready[session.name] = session

    def stop_blocking(self, session: ClientSession) -> None:
        """A client may not stop publishers any more: what is too much for it is dropped."""
        session.deliveries.when_slow = "drop"
        self.release_publishers(session)
        if session.is_durable:
            self._store.keep_client(session.name, session.deliveries.window, "drop")

    # What they publish.

    def accept(self, publish: Publish, session: ClientSession) -> bool:
        """Whether to handle a publication: it is the next, and the client was granted it.

        Its number is used up then. LimitError when it was not granted, and nobody stopped it.
        """
        publications = session.publications
        if not publications.is_next(publish):
            if publish.durable and publish.number <= publications.stored:
                self._outbox.send(session.peer, self.stored_up_to(session))
            return False
        if publications.published >= publications.granted:
            if publications.waits_for:
                return False
            raise LimitError(
                f"more than {session.limits.publish_ahead} notifications ahead of what was granted",
                limit="notifications published ahead",
                maximum=session.limits.publish_ahead,
            )
        publications.count(publish)
        return True

    def stored_up_to(self, session: ClientSession) -> PubAck:
        """What a publisher is told of its durable notifications."""
        return PubAck(session.publications.stored, session.publications.refused)

    def handled(self, publish: Publish, session: ClientSession, *, is_refused: bool) -> None:
        """A durable publication is about to be stored, or is refused."""
        publications = session.publications
        if is_refused:
            publications.refuse(publish, session.limits.publish_ahead)
        self._publishers.keep(
            session.name, session.epoch, publish.number, publications.refused, self._outbox.now
        )
        self._outbox.send(session.peer, self.stored_up_to(session))

    def forget_publishers(self) -> None:
        """Forget how far publishers are that are silent too long."""
        self._publishers.tick(self._outbox.now)

    def grant(self, session: ClientSession) -> None:
        """Let a publisher go on before it has to wait, unless a slow subscriber stops it."""
        total = session.publications.grant(session.limits.publish_ahead)
        if total is not None:
            self._outbox.send(session.peer, Grant(total))

    def release_publishers(self, slow: ClientSession) -> None:
        """Those that a slow client had stopped need not wait for it any longer."""
        self._waited_for.pop(slow.name, None)
        for name in sorted(slow.deliveries.waiting.end()):
            publisher = self.by_name.get(name)
            if publisher is not None:
                publisher.publications.waits_for.discard(slow.name)
                self.grant(publisher)

    # What they are sent.

    def deliver(
        self, name: str, ids: Collection[int], kept: Kept, publisher: ClientSession | None
    ) -> None:
        """Queue a notification for the client whose subscriptions want it.

        A client that is full stops the publisher, if that is one of ours.
        """
        self.matched += 1
        self._outbox.work.done += QUEUED + len(ids) // IDS_QUEUED
        session = self.by_name[name]
        deliveries = session.deliveries
        if deliveries.unacked is not None:
            self._outbox.work.done += STORED
            deliveries.unacked.push(kept, tuple(ids))
            self._free(session, session.limits.unacked, session.limits.unacked_bytes)
        else:
            deliveries.push(tuple(ids), kept.envelope, session.limits)
        if deliveries.when_slow == "block" and publisher is not None:
            self._stop_when_full(publisher, session)
        self._ready[name] = session

    def _stop_when_full(self, publisher: ClientSession, slow: ClientSession) -> None:
        """Let a publisher wait for a slow client that is here and has too much before it."""
        if not slow.is_connected or not slow.deliveries.stops_publishers(slow.limits):
            return
        waiting = slow.deliveries.waiting
        publisher.publications.waits_for.add(slow.name)
        waiting.publishers.add(publisher.name)
        if waiting.since is None:
            waiting.since = self._outbox.now
            self._waited_for[slow.name] = slow

    def end_long_waits(self) -> None:
        """Publishers that have waited long enough for a slow client go on; it is told."""
        for session in list(self._waited_for.values()):
            since, limit = session.deliveries.waiting.since, session.limits.block_s
            if since is None or self._outbox.now - since < limit:
                continue
            self.release_publishers(session)
            session.deliveries.waiting.is_over = True
            reason = (
                f"publishers waited {limit:g} s for you: your oldest deliveries are dropped now"
            )
            refused = Refused("block", 0, LimitError.__name__, reason)
            self._outbox.send(session.peer, refused)
            self._outbox.note(StoppedWaiting(session.name, limit))

    def _free(self, session: ClientSession, count_max: int, bytes_max: int) -> None:
        """Drop the oldest deliveries of a durable client that is owed more than that."""
        deliveries = session.deliveries
        assert deliveries.unacked is not None
        lost = deliveries.unacked.free(count_max, bytes_max)
        if not lost:
            return
        before, deliveries.dropped = deliveries.dropped, deliveries.dropped + lost
        self.lost += lost
        self._store.mark(f"lost/{session.name}", msgpack.encode(deliveries.dropped))
        if before.bit_length() != deliveries.dropped.bit_length():  # told when it has doubled
            reason = f"more than {count_max} deliveries or {bytes_max} bytes"
            self._outbox.note(Lost(session.name, deliveries.dropped, reason))

    def free_most(self, excess_bytes: int) -> bool:
        """Make room in the store at the cost of who is owed most; whether there was anybody."""
        durable = [each for each in self.by_name.values() if each.is_durable]
        most = max(durable, key=lambda each: each.deliveries.unacked_bytes, default=None)
        if most is None or not most.deliveries.unacked_bytes:
            return False
        self._free(most, INTEGER_MAX, max(0, most.deliveries.unacked_bytes - excess_bytes))
        return True

    def acked(self, number: int, session: ClientSession) -> None:
        """A client has stored its durable deliveries up to this number."""
        session.deliveries.ack(number, self._outbox.now)
        self._ready[session.name] = session

    def credit(self, total: int, session: ClientSession) -> None:
        """A client may be sent so many, in all since it connected."""
        session.deliveries.credit = max(session.deliveries.credit, total)
        self._ready[session.name] = session

    def drained(self, session: ClientSession) -> None:
        """All that was on its way to a leaving client is here."""
        session.is_drained = True
        self._ready[session.name] = session

    def deliver_again(self, after_s: float) -> None:
        """Send again what clients have not acknowledged for so long."""
        now = self._outbox.now
        for session in self.by_name.values():
            if session.is_connected and session.deliveries.is_stuck(now, after_s):
                session.deliveries.start_again(now)
                self._ready[session.name] = session

    @property
    def has_ready(self) -> bool:
        """Whether somebody may have something to be sent."""
        return bool(self._ready)

    def send_ready(self) -> list[ClientSession]:
        """Send what waits, as far as credit and this turn go; the sessions of those that have left.

        Clients take turns: one with much to be sent gets some of it, and then the others theirs.
        """
        work, ready, left = self._outbox.work, self._ready, []
        while ready and not work.is_spent:
            for name in list(ready):
                session = ready.pop(name)
                self._send_deliveries(session)
                if session.leaving is not None and session.has_left:
                    left.append(session)
                if work.is_spent:
                    break
        return left

    def _send_deliveries(self, session: ClientSession) -> None:
        deliveries, work = session.deliveries, self._outbox.work
        if not session.is_looked_at:
            self.look_at(session)
        if session.is_connected:
            ready = deliveries.take_sendable(SENT_AT_ONCE)
            self.delivered += len(ready)
            size = sum(len(each.envelope.content) for each in ready)
            if ready:
                work.done += WRITTEN + SENT * len(ready) + size // BYTES_SENT
                self._outbox.send_all(session.peer, ready)
            if deliveries.is_cut_short:
                self._ready[session.name] = session
        if deliveries.when_slow == "block" and deliveries.has_room(session.limits):
            self.release_publishers(session)
            deliveries.waiting.is_over = False

    def say_left(self, session: ClientSession) -> None:
        """Answer a client that asked to be forgotten."""
        assert session.leaving is not None
        self._outbox.send(session.peer, Left(session.leaving))

    # Reports.

    def ask_for_hops(self, every_s: float, names: Iterable[str] | None) -> int:
        """Have subscribers (None: all, and those who come later) report their hops; how many."""
        if names is None:
            self.hops_every_s = every_s
        wanted = self.by_name.keys() if names is None else set(names)
        asked = [
            session
            for name, session in self.by_name.items()
            if session.is_connected and session.subscriptions and name in wanted
        ]
        for session in asked:
            self._outbox.send(session.peer, ReportHops(every_s))
        return len(asked)

    def told_hops(self, hops: Hops, session: ClientSession) -> None:
        """A client told how far its notifications came."""
        if max(len(hops.counts), len(hops.publishers)) > HOPS_REPORTED_MAX:
            raise LimitError(
                f"a report of hops has at most {HOPS_REPORTED_MAX} lines",
                limit="lines of a report",
                maximum=HOPS_REPORTED_MAX,
            )
        session.hops = hops

    def check_known(self, names: Iterable[str]) -> None:
        """Raise InvalidInputError for a name that no client has."""
        for name in names:
            if name not in self.by_name:
                raise InvalidInputError(f"no client here is called {name!r}")

    def subscribers(self) -> list[str]:
        """The clients that want something."""
        return [name for name, session in self.by_name.items() if session.subscriptions]

    @staticmethod
    def status(session: ClientSession) -> ClientStatus:
        """What a person wants to know of a client."""
        deliveries = session.deliveries
        unacked = deliveries.unacked
        return ClientStatus(
            session.name,
            session.is_connected,
            unacked is not None,
            len(session.subscriptions),
            len(deliveries.queue) if unacked is None else len(unacked),
            deliveries.dropped,
            session.publications.published,
            deliveries.queue.size if unacked is None else unacked.size,
        )
