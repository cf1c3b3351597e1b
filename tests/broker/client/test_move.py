"""A client's move: the whole table, and what a client does on each row of it."""

from __future__ import annotations

from itertools import product

import pytest

from kbn.broker.administration import GetStatus
from kbn.broker.client.core import ClientCore
from kbn.broker.client.effects import Confirmed, Delivered, Dial, Effect, Failed, HangUp, Moved
from kbn.broker.client.move import TRANSITIONS, ClientMove, MoveEvent, MoveState, MoveStep
from kbn.broker.messages import (
    Barrier,
    BarrierReached,
    ConnAck,
    Connect,
    Deliver,
    Done,
    Envelope,
    Leave,
    Left,
    PubAck,
    Publish,
    Redirect,
    Refused,
    Send,
    Subscribe,
    ToClient,
)

AT_HOME, DRAINING, CONNECTING = MoveState.AT_HOME, MoveState.DRAINING, MoveState.CONNECTING
JOINING, LEAVING = MoveState.JOINING, MoveState.LEAVING
STAY = [MoveStep.HANG_UP, MoveStep.PUBLISH, MoveStep.FOLLOW]

# What should happen, as the module's docstring tells it; every other pair changes nothing.
EXPECTED = {
    (AT_HOME, MoveEvent.REDIRECTED): (DRAINING, []),
    (DRAINING, MoveEvent.ALL_STORED): (CONNECTING, [MoveStep.DIAL]),
    (CONNECTING, MoveEvent.ADMITTED): (JOINING, [MoveStep.ASK_BARRIER]),
    (CONNECTING, MoveEvent.TURNED_AWAY): (AT_HOME, STAY),
    (JOINING, MoveEvent.CHANGED_SINCE): (JOINING, [MoveStep.ASK_BARRIER]),
    (JOINING, MoveEvent.IN_FORCE): (LEAVING, [MoveStep.SWITCH, MoveStep.PUBLISH]),
    (JOINING, MoveEvent.TURNED_AWAY): (AT_HOME, STAY),
    (LEAVING, MoveEvent.RELEASED): (
        AT_HOME,
        [MoveStep.HANG_UP, MoveStep.DELIVER_HELD, MoveStep.FOLLOW],
    ),
}


@pytest.mark.parametrize(
    ("state", "event"),
    list(product(MoveState, MoveEvent)),
    ids=lambda each: each.name,
)
def test_every_event_in_every_state(state: MoveState, event: MoveEvent) -> None:
    move = ClientMove()
    move.state = state
    steps = list(move.on(event))
    assert (move.state, steps) == EXPECTED.get((state, event), (state, []))
    if (state, event) in EXPECTED:
        assert move.may_publish == (move.state in (AT_HOME, LEAVING))


def test_every_state_is_reached_and_every_way_leads_home() -> None:
    def reached(start: MoveState) -> set[MoveState]:
        found = {start}
        while more := {to for (at, _), (to, _) in TRANSITIONS.items() if at in found} - found:
            found |= more
        return found

    assert reached(AT_HOME) == set(MoveState)
    assert all(AT_HOME in reached(state) for state in MoveState)


def test_a_connection_that_was_dialled_is_hung_up_once_on_every_way_home() -> None:
    """Whatever the order of events, dialled and hung up alternate, beginning with dialled."""
    ways: set[tuple[MoveState, bool]] = {(AT_HOME, False)}
    seen: set[tuple[MoveState, bool]] = set()
    while ways:
        seen |= ways
        further = set()
        for (state, is_dialled), event in product(ways, MoveEvent):
            after, steps = TRANSITIONS.get((state, event), (state, ()))
            for step in steps:
                if step in (MoveStep.DIAL, MoveStep.HANG_UP):
                    assert is_dialled == (step is MoveStep.HANG_UP)
                    is_dialled = not is_dialled
            further.add((after, is_dialled))
        ways = further - seen
    assert (AT_HOME, True) not in seen


def test_a_redirect_on_the_way_waits_until_the_client_is_there() -> None:
    move = ClientMove()
    move.redirected(Redirect("b", "kbn://b"), home="a")
    assert move.redirected(Redirect("c", "kbn://c"), home="a") == ()
    assert move.redirected(Redirect("d", "kbn://d"), home="a") == ()
    assert (move.target.broker, move.state) == ("b", DRAINING)
    assert move.take_postponed() == Redirect("d", "kbn://d")
    assert move.take_postponed() is None


def test_a_redirect_to_the_same_broker_is_no_move() -> None:
    move = ClientMove()
    assert move.redirected(Redirect("a", "kbn://a"), home="a") == ()
    assert not move.is_under_way


# The same with a whole client, and brokers that are played by the test.


class Conversation:
    """A client with one subscription, attached to broker a."""

    def __init__(self) -> None:
        self.core = ClientCore("ann", "a", epoch=1)
        self.core.connected("a", 0.0)
        self.tell("a", admitted("a"))
        self.core.subscribe("n any")
        self.tell("a", Done("subscribe", 1))

    def tell(self, broker: str, *messages: ToClient) -> list[Effect]:
        return [effect for each in messages for effect in self.core.receive(each, broker, now=0.0)]

    def arrive(self) -> list[Effect]:
        """Go as far as the barrier at broker b; what the core did last."""
        self.core.move("b", "kbn://b")
        self.core.connected("b", 0.0)
        self.tell("b", admitted("b"))
        return self.tell("b", Done("subscribe", 1))

    def published(self) -> bool:
        """Whether what is published now is sent at once."""
        return bool(self.core.publish(b"x", 0.0, durable=False)[1])


