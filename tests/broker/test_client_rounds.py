"""Rounds: what is told of very many clients is gathered over ticks."""

from __future__ import annotations

from kbn.broker import Broker
from kbn.broker.broker_status import BrokerStatus
from kbn.broker.client_rounds import LISTED
from kbn.broker.messages import Connect, Peer, Publish, Subscribe


def broker_of(count: int) -> Broker:
    broker = Broker("b")
    for n in range(count):
        name = f"c{n}"
        broker.receive(Connect(name, 1, window=1), Peer("client", name), 0.0)
    return broker


def checked(status: BrokerStatus, in_all: int) -> BrokerStatus:
    assert len(status.clients) == len({each.client for each in status.clients}) <= LISTED
    assert status.totals.connected == in_all
    return status


def test_few_clients_are_told_as_they_are_now() -> None:
    broker = broker_of(5)
    assert len(checked(broker.status(), 5).clients) == 5
    broker.disconnected(Peer("client", "c1"), 1.0)
    assert len(checked(broker.status(), 4).clients) == 4


def test_of_very_many_clients_a_part_is_looked_at_in_each_tick() -> None:
    in_all = 2 * LISTED + 500
    broker = broker_of(in_all)
    looked_at: list[int] = []
    status_of = broker._clients.status

    def counted(session: object) -> object:
        looked_at.append(1)
        return status_of(session)  # type: ignore[arg-type]

    broker._clients.status = counted  # type: ignore[assignment,method-assign]
    for _ in range(4):
        before = len(looked_at)
        broker.tick(0.1)
        assert len(looked_at) - before <= LISTED
    before = len(looked_at)
    checked(broker.status(), in_all)
    assert len(looked_at) == before, "told from the last round"


def test_a_status_that_comes_before_the_first_round_is_over_lists_some() -> None:
    status = broker_of(3 * LISTED).status()
    assert 0 < len(status.clients) <= LISTED
    assert status.totals.connected == len(status.clients)


def test_of_very_many_clients_those_that_lost_most_are_listed() -> None:
    broker = broker_of(2 * LISTED)
    slow = f"c{2 * LISTED - 1}"
    broker.receive(Subscribe(1, "k any", True), Peer("client", slow), 0.0)
    for n in range(1, 4):
        broker.receive(Publish(n, 0.0, b"\x81\xa1k\x01"), Peer("client", "c0"), 0.0)
    for _ in range(4):
        broker.tick(0.1)
    status = broker.status()
    assert status.totals.queued == status.totals.queued_max == 2
    assert status.clients[0].client == slow
