"""A client's move: the whole table, and what a client does on each row of it."""

from __future__ import annotations

from itertools import product

import pytest

from kbn.broker.administration import GetStatus
from kbn.broker.client.core import ClientCore
from kbn.broker.client.effects import Confirmed, Delivered, Dial, Effect, Failed, HangUp, Moved
from kbn.broker.client.move import TRANSITIONS, ClientMove, MoveEvent, MoveState, MoveStep
from kbn.broker.client.mover import PATIENCE_S
from kbn.broker.client.refuges import LEAVE_AFTER_S, TRY_S
from kbn.broker.client.settings import ClientSettings
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
    Refuges,
    Refused,
    Send,
    Subscribe,
    ToClient,
)

AT_HOME, CONNECTING, JOINING = MoveState.AT_HOME, MoveState.CONNECTING, MoveState.JOINING
DRAINING, SETTLING, LEAVING = MoveState.DRAINING, MoveState.SETTLING, MoveState.LEAVING
STAY = [MoveStep.TURN_BACK, MoveStep.PUBLISH, MoveStep.FOLLOW]
GO = [MoveStep.SWITCH, MoveStep.PUBLISH]
ABANDON = [MoveStep.ABANDON, MoveStep.NEW_STRAND, MoveStep.DELIVER_HELD, MoveStep.FOLLOW]

# What should happen, as the module's docstring tells it; every other pair changes nothing.
EXPECTED = {
    (AT_HOME, MoveEvent.REDIRECTED): (CONNECTING, [MoveStep.DIAL]),
    (CONNECTING, MoveEvent.ADMITTED): (JOINING, [MoveStep.ASK_BARRIER]),
    (CONNECTING, MoveEvent.TURNED_AWAY): (AT_HOME, STAY),
    (JOINING, MoveEvent.CHANGED_SINCE): (JOINING, [MoveStep.ASK_BARRIER]),
    (JOINING, MoveEvent.IN_FORCE): (DRAINING, []),
    (JOINING, MoveEvent.TURNED_AWAY): (AT_HOME, STAY),
    (JOINING, MoveEvent.HOME_LOST): (AT_HOME, ABANDON),
    (DRAINING, MoveEvent.ALL_STORED): (SETTLING, [MoveStep.ASK_BARRIER]),
    (DRAINING, MoveEvent.NOTHING_SENT): (LEAVING, GO),
    (DRAINING, MoveEvent.TURNED_AWAY): (AT_HOME, STAY),
    (DRAINING, MoveEvent.HOME_LOST): (AT_HOME, ABANDON),
    (SETTLING, MoveEvent.CHANGED_SINCE): (SETTLING, [MoveStep.ASK_BARRIER]),
    (SETTLING, MoveEvent.IN_FORCE): (LEAVING, GO),
    (SETTLING, MoveEvent.LATE): (LEAVING, [MoveStep.SWITCH, MoveStep.NEW_STRAND]),
    (SETTLING, MoveEvent.LATE_AND_CHANGED): (JOINING, [MoveStep.PUBLISH]),
    (SETTLING, MoveEvent.TURNED_AWAY): (AT_HOME, STAY),
    (SETTLING, MoveEvent.HOME_LOST): (AT_HOME, ABANDON),
    (LEAVING, MoveEvent.RELEASED): (
        AT_HOME,
        [MoveStep.HANG_UP, MoveStep.DELIVER_HELD, MoveStep.FOLLOW],
    ),
    (LEAVING, MoveEvent.LATE): (
        AT_HOME,
        [MoveStep.LEAVE_BEHIND, MoveStep.DELIVER_HELD, MoveStep.FOLLOW],
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
        assert move.may_publish == (move.state not in (DRAINING, SETTLING))


def test_every_state_is_reached_and_every_way_leads_home() -> None:
    def reached(start: MoveState) -> set[MoveState]:
        found = {start}
        while more := {to for (at, _), (to, _) in TRANSITIONS.items() if at in found} - found:
            found |= more
        return found

    assert reached(AT_HOME) == set(MoveState)
    assert all(AT_HOME in reached(state) for state in MoveState)


ENDS = {MoveStep.HANG_UP, MoveStep.TURN_BACK, MoveStep.LEAVE_BEHIND, MoveStep.ABANDON}


def test_a_connection_that_was_dialled_is_let_go_once_on_every_way_home() -> None:
    """Whatever the order of events, dialled and let go alternate, beginning with dialled."""
    ways: set[tuple[MoveState, bool]] = {(AT_HOME, False)}
    seen: set[tuple[MoveState, bool]] = set()
    while ways:
        seen |= ways
        further = set()
        for (state, is_dialled), event in product(ways, MoveEvent):
            after, steps = TRANSITIONS.get((state, event), (state, ()))
            for step in steps:
                if step in {MoveStep.DIAL, *ENDS}:
                    assert is_dialled == (step in ENDS)
                    is_dialled = not is_dialled
            further.add((after, is_dialled))
        ways = further - seen
    assert (AT_HOME, True) not in seen


def test_a_redirect_on_the_way_waits_until_the_client_is_there() -> None:
    move = ClientMove()
    move.redirected(Redirect("b", "kbn://b"), home="a")
    assert move.redirected(Redirect("c", "kbn://c"), home="a") == ()
    assert move.redirected(Redirect("d", "kbn://d"), home="a") == ()
    assert (move.target.broker, move.state) == ("b", CONNECTING)
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
    assert sent(talk.core.connected("b", 0.0)) == [("b", Connect)]
    assert sent(talk.tell("b", admitted("b"))) == [("b", Subscribe)]
    assert sent(talk.tell("b", Done("subscribe", 1))) == [("b", Barrier)]
    assert talk.core.broker == "a"
    assert sent(talk.tell("b", BarrierReached(1))) == [("a", Leave)]
    assert talk.core.broker == "b"
    assert talk.published()
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


def test_a_client_goes_when_what_it_published_has_arrived_everywhere() -> None:
    talk = Conversation()
    talk.arrive()
    talk.core.publish(b"x", 0.0, durable=True)
    assert sent(talk.tell("b", BarrierReached(1))) == []
    assert not talk.published()
    assert sent(talk.tell("a", PubAck(1))) == [("b", Barrier)]
    assert not talk.published()
    # It says how much is stored, so that the new one does not wait for that.
    assert sent(talk.tell("b", BarrierReached(2))) == [("b", Connect), ("a", Leave)]
    assert sent(talk.tell("b", admitted("b")))[-2:] == [("b", Publish), ("b", Publish)]


def test_one_that_publishes_waits_for_others_no_longer_than_it_can_bear() -> None:
    talk = Conversation()
    talk.arrive()
    talk.core.publish(b"x", 0.0, durable=True)
    talk.tell("b", BarrierReached(1))
    talk.tell("a", PubAck(1))
    assert not talk.published()
    talk.core.tick(0.0)
    effects = talk.core.tick(PATIENCE_S)
    [connect] = [e.message for e in effects if isinstance(e, Send) and e.to.name == "b"][-1:]
    assert isinstance(connect, Connect)
    assert connect.strand == 1
    assert sent(talk.tell("b", admitted("b"))) == [("b", Subscribe), ("b", Publish)]


def test_an_old_broker_that_does_not_let_go_holds_back_nothing_for_long() -> None:
    talk = Conversation()
    talk.arrive()
    talk.tell("b", BarrierReached(1))
    assert talk.tell("b", delivery(1, 3)) == []
    talk.core.tick(0.0)
    effects = talk.core.tick(PATIENCE_S)
    assert Delivered(delivery(1, 3), "b") in effects
    assert talk.core.former == ("a",)
    [leave] = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Leave)]
    assert talk.tell("a", Left(leave.request)) == [HangUp("a")]
    assert talk.core.former == ()


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
    assert talk.published()
    if how == "unreachable":
        effects = talk.core.unreachable("b", "no answer")
    else:
        talk.core.connected("b", 0.0)
        effects = talk.tell("b", Refused("connect", 0, "NotAllowedError", "no"))
    assert isinstance(effects[0], Failed)
    assert effects[0].what == "move"
    assert effects[1] == HangUp("b")
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


