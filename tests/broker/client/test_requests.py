"""What a broker was asked: repeated until answered, barriers after the changes before them."""

from __future__ import annotations

from kbn.broker.administration import GetStatus
from kbn.broker.client.requests import Request, Requests
from kbn.broker.client.subscriptions import Subscriptions
from kbn.broker.messages import AdminRequest, Barrier, Leave, Subscribe

ONE, TWO = Subscribe(1, "n any"), Subscribe(2, "k any")
FIRST, SECOND = Request("subscribe", 1), Request("subscribe", 2)
BARRIER, ASK = Request("barrier", 7), Request("admin-request", 8)


def test_a_request_waits_for_one_answer() -> None:
    mine = Requests()
    assert mine.add(FIRST, ONE) == [ONE]
    assert mine.is_waiting(FIRST)
    assert mine.answered(FIRST)
    assert not mine.answered(FIRST)
    assert not mine.answered(Request("unheard-of", 1))


def test_a_barrier_waits_until_every_change_is_answered() -> None:
    mine = Requests()
    mine.add(FIRST, ONE)
    mine.add(SECOND, TWO)
    assert mine.add(BARRIER, Barrier(7)) == []
    mine.answered(FIRST)
    assert (mine.barriers(), mine.sendable()) == ([], [TWO])
    mine.answered(SECOND)
    assert mine.barriers() == mine.sendable() == [Barrier(7)]


def test_other_requests_wait_for_nothing() -> None:
    mine = Requests()
    mine.add(FIRST, ONE)
    assert mine.add(ASK, AdminRequest(8, GetStatus())) == [AdminRequest(8, GetStatus())]
    assert mine.add(Request("leave", 9), Leave(9)) == [Leave(9)]


def test_while_an_old_broker_may_deliver_only_the_barrier_of_the_move_is_sent() -> None:
    mine = Requests(holds_barriers=True)
    assert mine.add(BARRIER, Barrier(7)) == []
    assert mine.add(Request("join", 8), Barrier(8)) == [Barrier(8)]
    mine.holds_barriers = False
    assert mine.barriers() == [Barrier(7), Barrier(8)]


def test_changes_since_the_last_barrier_of_a_move_are_noted() -> None:
    mine = Requests()
    mine.note(FIRST, ONE)
    assert not mine.has_changed
    mine.add(SECOND, TWO)
    assert mine.has_changed
    mine.add(Request("join", 3), Barrier(3))
    assert not mine.has_changed


def test_a_request_that_is_noted_twice_waits_once() -> None:
    mine = Requests()
    mine.add(FIRST, ONE)
    mine.note(FIRST, ONE)
    mine.add(BARRIER, Barrier(7))
    mine.answered(FIRST)
    assert mine.barriers() == [Barrier(7)]


def test_the_oldest_are_repeated_first() -> None:
    mine = Requests()
    for request, message in ((FIRST, ONE), (SECOND, TWO), (ASK, AdminRequest(8, GetStatus()))):
        mine.add(request, message)
    assert mine.sendable(at_most=2) == [ONE, TWO]


def test_requests_of_a_kind_are_taken_to_another_broker() -> None:
    mine = Requests()
    mine.add(ASK, AdminRequest(8, GetStatus()))
    mine.add(FIRST, ONE)
    mine.add(BARRIER, Barrier(7))
    assert mine.take("barrier", "admin-request") == [
        (ASK, AdminRequest(8, GetStatus())),
        (BARRIER, Barrier(7)),
    ]
    assert mine.sendable() == [ONE]


def test_a_refused_subscription_is_not_said_again() -> None:
    mine = Subscriptions()
    mine.subscribe("n any", is_text=True)
    mine.advertise("n any", is_text=True)
    mine.refused("advertise", 1)  # another's number
    mine.refused("subscribe", 1)
    assert [each.id for each in mine] == [2]
    mine.refused("advertise", 2)
    assert list(mine) == []
    assert mine.unadvertise(2) is None
