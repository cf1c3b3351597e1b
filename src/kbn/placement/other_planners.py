"""Planners after other systems, to compare with: by load, by topics, by hashing, by relinking.

They put the same clusters on brokers as `taxonomic` does, by other means:

- `balanced`: the cluster with most clients first, each to the broker with least to do.
- `topic`: clusters whose notifications go to the same subscribers become one topic, as in Tamara;
  the broker of a topic is the one whose hash is next to the topic's, as in Scribe.
- `rendezvous`: each cluster on the broker that a hash of both names ranks first, so that all find
  it without asking, as in Hermes. A broker that goes or comes moves the clusters of that one only.
- `relink` plans no clusters: brokers that exchange much become neighbours, one move at a time, as
  in the work of Baldoni and others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kbn.placement.broker_clustering import Traffic, propose_move
from kbn.placement.distances import Link, overlay_distances

if TYPE_CHECKING:
    from kbn.placement.taxonomic import Clusters
    from kbn.placement.traffic import Deliveries

RELINKS_MAX = 100
"""At most so many brokers are relinked, one after the other."""
_RING = 2**64


def balanced(
    parts: Clusters, brokers: Sequence[str], /, *, clients: Mapping[str, float] | None = None
) -> dict[str, str]:
    """Clusters so that brokers have about the same load.

    `clients` counts those with each medoid; without it, a cluster is as heavy as it has terms.
    """
    loads = {key: float(len(parts.members(key))) for key in parts}
    if clients is not None:
        loads = dict.fromkeys(parts, 0.0)
        for medoid, count in clients.items():
            key = parts.cluster_of(medoid)
            if key is not None:
                loads[key] += count
    on = dict.fromkeys(brokers, 0.0)
    found: dict[str, str] = {}
    order = {key: rank for rank, key in enumerate(parts)}
    for key in sorted(parts, key=lambda key: (-loads[key], order[key])):
        least = min(on, key=on.__getitem__)  # the first of equal ones: the higher in the hierarchy
        found[key] = least
        on[least] += loads[key]
    return found


def rendezvous(parts: Clusters, brokers: Sequence[str], /) -> dict[str, str]:
    """Each cluster on the broker that their hash ranks first."""
    return {key: max(brokers, key=lambda broker: _hash(key, broker)) for key in parts}


def topic(parts: Clusters, brokers: Sequence[str], /, *, deliveries: Deliveries) -> dict[str, str]:
    """Clusters with similar subscribers on one broker, which a hash chooses.

    `deliveries` go by the medoids of publisher and subscriber. Topics are merged in pairs, the most
    similar first, until there are no more than brokers; those with no subscriber in common never.
    """
    groups = _merged(parts, deliveries, len(brokers))
    ring = sorted((_hash("broker", name), name) for name in brokers)
    found: dict[str, str] = {}
    for group in groups:
        at = _hash("topic", min(group))
        _, broker = min(ring, key=lambda place: (place[0] - at) % _RING)
        found |= dict.fromkeys(group, broker)
    return found


def _merged(parts: Clusters, deliveries: Deliveries, count: int) -> list[list[str]]:
    keys = list(parts)
    place = {key: number for number, key in enumerate(keys)}
    heard = np.zeros((len(keys), len(keys)))
    for (publisher, subscriber), times in deliveries.items():
        one, other = parts.cluster_of(publisher), parts.cluster_of(subscriber)
        if one is not None and other is not None:
            heard[place[one], place[other]] += times
    groups: dict[int, list[str]] = {number: [key] for number, key in enumerate(keys)}
    while len(groups) > count:
        alike = _alike(heard)
        start, end = divmod(int(alike.argmax()), len(keys))
        if alike[start, end] <= 0:
            break
        groups[start] += groups.pop(end)
        heard[start] += heard[end]
        heard[end] = 0.0
    return list(groups.values())


def _alike(heard: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How alike the subscribers of each two topics are, from 0 to 1, above the diagonal."""
    length = np.linalg.norm(heard, axis=1)
    length[length == 0] = 1.0
    unit = heard / length[:, None]
    alike: npt.NDArray[np.float64] = np.triu(unit @ unit.T, k=1)
    return alike


def relink(brokers: Sequence[str], links: Iterable[Link], traffic: Traffic) -> list[Link]:
    """The links of a tree after brokers have moved to those they exchange most with.

    Each time the broker moves that saves most hops; it ends when none saves a tenth of its own.

    >>> links = [("left", "top"), ("right", "top"), ("far", "right")]
    >>> sorted(relink(["top", "left", "right", "far"], links, {("far", "left"): 9.0}))
    [('far', 'right'), ('left', 'far'), ('right', 'top')]
    """
    kept = [(one, other) for one, other in links]
    for _ in range(RELINKS_MAX):
        apart = overlay_distances(brokers, kept)
        moves = [
            (move.before - move.hops, broker, move)
            for link in kept
            for broker, leaving in (link, link[::-1])
            if (move := propose_move(broker, leaving, apart, kept, traffic)) is not None
        ]
        if not moves:
            break
        _, broker, move = max(moves, key=lambda each: (each[0], each[1]))
        kept = [link for link in kept if set(link) != {broker, move.leaving}]
        kept.append((broker, move.to))
    return kept


def brokers_traffic(
    deliveries: Mapping[tuple[str, str], float], broker_of: Mapping[str, str]
) -> dict[tuple[str, str], float]:
    """What clients exchange, by their names, summed up by their brokers.

    >>> at = {"ann": "east", "bob": "east", "eve": "west"}
    >>> dict(brokers_traffic({("ann", "eve"): 2, ("bob", "eve"): 3}, at))
    {('east', 'west'): 5.0}
    """
    found: dict[tuple[str, str], float] = defaultdict(float)
    for (one, other), count in deliveries.items():
        found[broker_of[one], broker_of[other]] += count
    return found


def _hash(*parts: str) -> int:
    return int.from_bytes(sha256("\0".join(parts).encode()).digest()[:8], "big")
