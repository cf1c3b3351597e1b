"""What the store knows of publishers: bounded, and a refusal is told however often it is lost."""

from __future__ import annotations

from random import Random

from tests.broker.test_broker import ANN, BOB, Talk, published

from kbn.broker.limits import ClientLimits
from kbn.broker.messages import ConnAck, Connect, PubAck, Refused
from kbn.broker.number_ranges import RANGES_MAX, Ranges, above, holds, with_number
from kbn.broker.outbox import Outbox
from kbn.broker.publisher_marks import PublisherMarks
from kbn.broker.set_aside import Aside
from kbn.broker.store import MemoryStore


def test_only_the_publishers_that_published_last_are_known() -> None:
    store = MemoryStore()
    aside = Aside(store, Outbox())
    marks = PublisherMarks(store, aside, count_max=100)
    marks.keep("ann", 7, 1, ())
    for number in range(1000):
        marks.keep(f"anonymous-{number}", 1, 1, ())
        marks.keep("ann", 7, number + 2, ())
    assert len(marks) == len(store.marks("publisher/")) == 100
    assert marks.of("ann", 7).number == 1001, "who goes on publishing stays known"
    assert marks.of("anonymous-3", 1).number == 0
    again = PublisherMarks(store, aside, count_max=100)
    again.keep("new", 1, 1, ())
    assert len(store.marks("publisher/")) == 100, "also those from before a restart count"


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
