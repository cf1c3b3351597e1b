"""One broker, talked to: what it answers, refuses, drops and grants."""

from __future__ import annotations

from typing import Any

import pytest

from kbn.broker import AdminBody, administration, content
from kbn.broker.access import Permission
from kbn.broker.administration import GetStatus
from kbn.broker.broker import Broker
from kbn.broker.limits import ClientLimits
from kbn.broker.messages import (
    AdminReply,
    AdminRequest,
    Advertise,
    Alive,
    AnyMessage,
    Barrier,
    BarrierReached,
    Bye,
    ConnAck,
    Connect,
    Credit,
    Deliver,
    DeliverAck,
    Done,
    Grant,
    Greet,
    Leave,
    Left,
    Peer,
    PubAck,
    Publish,
    Refused,
    Send,
    Subscribe,
    Unsubscribe,
)
from kbn.broker.occurrences import Lost, SetAside, StoppedWaiting
from kbn.broker.store import MemoryStore
from kbn.ontology import Ontology

ANN, BOB = Peer("client", "ann"), Peer("client", "bob")


class Talk:
    """A conversation with a broker: what it says is kept by whom it says it to."""

    def __init__(self, **settings: Any) -> None:
        self.store = MemoryStore()
        self.settings = settings
        self.now = 100.0
        self.start()

    def start(self) -> None:
        self.broker = Broker("b", store=self.store, now=self.now, **self.settings)
        self.heard: dict[Peer, list[AnyMessage]] = {}

    def say(self, peer: Peer, *messages: AnyMessage) -> list[AnyMessage]:
        """Say something; what this peer is answered."""
        before = len(self.heard.setdefault(peer, []))
        for message in messages:
            self.take(self.broker.receive(message, peer, self.now))
        return self.heard[peer][before:]

    def take(self, sends: list[Send]) -> None:
        self.store.commit()
        for to, message in sends:
            self.heard.setdefault(to, []).append(message)

    def delivered(self, peer: Peer) -> list[Any]:
        return [
            content.decode(m.envelope.content)["k"]
            for m in self.heard.get(peer, [])
            if isinstance(m, Deliver)
        ]


def published(number: int, k: object = 1, *, durable: bool = False) -> Publish:
    return Publish(number, 0.0, content.encode({"k": k}), durable)


def test_nothing_is_done_for_a_client_that_is_not_connected() -> None:
    talk = Talk()
    for message in (
        Subscribe(1, "k = 1", True),
        published(1),
        Barrier(1),
        Alive(),
        AdminRequest(1, GetStatus()),
    ):
        [answer] = talk.say(ANN, message)
        assert isinstance(answer, Refused)
        assert answer.kind == "NotConnectedError"
    assert len(talk.broker.table) == 0


def test_connect_is_answered_with_what_a_client_must_know() -> None:
    talk = Talk(ontology_digest="abc")
    [welcome] = talk.say(ANN, Connect("ann", 5))
    assert isinstance(welcome, ConnAck)
    assert (welcome.broker, welcome.ontology, welcome.taken, welcome.resumed) == (
        "b",
        "abc",
        0,
        False,
    )
    [again] = talk.say(ANN, Connect("ann", 5))
    assert isinstance(again, ConnAck) and again.resumed
    [older] = talk.say(ANN, Connect("ann", 4))
    assert isinstance(older, Refused) and "newer process" in older.reason


def test_a_bad_filter_is_refused_with_its_place_and_changes_nothing() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1))
    [refused] = talk.say(ANN, Subscribe(3, "k = = 1", True))
    assert isinstance(refused, Refused)
    assert (refused.what, refused.reference, refused.kind) == ("subscribe", 3, "FilterSyntaxError")
    [refused] = talk.say(ANN, Subscribe(4, '{"all": [{"attribute": 5}]}'))
    assert isinstance(refused, Refused)
    assert len(talk.broker.table) == 0
    assert talk.say(ANN, Subscribe(3, "k = 1", True)) == [Done("subscribe", 3)]


