"""Turns of a node: however much comes at once, each does a bounded amount of counted work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from kbn.broker import (
    MemoryStore,
    Node,
    NodeSettings,
    ServerLimits,
    SqliteStore,
    Store,
    content,
    routing_table,
    wire,
)
from kbn.broker.access import Permission
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    Advertise,
    Alive,
    AnyMessage,
    Connect,
    Credit,
    Deliver,
    DeliverAck,
    Done,
    Grant,
    Leave,
    Left,
    Peer,
    PubAck,
    Publish,
    Refused,
    Subscribe,
    Unsubscribe,
    Who,
)
from kbn.broker.node import effects, events
from kbn.broker.node.batch import Arrivals
from kbn.broker.node.shares import Shares
from kbn.broker.work import CONNECTED
from kbn.filters import Notification, Subscription

BUDGET = 5_000
# A turn may end with one step more than its budget: the largest that cannot be divided.
TURN_MAX = BUDGET + 5_000


class Rights:
    """An authorizer: everybody may do the same, but for some; None: it may not come in."""

    def __init__(self) -> None:
        self.permission: Permission | None = Permission()
        self.of: dict[str, Permission | None] = {}

    def admit(self, name: str, token: str) -> Permission | None:
        return self.permission_of(name)

    def permission_of(self, name: str) -> Permission | None:
        return self.of.get(name, self.permission)


class Turns:
    """A node and its clients; every turn is looked at."""

    def __init__(
        self,
        store: Store | None = None,
        limits: ClientLimits | None = None,
        silent_s: float = 30.0,
    ) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.authorizer = Rights()
        self.limits = limits or ClientLimits()
        self.silent_s = silent_s
        self.closed: set[int] = set()
        self.now = 1.0
        self.start()
        self.heard: dict[int, list[AnyMessage]] = {}
        self.paused: set[int] = set()
        self.ids = count(1)

    def start(self) -> None:
        limits = ServerLimits(turn_work=BUDGET, silent_s=self.silent_s)
        settings = NodeSettings(
            "b",
            store=self.store,
            limits=self.limits,
            server_limits=limits,
            authorizer=self.authorizer,
        )
        self.node = Node(settings, 1.0)
        self.node.start(1.0)

    def start_again(self) -> None:
        """Stop the node as a crash does, and start another with its store."""
        self.store.rollback()
        self.start()

    def turn(self, *happened: events.Event) -> None:
        before = self.node.turns.work
        for effect in self.node.handle(happened, self.now):
            match effect:
                case effects.Send(id, messages):
                    self.heard[id].extend(messages)
                case effects.PauseReading(id):
                    self.paused.add(id)
                case effects.ResumeReading(id):
                    self.paused.discard(id)
                case effects.Close(id):
                    self.closed.add(id)
                case _:
                    pass
        assert self.node.turns.work - before <= TURN_MAX

    def run(self) -> int:
        """Go on until all is done; how many turns that took."""
        for turns in range(10_000):
            if not self.node.has_more:
                return turns
            self.turn()
        raise AssertionError("it does not end")

    def client(self, name: str, *messages: AnyMessage, **given: object) -> int:
        id = next(self.ids)
        self.heard[id] = []
        self.turn(events.Opened(id))
        self.say(id, Connect(name, 1, **given), *messages)  # type: ignore[arg-type]
        return id

    def say(self, id: int, *messages: AnyMessage) -> None:
        self.turn(received(id, *messages))

    def still_without(self) -> str:
        """A durable client that a notification is on its way to."""
        sessions = self.node.broker.clients.items()
        return [name for name, each in sessions if each.is_durable and each.deliveries.is_empty][-1]

    def delivered(self, id: int) -> list[object]:
        found = [each for each in self.heard[id] if isinstance(each, Deliver)]
        return [content.decode(each.envelope.content)["k"] for each in found]


def received(id: int, *messages: AnyMessage) -> events.Received:
    return events.Received(id, [wire.encode(message)[4:] for message in messages])


def published(number: int, k: object, *, durable: bool = False) -> Publish:
    return Publish(number, 0.0, content.encode({"k": k}), durable)


def test_one_that_says_much_holds_up_nobody_but_itself() -> None:
    turns = Turns()
    loud, calm = turns.client("loud"), turns.client("calm", Subscribe(1, "k any", True))
    turns.run()
    turns.say(loud, *[published(n, n) for n in range(1, 901)])
    assert loud in turns.paused, "it is not read from while so much of it waits"
    turns.say(calm, Subscribe(2, "j any", True))
    assert Done("subscribe", 2) in turns.heard[calm], "answered in its own turn"
    assert len(turns.delivered(calm)) < 900
    assert turns.run() > 5
    assert turns.delivered(calm) == list(range(1, 901))
    assert loud not in turns.paused


def heavy(n: int) -> Subscribe:
    """One that costs a good part of a turn."""
    parts = (f"a{k} = {n} and b{k} < {n}" for k in range(30))
    return Subscribe(n, " or ".join(parts), True)


def test_one_that_says_little_is_served_in_its_turn_however_many_say_much() -> None:
    turns = Turns()
    calm = turns.client("calm", Subscribe(1, "k any", True))
    turns.run()
    loud = [turns.client(f"loud{n}") for n in range(20)]
    for number in range(1, 51):
        if number % 10 == 1:
            for id in loud:
                turns.say(id, *[heavy(10 * number + n) for n in range(10)])
        turns.say(calm, published(number, number))
        assert turns.delivered(calm)[-1] == number, "heard in the turn in which it was said"
        assert turns.node.has_more, "there was more to do than fits into a turn"


def test_those_that_say_much_get_equal_parts_of_the_work() -> None:
    turns = Turns()
    small, large = turns.client("small"), turns.client("large")
    turns.run()
    turns.turn(
        received(small, *[Subscribe(n, f"k = {n}", True) for n in range(500)]),
        received(large, *[heavy(n) for n in range(100)]),
    )
    for _ in range(20):
        turns.turn()
    costs = {small: 123, large: 3_430}
    spent = [len(turns.heard[id]) * cost for id, cost in costs.items()]
    assert turns.node.has_more and 0.5 < spent[0] / spent[1] < 2


def test_long_work_leaves_messages_and_deliveries_a_part_of_each_turn() -> None:
    turns = Turns()
    calm = turns.client("calm", Subscribe(1, "k any", True))
    turns.run()
    work = turns.node.broker.work

    def long() -> Iterator[None]:
        while True:
            work.done += BUDGET
            yield

    turns.node.broker._router.chores.add(long())
    for number in range(1, 11):
        turns.say(calm, published(number, number))
        assert turns.delivered(calm)[-1] == number


def test_what_came_together_with_what_is_heavy_to_match_is_not_tried_again_and_again() -> None:
    turns = Turns()
    for n in range(0, 400, 40):
        wanted = [Subscribe(m, f"k * 'needle{m}.'", True) for m in range(n, n + 40)]
        turns.client(f"wanting{n}", *wanted)
    turns.run()
    contents = turns.node.broker._router.contents
    texts = [content.encode({"k": f"{n} " + "hay " * 3_000}) for n in range(6)]
    contents.prematch(texts[:3], turns.node.broker.table)
    contents.prematch(texts, turns.node.broker.table)
    before = turns.node.broker.work.done
    contents.prematch([*texts, content.encode({"j": 1})], turns.node.broker.table)
    assert turns.node.broker.work.done - before < 100


def test_a_fan_out_takes_turns_and_what_the_publisher_says_next_waits_for_it() -> None:
    turns = Turns()
    wanting = [turns.client(f"c{n}", Subscribe(1, "k any", True)) for n in range(1_500)]
    durable = turns.client("d", Subscribe(1, "k any", True), durable=True)
    publisher = turns.client("p")
    turns.run()
    turns.say(publisher, published(1, "first", durable=True), published(2, "second", durable=True))
    assert PubAck(1) in turns.heard[publisher] and PubAck(2) not in turns.heard[publisher]
    assert turns.node.has_more
    late = turns.client("late")
    turns.say(late, published(1, "between"))
    assert turns.run() > 3
    for id in (*wanting, durable):
        own = [k for k in turns.delivered(id) if k != "between"]
        assert own == ["first", "second"]
        assert "between" in turns.delivered(id)


def test_one_that_leaves_during_a_fan_out_still_gets_what_was_on_its_way() -> None:
    turns = Turns()
    wanting = [turns.client(f"c{n}", Subscribe(1, "k any", True)) for n in range(1_500)]
    publisher = turns.client("p")
    turns.run()
    turns.say(publisher, published(1, "first"))
    leaving = next(id for id in wanting if not turns.delivered(id))
    turns.say(leaving, Leave(7))
    turns.run()
    assert turns.delivered(leaving) == ["first"]
    assert turns.heard[leaving][-1] == Left(7)


def test_a_client_with_very_many_subscriptions_is_forgotten_in_turns() -> None:
    turns = Turns()
    much = turns.client("much", *[Subscribe(n, f"k = {n}", True) for n in range(300)])
    turns.run()
    assert len(turns.node.broker.table) == 300
    turns.turn(events.Closed(much))
    assert 0 < len(turns.node.broker.table) < 300
    again = turns.client("much", Subscribe(1, "k = 1", True), Unsubscribe(1))
    assert turns.run() > 3
    assert len(turns.node.broker.table) == 0
    assert [type(each).__name__ for each in turns.heard[again]][-2:] == ["Done", "Done"]


def test_a_client_that_comes_again_first_has_handled_what_it_said_before() -> None:
    turns = Turns()
    listening = turns.client("listening", Subscribe(1, "k any", True))
    old = turns.client("p")
    turns.run()
    turns.say(old, *[published(n, n) for n in range(1, 801)])
    new = turns.client("p", published(801, 801))
    turns.run()
    assert turns.delivered(listening)[-1] == 801
    assert turns.delivered(listening)[:800] == list(range(1, 801))
    assert turns.heard[new], "it was let in"


def test_what_a_slow_client_is_sent_takes_turns() -> None:
    turns = Turns()
    slow = turns.client("slow", Subscribe(1, "k any", True), window=1)
    publisher = turns.client("p")
    turns.run()
    turns.say(publisher, *[published(n, n) for n in range(1, 901)])
    turns.run()
    assert len(turns.delivered(slow)) == 1
    turns.say(slow, Credit(5_000))
    assert len(turns.delivered(slow)) < 900
    turns.run()
    assert turns.delivered(slow) == list(range(1, 901))


def test_a_notification_that_is_long_to_match_takes_turns_and_holds_up_nobody_else() -> None:
    turns = Turns()
    wanted = [Subscribe(n, f"k * 'needle{n}.'", True) for n in range(400)]
    wanting = turns.client("wanting", *wanted)
    calm = turns.client("calm", Subscribe(1, "j any", True))
    publisher = turns.client("p")
    turns.run()
    hay = "hay " * 100_000
    turns.say(publisher, published(1, hay + "needle7."), published(2, "needle8."))
    assert turns.node.has_more and not turns.delivered(wanting)
    turns.say(calm, Publish(1, 0.0, content.encode({"j": 1})))
    assert [each for each in turns.heard[calm] if isinstance(each, Deliver)]
    turns.say(wanting, Subscribe(1_000, "k * 'hay hay'", True), Unsubscribe(5))
    assert turns.run() > 20
    found = [each for each in turns.heard[wanting] if isinstance(each, Deliver)]
    assert [each.subscriptions for each in found] == [(7, 1_000), (8,)]


def test_many_that_are_long_to_match_at_once_are_begun_in_turns() -> None:
    turns = Turns()
    wanting = turns.client("w", *[Subscribe(n, f"k * 'needle{n}.'", True) for n in range(200)])
    publishers = [turns.client(f"p{n}") for n in range(40)]
    turns.run()
    hay = "hay " * 50_000
    said = [
        events.Received(id, [wire.encode(published(1, f"{hay}needle{n}."))[4:]])
        for n, id in enumerate(publishers)
    ]
    turns.turn(*said)
    assert turns.run() > 20
    found = [each for each in turns.heard[wanting] if isinstance(each, Deliver)]
    assert sorted(each.subscriptions for each in found) == [(n,) for n in range(40)]


def test_what_cannot_be_matched_together_is_not_tried_together_in_every_turn() -> None:
    turns = Turns()
    wanting = turns.client("w", *[Subscribe(n, f"k * 'needle{n}.'", True) for n in range(200)])
    publisher = turns.client("p")
    turns.run()
    contents = [f"{n} " + "hay " * 1_500 + f"needle{n}." for n in range(20)]
    turns.say(publisher, *[published(n + 1, k) for n, k in enumerate(contents)])
    assert turns.run() < 40
    assert turns.delivered(wanting) == contents


def test_what_a_client_said_that_is_gone_is_not_matched() -> None:
    turns = Turns()
    turns.client("w", *[Subscribe(n, f"k * 'needle{n}.'", True) for n in range(400)])
    publisher = turns.client("p")
    turns.run()
    turns.say(publisher, *[published(n, "hay " * 50_000 + str(n)) for n in range(1, 9)])
    turns.turn(events.Closed(publisher))
    gone = turns.node.broker.disconnected(Peer("client", "p"), 1.0)
    assert not gone and turns.run() < 100


DURABLE = 900


def durable_turns(store: Store | None = None) -> tuple[Turns, int]:
    """A node with very many durable clients, which are away, and a publisher."""
    turns = Turns(store)
    for n in range(DURABLE):
        id = turns.client(f"d{n}", Subscribe(1, "k any", True), durable=True)
        turns.turn(events.Closed(id))
    publisher = turns.client("p")
    turns.run()
    return turns, publisher


def test_a_durable_notification_for_very_many_durable_clients_takes_turns() -> None:
    turns, publisher = durable_turns()
    turns.say(publisher, published(1, "first", durable=True), published(2, "second", durable=True))
    assert PubAck(1) in turns.heard[publisher] and PubAck(2) not in turns.heard[publisher]
    assert turns.run() > 1
    for n in range(DURABLE):
        id = turns.client(f"d{n}", durable=True)
        turns.run()
        assert turns.delivered(id) == ["first", "second"]


def test_a_node_that_is_stopped_in_the_middle_of_a_fan_out_goes_on_where_it_was() -> None:
    for stopped_after in range(4):
        turns, publisher = durable_turns()
        turns.say(publisher, published(1, "first", durable=True))
        assert PubAck(1) in turns.heard[publisher]
        for _ in range(stopped_after):
            turns.turn()
        assert turns.node.has_more
        turns.start_again()
        assert turns.node.has_more, "it goes on by itself"
        publisher = turns.client("p", published(2, "second", durable=True), published=1)
        turns.run()
        assert PubAck(2) in turns.heard[publisher]
        found = []
        for n in range(DURABLE):
            id = turns.client(f"d{n}", durable=True)
            turns.run()
            found.append(turns.delivered(id))
        assert found == [["first", "second"]] * DURABLE
        assert not turns.store.marks("fan-out/")
        assert not turns.store.unacked_count(Peer("fan-out", ""))


def test_a_file_keeps_whom_a_notification_is_still_for(tmp_path: Path) -> None:
    turns, publisher = durable_turns(SqliteStore(tmp_path / "b.db"))
    turns.say(publisher, published(1, "first", durable=True))
    turns.turn()
    assert PubAck(1) in turns.heard[publisher] and turns.node.has_more
    turns.store.close()
    turns.store = SqliteStore(tmp_path / "b.db")
    turns.start()
    turns.run()
    counts = {turns.store.unacked_count(Peer("client", f"d{n}")) for n in range(DURABLE)}
    assert counts == {1} and not turns.store.unacked_count(Peer("fan-out", ""))
    turns.store.close()


def test_one_that_left_during_a_fan_out_and_came_again_does_not_get_it_twice() -> None:
    turns, publisher = durable_turns()
    turns.say(publisher, published(1, "first", durable=True))
    last = turns.still_without()
    id = turns.client(last, Leave(7), durable=True)
    assert turns.node.has_more
    turns.say(id, DeliverAck(2**60))
    assert turns.delivered(id) == ["first"] and turns.heard[id][-1] == Left(7)
    turns.turn(events.Closed(id))
    again = turns.client(last, Subscribe(1, "k any", True), durable=True)
    turns.start_again()
    again = turns.client(last, durable=True)
    turns.run()
    assert turns.delivered(again) == []


def test_what_is_on_its_way_for_a_subscription_goes_with_it() -> None:
    turns, publisher = durable_turns()
    turns.say(publisher, published(1, "first", durable=True))
    assert turns.node.has_more
    session = turns.node.broker.clients[turns.still_without()]
    turns.authorizer.of[session.name] = Permission(subscribe=frozenset({"j"}))
    turns.turn(events.AccessChanged())
    turns.run()
    id = turns.client(session.name, durable=True)
    turns.run()
    assert turns.delivered(id) == []


def test_very_many_subscriptions_that_want_one_notification_are_listed_in_turns() -> None:
    turns = Turns()
    wanting = []
    for n in range(20):
        id = turns.client(f"c{n}")
        for first in range(0, 1_000, 500):
            turns.say(id, *[Subscribe(first + k, "k any", True) for k in range(500)])
            turns.run()
        wanting.append(id)
    publisher = turns.client("p")
    turns.run()
    turns.say(publisher, published(1, "first"), published(2, "second"))
    assert turns.node.has_more and not turns.delivered(wanting[0])
    turns.say(wanting[1], *[Unsubscribe(n) for n in range(10)])
    turns.turn(events.Closed(wanting[2]))
    turns.say(publisher, Publish(3, 0.0, content.encode({"j": 1})))
    assert turns.run() > 3
    for n in (0, 19):
        found = [each for each in turns.heard[wanting[n]] if isinstance(each, Deliver)]
        assert [len(each.subscriptions) for each in found] == [1_000] * 2
    last = [each for each in turns.heard[wanting[1]] if isinstance(each, Deliver)][-1]
    assert 990 <= len(last.subscriptions) < 1_000


def test_a_client_whose_messages_cost_too_much_in_a_second_rests_and_nobody_else() -> None:
    turns = Turns(limits=ClientLimits(work_rate=4_000))
    loud, calm = turns.client("loud"), turns.client("calm", Subscribe(1, "k any", True))
    turns.run()
    turns.say(loud, *[published(n, n) for n in range(1, 901)])
    assert turns.run() < 100, "the node has nothing to do meanwhile"
    first = len(turns.delivered(calm))
    assert 0 < first < 400 and loud in turns.paused
    turns.say(calm, Subscribe(2, "j any", True))
    assert Done("subscribe", 2) in turns.heard[calm], "answered in its own turn"
    for _ in range(10):  # two seconds
        turns.now += 0.2
        turns.turn(events.Tick())
        turns.run()
    assert first < len(turns.delivered(calm)) < 4 * first
    for _ in range(200):
        turns.now += 0.2
        turns.say(calm, Alive())
        turns.turn(events.Tick())
        turns.run()
    assert turns.delivered(calm) == list(range(1, 901))
    assert loud not in turns.paused


def test_whatever_ends_a_batch_its_senders_are_charged() -> None:
    ann, ben = Peer("client", "ann"), Peer("client", "ben")
    charged: dict[Peer, int] = {}

    def charge(peer: Peer, units: int) -> None:
        charged[peer] = charged.get(peer, 0) + units

    broker = Node(NodeSettings("b"), 1.0).broker
    waiting: dict[Peer, deque[AnyMessage]] = {
        ann: deque([Alive()] * 3),
        ben: deque([Alive()] * 2),
    }
    arrivals = Arrivals(
        waiting, [(0, 1, ann, None), (0, 2, ben, None)], Shares(BUDGET), broker, charge
    )
    for n, _ in enumerate(arrivals):
        broker.work.done += 10
        if n == 3:
            break  # as an error does, a StoreError or another, in the middle of a message
    arrivals.charge_sender()
    assert charged == {ann: 30, ben: 10}
    arrivals.charge_sender()
    assert list(waiting) == [ben], "what was not handed out waits"
    arrivals = Arrivals(waiting, [(0, 1, ben, None)], Shares(BUDGET), broker, charge)
    for _ in arrivals:
        broker.work.done += 10
    broker.work.done += 7  # for nobody
    arrivals.charge_sender()
    assert charged == {ann: 30, ben: 20} and not waiting


def test_a_client_that_must_rest_is_not_dropped_for_its_silence() -> None:
    """The broker does not read from it: whatever it says to show that it lives is not heard."""
    turns = Turns(limits=ClientLimits(work_rate=300), silent_s=1.0)
    loud = turns.client("loud")
    turns.run()
    turns.say(loud, *[published(n, n) for n in range(1, 901)])
    turns.run()
    for _ in range(25):
        turns.now += 0.2
        turns.turn(events.Tick())
        turns.run()
        assert loud in turns.paused, "the limit is low enough for the test"
    assert loud not in turns.closed


def test_matching_in_parts_counts_as_the_work_of_the_publisher() -> None:
    turns = Turns(limits=ClientLimits(work_rate=20_000))
    wanted = [Subscribe(n, f"k * 'needle{n}.'", True) for n in range(400)]
    for n in range(0, 400, 40):
        turns.client(f"wanting{n}", *wanted[n : n + 40])
    publisher = turns.client("p")
    turns.run()
    turns.say(publisher, published(1, "hay " * 100_000 + "needle7."), published(2, "more"))
    turns.run()
    turns.say(publisher, Subscribe(1, "j any", True))
    turns.run()
    assert Done("subscribe", 1) not in turns.heard[publisher], "it rests"
    for _ in range(100):
        turns.now += 0.2
        turns.turn(events.Tick())
        turns.run()
    assert Done("subscribe", 1) in turns.heard[publisher]


def test_a_client_with_very_many_advertisements_goes_in_turns() -> None:
    turns = Turns()
    for name, durable in (("away", True), ("gone", False)):
        id = turns.client(
            name, *[Advertise(n, f"k = {n}", True) for n in range(300)], durable=durable
        )
        turns.run()
        session = turns.node.broker.clients[name]
        assert len(session.advertisements) == 300
        turns.turn(events.Closed(id))
        assert 0 < len(session.advertisements) < 300
        assert turns.run() > 3 and not session.advertisements


def test_constants_of_removed_subscriptions_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_table, "LITTER_BYTES_MAX", 500_000)
    turns = Turns()
    client = turns.client("c", Subscribe(0, "k = 'mine'", True))
    turns.run()
    table = turns.node.broker.table
    for n in range(1, 400):
        turns.say(client, Subscribe(n, f"k = '{n}{'x' * 4_000}'", True), Unsubscribe(n))
        turns.turn(events.Tick())
        turns.run()
        assert table._matcher.constant_bytes < 520_000
    assert table.match(Notification({"k": "mine"})).clients == {"c": {0: None}}


@pytest.mark.parametrize("durable", [True, False])
def test_very_many_subscriptions_are_withdrawn_in_turns(durable: bool) -> None:
    turns = Turns()
    asked = [Subscribe(n, f"k = {n % 7} and l = {n}", True) for n in range(600)]
    client = turns.client("c", Subscribe(1_000, "k any", True), *asked, durable=durable)
    turns.run()
    session = turns.node.broker.clients["c"]
    assert len(session.subscriptions) == 601
    writes = marks_written(turns.store)
    turns.authorizer.permission = Permission(subscribe=frozenset({"k"}))
    turns.turn(events.AccessChanged())
    assert len(session.subscriptions) > 300
    publisher = turns.client("p", published(1, 3, durable=durable))
    turns.turn()
    assert session.deliveries.held_up and turns.delivered(client) == []
    assert turns.run() > 20
    assert list(session.subscriptions) == [1_000]
    refused = [each.reference for each in turns.heard[client] if isinstance(each, Refused)]
    assert refused == list(range(600))
    deliveries = [each for each in turns.heard[client] if isinstance(each, Deliver)]
    assert [each.subscriptions for each in deliveries] == [(1_000,)], "what is left is served"
    assert len(writes) == 2 * durable, "the mark is written before and after, not each time"
    assert turns.heard[publisher]


def marks_written(store: Store) -> list[str]:
    """The marks of withdrawn subscriptions that a store is given from now on."""
    written: list[str] = []
    mark = store.mark

    def marking(name: str, value: bytes) -> None:
        if name.startswith("withdrawn/"):
            written.append(name)
        mark(name, value)

    store.mark = marking  # type: ignore[method-assign]
    return written


def test_a_node_that_is_stopped_while_it_withdraws_has_it_done_when_it_starts() -> None:
    turns = Turns()
    asked = [Subscribe(n, "k any and l any", True) for n in range(300)]
    turns.client("c", *asked, durable=True)
    turns.run()
    publisher = turns.client("p", hidden(1))
    turns.run()
    turns.authorizer.permission = Permission(subscribe=frozenset({"k"}))
    turns.turn(events.AccessChanged())
    turns.say(publisher, hidden(2))
    for _ in range(5):
        turns.turn()
    assert 0 < len(turns.node.broker.clients["c"].subscriptions) < 300
    turns.start_again()
    turns.run()
    assert not turns.node.broker.clients["c"].subscriptions
    turns.authorizer.permission = Permission()
    client = turns.client("c", *asked, durable=True)
    turns.say(turns.client("q"), hidden(1))
    turns.run()
    heard = [each for each in turns.heard[client] if isinstance(each, Deliver)]
    assert [content.decode(each.envelope.content)["l"] for each in heard] == [1]
    assert heard[0].envelope.publisher == "q", "what came before is for nobody"


def hidden(number: int) -> Publish:
    return Publish(number, 0.0, content.encode({"k": 1, "l": number}), True)


def test_new_rules_are_in_force_at_once_and_very_many_clients_are_looked_at_in_turns() -> None:
    turns = Turns()
    wanting = [turns.client(f"c{n}", Subscribe(1, "k any", True)) for n in range(1_200)]
    publisher = turns.client("p")
    turns.run()
    spoke, last = (turns.node.broker.clients[name] for name in ("c1198", "c1199"))
    turns.authorizer.of = {f"c{n}": None for n in range(600, 1_200)}
    turns.say(publisher, published(1, "before"))
    turns.turn(events.AccessChanged(), events.Received(wanting[-2], [frame_of("forbidden")]))
    turns.turn()
    assert not last.is_looked_at and last.is_connected, "its turn has not come yet"
    assert not spoke.is_connected, "it spoke, so it was looked at"
    assert turns.run() > 5
    for id in wanting[:600]:
        assert turns.delivered(id) == ["before"], "nothing of what was forbidden"
    assert turns.closed == set(wanting[600:])
    assert set(turns.node.broker.clients) == {f"c{n}" for n in range(600)} | {"p"}
    assert len(turns.node.broker.table) == 600


def frame_of(k: object) -> bytes:
    return wire.encode(published(1, k))[4:]


def test_nothing_is_sent_by_old_rules_to_one_whose_turn_has_not_come() -> None:
    turns = Turns()
    for n in range(1_200):
        turns.client(f"c{n}")
    idle = turns.client("idle", Subscribe(1, "k any", True))
    publisher = turns.client("p")
    turns.run()
    turns.authorizer.of["idle"] = Permission(subscribe=frozenset({"j"}))
    turns.turn(events.AccessChanged(), events.Received(publisher, [frame_of("secret")]))
    turns.turn()
    assert not turns.node.broker.clients["c1199"].is_looked_at, "its turn has not come yet"
    assert turns.node.broker.clients["idle"].is_looked_at, "something was for it"
    turns.run()
    assert turns.delivered(idle) == []
    assert not turns.node.broker.clients["idle"].subscriptions


def test_a_client_that_comes_back_with_other_rights_gives_up_what_it_may_not_have() -> None:
    turns = Turns()

    class ByToken:
        """An authorizer that knows tokens, and no names of those who are away."""

        def admit(self, name: str, token: str) -> Permission | None:
            return Permission(subscribe=frozenset({"j"}) if token == "less" else None)

    turns.authorizer = ByToken()  # type: ignore[assignment]
    turns.start()
    asked = [Subscribe(1, "k any", True), Subscribe(2, "j any", True)]
    ann = turns.client("ann", *asked, durable=True)
    turns.run()
    turns.turn(events.Closed(ann))
    turns.client("p", published(1, "secret", durable=True))
    turns.run()
    ann = turns.client("ann", durable=True, token="less")
    turns.run()
    assert list(turns.node.broker.clients["ann"].subscriptions) == [2]
    assert turns.delivered(ann) == []
    assert [each.reference for each in turns.heard[ann] if isinstance(each, Refused)] == [1]


def test_an_index_that_has_doubled_is_made_anew_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbn.matching.indexed_subscriptions.AT_ONCE_MAX", 500)
    monkeypatch.setattr("kbn.matching.renewal.TAKEN_OVER", 50)
    monkeypatch.setattr("kbn.matching.renewal.ARRANGED", 50)
    turns = Turns()
    client = turns.client("a")
    table = turns.node.broker.table
    texts = [f"k > {n} and l < {n} and m = {n}" for n in range(1_500)]
    renewing = 0
    for first in range(0, len(texts), 50):
        some = texts[first : first + 50]
        turns.say(client, *(Subscribe(first + n, text, True) for n, text in enumerate(some)))
        while turns.node.has_more:
            turns.turn()
            renewing += table.is_renewing
    assert renewing >= 2
    assert not table.is_renewing
    turns.say(client, Credit(10), published(1, 1_499))
    turns.run()
    for n in range(1_400):
        turns.say(client, Unsubscribe(n))
        turns.run()
    assert not table.is_renewing
    assert len(table) == 100


def test_telling_neighbours_takes_turns_and_what_the_client_says_next_waits_for_it() -> None:
    turns = Turns()
    for n in range(3):
        turns.node.broker.link(f"n{n}")
    client, calm = turns.client("a"), turns.client("calm", Subscribe(1, "k any", True))
    turns.run()
    texts = " or ".join(f"m = {n} and l = {n}" for n in range(60))
    turns.say(client, Subscribe(1, texts, True), Alive())
    taken = 0
    while turns.node.has_more:
        assert not any(isinstance(each, Grant) for each in turns.heard[client])
        turns.say(calm, published(taken + 1, taken))
        taken += 1
        assert turns.delivered(calm)[-1] == taken - 1, "nobody else waits"
    assert taken > 4
    assert any(isinstance(each, Grant) for each in turns.heard[client])
    for n in range(3):
        told = turns.node.broker.table.told(f"n{n}")
        assert told is not None and len(told.filters) == 61


@pytest.mark.parametrize(
    "opening",
    [b"\x00" * 20, wire.encode(Who())[4:], wire.encode(Connect("x", 1, durable=True))[4:]],
)
def test_first_messages_of_very_many_connections_take_turns(opening: bytes) -> None:
    turns = Turns()
    ids = [next(turns.ids) for _ in range(300)]
    turns.heard = {id: [] for id in ids}
    opened = [events.Opened(id) for id in ids]
    turns.turn(*opened, *(events.Received(id, [opening]) for id in ids))
    assert turns.run() >= 2


def test_a_connection_that_takes_the_place_of_another_is_counted() -> None:
    turns = Turns()
    turns.client("a")
    turns.run()
    before = turns.node.turns.work
    for _ in range(50):
        turns.client("a")
        turns.run()
    assert turns.node.turns.work - before >= 50 * CONNECTED


@pytest.mark.parametrize(
    "text",
    [
        "not (" * 40 + "a = 1" + ")" * 40,
        " or ".join(f"a={n} and b<{n}" for n in range(60)),
        "b #> {" + ", ".join(f"'{n}y'" for n in range(500)) + "}",
        " and ".join(f"k{n} = {n}" for n in range(100)),
    ],
    ids=["nested", "filters", "elements", "constraints"],
)
def test_what_a_subscription_costs_is_counted_by_what_is_in_it(text: str) -> None:
    """At least what reading and entering it took at some time, in units of a microsecond."""
    turns = Turns()
    client = turns.client("a")
    turns.run()
    before = turns.node.turns.work
    turns.node.handle([received(client, Subscribe(1, text, True))], turns.now)
    assert turns.node.turns.largest <= 20_000, "this cannot be divided"
    words = len(text.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split())
    assert turns.node.turns.work - before > 5 * words


def test_a_subscription_is_counted_twice_while_the_table_is_made_anew() -> None:
    turns = Turns()
    client = turns.client("a")
    table = turns.node.broker.table
    once = table.cost_of(Subscription.parse("k = 1"))
    turns.say(client, *(Subscribe(n, f"k = {n}", True) for n in range(3)))
    steps = table.making_anew()
    next(steps)
    assert table.cost_of(Subscription.parse("k = 1")) == 2 * once
    assert sum(1 for _ in steps) == 2
    assert table.cost_of(Subscription.parse("k = 1")) == once
