"""Sessions with clients: who is attached, and what each wants.

What flows in a session is elsewhere: to the client in `client_traffic.py`, from it in
`publisher_flow.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from msgspec import msgpack

from kbn.broker.access import Permission
from kbn.broker.broker_status import ClientStatus
from kbn.broker.client_session import ClientSession
from kbn.broker.client_traffic import LOST, WITHDRAWN, ClientTraffic
from kbn.broker.deliveries import Deliveries
from kbn.broker.fields import Sequence
from kbn.broker.hop_reports import HopReports
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import Connect, Left, NewOntology, Peer, Redirect
from kbn.broker.outbox import Outbox
from kbn.broker.owners import Owners
from kbn.broker.publisher_flow import PublisherFlow
from kbn.broker.set_aside import Aside
from kbn.broker.store import KeptClient, Store
from kbn.broker.unacked import UnackedQueue
from kbn.broker.work import CHARACTERS_READ, KEPT
from kbn.errors import InvalidInputError
from kbn.filters import Subscription

# Marks of the store, each before the name of a durable client.
REDIRECT = "redirect/"
FORMER = "former/"

_NUMBER = msgpack.Decoder(Sequence)
_WITHDRAWN = msgpack.Decoder(dict[int, int])
_FORMER = msgpack.Decoder(frozenset[int])
_REDIRECT: msgpack.Decoder[tuple[str, str] | None] = msgpack.Decoder(tuple[str, str])

LEFT_MAX = 1_000
"""Of so many clients that left it is known how much they have lost, in case they ask again."""

# A kept client may do nothing until it comes and shows its token; what it wanted stays.
_UNTIL_IT_COMES = Permission(frozenset(), frozenset(), manage=False, block=False)


class ClientSessions:
    """The clients of one broker."""

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
        self.flow = PublisherFlow(self.by_name, store, aside, outbox)
        self.traffic = ClientTraffic(self.by_name, store, outbox, self.flow)
        self.hops = HopReports(self.by_name, outbox)
        self.owners = Owners(store)
        self.when_forgotten: Callable[[str], None] = lambda name: None
        self._limits = limits
        self._store = store
        self._outbox = outbox
        self._unacked_of = unacked_of
        self._aside = aside
        self._left_with: dict[str, int] = {}

    # Coming and going.

    def connect(self, connect: Connect, peer: Peer, permission: Permission) -> ClientSession:
        """Begin a connection, with the session the client had or a new one."""
        session = self.by_name.get(peer.name)
        if session is None:
            self._left_with.pop(peer.name, None)
            deliveries = self._deliveries(peer, connect)
            session = ClientSession(peer, connect.epoch, permission, deliveries, self._limits)
            self.by_name[peer.name] = session
            self.durable_count += session.is_durable
        session.connect(connect, permission, self._limits.changed(permission.limits))
        self.flow.resume(session, connect.published)
        session.heard_at = self._outbox.now
        if session.is_durable:
            deliveries = session.deliveries
            self._store.keep_client(peer.name, deliveries.window, deliveries.when_slow)
            self.owners.keep(connect, permission)
        self.traffic.make_ready(session)
        return session

    def _deliveries(self, peer: Peer, how: Connect | KeptClient) -> Deliveries:
        """The delivery queue of a client without a session; for a durable one, as stored."""
        if isinstance(how, Connect) and not how.durable:
            return Deliveries(None, how.window, how.when_slow)
        deliveries = Deliveries(self._unacked_of(peer), how.window, "drop")
        deliveries.dropped = self._aside.read_mark(LOST + peer.name, _NUMBER, 0)
        return deliveries

    def restore(self, kept: KeptClient, permission: Permission | None) -> ClientSession:
        """The session of a durable client that the store has kept; its subscriptions come next."""
        peer = Peer("client", kept.name)
        deliveries = self._deliveries(peer, kept)
        permission = permission or _UNTIL_IT_COMES
        limits = self._limits.changed(permission.limits)
        session = ClientSession(peer, 0, permission, deliveries, limits, is_connected=False)
        session.redirect = self._aside.read_mark(REDIRECT + kept.name, _REDIRECT, None)
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
            self._store.unmark(REDIRECT + session.name)
            self._store.unmark(FORMER + session.name)
            self.owners.forget(session.name)
        self.when_forgotten(session.name)
        del self.by_name[session.name]
        self.durable_count -= session.is_durable
        self.traffic.forget(session)
        self.flow.release(session)

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
                self._store.mark(REDIRECT + name, msgpack.encode(session.redirect))
            if session.is_connected:
                self._outbox.send(session.peer, Redirect(broker, url))

    def tell_ontology(self, digest: str) -> None:
        """Tell everybody that the broker reasons with another ontology."""
        for session in self.by_name.values():
            self._outbox.send(session.peer, NewOntology(digest))

    # What they want.

    def add_subscription(self, session: ClientSession, id: int, subscription: Subscription) -> None:
        """Keep a subscription that the routing table has taken."""
        if not session.subscriptions:
            self.hops.subscribed(session)
        session.subscriptions[id] = subscription
        if session.former.pop(id, None) is not None:
            self._mark_former(session)
        if session.is_durable:
            text = json.dumps(subscription.to_json(), separators=(",", ":"))
            self._outbox.work.done += KEPT + len(text) // CHARACTERS_READ
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

    def stop_blocking(self, session: ClientSession) -> None:
        """A client may not stop publishers any more: what is too much for it is dropped."""
        session.deliveries.when_slow = "drop"
        self.flow.release(session)
        if session.is_durable:
            self._store.keep_client(session.name, session.deliveries.window, "drop")

    def say_left(self, session: ClientSession) -> None:
        """Answer a client that asked to be forgotten."""
        assert session.leaving is not None
        dropped = session.deliveries.dropped
        self._outbox.send(session.peer, Left(session.leaving, dropped))
        if dropped:
            self._left_with[session.name] = dropped
            if len(self._left_with) > LEFT_MAX:
                del self._left_with[next(iter(self._left_with))]

    def left_with(self, name: str) -> int:
        """How many deliveries were dropped of a client that has left and has not heard it."""
        return self._left_with.get(name, 0)

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