def test_asking_twice_for_the_same_is_harmless_and_for_another_is_refused() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1))
    for _ in range(2):
        assert talk.say(ANN, Subscribe(1, "k = 1", True)) == [Done("subscribe", 1)]
    [refused] = talk.say(ANN, Subscribe(1, "k = 2", True))
    assert isinstance(refused, Refused) and "another" in refused.reason
    for _ in range(2):
        assert talk.say(ANN, Unsubscribe(1)) == [Done("unsubscribe", 1)]


def test_garbage_for_content_is_refused_and_its_number_used_up() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1))
    answers = talk.say(BOB, Publish(1, 0.0, b"\xc1garbage", durable=True))
    assert {type(each) for each in answers} == {Refused, PubAck}
    talk.say(BOB, published(2, 7, durable=True))
    assert talk.delivered(ANN) == [7]


def test_durable_notifications_are_taken_in_order_and_once() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1))
    assert talk.say(BOB, published(2, "too early", durable=True)) == []
    assert talk.say(BOB, published(1, "a", durable=True)) == [PubAck(1)]
    assert talk.say(BOB, published(1, "a", durable=True)) == [PubAck(1)]
    assert talk.say(BOB, published(2, "b", durable=True)) == [PubAck(2)]
    assert talk.delivered(ANN) == ["a", "b"]


def test_what_was_taken_is_known_after_a_restart_and_a_new_epoch_begins_anew() -> None:
    talk = Talk()
    talk.say(BOB, Connect("bob", 1), published(1, durable=True), published(2, durable=True))
    talk.start()
    [welcome] = talk.say(BOB, Connect("bob", 1))
    assert isinstance(welcome, ConnAck) and welcome.taken == 2
    [welcome] = talk.say(BOB, Connect("bob", 2))
    assert isinstance(welcome, ConnAck) and welcome.taken == 0


def test_what_a_durable_client_was_sent_is_kept_until_it_acknowledges_across_a_restart() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1, durable=True), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1), *(published(n, n, durable=True) for n in (1, 2, 3)))
    first, *_ = [m for m in talk.heard[ANN] if isinstance(m, Deliver)]
    talk.say(ANN, DeliverAck(first.number))
    talk.start()
    talk.say(ANN, Connect("ann", 2, durable=True))
    assert talk.delivered(ANN) == [2, 3]
    talk.say(BOB, Connect("bob", 2), published(1, 4))
    assert talk.delivered(ANN) == [2, 3, 4], "its subscription was kept too"


def test_a_client_that_leaves_is_forgotten_after_it_has_everything() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1, durable=True), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1), published(1, 1, durable=True))
    assert talk.say(ANN, Leave(9)) == [], "it has not acknowledged"
    [delivery] = [m for m in talk.heard[ANN] if isinstance(m, Deliver)]
    assert talk.say(ANN, DeliverAck(delivery.number)) == [Left(9)]
    assert len(talk.broker.table) == 0
    assert talk.say(ANN, Leave(9)) == [Left(9)], "it did not hear the first"
    assert talk.store.clients() == []


def test_no_more_is_sent_than_a_client_granted() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1, window=2), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1), *(published(n, n) for n in range(1, 6)))
    assert talk.delivered(ANN) == [1, 2]
    talk.say(ANN, Credit(3))
    assert talk.delivered(ANN) == [1, 2, 3]
    talk.say(ANN, Credit(10))
    assert talk.delivered(ANN) == [1, 2, 3, 4, 5]


def test_of_a_slow_client_the_oldest_are_dropped_and_counted() -> None:
    talk = Talk(limits=ClientLimits(queue=3))
    talk.say(ANN, Connect("ann", 1, window=1), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1), *(published(n, n) for n in range(1, 9)))
    talk.say(ANN, Credit(100))
    assert talk.delivered(ANN) == [1, 6, 7, 8]
    assert talk.heard[ANN][-1].dropped == 4
    assert talk.broker.status().clients[0].dropped == 4


