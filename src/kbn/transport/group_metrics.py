"""Metrics of a coordinator, in Prometheus' text format: what its group does, by cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kbn.transport.metrics import Samples, family, process_metrics

OF_CLUSTERS = {
    "members": "Peers in the tree of a cluster.",
    "depth": "The longest way in the tree.",
    "bounds_kept": "Members whose bounds are predicted to be kept.",
    "waiting": "Peers that wait for a place.",
}
STATES = ("admitted", "best effort", "waiting")
COUNTED = {
    "joined": "Peers that joined.",
    "left": "Peers that left in good order.",
    "crashed": "Peers that were taken for dead.",
    "refused": "Connections and requests that were refused.",
}


def group_metrics(facts: Mapping[str, Any], *, healthy: bool) -> str:
    """All metrics of a coordinator, from its facts."""
    lines = [*_lines(facts, healthy), *process_metrics()]
    return "\n".join(lines) + "\n"


def _lines(facts: Mapping[str, Any], healthy: bool) -> Iterator[str]:
    yield from family("kbn_healthy", "gauge", "Whether /health says ok.", [({}, int(healthy))])
    yield from family("kbn_group_peers", "gauge", "Peers of the group.", [({}, facts["peers"])])
    yield from family("kbn_group_away", "gauge", "Of these, away.", [({}, facts["away"])])
    for name, help in COUNTED.items():
        count = facts["counts"].get(name, 0)
        yield from family(f"kbn_group_{name}_total", "counter", help, [({}, count)])
    states = [each["state"] for each in facts["subscriptions"]]
    yield from family(
        "kbn_group_subscriptions", "gauge", "Subscriptions, by how they stand.",
        [({"state": state}, states.count(state)) for state in STATES],
    )  # fmt: skip
    for name in ("delivered", "in_time"):
        total = sum(each[name] for each in facts["subscriptions"] if each["within_s"] is not None)
        help = "Deliveries with a bound." if name == "delivered" else "Of these, in time."
        yield from family(f"kbn_group_{name}_total", "counter", help, [({}, total)])
    for name, help in OF_CLUSTERS.items():
        yield from family(f"kbn_group_cluster_{name}", "gauge", help, _of_clusters(facts, name))
    for name in ("received", "false_positives"):
        help = f"Notifications for the subscriptions of a cluster: {name.replace('_', ' ')}."
        yield from family(
            f"kbn_group_cluster_{name}_total", "counter", help, _of_clusters(facts, name)
        )


def _of_clusters(facts: Mapping[str, Any], name: str) -> Samples:
    for cluster in facts["clusters"]:
        value = cluster[name]
        number = len(value) if isinstance(value, list) else value
        yield {"cluster": str(cluster["number"])}, number
