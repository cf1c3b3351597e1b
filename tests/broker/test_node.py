"""Conversations with a node: who comes in, whose connection is kept, who is dropped and why."""

from __future__ import annotations

from typing import Any

import pytest

from kbn.broker import (
    AllowAll,
    LinkTo,
    MemoryStore,
    Node,
    NodeSettings,
    Permission,
    ServerLimits,
    content,
    node_effects,
    notes,
    wire,
)
from kbn.broker import node_events as events
from kbn.broker.messages import (
    AnyMessage,
    Bye,
    ConnAck,
    Connect,
    Done,
    Greet,
    Publish,
    Refused,
    Subscribe,
    Who,
)
from kbn.errors import InvalidInputError


def packed(message: AnyMessage) -> bytes:
    return wire.encode(message)[wire.HEADER_BYTES :]


class Talk:
    """A node, and what it did when something happened; time passes when `tick` is called."""

    def __init__(self, name: str = "b", **options: Any) -> None:
        self.now = 100.0
        self.node = Node(NodeSettings(name, **options), self.now)
        self.effects = self.node.start(self.now)

    def tell(self, *happened: events.Event) -> Talk:
        self.effects = self.node.handle(happened, self.now)
        return self

    def say(self, connection: int, *messages: AnyMessage) -> Talk:
        return self.tell(events.Received(connection, [packed(each) for each in messages]))

    def opened(self, connection: int, **details: Any) -> Talk:
        return self.tell(events.Opened(connection, "there:1", **details))

    def tick(self, seconds: float, step_s: float = 0.2) -> Talk:
        found: list[node_effects.Effect] = []
        end = self.now + seconds
        while self.now < end:
            self.now += step_s
            found += self.tell(events.Tick()).effects
        self.effects = found
        return self

    def sent(self, connection: int) -> list[AnyMessage]:
        return [
            message
            for effect in self.effects
            if isinstance(effect, node_effects.Send) and effect.connection == connection
            for message in effect.messages
        ]

    def refusal(self, connection: int) -> str:
        """Why a connection was refused and closed."""
        *_, refused = self.sent(connection)
        assert isinstance(refused, Refused)
        assert connection in self.closed
        return refused.reason

    @property
    def closed(self) -> list[int]:
        return [each.connection for each in self.effects if isinstance(each, node_effects.Close)]

    @property
    def dialled(self) -> list[str]:
        return [each.url for each in self.effects if isinstance(each, node_effects.Dial)]

    @property
    def notes(self) -> list[notes.Note]:
        return [each.note for each in self.effects if isinstance(each, node_effects.Note)]


def greet(name: str, epoch: int = 1, heard: int = 0, **options: Any) -> Greet:
    return Greet(name, epoch, heard, "peer", "", **options)


class Doorkeeper(AllowAll):
    """Clients need a token, and so do brokers."""

    def admit(self, name: str, token: str) -> Permission | None:
        return Permission() if token == "secret" else None

    def admit_broker(self, name: str, token: str) -> bool:
        return token == "between us"


# Admission.


def test_a_client_that_connects_is_served_and_noted() -> None:
    talk = Talk().opened(1).say(1, Connect("ann", 1), Subscribe(1, "n any", True))
    assert [type(each) for each in talk.sent(1)] == [ConnAck, Done]
    assert talk.notes == [notes.ClientAttached("ann", "there:1")]
    assert talk.tell(events.Closed(1)).notes == [notes.ClientLeft("ann")]
    assert not talk.node.broker.clients


def test_whoever_asks_learns_the_name_and_asks_once() -> None:
    talk = Talk().opened(1).say(1, Who())
    assert talk.sent(1) == [Who("b")]
    assert "asked before" in talk.say(1, Who()).refusal(1)


@pytest.mark.parametrize(
    ("opening", "reason"),
    [
        (Connect("ann", 1), "client 'ann' is not admitted"),
        (Connect("ann", 1, token="guess"), "client 'ann' is not admitted"),
        (greet("c"), "broker 'c' is not admitted"),
        (Bye("c", 1), "broker 'c' is not admitted"),
        (Connect("ann", 1, version=99, token="secret"), "version 99"),
    ],
)
def test_who_has_no_token_is_told_so_and_dropped(opening: AnyMessage, reason: str) -> None:
    talk = Talk(authorizer=Doorkeeper()).opened(1).say(1, opening)
    assert reason in talk.refusal(1)
    assert not talk.node.broker.clients and not talk.node.broker.neighbours