def test_a_slow_client_can_have_its_publishers_wait_and_go_on() -> None:
    limits = ClientLimits(queue=400, publish_ahead=20)
    talk = Talk(limits=limits)
    talk.say(ANN, Connect("ann", 1, window=1, when_slow="block"), Subscribe(1, "k any", True))
    [welcome] = talk.say(BOB, Connect("bob", 1))
    assert isinstance(welcome, ConnAck)
    granted, sent = welcome.credit, 0
    while sent < granted:
        sent += 1
        for answer in talk.say(BOB, published(sent, sent)):
            assert isinstance(answer, Grant)
            granted = answer.total
    assert 100 <= sent < 200, "it was stopped long before anything had to be dropped"
    before = len(talk.heard[BOB])
    talk.say(ANN, Credit(1_000))
    [grant] = talk.heard[BOB][before:]
    assert isinstance(grant, Grant) and grant.total > sent
    assert talk.delivered(ANN) == list(range(1, sent + 1))


def test_who_publishes_more_than_it_was_granted_is_refused() -> None:
    talk = Talk(limits=ClientLimits(publish_ahead=10))
    talk.say(ANN, Connect("ann", 1, window=1, when_slow="block"))
    talk.say(BOB, Connect("bob", 1))
    bob = talk.broker.clients["bob"]
    bob.publications.granted = 3
    answers = talk.say(BOB, *(published(n) for n in range(1, 6)))
    assert any(isinstance(a, Grant | Refused) for a in answers)


class Doorkeeper:
    def admit(self, name: str, token: str) -> Permission | None:
        if token != "open sesame":
            return None
        return Permission(frozenset({"k"}), frozenset({"k"}), manage=False)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Publish(1, 0.0, content.encode({"k": 1, "secret": 2})), "publish 'secret'"),
        (Subscribe(1, "secret = 1", True), "subscribe to 'secret'"),
        (Subscribe(1, "{}"), None),
        (Subscribe(1, '{"all": []}'), "subscribe to everything"),
        (Advertise(1, "secret > 1", True), "publish 'secret'"),
        (AdminRequest(1, GetStatus()), "instruct this broker"),
    ],
)
def test_a_client_may_do_what_its_authorizer_allows_and_no_more(
    message: AnyMessage, reason: str | None
) -> None:
    talk = Talk(authorizer=Doorkeeper())
    [refused] = talk.say(ANN, Connect("ann", 1, token="wrong"))
    assert isinstance(refused, Refused) and "token" in refused.reason
    assert isinstance(talk.say(ANN, Connect("ann", 1, token="open sesame"))[0], ConnAck)
    refusals = [a for a in talk.say(ANN, message) if isinstance(a, Refused)]
    assert len(refusals) == 1
    if reason is not None:
        assert refusals[0].kind == "NotAllowedError"
        assert reason in refusals[0].reason
    assert talk.say(ANN, Subscribe(2, "k = 1", True)) == [Done("subscribe", 2)]


@pytest.mark.parametrize(
    ("limits", "message", "what"),
    [
        (ClientLimits(subscriptions=1), Subscribe(2, "k = 2", True), "subscriptions per client"),
        (
            ClientLimits(constraints=1),
            Subscribe(2, "k > 2 and k < 9", True),
            "constraints per filter",
        ),
        (ClientLimits(filters=1), Subscribe(2, "k = 2 or k = 3", True), "filters per subscription"),
        (ClientLimits(content_bytes=4), published(1, "abcdefgh"), "bytes per notification"),
    ],
)
def test_what_is_too_much_is_refused(limits: ClientLimits, message: AnyMessage, what: str) -> None:
    talk = Talk(limits=limits)
    talk.say(ANN, Connect("ann", 1), Subscribe(1, "k = 1", True))
    [refused] = [a for a in talk.say(ANN, message) if isinstance(a, Refused)]
    assert refused.kind == "LimitError"
    assert what in refused.reason


