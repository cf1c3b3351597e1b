"""A cluster as the coordinator sees it: its publishers, its members and their tree.

The source of the tree is nobody: it stands for all publishers of the cluster and feeds one peer,
the root, so that a publisher needs one connection for the cluster. A link from the source is as
slow as the slowest publisher's link to that peer. So who is root is decided like any other place.

A link that nobody has measured is not used, but for the moment after a crash or a restart: then it
is taken to be as slow as the slowest known link of that peer, until it is measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from kbn.grouping import Bound, DelayTree, Distribution, MeasuredLinks, Moves, worst_of

Array = np.ndarray[Any, Any]
SOURCE = ""
"""Who stands for all publishers: no peer has this name."""
ASSUMED_S = 0.05
PUBLISHERS_MEASURED = 16
"""Of more publishers only so many are measured by those who may become the root."""


class ClusterLinks:
    """The links of one cluster: what peers measured, the source's, and what is assumed."""

    def __init__(self, measured: MeasuredLinks) -> None:
        self._measured = measured
        self.publishers: tuple[str, ...] = ()
        self._assumed: dict[str, set[str]] = {}
        self._nearest: dict[str, Distribution | None] = {}

    def assume(self, child: str, parents: Iterable[str]) -> None:
        """Use links to a peer that nobody has measured yet."""
        self._assumed.setdefault(child, set()).update(parents)

    def forget(self, peer: str) -> None:
        self._assumed.pop(peer, None)
        self._nearest.pop(peer, None)

    def changed(self, peers: Iterable[str] = ()) -> None:
        """What was worked out of the source's links to these peers (or all) is out of date."""
        for peer in peers:
            self._nearest.pop(peer, None)
        if not peers:
            self._nearest.clear()

    def known(self, child: Any) -> Collection[Any]:
        found = {*self._measured.known(child), *self._assumed.get(child, ())}
        if self._from_source(child) is not None:
            found.add(SOURCE)
        return found

    def between(self, parent: Any, child: Any) -> Distribution | None:
        if parent == SOURCE:
            return self._from_source(child)
        found = self._measured.between(parent, child)
        if found is None and parent in self._assumed.get(child, ()):
            return self._slowest(child)
        return found

    def moments(self, parents: Array, child: Any) -> tuple[Array, Array, Array]:
        unknown = (math.inf, 0.0, 0.0)
        found = [self.between(parent, child) for parent in parents]
        rows = np.array([unknown if each is None else each.moments for each in found])
        mean, variance, third = rows.reshape(-1, 3).T
        return mean, variance, third

    def is_measured(self, parent: str, child: str) -> bool:
        """Whether a link is more than assumed."""
        if parent == SOURCE:
            ways = [self._from_publisher(each, child) for each in self.publishers]
            return bool(ways) and all(way is not None for way in ways[:PUBLISHERS_MEASURED])
        return self._measured.between(parent, child) is not None

    def unmeasured(self, peer: str, others: Iterable[str]) -> list[str]:
        """Those whose link with a peer nobody has measured."""
        known = self._measured.known(peer)
        return [other for other in others if other not in known and other != peer]

    def _from_source(self, child: str) -> Distribution | None:
        if child not in self._nearest:
            ways = [self._from_publisher(each, child) for each in self.publishers]
            known = [way for way in ways if way is not None]
            is_known = bool(known) and (
                len(known) == len(ways) or SOURCE in self._assumed.get(child, ())
            )
            if not known and SOURCE in self._assumed.get(child, ()):
                return self._slowest(child)
            self._nearest[child] = worst_of(known) if is_known else None
        return self._nearest[child]

    def _from_publisher(self, publisher: str, child: str) -> Distribution | None:
        if publisher == child:
            return Distribution.exactly(0.0)
        return self._measured.between(publisher, child)

    def _slowest(self, child: str) -> Distribution:
        known = [self._measured.between(other, child) for other in self._measured.known(child)]
        found = [each for each in known if each is not None]
        return worst_of(found) if found else Distribution.exactly(ASSUMED_S)


@dataclass(slots=True)
class Joining:
    """One who measures before it joins."""

    bound: Bound | None
    slots: int
    until: float
    candidates: tuple[str, ...]
    samples: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Cluster:
    """One cluster that somebody is in."""

    number: int
    links: ClusterLinks
    tree: DelayTree
    joining: dict[str, Joining] = field(default_factory=dict)
    parents_told: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def empty(cls, number: int, measured: MeasuredLinks) -> Cluster:
        links = ClusterLinks(measured)
        return cls(number, links, DelayTree(links, SOURCE, slots=1))

    def parents_of(self, peer: str) -> tuple[str, ...]:
        """Who is to feed a peer: of the root, all publishers; nobody while it waits."""
        parent = self.tree.parent_of(peer)
        if parent is None:
            return ()
        return self.links.publishers if parent == SOURCE else (str(parent),)

    def parents_of_or_none(self, peer: str) -> tuple[str, ...]:
        """The same, of anybody."""
        return self.parents_of(peer) if peer in self.tree else ()

    def is_root(self, peer: str) -> bool:
        return peer in self.tree and self.tree.parent_of(peer) == SOURCE

    def is_measured(self, peer: str) -> bool:
        """Whether the whole way to a peer was measured."""
        path = [str(each) for each in self.tree.path(peer)]
        return all(self.links.is_measured(*link) for link in pairwise(path))

    def adopt_waiting(self) -> Moves:
        """Give those a place who wait only because nobody has measured the link."""
        if not self.tree.waiting:
            return {}
        everybody = [SOURCE, *(str(child) for _, child in self.tree.edges())]
        for peer in self.tree.waiting:
            self.links.assume(str(peer), everybody)
            self.links.changed([str(peer)])
        return self.tree.attach_waiting()
