"""Publisher groups: clusters of attribute combinations, with few connections and few mistakes.

Ω is the set of all attributes. A publisher p advertises Ψ ⊆ Ω and always sends all of Ψ, so what it
offers are the non-empty subsets of Ψ. A cluster holds combinations, each in at most one cluster. A
publisher is connected to every cluster that holds one it offers and sends each notification to all
of them; a subscriber wants one combination Φ and is connected to the one cluster that holds it. A
notification with Φ ⊄ Ψ is a false positive. One cluster for each combination would have none, but
takes 2^|Ψ| - 1 connections of each publisher; so publishers have a limit, and the strategies
(`strategies.py`) differ in what they put together to keep it.

The tables are in `kernels/lattice.py`. They are kept per set of attributes, not per publisher, so
an arrival costs the same among a thousand publishers and among a hundred thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.combinations import Advertisement, Combination, attributes_of, parts
from kbn.grouping.families import FAMILIES_MAX, known_attributes, learned_families
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

PublisherId = Hashable
SubscriberId = Hashable

REORDER_MIN = 16
"""The number of publishers at which strategy 4 rearranges everything for the first time."""


@dataclass(frozen=True, slots=True)
class PublisherCluster:
    """A cluster: what it holds, how many publishers are connected, and its false positives.

    `number` counts the clusters ever made, from 1. The rate assumes one subscriber for each
    combination and one notification from each publisher.
    """

    number: int
    combinations: frozenset[Combination]
    publishers: int
    false_positive_rate: float


class Delivery(NamedTuple):
    """How many notifications arrived at subscribers, and how many of them were unwanted."""

    received: int
    false_positives: int

    @property
    def rate(self) -> float:
        """The share that was unwanted; 0 when nothing arrived."""
        return self.false_positives / self.received if self.received else 0.0


class Regrouping(NamedTuple):
    """A combination that moved from one cluster to another, by their numbers."""

    combination: Combination
    before: int
    after: int


class _Publisher(NamedTuple):
    """A publisher: `kind` is its attributes as a bit mask, `number` the order of its arrival."""

    attributes: Combination
    kind: int
    limit: int
    number: int


class Groups:
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
        self.attributes = known_attributes(attributes, families)
        self.strategy = strategy
        self.order = order
        self.seed = seed
        self._arrived = 0
        self._publishers: dict[PublisherId, _Publisher] = {}
        self._limits: dict[int, Counter[int]] = {}  # kind -> how many have which limit
        self._subscribers: dict[SubscriberId, Combination] = {}
        self._wanted_sets: Counter[Combination] = Counter()
        self._wanted = np.zeros(1 << len(self.attributes), np.int64)
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
        newcomer = _Publisher(attributes, kind, limit, self._arrived)
        self._publishers[publisher] = newcomer
        self._limits.setdefault(kind, Counter())[limit] += 1
        self._place(newcomer)

    def _place(self, newcomer: _Publisher) -> None:
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
            other.arrive(publisher, each.attributes, _connections(each.limit))
        if other.deliveries().false_positives >= self.deliveries().false_positives:
            return False
        self.__dict__.update(other.__dict__)
        return True

    def rebuild(self) -> None:
        """Make the clusters anew, as if the departed publishers had never arrived."""
        self._clear()
        for publisher in sorted(self._publishers.values(), key=lambda each: each.number):
            self._place(publisher)

    # The present state.

    @property
    def clusters(self) -> tuple[PublisherCluster, ...]:
        """The clusters, the oldest first."""
        received, unwanted = self._arriving(None, None)
        made = []
        for cluster in self._present_clusters():
            total = int(received[cluster])
            held = self._combinations_in(cluster)
            made.append(
                PublisherCluster(
                    number=int(self._tables.born[cluster]) + 1,
                    combinations=frozenset(self.attributes.combination(m) for m in held),
                    publishers=self._audience(held),
                    false_positive_rate=Delivery(total, int(unwanted[cluster])).rate,
                )
            )
        return tuple(made)

    @property
    def connections(self) -> dict[PublisherId, tuple[int, ...]]:
        """For each publisher the numbers of the clusters it is connected to."""
        of_kind = {kind: self._clusters_of(kind) for kind in self._kinds()}
        return {publisher: of_kind[each.kind] for publisher, each in self._publishers.items()}

    @property
    def limits(self) -> dict[PublisherId, int | None]:
        """For each publisher the most connections it may have; None for no limit."""
        return {publisher: _connections(each.limit) for publisher, each in self._publishers.items()}

    @property
    def wanted(self) -> dict[Combination, int]:
        """How many subscribers there are for each combination anybody subscribed to."""
        return dict(self._wanted_sets)

    @property
    def subscribers(self) -> dict[SubscriberId, Combination]:
        """What each subscriber wants."""
        return dict(self._subscribers)

    def attributes_of(self, publisher: PublisherId) -> Combination:
        """What a publisher sends."""
        return self._known(publisher).attributes

    def cluster_of(self, combination: Iterable[str]) -> int | None:
        """The number of the cluster that holds a combination; None when nobody offers it."""
        attributes = attributes_of(combination)
        self.attributes.add(attributes)
        cluster = self._tables.owner[self.attributes.mask(attributes, "the combination")]
        return int(self._tables.born[cluster]) + 1 if cluster >= 0 else None

    def publishers_of(self, number: int) -> tuple[PublisherId, ...]:
        """Who is connected to the cluster with that number, in order of arrival."""
        kinds = {kind for kind in self._kinds() if number in self._clusters_of(kind)}
        if not kinds:
            raise InvalidInputError(f"there is no cluster {number}")
        return tuple(key for key, each in self._publishers.items() if each.kind in kinds)

    def deliver(self, publisher: PublisherId, notifications: int = 1) -> Delivery:
        """What arrives at the subscribers when a publisher sends this many notifications."""
        kind = self._known(publisher).kind
        if not self.attributes.is_exact:
            return self.deliveries(self._wanted_sets, {publisher: notifications})
        received, unwanted = departing.deliver(self._tables, kind, self._wanted)
        return Delivery(received * notifications, unwanted * notifications)

    def delivered_to(
        self, subscriber: SubscriberId, sent: Mapping[PublisherId, int] | None = None
    ) -> Delivery:
        """What arrives at one subscriber when each publisher sends so many (one, by default)."""
        if subscriber not in self._subscribers:
            raise InvalidInputError(f"there is no subscriber {subscriber!r}")
        return self.deliveries({self._subscribers[subscriber]: 1}, sent)

    def deliveries_by_cluster(
        self,
        wanted: Mapping[Combination, int] | None = None,
        sent: Mapping[PublisherId, int] | None = None,
    ) -> dict[int, Delivery]:
        """As `deliveries`, for each cluster by its number."""
        received, unwanted = self._arriving(wanted, sent)
        return {
            int(self._tables.born[cluster]) + 1: Delivery(
                int(received[cluster]), int(unwanted[cluster])
            )
            for cluster in self._present_clusters()
        }

    def deliveries(
        self,
        wanted: Mapping[Combination, int] | None = None,
        sent: Mapping[PublisherId, int] | None = None,
    ) -> Delivery:
        """What arrives in all: `wanted` subscribers per combination, `sent` by each publisher.

        By default there is one subscriber for each combination on offer (`groups.wanted` are those
        who subscribed; with families, these are the default), and each publisher sends one
        notification. False positives are counted by attributes, whether or not these share
        families.
        """
        received, unwanted = self._arriving(wanted, sent)
        return Delivery(int(received.sum()), int(unwanted.sum()))

    def false_positive_rate(
        self,
        wanted: Mapping[Combination, int] | None = None,
        sent: Mapping[PublisherId, int] | None = None,
    ) -> float:
        """False positives among the notifications received; see `deliveries`."""
        return self.deliveries(wanted, sent).rate

    def check_invariants(self) -> None:
        """Assert what must hold at every step, counted from the present publishers alone.

        Each combination on offer is in one cluster and no other is in any; connections are those of
        the definition; nobody has more than their limit.
        """
        tables = self._tables
        advertised = {part for each in self._publishers.values() for part in parts(each.kind)}
        held = [
            mask for cluster in self._present_clusters() for mask in self._combinations_in(cluster)
        ]
        assert len(held) == len(set(held)), "a combination is in two clusters"
        assert set(held) == advertised, "clusters hold what is advertised, and all of it"
        assert {m for m, owner in enumerate(tables.owner.tolist()) if owner >= 0} == advertised
        kinds = Counter(each.kind for each in self._publishers.values())
        assert dict(kinds) == {kind: int(tables.publishers[kind]) for kind in self._kinds()}
        for publisher, each in self._publishers.items():
            used = len({int(tables.owner[part]) for part in parts(each.kind)})
            assert used == tables.used[each.kind], f"{publisher!r}: connections miscounted"
            assert used <= each.limit, f"{publisher!r} has {used} connections of {each.limit}"

    # Reading the tables.

    def _known(self, publisher: PublisherId) -> _Publisher:
        if publisher not in self._publishers:
            raise InvalidInputError(f"there is no publisher {publisher!r}")
        return self._publishers[publisher]

    def _kinds(self) -> list[int]:
        return [int(kind) for kind in self._tables.kinds[: self._tables.counts[lattice.KINDS]]]

    def _present_clusters(self) -> list[int]:
        there = np.flatnonzero(self._tables.size > 0)
        return [int(cluster) for cluster in there[np.argsort(self._tables.born[there])]]

    def _combinations_in(self, cluster: int) -> list[int]:
        found = []
        mask = int(self._tables.first[cluster])
        while mask >= 0:
            assert self._tables.owner[mask] == cluster, "a chain leads into another cluster"
            found.append(mask)
            mask = int(self._tables.after[mask])
        assert len(found) == self._tables.size[cluster], "a cluster's size is miscounted"
        return found

    def _numbers(self) -> dict[int, int]:
        """The number of the cluster of each combination on offer."""
        there = np.flatnonzero(self._tables.owner >= 0)
        numbers = self._tables.born[self._tables.owner[there]] + 1
        return dict(zip(there.tolist(), numbers.tolist(), strict=True))

    def _clusters_of(self, kind: int) -> tuple[int, ...]:
        owners = {int(self._tables.owner[part]) for part in parts(kind)}
        return tuple(sorted(int(self._tables.born[owner]) + 1 for owner in owners))

    def _audience(self, held: list[int]) -> int:
        """How many publishers are connected to a cluster that holds these."""
        return sum(
            int(self._tables.publishers[kind])
            for kind in self._kinds()
            if any(mask & ~kind == 0 for mask in held)
        )

    def _wanting(self, wanted: Mapping[Combination, int] | None) -> Any:
        if wanted is None:
            return (self._tables.owner >= 0).astype(np.int64)
        counts = np.zeros_like(self._wanted)
        for combination, count in wanted.items():
            counts[self.attributes.mask(combination, "a combination wanted")] += count
        return counts

    def _sending(self, sent: Mapping[PublisherId, int] | None) -> Any:
        if sent is None:
            return self._tables.publishers
        counts = np.zeros_like(self._wanted)
        for publisher, count in sent.items():
            counts[self._known(publisher).kind] += count
        return counts

    def _arriving(
        self, wanted: Mapping[Combination, int] | None, sent: Mapping[PublisherId, int] | None
    ) -> tuple[Any, Any]:
        """What arrives in each cluster, and how much of it in vain."""
        if wanted is None and not self.attributes.is_exact:
            wanted = self._wanted_sets
        received, unwanted = np.zeros_like(self._wanted), np.zeros_like(self._wanted)
        departing.deliver_all(
            self._tables, self._wanting(wanted), self._sending(sent), received, unwanted
        )
        if wanted is None or self.attributes.is_exact:
            return received, unwanted
        return received, received - self._meant(wanted, sent)

    def _meant(
        self, wanted: Mapping[Combination, int], sent: Mapping[PublisherId, int] | None
    ) -> Any:
        """What arrives in each cluster at those who want it, by attributes instead of families."""
        found = np.zeros_like(self._wanted)
        sending: Counter[Combination] = Counter()
        for publisher, count in (
            dict.fromkeys(self._publishers, 1) if sent is None else sent
        ).items():
            sending[self._known(publisher).attributes] += count
        for combination, subscribers in wanted.items():
            cluster = self._tables.owner[self.attributes.mask(combination, "a combination wanted")]
            if cluster >= 0:
                found[cluster] += subscribers * sum(
                    count for attributes, count in sending.items() if combination <= attributes
                )
        return found


_NO_CHANCE = np.zeros(1, np.uint64)


def _connections(limit: int) -> int | None:
    return None if limit == UNLIMITED else limit


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
