"""A dissemination tree as an overlay: brokers pass notifications on along its edges.

Each peer of the tree is a broker with one subscriber, the source is a broker with the publisher,
and a link takes as long as was measured on average. So what the tree promises on average can be
compared with what brokers do.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from kbn.broker import Topology
from kbn.grouping import DelayTree
from kbn.simulation.client import SimulatedClient
from kbn.simulation.faults import Faults
from kbn.simulation.network import Network

CLIENT_LINK_S = 0.001


def deliver(
    tree: DelayTree,
    notifications: Sequence[Mapping[str, object]],
    wants: str,
    *,
    unit_s: float = 0.001,
    seed: int = 0,
) -> dict[Hashable, list[float]]:
    """After how many seconds each peer's subscriber got each notification it wants.

    All subscribe to what `wants` says. The tree's delays are in units of `unit_s`; each delivery
    takes CLIENT_LINK_S from the publisher to its broker and as much from a broker to a subscriber.

    >>> from kbn.grouping import Bound, MeasuredLinks
    >>> links = MeasuredLinks(value_max=1000)
    >>> for one, other, ms in ((0, 1, 10), (1, 2, 20), (0, 2, 30)):
    ...     links.report(one, other, [ms] * 20)
    >>> tree = DelayTree(links, source=0, slots=1)
    >>> _ = tree.join_all([(1, Bound(10), 1), (2, Bound(30), 0)])
    >>> found = deliver(tree, [{"price": 5}, {"price": 50}], "price < 10")
    >>> {peer: [round(each, 6) for each in delays] for peer, delays in found.items()}
    {1: [0.012], 2: [0.032]}
    """
    network = as_network(tree, unit_s=unit_s, seed=seed)
    subscribers = _subscribed(tree, network, wants)
    publisher = network.client("publisher", at=_broker(tree.source))
    network.run()
    for notification in notifications:
        publisher.publish(notification)
        network.run()
    return {
        peer: [received.delay_s for received in client.received]
        for peer, client in subscribers.items()
    }


def as_network(tree: DelayTree, *, unit_s: float = 0.001, seed: int = 0) -> Network:
    """Brokers `peer 0` (the source), `peer 1` … with the tree's edges as their only links."""
    edges = tree.edges()
    links = [(_broker(parent), _broker(child)) for parent, child in edges]
    network = Network(
        Topology.peers(links, brokers=[_broker(tree.source)]),
        seed=seed,
        faults=Faults(CLIENT_LINK_S),
    )
    for (parent, child), link in zip(edges, links, strict=True):
        measured = tree.links.between(parent, child)
        assert measured is not None
        latency_s = measured.moments.mean * unit_s
        network.set_faults(Faults(latency_s), *link)
    network.run()
    return network


def _subscribed(tree: DelayTree, network: Network, wants: str) -> dict[Hashable, SimulatedClient]:
    found = {}
    for _, peer in tree.edges():
        found[peer] = network.client(f"subscriber {peer}", at=_broker(peer))
        found[peer].subscribe(wants)
    return found


def _broker(peer: Hashable) -> str:
    return f"peer {peer}"