def test_a_name_must_be_the_name_of_the_certificate() -> None:
    talk = Talk(checks_certificates=True).opened(1, certificate="ann")
    assert "you are not 'bob'" in talk.say(1, Connect("bob", 1)).refusal(1)
    talk.opened(2, certificate="ann").say(2, Connect("ann", 1))
    assert isinstance(talk.sent(2)[0], ConnAck)
    assert "you are not 'c'" in talk.opened(3).say(3, greet("c")).refusal(3)


def test_nobody_speaks_in_the_name_of_another() -> None:
    talk = Talk().opened(1).say(1, Connect("ann", 1)).say(1, Connect("bob", 1))
    assert "this connection is ann's" in talk.refusal(1)


def test_what_is_no_message_ends_the_connection() -> None:
    talk = Talk().opened(1).tell(events.Received(1, [b"\xc1"]))
    assert "a first message" in talk.refusal(1)
    talk.opened(2).tell(events.Broken(2, "a frame of no bytes"))
    assert talk.refusal(2) == "a frame of no bytes"


# Replaced connections.


def test_a_newer_connection_of_a_client_takes_the_place_of_the_older() -> None:
    talk = Talk().opened(1).say(1, Connect("ann", 5))
    talk.opened(2).say(2, Connect("ann", 5))
    assert talk.closed == [1] and isinstance(talk.sent(2)[0], ConnAck)
    assert "ann" in talk.tell(events.Closed(1)).node.broker.clients
    assert "newer epoch" in talk.opened(3).say(3, Connect("ann", 4)).refusal(3)


def test_of_an_older_epoch_nothing_remains() -> None:
    talk = Talk().opened(1).say(1, Connect("ann", 5), Subscribe(1, "n any", True))
    talk.opened(2).say(2, Connect("ann", 6))
    assert not talk.node.broker.clients["ann"].subscriptions


# Neighbours.


def test_what_was_for_an_older_connection_is_not_sent_on_the_newer() -> None:
    talk = Talk().opened(1).say(1, Connect("ann", 1)).opened(2)
    body = content.encode({"n": 1})
    talk.tell(
        events.Received(1, [packed(Publish(1, 0.0, body, durable=True))]),
        events.Received(2, [packed(Connect("ann", 2))]),
    )
    while talk.node.has_more:
        talk.effects += talk.node.handle([], talk.now)
    assert [type(each) for each in talk.sent(2)] == [ConnAck]


def linked(name: str, other: str, **options: Any) -> Talk:
    """A node that dials another, which has said its name on connection 1."""
    talk = Talk(name, links=(LinkTo("kbn://there", name=other),), **options)
    assert talk.dialled == ["kbn://there"]
    assert talk.opened(1, link=1).sent(1) == [Who(name)]
    return talk.say(1, Who(other))


def test_one_that_is_dialled_says_its_name_and_is_greeted() -> None:
    talk = linked("b", "c")
    [message] = talk.sent(1)
    assert isinstance(message, Greet) and message.broker == "b"
    assert talk.notes == [notes.NeighbourConnected("c", again=False)]


def test_one_that_comes_becomes_a_neighbour() -> None:
    talk = Talk().opened(1).say(1, greet("c"))
    assert list(talk.node.broker.neighbours) == ["c"]
    assert isinstance(talk.sent(1)[0], Greet)


@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize(("us", "them"), [("a", "b"), ("b", "a")])
def test_of_two_crossing_connections_that_of_the_lesser_name_is_kept(
    us: str, them: str, first: str
) -> None:
    talk = Talk(us, links=(LinkTo("kbn://there", name=them),)).opened(1, link=1)
    closed = []
    if first == "ours":
        talk.say(1, Who(them))
        closed += talk.opened(2).say(2, greet(them)).closed
    else:
        talk.opened(2).say(2, greet(them))
        closed += talk.say(1, Who(them)).closed
    kept = "ours" if us < them else "theirs"
    assert closed == [2 if kept == "ours" else 1]
    assert notes.ConnectionsCrossed(them, kept) in talk.notes  # type: ignore[arg-type]
    assert talk.node.broker.neighbours[them].is_connected
    talk.tell(events.Closed(closed[0]))
    assert talk.node.broker.neighbours[them].is_connected


def test_one_that_is_lost_is_dialled_again_and_the_waits_grow() -> None:
    talk = linked("b", "c")
    talk.tell(events.Closed(1))
    assert not talk.dialled and talk.node.due_at == pytest.approx(talk.now + 0.0375)
    talk.now = talk.node.due_at
    assert talk.tell().dialled == ["kbn://there"]
    waits = []
    for _ in range(12):
        talk.tell(events.DialFailed(1, "nobody answers"))
        assert notes.DialFailed("kbn://there", "nobody answers") in talk.notes
        waits.append(talk.node.due_at - talk.now)
        talk.now = talk.node.due_at
        assert talk.tell().dialled == ["kbn://there"]
    assert waits == sorted(waits) and waits[-1] == pytest.approx(3.75)


