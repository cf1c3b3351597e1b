"""Client sessions, without a broker: credit, grants, slow clients, moves, and what is kept."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from kbn.broker.access import Permission
from kbn.broker.client_session import ClientSession
from kbn.broker.client_sessions import ClientSessions
from kbn.broker.kept import Kept
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    AnyMessage,
    Connect,
    Deliver,
    Envelope,
    Grant,
    Hops,
    Peer,
    PubAck,
    Publish,
    Redirect,
    ReportHops,
)
from kbn.broker.outbox import Outbox
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore
from kbn.broker.unacked import UnackedQueue
from kbn.errors import InvalidInputError, LimitError
from kbn.filters import Subscription

ANN, BOB = Peer("client", "ann"), Peer("client", "bob")


class Desk:
    """Client sessions with a store and an outbox of their own."""

    def __init__(self, **limits: int) -> None:
        self.store, self.outbox, sequences = MemoryStore(), Outbox(100.0), count(1)
        aside = Aside(self.store, self.outbox)
        self.clients = ClientSessions(
            ClientLimits(**limits),
            self.store,
            self.outbox,
            lambda peer: UnackedQueue(self.store, peer, sequences, aside),
            aside,
        )

    def connect(self, peer: Peer, epoch: int = 1, **how: Any) -> ClientSession:
        connect = Connect(peer.name, epoch, **how)
        return self.clients.connect(connect, peer, Permission())

    def deliver(self, peer: Peer, number: int, publisher: ClientSession | None = None) -> None:
        kept = Kept(self.store, Envelope("eve", 1, number, 0.0, b"x" * 10))
        self.clients.traffic.deliver(peer.name, [7], kept, publisher)

    def said(self) -> list[AnyMessage]:
        return [send.message for send in self.outbox.take()]

    def sent(self) -> list[int]:
        self.clients.traffic.send_ready()
        return [m.envelope.number for m in self.said() if isinstance(m, Deliver)]


def test_no_more_is_sent_than_credit_and_room_allow() -> None:
    desk = Desk()
    ann = desk.connect(ANN, window=2)
    for number in (1, 2, 3, 4):
        desk.deliver(ANN, number)
    assert desk.sent() == [1, 2]
    desk.clients.traffic.credit(4, ann)
    ann.room_bytes = 5
    assert desk.sent() == [3], "the socket takes one more, and then it is full"
    ann.room_bytes = 100
    desk.clients.traffic.credit(4, ann)
    assert desk.sent() == [4]


def test_to_a_client_that_is_away_nothing_is_sent() -> None:
    desk = Desk()
    ann = desk.connect(ANN, durable=True)
    ann.is_connected = False
    desk.deliver(ANN, 1)
    assert desk.sent() == []
    desk.connect(ANN, epoch=2, durable=True)
    assert desk.sent() == [1]


def test_what_a_durable_client_has_not_acknowledged_is_sent_again() -> None:
    desk = Desk()
    ann = desk.connect(ANN, durable=True)
    for number in (1, 2):
        desk.deliver(ANN, number)
    desk.clients.traffic.send_ready()
    first, _ = [m for m in desk.said() if isinstance(m, Deliver)]
    desk.clients.traffic.acked(first.number, ann)
    desk.outbox.now = 101.0
    desk.clients.traffic.deliver_again(after_s=5.0)
    assert desk.sent() == []
    desk.outbox.now = 106.0
    desk.clients.traffic.deliver_again(after_s=5.0)
    assert desk.sent() == [2]


def test_a_full_client_stops_the_publisher_and_lets_it_go_when_it_has_room() -> None:
    desk = Desk(queue=8, publish_ahead=4)
    bob, ann = desk.connect(BOB), desk.connect(ANN, window=1, when_slow="block")
    for number in (1, 2, 3):
        desk.deliver(ANN, number, bob)
    assert bob.publications.waits_for == {"ann"}
    bob.publications.published = 4
    desk.clients.flow.grant(bob)
    desk.clients.traffic.send_ready()
    assert [type(each) for each in desk.said()] == [Deliver], "and no grant"
    desk.clients.traffic.credit(9, ann)
    desk.clients.traffic.send_ready()
    assert [type(each) for each in desk.said()] == [Deliver, Deliver, Grant]
    assert bob.publications.waits_for == set()


def test_a_slow_client_that_is_forgotten_stops_nobody() -> None:
    desk = Desk(queue=4, publish_ahead=4)
    bob, ann = desk.connect(BOB), desk.connect(ANN, window=1, when_slow="block")
    desk.deliver(ANN, 1, bob)
    desk.clients.forget(ann)
    assert bob.publications.waits_for == set()
    assert "ann" not in desk.clients.by_name


def test_durable_publications_are_accepted_in_order_once_and_across_restarts() -> None:
    desk = Desk()
    bob = desk.connect(BOB, epoch=5)
    accepts = desk.clients.flow.accept
    assert not accepts(Publish(2, 0.0, b"", durable=True), bob), "one is missing"
    first = Publish(1, 0.0, b"", durable=True)
    assert accepts(first, bob)
    desk.clients.flow.handled(first, bob, is_refused=False)
    assert not accepts(first, bob)
    assert desk.said() == [PubAck(1), PubAck(1)]
    desk.clients.by_name.clear()
    assert desk.connect(BOB, epoch=5).publications.stored == 1
    desk.clients.by_name.clear()
    assert desk.connect(BOB, epoch=6).publications.stored == 0


def test_best_effort_publications_may_have_gaps_which_count() -> None:
    desk = Desk(publish_ahead=10)
    bob = desk.connect(BOB)
    assert desk.clients.flow.accept(Publish(4, 0.0, b""), bob)
    assert not desk.clients.flow.accept(Publish(3, 0.0, b""), bob)
    assert bob.publications.published == 4


def test_who_publishes_more_than_was_granted_is_refused_unless_it_was_stopped() -> None:
    desk = Desk(publish_ahead=1)
    bob = desk.connect(BOB)
    assert desk.clients.flow.accept(Publish(1, 0.0, b""), bob)
    with pytest.raises(LimitError, match="ahead of what was granted"):
        desk.clients.flow.accept(Publish(2, 0.0, b""), bob)
    bob.publications.waits_for.add("ann")
    assert not desk.clients.flow.accept(Publish(2, 0.0, b""), bob)


def test_a_client_has_left_when_it_is_drained_and_has_everything() -> None:
    desk = Desk()
    ann = desk.connect(ANN, durable=True)
    desk.deliver(ANN, 1)
    ann.leaving = 9
    desk.clients.traffic.drained(ann)
    assert desk.clients.traffic.send_ready() == []
    [delivery] = [m for m in desk.said() if isinstance(m, Deliver)]
    desk.clients.traffic.acked(delivery.number, ann)
    assert desk.clients.traffic.send_ready() == [ann]


def test_a_redirect_is_told_and_kept_for_a_durable_client() -> None:
    desk = Desk()
    desk.connect(ANN, durable=True)
    desk.connect(BOB)
    desk.clients.redirect(["ann", "bob"], "c", "kbn://c")
    assert desk.said() == [Redirect("c", "kbn://c")] * 2
    [kept] = desk.store.clients()
    assert desk.clients.restore(kept, None).redirect == ("c", "kbn://c")
    with pytest.raises(InvalidInputError, match="eve"):
        desk.clients.check_known(["ann", "eve"])


def test_a_kept_client_may_do_nothing_until_it_comes() -> None:
    desk = Desk()
    desk.connect(ANN, durable=True)
    [kept] = desk.store.clients()
    restored = desk.clients.restore(kept, None)
    assert restored.permission.publish == frozenset()
    assert not restored.is_connected


def test_subscribers_are_asked_for_hops_and_those_who_come_later_too() -> None:
    desk = Desk()
    ann, bob = desk.connect(ANN), desk.connect(BOB)
    desk.clients.add_subscription(ann, 1, Subscription.parse("k = 1"))
    assert desk.clients.hops.ask(3.0, None) == 1
    assert desk.said() == [ReportHops(3.0)]
    desk.clients.add_subscription(bob, 1, Subscription.parse("k = 1"))
    assert desk.said() == [ReportHops(3.0)]
    assert desk.clients.subscribers() == ["ann", "bob"]
    with pytest.raises(LimitError, match="at most"):
        desk.clients.hops.told(Hops(tuple((n, 1) for n in range(5000))), ann)
