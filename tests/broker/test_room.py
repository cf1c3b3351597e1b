"""Room: a full store, and neighbours that are owed too much; nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbn.broker import BrokerLimits, SqliteStore, content
from kbn.broker.broker import Broker
from kbn.broker.messages import (
    Connect,
    Deliver,
    Peer,
    PubAck,
    Publish,
    Refused,
    Send,
    Subscribe,
)
from kbn.broker.number_ranges import holds
from kbn.broker.occurrences import Lost, StoreFull
from kbn.broker.store import MemoryStore, Store

ANN, BOB, EVE = (Peer("client", name) for name in ("ann", "bob", "eve"))
SIZE = 1000


class Line:
    """Brokers in a line, a - b - c, with links that can be cut; clients hear what they are sent."""

    def __init__(self, limits: BrokerLimits, stores: dict[str, Store] | None = None) -> None:
        self.stores: dict[str, Store] = stores or {name: MemoryStore() for name in "abc"}
        self.brokers = {
            name: Broker(name, store=store, now=100.0, broker_limits=limits)
            for name, store in self.stores.items()
        }
        self.cut: set[frozenset[str]] = set()
        self.heard: dict[Peer, list[Any]] = {}
        self.now = 100.0
        for one, other in ("ab", "bc"):
            self.do(one, self.brokers[one].link(other))
            self.do(other, self.brokers[other].link(one))
        for one, other in ("ab", "bc"):
            self.join(one, other)

    def join(self, one: str, other: str) -> None:
        self.cut.discard(frozenset((one, other)))
        for here, there in ((one, other), (other, one)):
            self.do(here, self.brokers[here].connected(Peer("broker", there), self.now))

    def part(self, one: str, other: str) -> None:
        self.cut.add(frozenset((one, other)))
        for here, there in ((one, other), (other, one)):
            self.do(here, self.brokers[here].disconnected(Peer("broker", there), self.now))

    def say(self, broker: str, peer: Peer, *messages: Any) -> list[Any]:
        """What the client hears now."""
        before = len(self.heard.get(peer, []))
        for message in messages:
            self.do(broker, self.brokers[broker].receive(message, peer, self.now))
        return self.heard.get(peer, [])[before:]

    def do(self, name: str, sends: list[Send]) -> None:
        waiting = [(name, sends)]
        while waiting:
            here, out = waiting.pop(0)
            self.stores[here].commit()
            for to, message in out:
                if to.kind == "client":
                    self.heard.setdefault(to, []).append(message)
                elif frozenset((here, to.name)) not in self.cut:
                    there = self.brokers[to.name]
                    sender = Peer("broker", here)
                    waiting.append((to.name, there.receive(message, sender, self.now)))

    def publish(self, broker: str, peer: Peer, number: int) -> bool:
        """Publish a durable one; whether it was taken."""
        body = content.encode({"k": "x" * SIZE})
        said = self.say(broker, peer, Publish(number, 0.0, body, durable=True))
        is_taken = not any(isinstance(m, Refused) for m in said)
        [told] = [m for m in said if isinstance(m, PubAck)]
        assert told.number == number, "its number is used up in either case"
        assert holds(told.refused, number) is not is_taken
        return is_taken

    def delivered(self, peer: Peer) -> list[int]:
        return [m.envelope.number for m in self.heard.get(peer, []) if isinstance(m, Deliver)]


def with_ann_at_c(limits: BrokerLimits) -> Line:
    line = Line(limits)
    line.say("c", ANN, Connect("ann", 1, durable=True, token="t", window=1000))
    line.say("c", ANN, Subscribe(1, "k any", True))
    line.say("a", BOB, Connect("bob", 1))
    line.say("b", EVE, Connect("eve", 1))
    return line


def test_what_would_go_to_a_neighbour_with_too_much_unacked_is_refused_where_it_is_published() -> (
    None
):
    line = with_ann_at_c(BrokerLimits(neighbour_unacked_bytes=10 * SIZE))
    line.part("b", "c")
    taken = [number for number in range(1, 31) if line.publish("b", EVE, number)]
    assert 8 <= len(taken) <= 11 and taken == list(range(1, len(taken) + 1))
    [told] = [o for o in line.brokers["b"].take_occurred() if isinstance(o, StoreFull)]
    assert told.peer == Peer("broker", "c")
    refused = [m for m in line.heard[EVE] if isinstance(m, Refused)]
    assert {m.kind for m in refused} == {"LimitError"} and "'c'" in refused[0].reason
    line.join("b", "c")
    assert line.delivered(ANN) == taken
    assert line.publish("b", EVE, 31), "there is room again"


def test_what_another_neighbour_brings_for_it_is_held_and_kept_by_that_one() -> None:
    limits = BrokerLimits(neighbour_unacked_bytes=10 * SIZE)
    line = with_ann_at_c(limits)
    line.part("b", "c")
    taken = [number for number in range(1, 61) if line.publish("a", BOB, number)]
    b = line.brokers["b"]
    unacked = {each.broker: each.unacked_bytes for each in b.status().neighbours}
    assert unacked["c"] <= 12 * SIZE, "b keeps no more for c than it may"
    [about] = [each for each in b.status().neighbours if each.broker == "a"]
    assert about.held > 0
    assert 16 <= len(taken) <= 24, "a has filled up, too, and refuses in the end"
    line.join("b", "c")
    assert line.delivered(ANN) == taken, "whatever was acknowledged has arrived, in its order"
    assert all(not each.held for each in b.status().neighbours)
    assert line.publish("a", BOB, 61) and line.delivered(ANN)[-1] == 61


def test_two_brokers_that_are_full_for_each_other_do_not_wait_for_each_other() -> None:
    line = with_ann_at_c(BrokerLimits(neighbour_unacked_bytes=10 * SIZE))
    zoe, pia = Peer("client", "zoe"), Peer("client", "pia")
    line.say("a", zoe, Connect("zoe", 1, durable=True, token="t", window=1000))
    line.say("a", zoe, Subscribe(1, "k any", True))
    line.say("c", pia, Connect("pia", 1))
    line.part("b", "c")
    up = [number for number in range(1, 61) if line.publish("a", BOB, number)]
    down = [number for number in range(1, 61) if line.publish("c", pia, number)]
    line.join("b", "c")
    mine = [m.envelope for m in line.heard[ANN] if isinstance(m, Deliver)]
    assert [e.number for e in mine if e.publisher == "bob"] == up
    theirs = [m.envelope for m in line.heard[zoe] if isinstance(m, Deliver)]
    assert [e.number for e in theirs if e.publisher == "pia"] == down


def test_a_held_neighbour_that_starts_again_brings_it_again() -> None:
    line = with_ann_at_c(BrokerLimits(neighbour_unacked_bytes=10 * SIZE))
    line.part("b", "c")
    taken = [number for number in range(1, 61) if line.publish("a", BOB, number)]
    line.part("a", "b")
    b = line.brokers["b"] = Broker(
        "b",
        store=line.stores["b"],
        now=200.0,
        broker_limits=BrokerLimits(neighbour_unacked_bytes=10 * SIZE),
    )
    b.link("a")
    b.link("c")
    line.join("a", "b")
    line.join("b", "c")
    assert line.delivered(ANN) == taken


def full_store(store: Store, **limits: int) -> tuple[Broker, Store]:
    return Broker("b", store=store, now=100.0, broker_limits=BrokerLimits(**limits)), store


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_when_the_store_is_full_who_has_most_unacked_loses_its_oldest(
    kind: str, tmp_path: Path
) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "b.store")
    limit = 400_000
    broker, _ = full_store(store, store_bytes=limit)
    for peer, wanted in ((ANN, "k any"), (EVE, "k any and few any")):
        hello = Connect(peer.name, 1, durable=True, token="t")
        broker.receive(hello, peer, 100.0)
        broker.receive(Subscribe(1, wanted, True), peer, 100.0)
        broker.disconnected(peer, 100.0)
    broker.receive(Connect("bob", 1), BOB, 100.0)
    answers: list[Any] = []
    most = 0
    for number in range(1, 1001):
        attributes: dict[str, Any] = {"k": f"{number}" + "x" * SIZE}
        if number % 100 == 0:
            attributes["few"] = 1
        publish = Publish(number, 0.0, content.encode(attributes), durable=True)
        answers += [s.message for s in broker.receive(publish, BOB, 100.0)]
        broker.tick(100.0 + number)
        store.commit()
        most = max(most, store.used_bytes)
    assert not any(isinstance(m, Refused) for m in answers), "publishers are not stopped"
    assert most <= limit * 1.1
    told = {o.client for o in broker.take_occurred() if isinstance(o, Lost)}
    assert told == {"ann"}, "eve is owed little, and loses nothing"
    assert store.unacked_count(EVE) == 10
    assert store.unacked_count(ANN) > 100
    newest = store.unacked(ANN, 0, 10_000)
    assert b"1000x" in newest[-1].envelope
    store.close()


def test_a_store_full_of_what_neighbours_have_not_acked_refuses_durable_ones() -> None:
    broker, store = full_store(MemoryStore(), store_bytes=50_000)
    broker.link("c")
    broker.receive(Connect("bob", 1), BOB, 100.0)
    taken = 0
    for number in range(1, 101):
        body = content.encode({"k": "x" * SIZE})
        sends = broker.receive(Publish(number, 0.0, body, durable=True), BOB, 100.0)
        taken += not any(isinstance(s.message, Refused) for s in sends)
        store.commit()
    assert 45 <= taken <= 50
    assert store.unacked_count(Peer("broker", "c")) == taken
    assert StoreFull(None, store.used_bytes) in broker.take_occurred()
    best_effort = Publish(1, 0.0, content.encode({"k": 1}))
    sends = broker.receive(best_effort, BOB, 100.0)
    assert not any(isinstance(s.message, Refused) for s in sends)
