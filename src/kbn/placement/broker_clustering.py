"""Broker clustering: which of a broker's clients go elsewhere together, and where the broker hangs.

Clients move one by one, and only to a broker with room. Two more moves are possible, of a broker as
a whole (the KBNCluster thesis, 4.5.3, which did not carry them out):

*Split.* A broker's clients fall into groups (`group_by_medoid`). When two of these lie apart,
farther than their spreads together, the smaller one goes to the broker whose medoid is nearest to
its own, if that is nearer than the larger group and has room for all of them.

*Move.* A broker leaves a neighbour and hangs on another, with all that hangs on it and with all its
clients. In a tree the link that is cut parts two sides. Ways within a side stay as they are, and a
way from x on the broker's side to y on the other becomes x → broker → new neighbour → y. So the new
neighbour is the one that is nearest to the partners of the broker's side, each weighed by how much
is exchanged with it. Nobody's load changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kbn.errors import InvalidInputError
from kbn.placement.distances import Distances, Link
from kbn.placement.graph import NO_WAY
from kbn.placement.semantic_map import SemanticMap

WORTH_IT = 0.9
"""A broker moves when what crosses the link then takes this part of its hops or less."""
NEIGHBOURS_MAX = 16
"""A broker has at most so many neighbours after another has moved to it."""

Traffic = Mapping[tuple[str, str], float]
"""What was delivered between clients of two brokers, by the broker of the one and the other."""


class Group(NamedTuple):
    """Clients of one broker that are alike: their medoid, its spread, and how many they are."""

    medoid: str
    spread: float
    clients: int


class Split(NamedTuple):
    """Send the clients nearer to `medoid` than to `rest` to the broker `to`."""

    medoid: str
    rest: str
    to: str


def propose_split(
    groups: Sequence[Group],
    medoids: Mapping[str, str],
    room: Mapping[str, float],
    semantic_map: SemanticMap,
) -> Split | None:
    """The group of a broker's clients to send away, and where to; None when none would gain.

    `medoids` are those of other brokers, `room` says how many clients more each may have.

    >>> from kbn.data import namespace, path
    >>> from kbn.ontology import Ontology
    >>> animals = SemanticMap(Ontology.load(path("animals")))
    >>> dogs, cats = (namespace("animals") + name for name in ("Dogs", "Cats"))
    >>> groups = [Group(dogs, 0.0, 5), Group(cats, 0.0, 2)]
    >>> propose_split(groups, {"east": cats}, {"east": 3.0}, animals).to
    'east'
    >>> propose_split(groups, {"east": cats}, {"east": 1.0}, animals) is None
    True
    """
    if len(groups) < 2:
        return None
    # The largest stays; of the others the smallest goes, of equal ones the first by name.
    by_size = sorted(groups, key=lambda group: (group.clients, group.medoid))
    smallest, rest = by_size[0], by_size[-1]
    apart = apart_from(smallest.medoid, [rest.medoid], semantic_map)[0]
    if apart <= smallest.spread + rest.spread:
        return None
    fitting = sorted(name for name in medoids if room.get(name, 0.0) >= smallest.clients)
    ways = apart_from(smallest.medoid, [medoids[name] for name in fitting], semantic_map)
    best = min(zip(ways, fitting, strict=True), default=None)
    if best is None or best[0] >= apart:
        return None
    return Split(smallest.medoid, rest.medoid, best[1])


def apart_from(term: str, others: Sequence[str], semantic_map: SemanticMap) -> list[int]:
    """How far a term is from each of the others, the shorter of the two ways; NO_WAY: no way.

    >>> from kbn.data import namespace, path
    >>> from kbn.ontology import Ontology
    >>> animals = SemanticMap(Ontology.load(path("animals")))
    >>> dogs, cats = (namespace("animals") + name for name in ("Dogs", "Cats"))
    >>> apart_from(cats, [cats, dogs], animals)
    [0, 200]
    """
    if not others:
        return []
    there = semantic_map.distances([term], others)[0]
    back = semantic_map.distances(others, [term])[:, 0]
    return [int(way) for way in np.minimum(np.minimum(there, back), NO_WAY)]


class BrokerMove(NamedTuple):
    """A broker leaves a neighbour for another; what passes takes `hops` there and took `before`."""

    leaving: str
    to: str
    hops: float
    before: float


def propose_move(
    broker: str,
    leaving: str,
    distances: Distances,
    links: Iterable[Link],
    traffic: Traffic,
    *,
    closed: Collection[str] = (),
    neighbours_max: int = NEIGHBOURS_MAX,
) -> BrokerMove | None:
    """Where a broker of a tree had better hang instead of on `leaving`; None when it may as well
    stay. None of `closed` is chosen, nor one that has `neighbours_max` neighbours already.

    >>> from kbn.placement import overlay_distances
    >>> links = [("left", "top"), ("right", "top"), ("far", "right")]
    >>> apart = overlay_distances(["top", "left", "right", "far"], links)
    >>> propose_move("far", "right", apart, links, {("far", "left"): 10.0, ("top", "far"): 1.0})
    BrokerMove(leaving='right', to='left', hops=23.0, before=43.0)
    """
    beside = _beside(distances.brokers, links)
    if leaving not in beside.get(broker, ()):
        raise InvalidInputError(f"{broker!r} does not hang on {leaving!r}")
    side = _side(broker, leaving, beside)
    if leaving in side:  # there is another way around, so nothing is parted
        return None
    inside = np.isin(distances.brokers, sorted(side))
    partners, within, total = np.zeros(len(distances.brokers)), 0.0, 0.0
    for (one, other), count in traffic.items():
        start, end = distances.place(one), distances.place(other)
        if inside[start] != inside[end]:
            near, far = (start, end) if inside[start] else (end, start)
            partners[far] += count
            within += count * float(distances.links[near, distances.place(broker)])
            total += count
    # One link more, to the new neighbour; and the first broker of a way is a hop, too.
    hops = distances.links @ partners + within + 2 * total
    open_ = [
        name
        for name in distances.brokers
        if name not in side
        and name not in closed
        and (name == leaving or len(beside[name]) < neighbours_max)
    ]
    if not total or not open_:
        return None
    best = min(open_, key=lambda name: (hops[distances.place(name)], name != leaving, name))
    new, now = (float(hops[distances.place(name)]) for name in (best, leaving))
    return BrokerMove(leaving, best, new, now) if new <= WORTH_IT * now else None


def _beside(brokers: Iterable[str], links: Iterable[Link]) -> dict[str, set[str]]:
    beside: dict[str, set[str]] = {name: set() for name in brokers}
    for one, other in links:
        beside[one].add(other)
        beside[other].add(one)
    return beside


def _side(broker: str, leaving: str, beside: Mapping[str, set[str]]) -> set[str]:
    """The brokers that are reached from `broker` without its link to `leaving`."""
    side, waiting = {broker}, [broker]
    while waiting:
        one = waiting.pop()
        cut = leaving if one == broker else None
        new = beside[one] - side - {cut}
        side |= new
        waiting += new
    return side
