"""What a client publishes: numbered, as far as it is granted, kept until it is confirmed."""

from __future__ import annotations

from kbn.broker.client.publisher import Publisher


def publisher(granted: int, published: int = 0) -> Publisher:
    made = Publisher(published)
    made.connected(granted)
    return made


def contents(publisher: Publisher) -> list[bytes]:
    return [each.content for each in publisher.sendable()]


def test_durable_notifications_and_others_are_numbered_separately() -> None:
    ann = publisher(granted=10)
    numbers = [ann.add(b"", 0.0, durable) for durable in (True, False, True, False, False)]
    assert numbers == [1, 1, 2, 2, 3]


def test_no_more_is_sent_than_granted_and_the_order_is_kept() -> None:
    ann = publisher(granted=2)
    for content in (b"a", b"b", b"c", b"d"):
        ann.add(content, 0.0, durable=False)
    assert contents(ann) == [b"a", b"b"]
    assert contents(ann) == []
    ann.grant(3)
    assert contents(ann) == [b"c"]
    ann.grant(1)  # late: totals never shrink
    assert contents(ann) == []
    assert ann.unpublished == 1


def test_a_durable_one_is_kept_until_it_is_confirmed() -> None:
    ann = publisher(granted=10)
    for _ in range(3):
        ann.add(b"", 0.0, durable=True)
    ann.sendable()
    assert (ann.has_unconfirmed, ann.unpublished) == (True, 3)
    assert ann.confirm(2) == ([1, 2], [])
    assert ann.confirm(1) == ([], [])
    assert [each.number for each in ann.repeat(at_most=5)] == [3]
    assert ann.confirm(3, ((2, 3),)) == ([], [3])
    assert (ann.has_unconfirmed, ann.unpublished, ann.stored_up_to) == (False, 0, 3)


def test_one_that_may_be_lost_is_not_kept() -> None:
    ann = publisher(granted=10)
    ann.add(b"", 0.0, durable=False)
    ann.sendable()
    assert (ann.has_unconfirmed, ann.unpublished, ann.resend()) == (False, 0, [])


def test_a_new_connection_gets_what_is_unconfirmed_again_and_that_uses_its_grant() -> None:
    ann = publisher(granted=3)
    for content in (b"a", b"b", b"c", b"d"):
        ann.add(content, 0.0, durable=True)
    ann.sendable()
    ann.connected(granted=3)
    ann.confirm(1)
    assert [each.content for each in ann.resend()] == [b"b", b"c"]
    assert contents(ann) == [b"d"]
    ann.add(b"e", 0.0, durable=True)
    assert contents(ann) == []


def test_what_an_earlier_process_has_published_is_not_published_again() -> None:
    ann = publisher(granted=10, published=2)
    ann.confirm(4)  # the broker has two more than the process wrote down
    for content in (b"c", b"d", b"e"):
        number = ann.add(content, 0.0, durable=True)
    assert number == 5
    assert contents(ann) == [b"e"]


def test_repetitions_are_bounded_and_use_no_grant() -> None:
    ann = publisher(granted=5)
    for _ in range(4):
        ann.add(b"", 0.0, durable=True)
    ann.sendable()
    assert [each.number for each in ann.repeat(at_most=2)] == [1, 2]
    ann.add(b"last", 0.0, durable=True)
    assert contents(ann) == [b"last"]
