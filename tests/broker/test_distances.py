"""What a client tells of how far its notifications came."""

from __future__ import annotations

from kbn.broker import administration
from kbn.broker.distances import COUNTED_MAX, PUBLISHERS_MAX, Distances
from kbn.broker.hop_reports import LINES_MAX
from kbn.broker.messages import ConnAck, Hops, Peer
from kbn.simulation import Network

LINE = {"root": None, "east": "root", "far": "east"}


def told(network: Network, client: str) -> Hops | None:
    at = network.clients[client].broker
    return network.broker(at).clients[client].hops


def test_subscribers_say_how_many_brokers_their_notifications_passed_and_who_published() -> None:
    network = Network(LINE)
    ann, boss = network.client("ann", "far"), network.client("boss", "far")
    ann.subscribe("price > 3")
    network.run()
    for at in ("root", "far", "far"):
        network.client(f"at {at}", at).publish({"price": 5})
        network.run()
    boss.admin(administration.CollectHops())
    network.run()
    assert told(network, "ann") == Hops(((1, 2), (3, 1)), (("at far", 2), ("at root", 1)))
    assert told(network, "boss") is None, "who wants nothing has nothing to tell"


def test_after_a_move_they_count_anew() -> None:
    network = Network(LINE)
    ann = network.client("ann", "far")
    ann.subscribe("price > 3")
    bob = network.client("bob", "root")
    network.run()
    bob.publish({"price": 5})
    network.run()
    ann.move("root")
    network.run()
    bob.publish({"price": 6})
    network.client("boss", "root").admin(administration.CollectHops())
    network.run()
    assert told(network, "ann") == Hops(((1, 1),), (("bob", 1),))


def test_who_comes_later_is_asked_too_when_it_is_to_be_told_every_so_often() -> None:
    network = Network(LINE, ticks=True)
    network.client("boss", "far").admin(administration.CollectHops(5.0))
    network.run_for(1.0)
    ann = network.client("ann", "far")
    ann.subscribe("price > 3")
    network.run_for(1.0)
    assert told(network, "ann") == Hops((), ())
    network.client("bob", "far").publish({"price": 5})
    network.run_for(1.0)
    assert told(network, "ann") == Hops((), ()), "not yet"
    network.run_for(5.0)
    assert told(network, "ann") == Hops(((1, 1),), (("bob", 1),))


def test_the_rarest_publishers_are_forgotten_and_the_most_frequent_told() -> None:
    distances = Distances()
    for number in range(COUNTED_MAX):
        distances.count(f"rare {number}", 1)
    for _ in range(3):
        for number in range(10):
            distances.count(f"often {number}", 2)
    message = distances.message()
    assert len(message.publishers) == PUBLISHERS_MAX
    assert {name for name, count in message.publishers if count == 3} == {
        f"often {number}" for number in range(10)
    }
    assert dict(message.counts) == {1: COUNTED_MAX, 2: 30}


def test_a_report_that_is_too_long_is_refused() -> None:
    network = Network(LINE)
    network.client("ann", "far")
    network.run()
    broker, ann = network.broker("far"), Peer("client", "ann")
    sends = broker.receive(Hops(tuple((n, 1) for n in range(LINES_MAX + 1))), ann, 0.0)
    assert [send.message.kind for send in sends if not isinstance(send.message, ConnAck)] == [  # type: ignore[union-attr]
        "LimitError"
    ]
    assert broker.clients["ann"].hops is None