# A broker that is lost.


class Lost(Conversation):
    """A durable client with one subscription at a, which knows of b and c; then a is lost."""

    def __init__(self) -> None:
        self.core = ClientCore("ann", "a", epoch=1, settings=ClientSettings(durable=True))
        self.core.connected("a", 0.0)
        self.tell("a", admitted("a"), Refuges((("b", "kbn://b"), ("c", "kbn://c"))))
        self.core.subscribe("n any")
        self.tell("a", Done("subscribe", 1))
        self.core.disconnected("a", 0.0)
        self.core.tick(0.0)

    def seek(self) -> list[Effect]:
        """Wait until it goes elsewhere; it is taken in by b."""
        self.core.tick(LEAVE_AFTER_S)
        self.core.connected("b", LEAVE_AFTER_S)
        self.tell("b", admitted("b"), Done("subscribe", 1))
        return self.core.tick(LEAVE_AFTER_S + 0.1)


def kept(number: int, content_number: int, after: int = 0) -> Deliver:
    envelope = Envelope("bob", 1, content_number, 0.0, b"{}", durable=True)
    return Deliver(number, True, (1,), envelope, after=after)


def dialled(effects: list[Effect]) -> list[str]:
    return [each.broker for each in effects if isinstance(each, Dial)]


def test_a_client_whose_broker_is_away_tries_others_one_after_the_other() -> None:
    talk = Lost()
    assert talk.core.tick(LEAVE_AFTER_S - 0.1) == []
    assert dialled(talk.core.tick(LEAVE_AFTER_S)) == ["b"]
    assert dialled(talk.core.tick(LEAVE_AFTER_S + TRY_S / 2)) == []
    assert dialled(talk.core.tick(LEAVE_AFTER_S + TRY_S)) == ["c"]
    assert dialled(talk.core.tick(LEAVE_AFTER_S + 2 * TRY_S)) == ["b"]


