"""The clusters of publisher groups as they are: who is connected to what, and what arrives.

The tables are in `kernels/lattice.py`. They are kept per set of attributes, not per publisher, so
an arrival costs the same among a thousand publishers and among a hundred thousand. What changes
them is in `publisher_groups.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.combinations import Combination, attributes_of, parts
from kbn.grouping.families import known_attributes
from kbn.grouping.kernels import departing, lattice
from kbn.grouping.strategies import UNLIMITED

PublisherId = Hashable
SubscriberId = Hashable


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


class Publisher(NamedTuple):
    """A publisher: `kind` is its attributes as a bit mask, `number` the order of its arrival."""

    attributes: Combination
    kind: int
    limit: int
    number: int


class GroupTables:
    """Clusters, publishers and subscribers, and what can be read from them."""

    def __init__(
        self, attributes: Iterable[str] | None, families: Mapping[str, int] | None
    ) -> None:
        self.attributes = known_attributes(attributes, families)
        self._publishers: dict[PublisherId, Publisher] = {}
        self._subscribers: dict[SubscriberId, Combination] = {}
        self._wanted_sets: Counter[Combination] = Counter()
        self._wanted = np.zeros(1 << len(self.attributes), np.int64)
        self._tables = lattice.empty(len(self.attributes))

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
        return {
            publisher: connections_of(each.limit) for publisher, each in self._publishers.items()
        }

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

    def _known(self, publisher: PublisherId) -> Publisher:
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


def connections_of(limit: int) -> int | None:
    """A limit as it was given."""
    return None if limit == UNLIMITED else limit
