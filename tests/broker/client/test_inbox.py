"""What one broker delivers: repetitions and gaps are told, credit and acknowledgements are due."""

from __future__ import annotations

from kbn.broker.client.inbox import ACKNOWLEDGED_EVERY, Inbox
from kbn.broker.messages import Credit, Deliver, DeliverAck, Envelope


def inbox(window: int = 1000, *, acknowledges_each: bool = False, holds: bool = False) -> Inbox:
    made = Inbox(window, acknowledges_each=acknowledges_each, holds=holds)
    made.connected(in_order=True, is_resumed=False)
    return made


def deliver(number: int, *, durable: bool = True, after: int | None = None) -> Deliver:
    before = number - 1 if after is None else after
    return Deliver(number, durable, (1,), Envelope("bob", 1, number, 0.0, b""), after=before)


def test_a_delivery_is_accepted_once() -> None:
    mine = inbox()
    for durable in (True, False):
        assert [mine.accept(deliver(n, durable=durable)) for n in (1, 1, 2, 1)] == [
            True,
            False,
            True,
            False,
        ]


def test_a_durable_one_after_a_gap_waits_for_what_is_missing() -> None:
    mine = inbox()
    assert not mine.accept(deliver(2))
    assert mine.answer_unaccepted(deliver(2)) == []
    assert mine.accept(deliver(1))
    assert mine.accept(deliver(2))
    assert mine.accept(deliver(5, after=2))  # numbers may skip: the broker says after which


def test_of_those_that_may_be_lost_a_gap_is_a_loss() -> None:
    mine = inbox()
    assert mine.accept(deliver(3, durable=False))
    assert mine.answer_unaccepted(deliver(3, durable=False)) == []


def test_credit_is_granted_when_half_of_the_window_is_used() -> None:
    mine = inbox(window=4)
    answers = [mine.done_with(deliver(n, durable=False)) for n in range(1, 5)]
    assert answers == [[], [Credit(6)], [], [Credit(8)]]


def test_a_window_of_one_grants_each() -> None:
    mine = inbox(window=1)
    assert mine.done_with(deliver(1, durable=False)) == [Credit(2)]
    assert mine.done_with(deliver(2, durable=False)) == [Credit(3)]


def test_durable_ones_are_acknowledged_together() -> None:
    mine = inbox()
    answers = [mine.done_with(deliver(n)) for n in range(1, ACKNOWLEDGED_EVERY + 1)]
    assert answers == [[]] * (ACKNOWLEDGED_EVERY - 1) + [[DeliverAck(ACKNOWLEDGED_EVERY)]]
    mine.done_with(deliver(ACKNOWLEDGED_EVERY + 1))
    assert mine.acknowledge() == [DeliverAck(ACKNOWLEDGED_EVERY + 1)]
    assert mine.acknowledge() == []


def test_an_inbox_that_acknowledges_each_waits_for_none() -> None:
    mine = inbox(acknowledges_each=True)
    assert mine.done_with(deliver(1)) == [DeliverAck(1)]
    assert mine.done_with(deliver(2)) == [DeliverAck(2)]


def test_a_repetition_is_acknowledged_again_and_gives_back_the_credit_it_used() -> None:
    mine = inbox(window=2, acknowledges_each=True)
    mine.accept(deliver(1))
    assert mine.answer_unaccepted(deliver(1)) == [DeliverAck(0)]  # not done with: keep it
    mine.done_with(deliver(1))
    mine.connected(in_order=True, is_resumed=True)
    assert mine.answer_unaccepted(deliver(1)) == [Credit(3), DeliverAck(1)]


def test_a_broker_that_knows_us_no_more_counts_what_may_be_lost_anew() -> None:
    mine = inbox()
    mine.accept(deliver(7, durable=False))
    mine.connected(in_order=True, is_resumed=True)
    assert not mine.accept(deliver(1, durable=False))
    mine.connected(in_order=True, is_resumed=False)
    assert mine.accept(deliver(1, durable=False))


def test_what_is_held_is_released_once() -> None:
    mine = inbox(holds=True)
    assert mine.held == []
    mine.held.append(deliver(1))
    assert mine.release() == [deliver(1)]
    assert mine.held is None
    assert mine.release() == []
