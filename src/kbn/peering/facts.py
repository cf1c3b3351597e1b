"""The state of a group, as `kbn groups status` shows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kbn.peering.cluster import SOURCE, Cluster

if TYPE_CHECKING:
    from kbn.peering.arrangement import Wanted
    from kbn.peering.coordinator import Coordinator


def facts_json(coordinator: Coordinator) -> str:
    """All facts, as JSON."""
    return json.dumps(facts_of(coordinator), ensure_ascii=False, allow_nan=False)


def facts_of(coordinator: Coordinator) -> dict[str, Any]:
    """What a person wants to know: clusters with their trees, publishers, subscriptions, counts."""
    arrangement = coordinator.arrangement
    return {
        "coordinator": coordinator.settings.name,
        "strategy": arrangement.groups.strategy,
        "is_learning": coordinator.is_learning,
        "peers": len(coordinator.peers),
        "away": sum(each.connection is None for each in coordinator.peers.values()),
        "standbys": list(coordinator.standbys),
        "suspects": sorted(str(name) for name in arrangement.links.suspects()),
        "counts": dict(coordinator.counts),
        "clusters": [_cluster(coordinator, each) for each in arrangement.clusters.values()],
        "publishers": [
            {
                "publisher": name,
                "attributes": sorted(arrangement.groups.attributes_of(name)),
                "clusters": list(arrangement.sending.get(name, ())),
                "connections": arrangement.groups.limits[name],
            }
            for name in arrangement.arrivals
        ],
        "subscriptions": [
            _subscription(coordinator, name, wanted)
            for name, subscriber in arrangement.subscribers.items()
            for wanted in subscriber.wanted.values()
        ],
    }


def _cluster(coordinator: Coordinator, cluster: Cluster) -> dict[str, Any]:
    tree = cluster.tree
    members = [str(child) for _, child in tree.edges()]
    received, unwanted = _false_positives(coordinator, cluster.number)
    kept = tree.satisfaction()
    return {
        "number": cluster.number,
        "publishers": list(cluster.links.publishers),
        "members": [
            {
                "peer": name,
                "parent": None if tree.parent_of(name) == SOURCE else tree.parent_of(name),
                "depth": tree.depth_of(name),
                "is_kept": tree.is_satisfied(name),
                "predicted": round(tree.probability(name), 4),
                "slots": tree.slots_of(name),
                "children": len(tree.children_of(name)),
            }
            for name in members
        ],
        "waiting": [*map(str, tree.waiting), *cluster.joining],
        "depth": max((tree.depth_of(name) for name in members), default=0),
        "bounds_kept": kept.satisfied,
        "received": received,
        "false_positives": unwanted,
        "false_positive_rate": unwanted / received if received else 0.0,
    }


def _false_positives(coordinator: Coordinator, number: int) -> tuple[int, int]:
    """What the cluster's subscribers were sent, and how much of it lacks what they asked for.

    By what its root heard: a notification of a cluster is for each of its subscriptions, and
    without all their attributes it is a false positive.
    """
    wanted = coordinator.arrangement.wanted_in(number)
    received = unwanted = 0
    for (cluster, attributes), count in coordinator.heard.items():
        if cluster == number:
            received += count * sum(wanted.values())
            unwanted += count * sum(
                subscribers for each, subscribers in wanted.items() if not each <= attributes
            )
    return received, unwanted


def _subscription(coordinator: Coordinator, name: str, wanted: Wanted) -> dict[str, Any]:
    promise = coordinator.arrangement.promise(name, wanted)
    bound = wanted.bound
    return {
        "peer": name,
        "id": wanted.id,
        "filter": " or ".join(f"({each.to_text()})" for each in wanted.filters)
        if len(wanted.filters) > 1
        else wanted.filters[0].to_text(),
        "state": promise.state,
        "within_s": None if bound is None else bound.within,
        "probability": None if bound is None else bound.probability,
        "predicted": round(promise.predicted, 4),
        "best_s": round(promise.best_s, 6),
        "reason": promise.reason,
        "delivered": wanted.delivered,
        "in_time": wanted.in_time,
        "measured": round(wanted.in_time / wanted.delivered, 4) if wanted.delivered else None,
        "clusters": sorted(coordinator.arrangement.clusters_of(wanted)),
    }
