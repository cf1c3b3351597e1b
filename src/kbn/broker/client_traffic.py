"""What flows from a broker to its clients: queued here, and sent as credit and sockets allow.

Deliveries to a durable client wait in the store until it acknowledges them. Whoever is owed more
than its limits loses the oldest; the store keeps how many, and the client is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import msgpack

from kbn.broker.client_session import ClientSession
from kbn.broker.kept import Kept
from kbn.broker.occurrences import Lost
from kbn.broker.outbox import Outbox
from kbn.broker.publisher_flow import PublisherFlow
from kbn.broker.store import INTEGER_MAX, Store
from kbn.broker.work import BYTES_SENT, IDS_QUEUED, QUEUED, SENT, STORED, WRITTEN

SENT_AT_ONCE = 128  # to one client, before others have their turn

# Marks of the store, each before the name of a durable client.
LOST = "lost/"
WITHDRAWN = "withdrawn/"


class ClientTraffic:
    """Queues for the clients of one broker, and sends to them.

    `look_at` is called before a client is sent anything after the access rules have changed.
    """

    def __init__(
        self,
        by_name: Mapping[str, ClientSession],
        store: Store,
        outbox: Outbox,
        flow: PublisherFlow,
    ) -> None:
        self.matched = 0
        self.delivered = 0
        self.lost = 0
        self.look_at: Callable[[ClientSession], None] = lambda session: None
        self._by_name = by_name
        self._store = store
        self._outbox = outbox
        self._flow = flow
        self._ready: dict[str, ClientSession] = {}  # who may have something to be sent

    # Queueing.

    def deliver(
        self, name: str, ids: Collection[int], kept: Kept, publisher: ClientSession | None
    ) -> None:
        """Queue a notification for the client whose subscriptions want it.

        A client that is full stops the publisher, if that is one of ours.
        """
        self.matched += 1
        self._outbox.work.done += QUEUED + len(ids) // IDS_QUEUED
        session = self._by_name[name]
        deliveries = session.deliveries
        if deliveries.unacked is not None:
            self._outbox.work.done += STORED
            deliveries.unacked.push(kept, tuple(ids))
            self._free(session, session.limits.unacked, session.limits.unacked_bytes)
        else:
            deliveries.push(tuple(ids), kept.envelope, session.limits)
        if deliveries.when_slow == "block" and publisher is not None:
            self._flow.stop_when_full(publisher, session)
        self._ready[name] = session

    def _free(self, session: ClientSession, count_max: int, bytes_max: int) -> None:
        """Drop the oldest deliveries of a durable client that is owed more than that."""
        deliveries = session.deliveries
        assert deliveries.unacked is not None
        lost = deliveries.unacked.free(count_max, bytes_max)
        if not lost:
            return
        before, deliveries.dropped = deliveries.dropped, deliveries.dropped + lost
        self.lost += lost
        self._store.mark(LOST + session.name, msgpack.encode(deliveries.dropped))
        if before.bit_length() != deliveries.dropped.bit_length():  # told when it has doubled
            reason = f"more than {count_max} deliveries or {bytes_max} bytes"
            self._outbox.note(Lost(session.name, deliveries.dropped, reason))

    def free_most(self, excess_bytes: int) -> bool:
        """Make room in the store at the cost of who is owed most; whether there was anybody."""
        durable = [each for each in self._by_name.values() if each.is_durable]
        most = max(durable, key=lambda each: each.deliveries.unacked_bytes, default=None)
        if most is None or not most.deliveries.unacked_bytes:
            return False
        self._free(most, INTEGER_MAX, max(0, most.deliveries.unacked_bytes - excess_bytes))
        return True

    def hold_up(self, session: ClientSession) -> None:
        """Deliver nothing to a client until it is known what it may have: `withdraw`."""
        session.deliveries.held_up += 1

    def withdraw(self, session: ClientSession, ids: Collection[int], *, is_over: bool) -> None:
        """A client may have these subscriptions no more: drop what waits for them.

        Until that `is_over` more may come for them, also after a restart.
        """
        if self._by_name.get(session.name) is not session:
            return  # it has left meanwhile
        deliveries = session.deliveries
        if ids:
            deliveries.withdraw(ids, is_over=is_over)
        if ids and session.is_durable:
            self._store.mark(WITHDRAWN + session.name, msgpack.encode(deliveries.withdrawn))
        if is_over:
            deliveries.held_up -= 1
            self._ready[session.name] = session

    def forget(self, session: ClientSession) -> None:
        """Nothing waits for a client any more."""
        self._ready.pop(session.name, None)
        if session.is_durable:
            self._store.unmark(LOST + session.name)
            self._store.unmark(WITHDRAWN + session.name)

    # Sending.

    def make_ready(self, session: ClientSession) -> None:
        """There may be something to send to a client, or it may have left."""
        self._ready[session.name] = session

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
        for session in self._by_name.values():
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
            self._flow.release(session)
            deliveries.waiting.is_over = False