def admitted(broker: str) -> ConnAck:
    return ConnAck(broker, 1, "", 0, 100, True, False, True)


def delivery(number: int, content_number: int) -> Deliver:
    return Deliver(number, False, (1,), Envelope("bob", 1, content_number, 0.0, b"{}"))


def sent(effects: list[Effect]) -> list[tuple[str, type]]:
    return [(each.to.name, type(each.message)) for each in effects if isinstance(each, Send)]


def test_a_move_from_its_beginning_to_its_end() -> None:
    talk = Conversation()
    assert talk.core.move("b", "kbn://b") == [Dial("b", "kbn://b")]
    assert not talk.published()
    assert sent(talk.core.connected("b", 0.0)) == [("b", Connect)]
    assert sent(talk.tell("b", admitted("b"))) == [("b", Subscribe)]
    assert sent(talk.tell("b", Done("subscribe", 1))) == [("b", Barrier)]
    assert talk.core.broker == "a"
    assert sent(talk.tell("b", BarrierReached(1))) == [("a", Leave), ("b", Publish)]
    assert talk.core.broker == "b"
    assert talk.tell("b", delivery(1, 3)) == []
    assert talk.tell("a", delivery(1, 2)) == [Delivered(delivery(1, 2), "a")]
    assert talk.tell("a", Left(2)) == [
        HangUp("a"),
        Delivered(delivery(1, 3), "b"),
        Moved("b"),
    ]
    assert not talk.core.is_moving


def test_what_both_brokers_deliver_comes_once_and_what_is_past_not_at_all() -> None:
    talk = Conversation()
    talk.arrive()
    talk.tell("b", BarrierReached(1))
    assert talk.tell("b", delivery(1, 1), delivery(2, 2), delivery(3, 3)) == []
    talk.tell("a", delivery(1, 2))
    handed = [each for each in talk.tell("a", Left(2)) if isinstance(each, Delivered)]
    assert handed == [Delivered(delivery(3, 3), "b")]


def test_a_client_goes_when_what_it_published_is_stored() -> None:
    talk = Conversation()
    talk.core.publish(b"x", 0.0, durable=True)
    assert talk.core.move("b", "kbn://b") == []
    assert talk.tell("a", PubAck(1)) == [Confirmed("publish", 1), Dial("b", "kbn://b")]


def test_a_subscription_that_changes_on_the_way_needs_another_barrier() -> None:
    talk = Conversation()
    assert sent(talk.arrive()) == [("b", Barrier)]
    _, effects = talk.core.subscribe("k any")
    assert sent(effects) == [("a", Subscribe), ("b", Subscribe)]
    assert sent(talk.tell("b", BarrierReached(1))) == []
    assert sent(talk.tell("b", Done("subscribe", 2))) == [("b", Barrier)]
    assert talk.core.broker == "a"
    talk.tell("b", BarrierReached(2))
    assert talk.core.broker == "b"


def test_a_barrier_of_the_application_waits_until_the_old_broker_let_go() -> None:
    talk = Conversation()
    talk.arrive()
    talk.tell("b", BarrierReached(1))
    number, effects = talk.core.barrier()
    assert effects == []
    assert sent(talk.tell("a", Left(2))) == [("b", Barrier)]
    assert talk.tell("b", BarrierReached(number)) == [Confirmed("barrier", number)]


def test_requests_that_the_old_broker_did_not_answer_go_to_the_new_one() -> None:
    talk = Conversation()
    number, _ = talk.core.admin(GetStatus())
    talk.arrive()
    effects = talk.tell("b", BarrierReached(number + 1))
    assert [name for name, _ in sent(effects)] == ["a", "b"]


@pytest.mark.parametrize("how", ["unreachable", "refused"])
def test_a_client_that_is_turned_away_stays_and_publishes(how: str) -> None:
    talk = Conversation()
    talk.core.move("b", "kbn://b")
    assert not talk.published()
    if how == "unreachable":
        effects = talk.core.unreachable("b", "no answer")
    else:
        talk.core.connected("b", 0.0)
        effects = talk.tell("b", Refused("connect", 0, "NotAllowedError", "no"))
    assert isinstance(effects[0], Failed)
    assert effects[1] == HangUp("b")
    assert sent(effects) == [("a", Publish)]
    assert (talk.core.broker, talk.core.is_moving) == ("a", False)


def test_an_old_broker_that_is_lost_releases_a_client_for_which_it_keeps_nothing() -> None:
    talk = Conversation()
    talk.arrive()
    talk.tell("b", BarrierReached(1))
    assert talk.core.disconnected("a", 0.0) == [HangUp("a"), Moved("b")]


def test_a_client_sent_elsewhere_on_the_way_follows_when_it_is_there() -> None:
    talk = Conversation()
    talk.arrive()
    talk.tell("a", Redirect("c", "kbn://c"))
    talk.tell("b", BarrierReached(1))
    assert talk.tell("a", Left(2))[-1] == Dial("c", "kbn://c")
