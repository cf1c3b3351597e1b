"""A subscriber that counts its own hops: when it says that it is misplaced, and what."""

from __future__ import annotations

from kbn.management.subscriber_agent import ASK_EVERY_S, PUBLISHERS_MAX, SubscriberAgent


def test_it_asks_when_the_mean_is_over_the_bound_and_it_has_heard_enough() -> None:
    agent = SubscriberAgent("ann")
    for number in range(10):
        assert agent.report(0.0) is None
        agent.received("east", hops=1 if number < 4 else 2, publisher="bob")
    report = agent.report(0.0)
    assert report is not None and report.broker == "east"
    assert (report.mean_hops, report.notifications) == (1.6, 10)
    assert (report.histogram, report.publishers) == ({1: 4, 2: 6}, {"bob": 10})


def test_it_does_not_ask_again_too_soon_or_when_it_is_well_placed() -> None:
    agent = SubscriberAgent("ann", notifications_min=1)
    agent.received("east", 3, "bob")
    assert agent.report(0.0) is not None
    assert agent.report(ASK_EVERY_S - 1, asked=True) is None
    assert agent.report(ASK_EVERY_S) is not None
    agent.received("west", 1, "bob")  # it has moved, and counts anew
    assert agent.report(3 * ASK_EVERY_S) is None
    told = agent.report(3 * ASK_EVERY_S, asked=True)
    assert told is not None and told.mean_hops == 1.0


def test_publishers_that_are_counted_are_bounded() -> None:
    agent = SubscriberAgent("ann")
    for number in range(10_000):
        agent.received("east", 3, f"p{number}")
        agent.received("east", 3, "often")
    report = agent.report(0.0)
    assert report is not None
    assert len(report.publishers) <= PUBLISHERS_MAX and report.publishers["often"] == 10_000
