"""A broker's clients in a few words: their medoids brought down to a number of representative ones.

Each distinct medoid starts as a group. As long as there are too many, the two groups that are
cheapest to merge become one, with the medoid of all its members. A merger costs the distance
between their medoids, the shorter of the two ways, for each client of the smaller group; ties go to
the first in IRI order. Groups with no way between them are merged last of all.

The source (Code Example 18 of the KBNCluster thesis) merges the group with the smallest spread with
the one nearest to it. There a group that has grown large, and therefore even, goes on to swallow
the others: of 1,500 clients with 500 random medoids 1,486 ended in one of four groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kbn.errors import InvalidInputError
from kbn.placement.graph import NO_WAY, Numbers
from kbn.placement.semantic_map import SemanticMap

DISTINCT_MAX = 256
"""So many medoids are merged in pairs, unless said otherwise."""


class MedoidGroup(NamedTuple):
    """Clients represented by one medoid: its spread, and their own medoids, each so many times."""

    medoid: str
    spread: float
    members: Mapping[str, int]

    @property
    def clients(self) -> int:
        """How many clients are in the group."""
        return sum(self.members.values())


def group_by_medoid(
    medoids: Mapping[str, int],
    semantic_map: SemanticMap,
    count: int,
    distinct_max: int = DISTINCT_MAX,
) -> tuple[MedoidGroup, ...]:
    """The clients with these medoids, each so many times, in at most `count` groups.

    At most the `distinct_max` most frequent medoids are merged in pairs, which takes time; rarer
    ones join the nearest of these before.

    Names of one node are one medoid. The largest group comes first, then in the order of the
    medoids' IRIs. The answer depends on nothing but what is given, not on its order either.

    >>> from kbn.data import namespace, path
    >>> from kbn.ontology import Ontology
    >>> animals = SemanticMap(Ontology.load(path("animals")))
    >>> medoids = {"Gus": 3, "JackRussell": 1, "Burmese": 2}
    >>> named = {namespace("animals") + name: times for name, times in medoids.items()}
    >>> [(one.medoid.partition("#")[2], one.clients) for one in group_by_medoid(named, animals, 2)]
    [('JackRussell', 4), ('Burmese', 2)]
    """
    if type(count) is not int or count < 1:
        raise InvalidInputError(f"the number of groups is a whole number from 1, not {count!r}")
    for iri, times in medoids.items():
        semantic_map.node(iri)
        if type(times) is not int or times < 1:
            raise InvalidInputError(f"<{iri}> is the medoid of {times!r} clients: that is not one")
    counts: Counter[str] = Counter()
    for iri, times in medoids.items():
        counts[semantic_map.name(semantic_map.node(iri))] += times
    merging = _Merging(_starting(counts, semantic_map, max(count, distinct_max)), semantic_map)
    for _ in range(len(merging.groups) - count):
        merging.merge_the_cheapest()
    left = (one for one in merging.groups if one is not None)
    return tuple(sorted(left, key=lambda one: (-one.clients, one.medoid)))


def _starting(
    medoids: Mapping[str, int], semantic_map: SemanticMap, distinct_max: int
) -> list[MedoidGroup]:
    """A group for each medoid, in IRI order; those beyond the bound are in the nearest group."""
    ranked = sorted(medoids, key=lambda iri: (-medoids[iri], iri))
    kept, rest = sorted(ranked[:distinct_max]), sorted(ranked[distinct_max:])
    members = [Counter({iri: medoids[iri]}) for iri in kept]
    if rest:
        apart = semantic_map.distances(rest, kept)
        # An individual may reach no other term, and yet be reached.
        lost = np.flatnonzero((apart == NO_WAY).all(axis=1))
        apart[lost] = semantic_map.distances(kept, [rest[n] for n in lost]).T
        for iri, nearest in zip(rest, apart.argmin(axis=1).tolist(), strict=True):
            members[nearest][iri] = medoids[iri]
    return [_group(some, semantic_map) for some in members]


def _group(members: Mapping[str, int], semantic_map: SemanticMap) -> MedoidGroup:
    if len(members) == 1:
        return MedoidGroup(next(iter(members)), 0.0, members)
    found = semantic_map.medoid(members)
    assert found.term is not None, "members are nodes of the map"
    return MedoidGroup(found.term, found.spread, members)


class _Merging:
    """Groups, None where one went into another, and what it costs to merge each pair."""

    def __init__(self, groups: list[MedoidGroup], semantic_map: SemanticMap) -> None:
        self.groups: list[MedoidGroup | None] = [*groups]
        self._map = semantic_map
        self._nodes = np.array([semantic_map.node(one.medoid) for one in groups], dtype=np.int64)
        self._clients = np.array([one.clients for one in groups], dtype=np.int64)
        one_way = semantic_map.finder.between(self._nodes, self._nodes)
        fewer = np.minimum(self._clients[:, None], self._clients[None, :])
        self._price = _price(np.minimum(one_way, one_way.T), fewer)
        np.fill_diagonal(self._price, np.inf)
        self._partner = self._price.argmin(axis=1) if groups else np.empty(0, dtype=np.int64)
        self._least = self._price.min(axis=1, initial=np.inf)

    def merge_the_cheapest(self) -> None:
        start = int(self._least.argmin())
        end = int(self._partner[start])
        one, other = self.groups[start], self.groups[end]
        assert one is not None and other is not None, "what is merged is there"
        merged = _group(Counter(one.members) + Counter(other.members), self._map)
        self.groups[start], self.groups[end] = merged, None
        self._nodes[start], self._clients[start] = self._map.node(merged.medoid), merged.clients
        self._put_prices(start, end)

    def _put_prices(self, start: int, end: int) -> None:
        """Price the mergers with the group `start`, which is new; `end` is gone."""
        others = [n for n, one in enumerate(self.groups) if one is not None and n != start]
        new, nodes = self._nodes[[start]], self._nodes[others]
        between = self._map.finder.between
        apart = np.minimum(between(new, nodes)[0], between(nodes, new)[:, 0])
        price = _price(apart, np.minimum(self._clients[start], self._clients[others]))
        self._price[[start, end], :] = self._price[:, [start, end]] = np.inf
        self._price[start, others] = self._price[others, start] = price
        # Whose cheapest merger was with one of the two looks anew; so does who has a cheaper now.
        stale = np.isin(self._partner, (start, end)) | (self._price[:, start] <= self._least)
        self._partner[stale] = self._price[stale].argmin(axis=1)
        self._least[stale] = self._price[stale].min(axis=1)


def _price(apart: Numbers, fewer: Numbers) -> npt.NDArray[np.float64]:
    """What a merger costs at most: the way to the other medoid for each of the fewer clients."""
    # Whole numbers below 2⁵³ are exact; with no way at all, those of fewer clients still go first.
    return apart.astype(np.float64) * fewer