def test_one_that_is_connected_to_us_is_not_dialled() -> None:
    talk = Talk("b", links=(LinkTo("kbn://there", name="a"),))
    talk.tell(events.DialFailed(1, "nobody answers"))
    talk.opened(2).say(2, greet("a"))
    assert not talk.tick(10).dialled
    talk.say(2, greet("a")).tell(events.Closed(2))
    assert talk.tick(1).dialled == ["kbn://there"]


def test_a_neighbour_is_known_again_in_the_next_epoch() -> None:
    store = MemoryStore()
    Talk(store=store).opened(1).say(1, greet("c"))
    assert list(Talk(store=store).node.broker.neighbours) == ["c"]


# Leaving and moving.


def test_one_that_is_left_is_told_until_it_has_heard() -> None:
    store = MemoryStore()
    talk = linked("b", "c", store=store)
    talk.say(1, greet("c")).tell(events.Unlink("c"))
    [bye] = talk.sent(1)
    assert isinstance(bye, Bye) and bye.cause == "unlinked"
    assert not talk.closed, "it may not have heard"
    talk.tell(events.Closed(1))
    again = Talk("b", store=store)
    assert again.dialled == ["kbn://there"]
    again.opened(1, link=1).say(1, Who("c"))
    assert again.sent(1) == [bye]
    assert again.say(1, Bye("c", 0)).closed == [1]
    again.tell(events.Closed(1))
    assert not again.tick(10).dialled
    assert not Talk("b", store=store).dialled


def test_who_hears_that_it_was_left_answers_and_does_not_come_back() -> None:
    store = MemoryStore()
    talk = linked("b", "c", store=store)
    talk.say(1, greet("c")).say(1, Bye("c", 2, "moved", "moved"))
    assert [type(each) for each in talk.sent(1)] == [Bye] and talk.closed == [1]
    assert not talk.node.broker.neighbours
    talk.tell(events.Closed(1))
    assert not talk.tick(10).dialled
    links = (LinkTo("kbn://there", name="c"),)
    assert not Talk("b", store=store, links=links).dialled, "not after a restart either"


def test_one_that_was_left_while_it_was_down_is_told_when_it_starts_again() -> None:
    c_store, c_links = MemoryStore(), (LinkTo("kbn://b", name="b"),)
    b, c = Talk("b"), Talk("c", store=c_store, links=c_links)
    b.opened(1).say(1, *c.opened(1, link=1).say(1, Who("b")).sent(1))
    c.say(1, *b.sent(1))
    b.tell(events.Unlink("c"))  # c has stopped, and does not hear it
    again = Talk("c", store=c_store, links=c_links)
    b.opened(2).say(2, *again.opened(1, link=1).say(1, Who("b")).sent(1))
    assert [type(each) for each in b.sent(2)] == [Bye] and not b.node.broker.neighbours
    again.say(1, *b.sent(2))
    assert not again.node.broker.neighbours
    anew = Talk("c", store=c_store, links=c_links)  # started once more: that is meant
    b.opened(3).say(3, *anew.opened(1, link=1).say(1, Who("b")).sent(1))
    assert list(b.node.broker.neighbours) == ["c"]


def test_who_is_refused_tries_again() -> None:
    talk = linked("b", "c")
    talk.say(1, Bye("c", 2, "check your token"))
    talk.tell(events.Closed(1))
    assert talk.tick(1).dialled == ["kbn://there"]


def moving() -> Talk:
    """A child of c, told to move to d, which has said its name on connection 2."""
    links = (LinkTo("kbn://c", "parent", "our token", "c"),)
    talk = Talk("b", routing="hierarchical", links=links, store=MemoryStore())
    talk.opened(1, link=1).say(1, Who("c")).say(1, Greet("c", 1, 0, "parent", ""))
    talk.tell(events.MoveBroker("kbn://d"))
    assert talk.dialled == ["kbn://d"]
    return talk.opened(2, link=2).say(2, Who("d"))


def test_a_broker_told_to_move_dials_the_new_place_and_shows_its_token() -> None:
    talk = moving()
    [message] = talk.sent(2)
    assert isinstance(message, Greet) and message.token == "our token"
    assert set(talk.node.broker.neighbours) == {"c", "d"}
    with pytest.raises(InvalidInputError, match="one move must be over"):
        talk.node.leaving(events.MoveBroker("kbn://e"))


