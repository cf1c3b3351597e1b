"""What the application is given: each notification once, in the order of its publisher."""

from __future__ import annotations

import pytest

from kbn.broker.client import deliveries
from kbn.broker.client.deliveries import Deliveries
from kbn.broker.messages import Deliver, Envelope


def deliver(
    number: int, publisher: str = "bob", *, durable: bool = True, epoch: int = 1
) -> Deliver:
    envelope = Envelope(publisher, epoch, number, 0.0, b"", durable=durable, hops=2)
    return Deliver(1, durable, (1,), envelope)


def given(mine: Deliveries, *several: Deliver, in_order: bool = True) -> list[int]:
    return [each.envelope.number for each in several if mine.is_due(each, in_order=in_order)]


def test_none_is_given_twice() -> None:
    mine = Deliveries()
    assert given(mine, deliver(1), deliver(2), deliver(1), deliver(2)) == [1, 2]
    assert given(mine, deliver(1, "eve"), deliver(1, epoch=2)) == [1, 1]


def test_a_durable_one_is_given_late_but_one_that_may_be_lost_is_not() -> None:
    assert given(Deliveries(), deliver(2), deliver(1)) == [2, 1]
    assert given(Deliveries(), deliver(2, durable=False), deliver(1, durable=False)) == [2]


def test_where_the_order_is_not_certain_nothing_is_late() -> None:
    mine = Deliveries()
    several = [deliver(n, durable=False) for n in (2, 1, 2)]
    assert given(mine, *several, in_order=False) == [2, 1]


def test_after_a_move_what_is_older_than_the_last_of_its_publisher_is_past() -> None:
    mine = Deliveries()
    given(mine, deliver(3), deliver(1, "eve"))
    mine.moved()
    assert given(mine, deliver(2), deliver(4), deliver(2, "eve")) == [4, 2]


def test_what_was_seen_is_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "SEEN_MAX", 2)
    mine = Deliveries()
    assert given(mine, deliver(1), deliver(2), deliver(3), deliver(3), deliver(1)) == [1, 2, 3, 1]


def test_distances_count_what_was_given_since_the_last_move() -> None:
    mine = Deliveries()
    given(mine, deliver(1), deliver(1), deliver(2))
    assert mine.hops().counts == ((2, 2),)
    mine.moved()
    assert mine.hops().counts == ()
