"""What the store knows of publishers: bounded, and a refusal is told however often it is lost."""

from __future__ import annotations

from random import Random

from msgspec import msgpack
from tests.broker.test_broker import ANN, BOB, Talk, published

from kbn.broker.limits import ClientLimits
from kbn.broker.messages import ConnAck, Connect, Peer, PubAck, Refused
from kbn.broker.number_ranges import RANGES_MAX, Ranges, above, holds, with_number
from kbn.broker.outbox import Outbox
from kbn.broker.publisher_marks import DAYS_MAX, FORGOTTEN_AT_ONCE, PublisherMarks
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore

DAY_S = 86_400.0
NOW = 20_000 * DAY_S


def test_only_the_publishers_that_published_last_are_known() -> None:
    store = MemoryStore()
    aside = Aside(store, Outbox())
    marks = PublisherMarks(store, aside, NOW, count_max=100)
    marks.keep("ann", 7, 1, (), NOW)
    for number in range(1000):
        marks.keep(f"anonymous-{number}", 1, 1, (), NOW)
        marks.keep("ann", 7, number + 2, (), NOW)
    assert len(marks) == len(store.marks("publisher/")) == 100
    assert marks.of("ann", 7).number == 1001, "who goes on publishing stays known"
    assert marks.of("anonymous-3", 1).number == 0
    again = PublisherMarks(store, aside, NOW, count_max=100)
    again.keep("new", 1, 1, (), NOW)
    assert len(store.marks("publisher/")) == 100, "also those from before a restart count"


def test_a_publisher_that_is_silent_for_a_month_is_forgotten() -> None:
    store = MemoryStore()
    aside = Aside(store, Outbox())
    marks = PublisherMarks(store, aside, NOW)
    for number in range(50):
        marks.keep(f"anonymous-{number}", 1, 1, (), NOW)
    marks.keep("ann", 7, 1, (), NOW + 20 * DAY_S)
    marks.keep("ann", 7, 2, (), NOW + 30 * DAY_S)
    assert len(marks) == 51, "a month is not over"
    marks.keep("ann", 7, 3, (), NOW + 31 * DAY_S)
    assert [*store.marks("publisher/")] == ["publisher/ann"]


def test_the_month_goes_on_at_a_start_where_it_was_whatever_the_clock_says() -> None:
    store = MemoryStore()
    aside = Aside(store, Outbox())
    marks = PublisherMarks(store, aside, NOW)
    marks.keep("ann", 7, 3, (), NOW)
    marks.keep("bob", 1, 1, (), NOW + 20 * DAY_S)
    for start in (NOW + 40_000 * DAY_S, 0.0, NOW):
        marks = PublisherMarks(store, aside, start)
        assert marks.of("ann", 7).number == 3
        marks.keep("bob", 1, 2, (), start + 3 * DAY_S)
    marks.keep("bob", 1, 3, (), start + 5 * DAY_S)
    assert [*store.marks("publisher/")] == ["publisher/bob"], "31 days on which it ran"


def test_marks_without_a_day_count_from_the_start_that_finds_them() -> None:
    store = MemoryStore()
    store.mark("publisher/old", msgpack.encode((7, 3, ())))
    store.mark("publisher/odd", b"no mark at all")
    marks = PublisherMarks(store, Aside(store, Outbox()), NOW)
    assert marks.of("old", 7).number == 3 and marks.of("odd", 1).number == 0
    marks.keep("ann", 1, 1, (), NOW + 30 * DAY_S)
    assert marks.of("old", 7).number == 3
    marks.keep("ann", 1, 2, (), NOW + 31 * DAY_S)
    assert marks.of("old", 7).number == 0


def test_a_broker_forgets_them_too() -> None:
    talk = Talk()
    talk.now = NOW
    talk.say(BOB, Connect("bob", 1), published(1, durable=True))
    assert talk.store.marked("publisher/bob") is not None
    talk.now += 31 * DAY_S
    talk.say(ANN, Connect("ann", 1), published(1, durable=True))
    assert talk.store.marked("publisher/bob") is None
    assert talk.store.marked("publisher/ann") is not None


def test_they_are_forgotten_as_time_passes_though_nobody_publishes() -> None:
    talk = Talk()
    talk.now = NOW
    for number in range(300):
        name = f"anonymous-{number}"
        talk.say(Peer("client", name), Connect(name, 1), published(1, durable=True))
        talk.broker.disconnected(Peer("client", name), talk.now)
    for day in range(1, 61):
        talk.now = NOW + day * DAY_S
        talk.take(talk.broker.tick(talk.now))
        assert len(talk.store.marks("publisher/")) == (300 if day <= DAYS_MAX else 0)


def test_very_many_that_are_due_on_one_day_are_forgotten_some_at_a_time() -> None:
    store = MemoryStore()
    marks = PublisherMarks(store, Aside(store, Outbox()), NOW)
    for number in range(3 * FORGOTTEN_AT_ONCE):
        marks.keep(f"anonymous-{number}", 1, 1, (), NOW)
    for left in (2, 1, 0, 0):
        marks.tick(NOW + 31 * DAY_S)
        assert len(marks) == len(store.marks("publisher/")) == left * FORGOTTEN_AT_ONCE


def test_a_refusal_that_was_lost_is_told_with_every_later_answer() -> None:
    talk = Talk(limits=ClientLimits(content_bytes=100))
    talk.say(BOB, Connect("bob", 1))
    talk.say(BOB, published(1, durable=True))
    refused, answer = talk.say(BOB, published(2, "x" * 1000, durable=True))
    assert isinstance(refused, Refused) and answer == PubAck(2, ((2, 2),))
    assert talk.say(BOB, published(3, durable=True)) == [PubAck(3, ((2, 2),))]
    talk.start()  # the connection breaks, and the broker with it
    [welcome] = talk.say(BOB, Connect("bob", 1, published=1))
    assert isinstance(welcome, ConnAck)
    assert (welcome.taken, welcome.refused) == (3, ((2, 2),))
    [welcome] = talk.say(BOB, Connect("bob", 1, published=3))
    assert isinstance(welcome, ConnAck) and welcome.refused == (), "bob knows of it by now"
    talk.say(ANN, Connect("ann", 1))


def test_ranges_hold_every_number_that_was_added_and_are_few() -> None:
    for seed in range(50):
        rng = Random(seed)
        ranges: Ranges = ()
        added: set[int] = set()
        number = 0
        for _ in range(400):
            number += rng.choice([1, 1, 2, 5])
            added.add(number)
            ranges = with_number(ranges, number)
            assert len(ranges) <= RANGES_MAX
        assert all(holds(ranges, each) for each in added)
        newest = ranges[1][0]
        assert {n for n in range(newest, number + 1) if holds(ranges, n)} == {
            n for n in added if n >= newest
        }
        cut = rng.randrange(number)
        left = above(ranges, cut)
        assert all(holds(left, n) == (n > cut and holds(ranges, n)) for n in range(number + 2))
