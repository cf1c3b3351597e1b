"""Whatever a broker accepts can be read on every leg of its way, numbers at all bounds included.

The legs: client to broker, broker to broker, broker to store to broker, broker to client. A world
of two brokers is drawn, each message is encoded and decoded as the wire does it, and both brokers
start again from their stores in the middle.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.drawn_messages import of_struct

from kbn.broker import SqliteStore, content, wire
from kbn.broker.broker import Broker
from kbn.broker.fields import (
    HOPS_MAX,
    NAME_CHARACTERS_MAX,
    NUMBER_MAX,
    SECONDS_MAX,
    SEQUENCE_MAX,
    TEXT_CHARACTERS_MAX,
)
from kbn.broker.mark_forms import FORMS, set_aside_unreadable
from kbn.broker.messages import (
    STRANDS_OF_CLIENTS,
    Announce,
    BestEffort,
    Bye,
    Connect,
    Credit,
    Deliver,
    DeliverAck,
    Envelope,
    Forward,
    Hops,
    Peer,
    PubAck,
    Publish,
    Refused,
    Subscribe,
)
from kbn.broker.node import LinkTo, Node, NodeSettings
from kbn.broker.node.known_peers import Farewell, InterruptedMove, KnownPeers
from kbn.broker.outbox import Outbox
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore, Store

NOW = 1.8e9
LETTERS = ("a", "ä", "日", "\U0001f600")
numbers = st.sampled_from([0, 1, NUMBER_MAX - 1, NUMBER_MAX]) | st.integers(0, NUMBER_MAX)
names = st.sampled_from([letter * NAME_CHARACTERS_MAX for letter in LETTERS]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9
)
times = st.sampled_from([0.0, SECONDS_MAX, -SECONDS_MAX, 5e-324])
values = (
    st.sampled_from([2**63 - 1, -(2**63), 0, 1.7e308, 5e-324, "", "x" * 5000, True, b"\xff" * 99])
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)
)
contents = st.dictionaries(st.text(min_size=1, max_size=5), values, max_size=3)


class Pair:
    """Two linked brokers with stores; every message is read as the wire and the stores have it."""

    def __init__(self, stores: dict[str, Store], now: float = NOW) -> None:
        self.stores = stores
        self.now = now
        self.heard: dict[Peer, list[Any]] = {}
        self.start()

    def start(self) -> None:
        """Begin, or begin again from the stores."""
        self.now += 1
        self.brokers = {
            name: Broker(name, store=store, now=self.now) for name, store in self.stores.items()
        }
        for one, other in ("ab", "ba"):
            self._do(one, self.brokers[one].link(other))
        for one, other in ("ab", "ba"):
            self._do(one, self.brokers[one].connected(Peer("broker", other), self.now))

    def say(self, at: str, name: str, *messages: Any) -> list[Any]:
        """A client says something; what it hears."""
        peer = Peer("client", name)
        before = len(self.heard.setdefault(peer, []))
        for message in messages:
            read = wire.decode_first if isinstance(message, Connect) else wire.decode_from_client
            self._do(at, self.brokers[at].receive(_carried(message, read), peer, self.now))
        return self.heard[peer][before:]

    def _do(self, name: str, sends: list[Any]) -> None:
        waiting = [(name, sends)]
        while waiting:
            here, out = waiting.pop(0)
            self.stores[here].commit()
            for to, message in out:
                if to.kind == "client":
                    said = _carried(message, wire.decode_to_client)
                    self.heard.setdefault(to, []).append(said)
                else:
                    said = _carried(message, wire.decode_between_brokers)
                    sender, there = Peer("broker", here), self.brokers[to.name]
                    waiting.append((to.name, there.receive(said, sender, self.now)))

    def check(self) -> None:
        assert [broker.counts["set_aside"] for broker in self.brokers.values()] == [0, 0]
        for store in self.stores.values():
            aside = Aside(store, Outbox())
            set_aside_unreadable(store, aside)
            assert aside.count == 0
            for name in store.marks(""):
                assert is_known(name), f"{name}: say in FORMS what it must be"


def _carried(message: Any, read: Any) -> Any:
    """A message as the other side has it; it must be the same."""
    said = read(wire.encode(message)[wire.HEADER_BYTES :])
    assert said == message
    return said


def is_known(mark: str) -> bool:
    read_one_by_one = (
        *("publisher/", "owner/", "lost/", "redirect/", "withdrawn/", "former/"),
        *("unmet/", "aside/"),
    )
    return mark.startswith((*read_one_by_one, *(each for each in FORMS if each[-1] == "/"))) or (
        mark in FORMS
    )


def acceptable(said: list[Any]) -> bool:
    return not any(isinstance(each, Refused) for each in said)


def a_life(pair: Pair, draw: Any) -> None:
    """Subscribers at both brokers, a publisher at one; both stop in the middle."""
    publisher, ids = draw(names), draw(st.lists(numbers, min_size=1, max_size=3, unique=True))
    subscribers = {f"s{at}" + draw(names)[: NAME_CHARACTERS_MAX - 2]: at for at in "ab"}
    for name, at in subscribers.items():
        window = draw(numbers)
        come = Connect(name, 1, durable=True, token="x" * TEXT_CHARACTERS_MAX, window=window)
        assert acceptable(pair.say(at, name, come, Credit(NUMBER_MAX)))
        assert acceptable(pair.say(at, name, *(Subscribe(id, "all any", True) for id in ids)))
    known, expected = draw(numbers), []
    strand = draw(st.sampled_from([0, 1, STRANDS_OF_CLIENTS - 1]))
    epoch = draw(st.sampled_from([0, 1, int(NOW * 1e6)]))
    come = Connect(publisher, epoch, published=known, strand=strand, with_path=draw(st.booleans()))
    assert acceptable(pair.say("a", publisher, come))
    for number in (known + 1, known + 2):
        if number > NUMBER_MAX:
            break
        body = content.encode({**draw(contents), "all": draw(values)})
        publish = Publish(number, draw(times), body, durable=True)
        said = pair.say("a", publisher, publish, Publish(draw(numbers), 0.0, body))
        assert PubAck(number) in said
        expected.append(publish)
        if draw(st.booleans()):
            pair.start()
            come = Connect(publisher, epoch, published=number, strand=strand)
            assert acceptable(pair.say("a", publisher, come))
    for at in "ab":
        pair.say(at, publisher, Connect(publisher, epoch), Hops(((HOPS_MAX, 2**40),)))
    pair.start()
    for name, at in subscribers.items():
        pair.heard.clear()
        come = Connect(name, 2, durable=True, token="x" * TEXT_CHARACTERS_MAX, window=100)
        said = pair.say(at, name, come, Credit(NUMBER_MAX))
        delivered = [each for each in said if isinstance(each, Deliver)]
        got = [each for each in delivered if each.envelope.durable]
        assert [each.envelope.content for each in got] == [each.content for each in expected]
        assert [each.envelope.time for each in got] == [each.time for each in expected]
        assert all(set(each.subscriptions) == set(ids) for each in got)
        pair.say(at, name, DeliverAck(draw(st.sampled_from([0, SEQUENCE_MAX]))))
    pair.check()


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_what_a_client_is_allowed_to_say_is_read_everywhere(data: st.DataObject) -> None:
    a_life(Pair({"a": MemoryStore(), "b": MemoryStore()}), data.draw)


def test_so_it_is_from_a_store_in_a_file(tmp_path: Path) -> None:
    numbered = count()

    @given(st.data())
    @settings(max_examples=8, deadline=None)
    def lives(data: st.DataObject) -> None:
        folder = tmp_path / str(next(numbered))
        folder.mkdir()
        stores: dict[str, Store] = {name: SqliteStore(folder / name) for name in "ab"}
        try:
            a_life(Pair(stores), data.draw)
        finally:
            for store in stores.values():
                store.close()

    lives()


@given(of_struct(Envelope), of_struct(Announce), numbers, st.booleans())
@settings(max_examples=80, deadline=None)
def test_what_a_neighbour_is_allowed_to_say_is_read_everywhere(
    envelope: Envelope, announce: Announce, number: int, durable: bool
) -> None:
    pair = Pair({"a": MemoryStore(), "b": MemoryStore()})
    pair.say("b", "ann", Connect("ann", 1, durable=True), Subscribe(NUMBER_MAX, "x any", True))
    channel = pair.brokers["a"].neighbours["b"].link.channel
    assert channel is not None
    epochs = channel.sender_epoch, channel.receiver_epoch
    changed = Envelope(
        envelope.publisher, envelope.epoch, envelope.number, envelope.time,
        content.encode({"x": 1}), durable, envelope.hops, envelope.everywhere, envelope.path,
        envelope.by_manager, envelope.strand,
    )  # fmt: skip
    bodies: list[Any] = [Forward(SEQUENCE_MAX, changed), announce]
    messages: list[Any] = [channel.send(body, pair.now) for body in bodies]
    messages.append(BestEffort(*epochs, number, changed))
    for message in messages:
        said = _carried(message, wire.decode_between_brokers)
        pair._do("b", pair.brokers["b"].receive(said, Peer("broker", "a"), pair.now))
    pair.start()
    pair.say("b", "ann", Connect("ann", 2, durable=True))
    pair.check()


# Marks.


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_the_marks_of_neighbours_and_of_the_node_come_back_as_they_were(
    data: st.DataObject,
) -> None:
    draw, store = data.draw, MemoryStore()
    name, url = draw(names), "kbn://" + draw(names)
    broker = Broker("b", store=store, now=NOW)
    broker.link(name)
    envelope = draw(of_struct(Envelope))
    past = {envelope.stream: envelope.number}
    neighbour = broker.neighbours[name]
    broker._neighbours.set_past(neighbour, past)
    broker._neighbours.traffic.receive_forward(SEQUENCE_MAX, neighbour)
    known = KnownPeers(broker, store)
    known.keep(name, url)
    known.moved(None, LinkTo(url, "parent"))
    known.begin_move(InterruptedMove(name, url))
    farewell = Farewell(url, draw(of_struct(Bye)))
    known.keep_farewell(name, farewell)
    store.commit()

    again = Broker("b", store=store, now=NOW)
    again.link(name)
    received = again.neighbours[name].received
    assert (received.past, received.sequence) == (past, SEQUENCE_MAX)
    known = KnownPeers(again, store)
    assert known.interrupted_move == InterruptedMove(name, url)
    assert known.farewells() == {name: farewell}
    assert list(known.links((), "")) == [LinkTo(url, "parent")]
    assert again.counts["set_aside"] == 0


GARBAGE = [b"", b"\xc1", b"\xff\xfe", b"-1", str(2**70).encode(), b"\x92\x01\x02", b"x" * 1000]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:8]))
@pytest.mark.parametrize("mark", [f"{each}c" if each[-1] == "/" else each for each in FORMS])
def test_a_mark_that_cannot_be_read_stops_no_start_and_is_set_aside(
    mark: str, garbage: bytes
) -> None:
    store = MemoryStore()
    store.mark(mark, garbage)
    store.commit()
    node = Node(NodeSettings("b", store=store, links=(LinkTo("kbn://c", name="c"),)), NOW)
    node.start(NOW)
    read = FORMS[mark.partition("/")[0] + "/" if "/" in mark else mark]
    try:
        read(garbage)
    except Exception:
        assert node.broker.counts["set_aside"] == 1
        assert store.marked(f"aside/mark/{mark}") == garbage
    else:
        assert node.broker.counts["set_aside"] == 0


@pytest.mark.parametrize("now", [0.0, 2.0**32, 1e18])
def test_whatever_the_clock_says_sequences_fit_a_store(now: float, tmp_path: Path) -> None:
    stores: dict[str, Store] = {name: SqliteStore(tmp_path / name) for name in "ab"}
    pair = Pair(stores, now)
    pair.say("b", "ann", Connect("ann", 1, durable=True), Subscribe(1, "x any", True))
    pair.say("a", "bob", Connect("bob", 1))
    rng = Random(1)
    for number in range(1, 4):
        body = content.encode({"x": rng.random()})
        assert PubAck(number) in pair.say("a", "bob", Publish(number, 0.0, body, durable=True))
        pair.start()
        pair.say("a", "bob", Connect("bob", 1, published=number))
    pair.heard.clear()
    said = pair.say("b", "ann", Connect("ann", 2, durable=True))
    assert len([each for each in said if isinstance(each, Deliver)]) == 3
    pair.check()
    for store in stores.values():
        store.close()