def test_a_broker_without_a_store_refuses_what_it_could_not_keep() -> None:
    talk = Talk(keeps=False)
    [refused] = talk.say(ANN, Connect("ann", 1, durable=True))
    assert isinstance(refused, Refused) and "store" in refused.reason
    talk.say(ANN, Connect("ann", 1))
    answers = talk.say(ANN, published(1, durable=True))
    assert any(isinstance(a, Refused) and "store" in a.reason for a in answers)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (administration.Report("info"), "reports to nobody"),
        (administration.Unlink("c"), "no node around it"),
        (administration.MoveClients("c", "kbn://c", ("zoe",)), "'zoe'"),
    ],
)
def test_what_a_broker_cannot_do_is_refused(body: AdminBody, reason: str) -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1))
    [refused] = talk.say(ANN, AdminRequest(7, body))
    assert isinstance(refused, Refused)
    assert (refused.what, refused.reference) == ("admin-request", 7)
    assert reason in refused.reason


def test_a_manager_is_told_the_status() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1))
    [reply] = talk.say(ANN, AdminRequest(7, GetStatus()))
    assert reply == AdminReply(7, administration.Status(talk.broker.status()))


def test_alone_everything_is_in_force_at_once() -> None:
    talk = Talk()
    assert talk.say(ANN, Connect("ann", 1), Barrier(4))[-1] == BarrierReached(4)


@pytest.mark.parametrize(
    ("routing", "greet", "reason"),
    [
        ("acyclic", Greet("x", 1, 0, "child", ""), "same routing"),
        ("hierarchical", Greet("x", 1, 0, "peer", ""), "same routing"),
        ("acyclic", Greet("b", 1, 0, "peer", ""), "its own neighbour"),
    ],
)
def test_a_broker_that_does_not_fit_is_told_why(routing: Any, greet: Greet, reason: str) -> None:
    talk = Talk(routing=routing)
    [bye] = talk.say(Peer("broker", greet.broker), greet)
    assert isinstance(bye, Bye)
    assert reason in bye.reason
    assert talk.broker.neighbours == {}


def test_a_client_that_vanishes_is_forgotten_and_a_durable_one_is_not() -> None:
    talk = Talk()
    talk.say(ANN, Connect("ann", 1), Subscribe(1, "k = 1", True))
    talk.say(BOB, Connect("bob", 1, durable=True), Subscribe(1, "k = 2", True))
    for peer in (ANN, BOB):
        talk.take(talk.broker.disconnected(peer, talk.now))
    assert list(talk.broker.clients) == ["bob"]
    assert len(talk.broker.table) == 1


def test_what_was_prematched_is_delivered_as_if_it_had_not_been() -> None:
    for prematches in (False, True):
        talk = Talk()
        talk.say(ANN, Connect("ann", 1), Subscribe(1, "k < 3", True), Subscribe(2, "k = 5", True))
        talk.say(BOB, Connect("bob", 1))
        messages: list[AnyMessage] = [published(n, n) for n in range(1, 6)]
        if prematches:
            talk.broker.prematch([m.content for m in messages] + [b"\xc1garbage"])
        talk.say(BOB, *messages[:3])
        talk.say(ANN, Subscribe(3, "k = 4", True))
        talk.say(BOB, *messages[3:])
        assert talk.delivered(ANN) == [1, 2, 4, 5]


class Entries:
    """Admits everybody named, with what each may do."""

    def __init__(self, **entries: Permission) -> None:
        self._entries = entries

    def admit(self, name: str, token: str) -> Permission | None:
        return self._entries.get(name)


