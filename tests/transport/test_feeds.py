"""Deliveries go to the feeds that want them, and are done with when all of those are."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kbn.broker.client import Delivered
from kbn.broker.messages import Deliver, Envelope
from kbn.errors import InvalidInputError, TransportError
from kbn.transport.feed import Feed
from kbn.transport.feeds import Feeds
from kbn.transport.item import Item
from kbn.transport.pending import Pending


class StubFeed:
    """A feed that nobody reads."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.items: list[Item] = []
        self.problem: Exception | None = None

    def put(self, item: Item) -> None:
        self.items.append(item)


def delivered(number: int, *subscriptions: int, durable: bool = True) -> Delivered:
    envelope = Envelope("bob", 1, number, 0.0, b"")
    return Delivered(Deliver(number, durable, subscriptions, envelope), "a")


def with_feeds(*ids: int) -> tuple[Feeds, dict[int, StubFeed]]:
    feeds, stubs = Feeds(), {id: StubFeed(id) for id in ids}
    for stub in stubs.values():
        feeds.add(stub)  # type: ignore[arg-type]
    return feeds, stubs


def test_a_delivery_is_done_with_when_every_feed_is() -> None:
    feeds, stubs = with_feeds(1, 2)
    one = delivered(1, 1, 2, durable=False)
    assert feeds.deliver(one) == []
    assert feeds.done_with(stubs[1].items[0]) == []
    assert feeds.done_with(stubs[2].items[0]) == [one]


def test_a_durable_one_holds_back_those_after_it() -> None:
    feeds, stubs = with_feeds(1)
    several = [delivered(number, 1) for number in (1, 2, 3)]
    for each in several:
        feeds.deliver(each)
    first, second, third = stubs[1].items
    assert feeds.done_with(second) == []
    assert feeds.done_with(first) == several[:2]
    assert feeds.done_with(third) == several[2:]


def test_what_may_be_lost_holds_back_nothing() -> None:
    feeds, stubs = with_feeds(1)
    first, second = (delivered(number, 1, durable=False) for number in (1, 2))
    feeds.deliver(first), feeds.deliver(second)
    assert feeds.done_with(stubs[1].items[1]) == [second]


def test_what_nobody_wants_any_more_is_done_with_at_once() -> None:
    feeds, _ = with_feeds(1)
    assert feeds.remove(1)
    assert not feeds.remove(1)
    one = delivered(1, 1)
    assert feeds.deliver(one) == [one]


def test_what_comes_before_its_feed_waits_for_it() -> None:
    feeds, _ = with_feeds(1)
    assert feeds.deliver(delivered(1, 2)) == []
    late = StubFeed(2)
    feeds.add(late)  # type: ignore[arg-type]
    assert [item.delivered for item in late.items] == [delivered(1, 2)]


def test_what_an_earlier_process_subscribed_to_is_dropped_by_one_that_leaves() -> None:
    feeds, stubs = with_feeds(1)
    assert feeds.deliver(delivered(1, 2)) == []  # a feed for it may still be asked for
    assert feeds.disclaim() == [delivered(1, 2)]
    assert feeds.deliver(delivered(2, 3)) == [delivered(2, 3)]
    assert not stubs[1].items


def test_an_objection_reaches_the_feed_it_is_about() -> None:
    feeds, stubs = with_feeds(1)
    error = InvalidInputError("no such term")
    assert feeds.objected(1, error)
    assert not feeds.objected(2, error)
    assert stubs[1].problem is error


def test_a_cancelled_feed_ends_even_if_a_broker_has_objected_to_it() -> None:
    async def story() -> None:
        accepted = asyncio.get_running_loop().create_future()
        accepted.set_result(None)
        feed = Feed(cast(Any, None), 1, accepted)
        feed.problem = InvalidInputError("a new ontology does not know the term")
        feed.end(None)
        assert [each async for each in feed] == []
        assert feed.problem is not None

    asyncio.run(story())


def test_an_answer_reaches_all_who_wait_for_it_and_nobody_else() -> None:
    async def story() -> None:
        pending = Pending()
        first, second = pending.expect("barrier", 1), pending.expect("barrier", 1)
        other = pending.expect("barrier", 2)
        pending.answer("barrier", 1, "done")
        pending.answer("barrier", 3, "nobody waits")
        assert (await first, await second, other.done()) == ("done", "done", False)
        assert not pending.is_expected("barrier", 1)
        assert pending.fail("barrier", 2, InvalidInputError("no"))
        assert not pending.fail("barrier", 2, InvalidInputError("no"))
        with pytest.raises(InvalidInputError):
            await other

    asyncio.run(story())


def test_at_the_end_everybody_who_waits_is_told() -> None:
    async def story() -> None:
        pending = Pending()
        waiting = [pending.expect("publish", number) for number in range(3)]
        pending.fail_all(TransportError("closed"))
        for future in waiting:
            with pytest.raises(TransportError, match="closed"):
                await future

    asyncio.run(story())