def test_a_move_that_is_refused_is_over_and_noted() -> None:
    talk = moving().say(2, Refused("connect", 0, "InvalidInputError", "not admitted"))
    ended = [note for note in talk.notes if isinstance(note, notes.MoveEnded)]
    assert ended == [notes.MoveEnded("c", "d", "'d' refuses: not admitted")]
    assert set(talk.node.broker.neighbours) == {"c"}


def test_an_interrupted_move_begins_again() -> None:
    talk = moving()
    links = talk.node.settings.links
    again = Talk("b", routing="hierarchical", links=links, store=talk.node.store)
    assert again.dialled == ["kbn://c", "kbn://d"]


def test_the_old_parent_may_be_lost_and_found_in_the_middle_of_a_move() -> None:
    talk = moving().tell(events.Closed(1)).tick(0.2)
    talk.opened(3, link=1).say(3, Who("c"))
    assert not talk.closed and talk.node.broker.neighbours["c"].is_connected


# Limits.


def test_who_says_nothing_is_dropped() -> None:
    limits = ServerLimits(connect_timeout_s=5)
    talk = Talk(server_limits=limits).opened(1)
    assert not talk.tick(4.7).closed
    assert "no first message in 5 s" in talk.tick(0.8).refusal(1)


def test_who_falls_silent_is_dropped_unless_it_was_us_who_did_not_listen() -> None:
    talk = Talk(server_limits=ServerLimits(silent_s=5)).opened(1).say(1, Connect("ann", 1))
    assert not talk.tick(4.7).closed
    assert not talk.tick(10, step_s=10).closed, "we were away ourselves"
    talk.say(1, Connect("ann", 1))
    assert "nothing heard for 5 s" in talk.tick(5.3).refusal(1)


def test_there_are_only_so_many_connections() -> None:
    talk = Talk(server_limits=ServerLimits(connections=2)).opened(1).opened(2).opened(3)
    assert "2 connections are the limit" in talk.refusal(3)
    talk.tell(events.Closed(3)).tell(events.Closed(1))
    assert not talk.opened(4).closed


def test_a_client_that_does_not_read_is_sent_nothing_and_not_read_from() -> None:
    talk = Talk(server_limits=ServerLimits(room_bytes=1000, unwritten_bytes=5000))
    talk.opened(1).say(1, Connect("ann", 1), Subscribe(1, "n any", True))
    talk.opened(2).say(2, Connect("bob", 1))
    assert talk.tell(events.Stalled(1, 2000)).effects == [node_effects.PauseReading(1)]
    talk.say(2, Publish(1, 0.0, b"\x81\xa1n\x01"))
    assert not talk.sent(1)
    talk.tell(events.Writable(1, 100))
    assert len(talk.sent(1)) == 1 and node_effects.ResumeReading(1) in talk.effects
    talk.tell(events.Writable(1, 5001))
    assert node_effects.Close(1, aborts=True) in talk.effects


def test_one_message_that_the_broker_stumbles_over_costs_its_sender_only() -> None:
    talk = Talk().opened(1).say(1, Connect("ann", 1)).opened(2).say(2, Connect("bob", 1))
    receive = talk.node.broker.receive_many

    def stumbling(arrived: Any, now: float) -> Any:
        def checked() -> Any:
            for message, peer in arrived:
                if isinstance(message, Publish):
                    raise RuntimeError("a bug")
                yield message, peer

        return receive(checked(), now)

    talk.node.broker.receive_many = stumbling  # type: ignore[method-assign]
    bad = [wire.encode(Publish(1, 0.0, b""))[4:]]
    good = [wire.encode(Subscribe(1, "n any", True))[4:]]
    talk.tell(events.Received(1, bad), events.Received(2, good))
    assert talk.closed == [1] and talk.sent(2) == [Done("subscribe", 1)]
    [bug] = [note for note in talk.notes if isinstance(note, notes.Bug)]
    assert (bug.peer.name, bug.message) == ("ann", "Publish")


def test_an_ontology_that_is_loaded_again_and_is_the_same_changes_nothing() -> None:
    talk = Talk()
    assert talk.tell(events.UseOntology(None, "d1")).notes == [notes.OntologyUsed("d1")]
    assert talk.tell(events.UseOntology(None, "d1")).notes == [notes.OntologyUnchanged("d1")]
    assert talk.tell(events.UseOntology(None, "d2")).notes == [notes.OntologyUsed("d2")]