def test_only_who_was_granted_it_may_stop_publishers() -> None:
    talk = Talk(authorizer=Entries(ann=Permission(block=False), bob=Permission()))
    [refused] = talk.say(ANN, Connect("ann", 1, when_slow="block"))
    assert isinstance(refused, Refused) and "the right `block`" in refused.reason
    assert [type(m) for m in talk.say(ANN, Connect("ann", 1))] == [ConnAck]
    assert [type(m) for m in talk.say(BOB, Connect("bob", 1, when_slow="block"))] == [ConnAck]


def test_an_entry_may_change_the_limits_of_one_client() -> None:
    entries = Entries(ann=Permission(limits={"content_bytes": 4}), bob=Permission())
    talk = Talk(authorizer=entries, limits=ClientLimits(content_bytes=100))
    talk.say(ANN, Connect("ann", 1))
    talk.say(BOB, Connect("bob", 1))
    [refused] = talk.say(ANN, published(1, "abcdefgh"))
    assert isinstance(refused, Refused) and "bytes per notification" in refused.reason
    assert not talk.say(BOB, published(1, "abcdefgh"))


def test_what_is_dropped_of_a_slow_client_is_bounded_by_bytes_too() -> None:
    talk = Talk(limits=ClientLimits(queue_bytes=100_000))
    talk.say(ANN, Connect("ann", 1, window=1), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1))
    for number in range(1, 41):
        talk.say(BOB, published(number, "x" * 10_000))
    queue = talk.broker.clients["ann"].deliveries.queue
    assert sum(len(envelope.content) for _, envelope in queue.waiting) <= 100_000
    talk.say(ANN, Credit(100))
    last = [m for m in talk.heard[ANN] if isinstance(m, Deliver)]
    assert len(last) + last[-1].dropped == 40


def durable_ann(**limits: Any) -> Talk:
    """A durable client that wants everything and is away, and bob who publishes."""
    talk = Talk(limits=ClientLimits(**limits))
    hello = Connect("ann", 1, durable=True, token="t")
    talk.say(ANN, hello, Subscribe(1, "k any", True))
    talk.take(talk.broker.disconnected(ANN, talk.now))
    talk.say(BOB, Connect("bob", 1))
    return talk


@pytest.mark.parametrize("limit", [{"unacked": 64}, {"unacked_bytes": 64 * 1100}])
def test_a_durable_client_has_so_much_unacked_and_is_told_what_it_lost(
    limit: dict[str, int],
) -> None:
    talk = durable_ann(**limit)
    for number in range(1, 1001):
        answers = talk.say(BOB, published(number, str(number) * 300, durable=True))
        assert answers and isinstance(answers[0], PubAck | Grant)
    kept = talk.store.unacked_count(ANN)
    assert kept <= limit.get("unacked", 1000)
    assert talk.store.unacked_bytes(ANN) <= limit.get("unacked_bytes", 10**9)
    lost = 1000 - kept
    [told, *_] = [o for o in talk.broker.take_occurred() if isinstance(o, Lost)]
    assert told.client == "ann"
    assert talk.broker.counts["lost"] == lost
    [about] = [each for each in talk.broker.status().clients if each.client == "ann"]
    assert (about.queued, about.dropped) == (kept, lost)
    talk.start()  # it is not forgotten in a restart
    welcome, *deliveries = talk.say(ANN, Connect("ann", 1, durable=True, token="t"))
    assert isinstance(welcome, ConnAck) and welcome.dropped == lost
    numbers = [m.envelope.number for m in deliveries if isinstance(m, Deliver)]
    assert numbers == list(range(lost + 1, 1001)), "the newest are kept, in order"
    assert all(m.dropped == lost for m in deliveries if isinstance(m, Deliver))


