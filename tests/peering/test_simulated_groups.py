"""Whole groups in one process: bounds, crashes, restarts, from a seed and without waiting."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kbn.errors import InvalidInputError
from kbn.filters import Subscription
from kbn.simulation import SimulatedGroup, SimulatedPeer


def skewed(rng: Random, sender: str, receiver: str) -> float:
    """Most take 10 ms, some much longer."""
    return 0.01 + rng.lognormvariate(-5.5, 0.8)


def values(peer: SimulatedPeer, attribute: str = "price") -> list[Any]:
    return [each.notification[attribute] for each in peer.arrived]


def publish(
    group: SimulatedGroup, sender: SimulatedPeer, numbers: range, gap_s: float = 0.02
) -> None:
    for number in numbers:
        sender.publish({"price": number})
        group.run_for(gap_s)


def a_group(
    seed: int, readers: int = 12, slots: int = 2
) -> tuple[SimulatedGroup, SimulatedPeer, list[SimulatedPeer]]:
    group = SimulatedGroup(seed, skewed)
    sender = group.peer("sender")
    sender.advertise(["price"])
    peers = [group.peer(f"reader {number}", slots) for number in range(readers)]
    for peer in peers:
        peer.subscribe("price >= 0", within_s=1.0)
    group.run_for(8.0)
    return group, sender, peers


def parents(group: SimulatedGroup) -> dict[str, str]:
    """Who feeds whom in the one cluster of the group."""
    (cluster,) = group.core.arrangement.clusters.values()
    return {str(child): str(parent) for parent, child in cluster.tree.edges()}


def an_inner_peer(group: SimulatedGroup, peers: list[SimulatedPeer]) -> SimulatedPeer:
    feeding = set(parents(group).values())
    roots = {child for child, parent in parents(group).items() if not parent}
    return next(peer for peer in peers if peer.name in feeding and peer.name not in roots)


def the_root(group: SimulatedGroup, peers: list[SimulatedPeer]) -> SimulatedPeer:
    roots = {child for child, parent in parents(group).items() if not parent}
    return next(peer for peer in peers if peer.name in roots)


def test_everybody_gets_what_it_wants_once_and_bounds_are_kept_as_promised(seed: int) -> None:
    group, sender, peers = a_group(seed)
    assert all(peer.promises[1].state == "admitted" for peer in peers)
    publish(group, sender, range(300))
    group.run_for(3.0)
    for peer in peers:
        assert values(peer) == list(range(300))
        kept = sum(each.delay_s <= 1.0 for each in peer.arrived)
        assert kept >= 0.95 * len(peer.arrived)


def test_nobody_feeds_more_than_its_slots(seed: int) -> None:
    group, _, peers = a_group(seed)
    feeding = list(parents(group).values())
    assert all(feeding.count(peer.name) <= 2 for peer in peers)
    for peer in peers:
        assert sum(len(each.children) for each in peer.core.clusters.values()) <= 2


@pytest.mark.parametrize("which", [an_inner_peer, the_root])
def test_a_crash_loses_nothing_and_repeats_nothing(
    seed: int, which: Callable[..., SimulatedPeer]
) -> None:
    group, sender, peers = a_group(seed)
    publish(group, sender, range(100))
    killed = which(group, peers)
    orphans = {child for child, parent in parents(group).items() if parent == killed.name}
    assert orphans
    killed.kill()
    publish(group, sender, range(100, 200))  # two seconds
    assert killed.name not in parents(group)
    assert all(parents(group)[orphan] not in (killed.name, "None") for orphan in orphans)
    publish(group, sender, range(200, 300))
    group.run_for(5.0)
    for peer in peers:
        if peer is not killed:
            assert sorted(values(peer)) == list(range(300))


def test_peers_go_on_without_a_coordinator_and_it_moves_nobody_when_it_is_back(seed: int) -> None:
    group, sender, peers = a_group(seed)
    before = parents(group)
    group.kill(group.coordinator)
    publish(group, sender, range(100))
    group.run_for(1.0)
    assert all(values(peer) == list(range(100)) for peer in peers)
    group.start_coordinator("coordinator", learn_s=3.0)
    publish(group, sender, range(100, 300))
    group.run_for(5.0)
    assert parents(group) == before
    assert all(values(peer) == list(range(300)) for peer in peers)


def test_a_standby_takes_over_and_moves_nobody(seed: int) -> None:
    group, sender, peers = a_group(seed)
    standby = group.start_coordinator("standby", standby_of="kbn://coordinator:1", learn_s=3.0)
    group.run_for(2.0)
    before, former = parents(group), group.coordinator
    late = group.peer("late", coordinators=("standby", "coordinator"))
    group.run_for(2.0)
    assert late.core.is_joined and late.name in group.core.peers  # the standby sent it on
    group.kill(former)
    publish(group, sender, range(300))
    group.run_for(3.0)
    group.coordinator = standby
    assert parents(group) == before
    assert late.name in group.core.peers
    assert all(values(peer) == list(range(300)) for peer in peers)


def test_values_are_filtered_near_the_root(seed: int) -> None:
    group = SimulatedGroup(seed)
    sender = group.peer("sender")
    sender.advertise(["price"])
    wide, narrow = group.peer("wide", slots=1), group.peer("narrow", slots=1)
    wide.subscribe("price < 100")
    group.run_for(4.0)
    narrow.subscribe("price < 10")
    group.run_for(4.0)
    publish(group, sender, range(200))
    group.run_for(1.0)
    assert values(wide) == list(range(100)) and values(narrow) == list(range(10))
    assert narrow.core.counts.received == 10


def test_an_or_of_filters_hears_each_notification_once(seed: int) -> None:
    group = SimulatedGroup(seed, strategy="1")
    sender, other = group.peer("sender"), group.peer("other")
    sender.advertise(["price", "city"])
    other.advertise(["size"])
    reader = group.peer("reader")
    reader.subscribe("price < 10 or city = 'Cork' or size > 1")
    group.run_for(6.0)
    assert len(reader.core.clusters) >= 2
    sender.publish({"price": 5, "city": "Cork"})
    other.publish({"size": 2})
    group.run_for(1.0)
    assert len(reader.arrived) == 2


def test_a_bound_that_cannot_be_kept_is_best_effort_with_the_best_there_is(seed: int) -> None:
    group = SimulatedGroup(seed, skewed)
    sender, reader = group.peer("sender"), group.peer("reader")
    sender.advertise(["price"])
    reader.subscribe("price any", within_s=0.001)
    group.run_for(6.0)
    promise = reader.promises[1]
    assert promise.state == "best effort" and promise.best_s > 0.01
    assert "0.001" in promise.reason


def test_who_wants_what_nobody_advertises_waits_for_it(seed: int) -> None:
    group = SimulatedGroup(seed)
    reader = group.peer("reader")
    reader.subscribe("price any", within_s=0.5)
    group.run_for(2.0)
    assert reader.promises[1].state == "waiting"
    sender = group.peer("sender")
    sender.advertise(["price"])
    group.run_for(5.0)
    assert reader.promises[1].state == "admitted"
    sender.publish({"price": 1})
    group.run_for(1.0)
    assert values(reader) == [1]


def test_an_advertisement_that_changes_takes_the_subscribers_along(seed: int) -> None:
    group = SimulatedGroup(seed)
    sender, reader = group.peer("sender"), group.peer("reader")
    sender.advertise(["price"])
    reader.subscribe("price any")
    group.run_for(5.0)
    sender.advertise(["price", "city"])
    group.run_for(5.0)
    sender.publish({"price": 1, "city": "Cork"})
    group.run_for(1.0)
    assert values(reader) == [1]
    with pytest.raises(InvalidInputError, match="not advertised"):
        sender.publish({"size": 1})


def test_publishers_that_arrive_and_regroup_others_cost_nobody_a_notification(seed: int) -> None:
    group = SimulatedGroup(seed, skewed)
    sender = group.peer("sender")
    sender.advertise(["price"], connections=2)
    peers = [group.peer(f"reader {number}") for number in range(6)]
    for peer in peers:
        peer.subscribe("price >= 0")
    group.run_for(8.0)
    publish(group, sender, range(50))
    for number in range(6):
        group.peer(f"writer {number}").advertise(["price", f"a{number}"], connections=1)
        publish(group, sender, range(50 + 50 * number, 100 + 50 * number))
    group.run_for(8.0)
    assert all(sorted(values(peer)) == list(range(350)) for peer in peers)


def test_limits_and_bounds_that_mean_nothing_are_refused() -> None:
    group = SimulatedGroup()
    peer = group.peer("peer")
    with pytest.raises(InvalidInputError, match="at least one connection"):
        peer.advertise(["price"], connections=0)
    with pytest.raises(InvalidInputError, match="a bound is"):
        peer.subscribe("price any", within_s=-1)
    with pytest.raises(InvalidInputError, match="name an attribute"):
        peer.core.subscribe(Subscription.from_json({"all": []}), 0.0)


def test_one_who_leaves_is_missed_by_nobody(seed: int) -> None:
    group, sender, peers = a_group(seed)
    leaving = an_inner_peer(group, peers)
    publish(group, sender, range(50))
    leaving.leave()
    publish(group, sender, range(50, 200))
    group.run_for(3.0)
    assert all(sorted(values(peer)) == list(range(200)) for peer in peers if peer is not leaving)