def test_one_whose_broker_is_back_in_time_stays() -> None:
    talk = Lost()
    talk.core.tick(LEAVE_AFTER_S)
    talk.core.connected("a", LEAVE_AFTER_S)
    talk.tell("a", admitted("a"))
    assert HangUp("b") in talk.core.tick(LEAVE_AFTER_S + 0.1)
    assert (talk.core.broker, talk.core.is_moving, talk.core.former) == ("a", False, ())


def test_one_that_is_told_to_stay_waits() -> None:
    talk = Lost()
    settings = ClientSettings(durable=True, stays=True)
    talk.core = ClientCore("ann", "a", epoch=1, settings=settings)
    talk.core.connected("a", 0.0)
    talk.tell("a", admitted("a"), Refuges((("b", "kbn://b"),)))
    talk.core.disconnected("a", 0.0)
    talk.core.tick(0.0)
    assert talk.core.tick(100.0) == []


def test_at_its_refuge_a_client_publishes_what_was_not_confirmed_in_another_strand() -> None:
    talk = Lost()
    talk.core.publish(b"x", 0.0, durable=True)
    effects = talk.seek()
    assert Moved("b") in effects
    assert (talk.core.broker, talk.core.former) == ("b", ("a",))
    [connect] = [each.message for each in effects if isinstance(each, Send)]
    assert isinstance(connect, Connect)
    assert (connect.strand, connect.published) == (1, 0)
    assert ("b", Publish) in sent(talk.tell("b", admitted("b")))


def test_a_former_broker_brings_what_was_not_brought_at_home_and_is_left_then() -> None:
    talk = Lost()
    talk.seek()
    talk.tell("b", admitted("b"), Done("subscribe", 1))
    assert talk.tell("b", kept(1, 5)) == [Delivered(kept(1, 5), "b")]
    talk.tell("b", BarrierReached(1))
    assert sent(talk.core.connected("a", 9.0)) == [("a", Connect)]
    assert ("a", Leave) in sent(talk.tell("a", admitted("a")))
    late = talk.tell("a", kept(7, 3), kept(8, 5, after=7), kept(9, 6, after=8))
    assert [each for each in late if isinstance(each, Delivered)] == [
        Delivered(kept(7, 3), "a", is_late=True)
    ]
    assert talk.core.former == ("a",)
    assert talk.tell("a", Left(2)) == [HangUp("a")]
    assert talk.core.former == ()


def test_a_former_broker_is_not_left_before_everything_reaches_the_client_at_home() -> None:
    talk = Lost()
    talk.seek()
    talk.tell("b", admitted("b"), Done("subscribe", 1))
    talk.core.connected("a", 9.0)
    assert ("a", Leave) not in sent(talk.tell("a", admitted("a")))
    assert ("a", Leave) in sent(talk.tell("b", BarrierReached(1)))


def test_what_was_asked_of_a_lost_broker_is_answered_all_the_same() -> None:
    talk = Lost()
    id, _ = talk.core.subscribe("k any")
    barrier, _ = talk.core.barrier()
    status, _ = talk.core.admin(GetStatus())
    talk.core.tick(LEAVE_AFTER_S)
    talk.core.connected("b", LEAVE_AFTER_S)
    talk.tell("b", admitted("b"), Done("subscribe", 1), Done("subscribe", id))
    effects = talk.core.tick(LEAVE_AFTER_S + 0.1)
    assert Confirmed("subscribe", id) in effects
    assert Failed("admin-request", status, "TransportError", "a is away") in effects
    talk.tell("b", admitted("b"), Done("subscribe", 1), Done("subscribe", id))
    assert Confirmed("barrier", barrier) in talk.tell("b", BarrierReached(barrier))


def test_a_client_goes_back_to_a_former_broker_when_nobody_else_is_there() -> None:
    talk = Lost()
    talk.seek()
    talk.tell("b", admitted("b"), Done("subscribe", 1))
    assert talk.core.former == ("a",)
    talk.tell("b", Refuges((("a", "kbn://a"),)))
    talk.core.disconnected("b", 20.0)
    talk.core.connected("a", 20.0)
    talk.tell("a", admitted("a"))
    talk.core.tick(20.0)
    assert ("a", Connect) in sent(talk.core.tick(20.0 + LEAVE_AFTER_S))
    talk.tell("a", admitted("a"), Done("subscribe", 1))
    talk.core.tick(20.2 + LEAVE_AFTER_S)
    assert (talk.core.broker, talk.core.former) == ("a", ("b",))


def test_of_several_orders_the_newest_counts() -> None:
    move = ClientMove()
    move.postpone(Redirect("b", "kbn://b"))
    assert move.redirected(Redirect("c", "kbn://c"), home="a") == (MoveStep.DIAL,)
    assert move.take_postponed() is None
    move = ClientMove()
    move.postpone(Redirect("b", "kbn://b"))
    assert move.redirected(Redirect("a", "kbn://a"), home="a") == ()
    assert move.take_postponed() is None