def test_a_client_that_is_to_get_nothing_else_is_told_what_it_lost_too() -> None:
    talk = Talk(limits=ClientLimits(unacked_bytes=100))
    talk.say(ANN, Connect("ann", 1, durable=True, token="t"), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1), published(1, "x" * 200, durable=True))
    assert talk.say(ANN, Alive()) == [Grant(ClientLimits().publish_ahead, dropped=1)]


def test_publishers_wait_for_a_blocking_client_only_so_long() -> None:
    limits = ClientLimits(queue=40, publish_ahead=10, block_s=5.0)
    talk = Talk(limits=limits)
    talk.say(ANN, Connect("ann", 1, window=1, when_slow="block"), Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1))
    number = 0

    def publish_while_granted(most: int) -> int:
        nonlocal number
        begun = number
        granted = max(m.total for m in [*talk.heard[BOB]] if isinstance(m, Grant))
        while number < granted and number - begun < most:
            number += 1
            talk.say(BOB, published(number))
            granted = max(m.total for m in talk.heard[BOB] if isinstance(m, Grant))
        return number - begun

    talk.say(BOB, Alive())
    assert publish_while_granted(100) < 100, "bob waits for ann, who reads nothing"
    for _ in range(4):
        talk.now += 1.0
        talk.take(talk.broker.tick(talk.now))
    assert publish_while_granted(100) == 0
    talk.now += 1.5
    talk.take(talk.broker.tick(talk.now))
    told = [m for m in talk.heard[ANN] if isinstance(m, Refused)]
    assert [m.what for m in told] == ["block"] and "5 s" in told[0].reason
    assert StoppedWaiting("ann", 5.0) in talk.broker.take_occurred()
    assert publish_while_granted(100) == 100, "nobody waits for ann any more"
    assert talk.broker.clients["ann"].deliveries.dropped > 0
    talk.say(ANN, Credit(1000))
    assert publish_while_granted(20) == 20
    talk.say(ANN, Credit(number + 1000))
    assert not talk.broker.clients["ann"].deliveries.waiting.is_over, "it has caught up"


def test_a_durable_client_may_block_too_while_it_is_there() -> None:
    talk = Talk(limits=ClientLimits(unacked=40, publish_ahead=10, block_s=5.0))
    ann = Connect("ann", 1, durable=True, token="t", window=1, when_slow="block")
    talk.say(ANN, ann, Subscribe(1, "k any", True))
    talk.say(BOB, Connect("bob", 1))
    for number in range(1, 31):
        talk.say(BOB, published(number, durable=True))
    acked = max(m.number for m in talk.heard[BOB] if isinstance(m, PubAck))
    assert 10 < acked < 30, "the rest was not taken: it was not granted"
    assert talk.broker.counts["lost"] == 0
    talk.take(talk.broker.disconnected(ANN, talk.now))
    for number in range(acked + 1, acked + 100):
        talk.say(BOB, published(number, durable=True))
    assert max(m.number for m in talk.heard[BOB] if isinstance(m, PubAck)) == acked + 99
    assert talk.broker.counts["lost"] > 0


def test_a_kept_subscription_that_cannot_be_read_stops_nobody() -> None:
    talk = durable_ann()
    talk.store.keep_subscription("ann", 2, '{"nonsense": 1}')
    talk.store.keep_client("eve", 10, "drop")
    talk.store.keep_subscription("eve", 1, "not even json")
    talk.store.commit()
    talk.start()
    told = [each.what for each in talk.broker.take_occurred() if isinstance(each, SetAside)]
    assert told == ["subscription/ann/2", "subscription/eve/1"]
    assert talk.broker.counts["set_aside"] == 2
    assert list(talk.broker.clients["ann"].subscriptions) == [1]
    talk.say(BOB, Connect("bob", 1))
    talk.say(BOB, published(1, 5, durable=True))
    talk.say(ANN, Connect("ann", 1, durable=True, token="t"))
    assert talk.delivered(ANN) == [5]


