"""Dissemination trees as overlays: brokers take as long as the tree says."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

import numpy as np
import pytest

from kbn.grouping import Bound, DelayTree, MeasuredLinks
from kbn.simulation.trees import CLIENT_LINK_S, as_network, deliver


def grown(seed: int, size: int) -> DelayTree:
    rng = np.random.default_rng(seed)
    places = rng.random((size, 2)) * 50
    links = MeasuredLinks(value_max=1000)
    for one, other in itertools.combinations(range(size), 2):
        distance = float(np.linalg.norm(places[one] - places[other])) + 2
        links.report(one, other, [distance, 1.2 * distance])
    tree = DelayTree(links, source=0, slots=3)
    tree.join_all((peer, Bound(rng.uniform(200, 900)), 3) for peer in range(1, size))
    return tree


def path_mean_s(tree: DelayTree, peer: Hashable) -> float:
    found = [tree.links.between(a, b) for a, b in itertools.pairwise(tree.path(peer))]
    return 0.001 * sum(link.moments.mean for link in found if link is not None)


def test_everybody_gets_everything_after_the_delays_of_its_path(seed: int) -> None:
    tree = grown(seed, 31)
    found = deliver(tree, [{"number": 1}, {"number": 2}, {"number": -1}], "number > 0")
    assert set(found) == set(range(1, 31))
    for peer, delays in found.items():
        expected = path_mean_s(tree, peer) + 2 * CLIENT_LINK_S
        assert delays == pytest.approx([expected, expected])


def test_deliveries_follow_the_tree_as_peers_leave(seed: int) -> None:
    tree = grown(seed, 31)
    feeder = next(parent for parent, _ in tree.edges() if parent != 0)
    tree.leave(feeder)
    found = deliver(tree, [{"number": 1}], "number > 0")
    assert set(found) == set(range(1, 31)) - {feeder}
    for peer, delays in found.items():
        assert delays == pytest.approx([path_mean_s(tree, peer) + 2 * CLIENT_LINK_S])


def test_a_notification_passes_each_edge_once_and_no_other(seed: int) -> None:
    tree = grown(seed, 31)
    network = as_network(tree)
    links = {frozenset(link) for link in network.topology.links}
    assert links == {frozenset((f"peer {a}", f"peer {b}")) for a, b in tree.edges()}
    subscribers = {
        peer: network.client(f"s{peer}", at=f"peer {peer}", with_path=True)
        for _, peer in tree.edges()
    }
    for client in subscribers.values():
        client.subscribe("number > 0")
    publisher = network.client("p", at="peer 0", with_path=True)
    network.run()
    publisher.publish({"number": 1})
    network.run()
    for peer, client in subscribers.items():
        assert [each.path for each in client.received] == [
            tuple(f"peer {each}" for each in tree.path(peer))
        ]


def test_a_source_without_subscribers_delivers_to_nobody() -> None:
    tree = DelayTree(MeasuredLinks(), source=0, slots=1)
    assert deliver(tree, [{"number": 1}], "number > 0") == {}
