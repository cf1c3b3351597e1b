"""Publisher groups: clusters of attribute combinations, with few connections and few mistakes.

Ω is the set of all attributes. A publisher p advertises Ψ ⊆ Ω and always sends all of Ψ, so what it
offers are the non-empty subsets of Ψ. A cluster holds combinations, each in at most one cluster. A
publisher is connected to every cluster that holds one it offers and sends each notification to all
of them; a subscriber wants one combination Φ and is connected to the one cluster that holds it. A
notification with Φ ⊄ Ψ is a false positive. One cluster for each combination would have none, but
takes 2^|Ψ| - 1 connections of each publisher; so publishers have a limit, and the strategies
(`strategies.py`) differ in what they put together to keep it.

What the clusters are is in `group_tables.py`; here is what happens to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.combinations import Advertisement, Combination, attributes_of
from kbn.grouping.families import FAMILIES_MAX, learned_families
from kbn.grouping.group_tables import (
    GroupTables,
    Publisher,
    PublisherId,
    SubscriberId,
    connections_of,
)
from kbn.grouping.kernels import departing, lattice, reordering
from kbn.grouping.strategies import (
    ARRIVALS,
    UNLIMITED,
    WITHOUT_LIMITS,
    chance_of,
    check_choice,
    observed_tables,
    reordered,
)

REORDER_MIN = 16
"""The number of publishers at which strategy 4 rearranges everything for the first time."""


class Regrouping(NamedTuple):
    """A combination that moved from one cluster to another, by their numbers."""

    combination: Combination
    before: int
    after: int


class Groups(GroupTables):
    """Clusters that follow publishers and subscribers as they come and go.

    Without `attributes`, these become known as they are advertised or wanted. More than 16 share
    `families` (by their hashes, if none are given; see `families.py` and `learn_families`).

    >>> groups = Groups(["price", "city", "size"], strategy="3.1")
    >>> groups.arrive("shop", ["price", "city"], connections=2)
    >>> groups.arrive("agency", ["price", "size"], connections=2)
    >>> groups.subscribe("ann", ["price"])
    >>> groups.deliver("agency")
    Delivery(received=1, false_positives=0)
    >>> groups.depart("shop")
    >>> [cluster.publishers for cluster in groups.clusters]
    [1]
    """

    def __init__(
        self,
        attributes: Iterable[str] | None = None,
        *,
        strategy: str = "4",
        order: str = "descending",
        seed: int = 0,
        families: Mapping[str, int] | None = None,
    ) -> None:
        check_choice(strategy, order, seed)
        super().__init__(attributes, families)
        self.strategy = strategy
        self.order = order
        self.seed = seed
        self._arrived = 0
        self._limits: dict[int, Counter[int]] = {}  # kind -> how many have which limit
        self._clear()

    def _clear(self) -> None:
        self._tables = lattice.empty(len(self.attributes))
        self._tables.weight[:] += self._wanted
        self._reorder_at = REORDER_MIN
        self._present = 0

    # Publishers and subscribers arrive and depart.

    def arrive(
        self,
        publisher: PublisherId,
        advertisement: Advertisement,
        connections: int | None = None,
    ) -> None:
        """Add a publisher; `connections` is the most it may have, None for no limit."""
        if publisher in self._publishers:
            raise InvalidInputError(f"the publisher {publisher!r} is there already")
        limit = _limit(connections, publisher, self.strategy)
        attributes = attributes_of(advertisement)
        self.attributes.add(attributes)
        kind = self.attributes.mask(attributes, f"the publisher {publisher!r}")
        self._arrived += 1
        newcomer = Publisher(attributes, kind, limit, self._arrived)
        self._publishers[publisher] = newcomer
        self._limits.setdefault(kind, Counter())[limit] += 1
        self._place(newcomer)

    def _place(self, newcomer: Publisher) -> None:
        by_size = self.order == "descending"
        chance = _NO_CHANCE if by_size else chance_of(self.seed, newcomer.number)
        ARRIVALS[self.strategy](self._tables, newcomer.kind, newcomer.limit, by_size, chance)
        self._present += 1
        if self.strategy == "4" and self._present >= self._reorder_at:
            self.reorder()

    def depart(self, publisher: PublisherId) -> None:
        """Remove a publisher and what it alone offered; merge clusters kept apart only for it.

        Strategy 1 leaves no trace of it. With the others the clusters may still depend on it having
        been there; `rebuild` removes that trace, and moves more of the other publishers.
        """
        _, kind, limit, _ = self._known(publisher)
        del self._publishers[publisher]
        limits = self._limits[kind]
        limits[limit] -= 1
        limits += Counter()  # drops what has none left
        departing.depart(self._tables, kind, min(limits, default=UNLIMITED))
        self._present -= 1
        if self.strategy == "4" and not reordering.is_broad(kind):
            reordering.improve_kind(self._tables, kind)

    def change(
        self,
        publisher: PublisherId,
        advertisement: Advertisement,
        connections: int | None = None,
    ) -> None:
        """A publisher sends other attributes from now on, or may have other connections.

        It departs and arrives again, unless nothing changes; if what it says is invalid, it stays
        what it was.
        """
        known = self._known(publisher)
        attributes = attributes_of(advertisement)
        self.attributes.add(attributes)
        self.attributes.mask(attributes, f"the publisher {publisher!r}")
        limit = _limit(connections, publisher, self.strategy)
        if (attributes, limit) != (known.attributes, known.limit):
            self.depart(publisher)
            self.arrive(publisher, attributes, connections)

    def subscribe(self, subscriber: SubscriberId, combination: Iterable[str]) -> None:
        """Add a subscriber, and connect it to the cluster of its combination.

        If no publisher offers the combination, the subscriber waits for one. Strategy 4 improves a
        cluster again whenever the subscribers of a combination have doubled.
        """
        if subscriber in self._subscribers:
            raise InvalidInputError(f"the subscriber {subscriber!r} is there already")
        attributes = attributes_of(combination)
        self.attributes.add(attributes)
        mask = self.attributes.mask(attributes, f"the subscriber {subscriber!r}")
        self._subscribers[subscriber] = attributes
        self._count_subscribers(attributes, 1)
        count = int(self._wanted[mask])
        cluster = self._tables.owner[mask]
        if self.strategy == "4" and cluster >= 0 and count & (count - 1) == 0:
            reordering.improve_cluster(self._tables, cluster)

    def unsubscribe(self, subscriber: SubscriberId) -> None:
        """Remove a subscriber."""
        if subscriber not in self._subscribers:
            raise InvalidInputError(f"there is no subscriber {subscriber!r} to unsubscribe")
        self._count_subscribers(self._subscribers.pop(subscriber), -1)

    def _count_subscribers(self, attributes: Combination, more: int) -> None:
        self._wanted_sets[attributes] += more
        if not self._wanted_sets[attributes]:
            del self._wanted_sets[attributes]
        mask = self.attributes.mask(attributes, "a subscriber")
        self._wanted[mask] += more
        self._tables.weight[mask] += more

    def reorder(self) -> bool:
        """Rearrange everything as strategy 4 does, if that is better; returns whether it was.

        Strategy 4 does this by itself whenever the publishers have grown by a quarter.
        """
        if self.strategy != "4":
            raise InvalidInputError(f"strategy {self.strategy} does not reorder; strategy 4 does")
        self._reorder_at = max(REORDER_MIN, self._present * 5 // 4)
        return reordered(self._tables)

    def regroup(
        self, sent: Mapping[PublisherId, int], clusters: Iterable[int] | None = None
    ) -> tuple[Regrouping, ...]:
        """Move combinations to where the least arrives in vain, by what publishers really send.

        Of these clusters or, without any named, of all, from scratch, if that lowers the false
        positives. Subscribers count as they are; limits are kept; what moved is returned.
        """
        before = self._numbers()
        observed = observed_tables(self._tables, self._wanted, self._sending(sent))
        if clusters is None:
            reordered(observed)
        else:
            chosen = frozenset(clusters)
            for cluster in self._present_clusters():
                if int(self._tables.born[cluster]) + 1 in chosen:
                    reordering.improve_cluster(observed, cluster)
        return tuple(
            Regrouping(self.attributes.combination(mask), before[mask], after)
            for mask, after in self._numbers().items()
            if before[mask] != after
        )

    def learn_families(self) -> bool:
        """Learn families from present publishers and subscribers; whether that was better.

        If it is, all clusters are made anew. With up to 16 attributes there is nothing to learn.
        """
        if len(self.attributes.names) <= FAMILIES_MAX:
            return False
        publishers = sorted(self._publishers.items(), key=lambda each: each[1].number)
        learned = learned_families(
            Counter(each.attributes for _, each in publishers), self._wanted_sets
        )
        other = Groups(strategy=self.strategy, order=self.order, seed=self.seed, families=learned)
        for subscriber, combination in self._subscribers.items():
            other.subscribe(subscriber, combination)
        for publisher, each in publishers:
            other.arrive(publisher, each.attributes, connections_of(each.limit))
        if other.deliveries().false_positives >= self.deliveries().false_positives:
            return False
        self.__dict__.update(other.__dict__)
        return True

    def rebuild(self) -> None:
        """Make the clusters anew, as if the departed publishers had never arrived."""
        self._clear()
        for publisher in sorted(self._publishers.values(), key=lambda each: each.number):
            self._place(publisher)


_NO_CHANCE = np.zeros(1, np.uint64)


def _limit(connections: int | None, publisher: PublisherId, strategy: str) -> int:
    if connections is None:
        return UNLIMITED
    if strategy in WITHOUT_LIMITS:
        raise InvalidInputError(
            f"strategy {strategy} keeps no limits: leave `connections` out, or use 3, 3.1 or 4"
        )
    if isinstance(connections, bool) or not isinstance(connections, int | np.integer):
        raise InvalidInputError(
            f"the connections of publisher {publisher!r} are a number, not {connections!r}"
        )
    if not 1 <= connections <= UNLIMITED:
        raise InvalidInputError(
            f"the publisher {publisher!r} needs at least one connection, not {connections}"
        )
    return int(connections)