def test_a_kept_subscription_with_a_term_that_a_new_ontology_lacks_does_not_stop_the_broker() -> (
    None
):
    talk = durable_ann()
    wanted = Subscribe(2, "c @> <http://example.org/T>", True)
    hello = Connect("ann", 1, durable=True, token="t")
    assert talk.say(ANN, hello, wanted)[-1] == Done("subscribe", 2)
    talk.settings["ontology"] = Ontology.empty()
    talk.start()
    assert list(talk.broker.clients["ann"].subscriptions) == [1, 2]
    *_, told = talk.say(ANN, hello, wanted)
    assert isinstance(told, Refused) and told.kind == "UnknownTermError"
    talk.take(talk.broker.use_ontology(None, "", talk.now))
    assert (ANN, 2) in talk.broker.table, "an ontology that knows the term serves it again"


@pytest.mark.parametrize("mark", ["publisher/bob", "redirect/ann", "lost/ann"])
def test_a_mark_that_cannot_be_read_stops_nobody(mark: str) -> None:
    talk = durable_ann()
    talk.store.mark(mark, b"\xc1 nonsense")
    talk.store.commit()
    talk.start()
    assert isinstance(talk.say(BOB, Connect("bob", 1))[0], ConnAck)
    assert isinstance(talk.say(ANN, Connect("ann", 1, durable=True, token="t"))[0], ConnAck)
    assert talk.broker.counts["set_aside"] == 1


@pytest.mark.parametrize("year", [1970, 2026, 2200, 9999])
def test_a_broker_whose_clock_is_far_ahead_keeps_what_is_published(year: int) -> None:
    store, starts = MemoryStore(), []
    for moment in (0.0, (year - 1970) * 31_557_600.0, 0.0):
        broker = Broker("b", store=store, now=moment)
        starts.append(broker.epoch)
        peer, connect = Peer("client", "ann"), Connect("ann", 1, durable=True)
        broker.receive(connect, peer, moment)
        broker.receive(Subscribe(1, "x > 0"), peer, moment)
        published = Publish(1, moment, content.encode({"x": 1}), durable=True)
        bob = Peer("client", "bob")
        broker.receive(Connect("bob", 1 + len(starts)), bob, moment)
        sent = broker.receive(published, bob, moment)
        assert PubAck(1) in [each.message for each in sent]
        store.commit()
    assert starts == sorted(set(starts)), "each epoch is larger than the one before"


def test_who_leaves_is_told_what_was_dropped_also_when_it_asks_again() -> None:
    talk = Talk(limits=ClientLimits(unacked=16))
    talk.say(ANN, Connect("ann", 1, durable=True), Subscribe(1, "k = 1", True))
    talk.say(BOB, Connect("bob", 1), *(published(n, durable=True) for n in range(1, 101)))
    told = [each for each in talk.heard[ANN] if isinstance(each, Deliver)][-1].dropped
    left = talk.say(ANN, Leave(7), DeliverAck(2**62))[-1]
    assert isinstance(left, Left) and left.dropped >= max(told, 84)
    assert talk.say(ANN, Leave(7)) == [left]
    talk.say(ANN, Connect("ann", 2, durable=True))
    assert talk.say(ANN, Leave(8)) == [Left(8)], "another process has lost nothing"
    assert talk.say(ANN, Leave(8)) == [Left(8)]


def test_one_whose_name_was_used_in_a_far_epoch_may_come_once_that_is_unlinked() -> None:
    talk, other = Talk(), Peer("broker", "x")
    talk.say(other, Greet("x", 2**62, 0, "peer", ""))
    assert talk.broker.neighbours["x"].link.epoch == 2**62
    talk.say(other, Greet("x", 5, 0, "peer", ""))
    assert talk.broker.neighbours["x"].link.epoch == 2**62
    talk.take(talk.broker.unlink("x"))
    talk.say(other, Greet("x", 5, 0, "peer", ""))
    assert talk.broker.neighbours["x"].link.epoch == 5
