"""A year of podcasts: who subscribes to what, when and where, and what 37 brokers make of it.

SAC'08 (section 4) and the thesis (6.2) say: 37 brokers in five levels of 1, 4, 7, 10 and 15; a new
publisher every 600 s, each with one notification a week; a new subscriber every 37.73 s, with 6.6
subscriptions on average within its first week, none ever given back; nobody at the root. A message
goes to a random broker of the cluster that has most of its categories, to any broker on a draw.

What the sources leave open, and what is chosen here:

- *Who is whose parent* is only in a picture. Here the clusters are whole subtrees of the root, of
  about equal size: below the four brokers of level 2 are 11, 11, 6 and 4 others, so that three
  clusters have 12, 12 and 12 brokers and two have 19 and 17.
- *The moments.* Arrivals are a Poisson process; a subscriber has 6 subscriptions (two in five) or
  7, at uniformly drawn moments of its week.
- *The draw of categories and keywords* is uniform. The portions of the categories are the columns
  of the source's Figure 1: two of six columns each for three clusters, three each for two.
- *The 15 and 25 machines* on which clients ran do not show in any table, and are left out.

A broker is represented by what decides its tables: the covering order of all it knows, whose roots
are what its parent is told, and the matchers of its clients' filters and of its children's roots.
These are the structures of `kbn.broker.routing_table`; only the conversation between brokers is
left out, and clients' filters enter the matcher in bulk, when somebody asks. A test compares with
brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kbn import data
from kbn.filters import Bag, Constraint, Filter, Notification, Operator
from kbn.lab.podcast_brokers import (
    LEVELS,
    ROOT,
    clusters_of_brokers,
    clusters_of_categories,
    level_of,
    parents,
)
from kbn.lab.workloads.drawing import samples
from kbn.matching import Matcher, Poset, PosetChange
from kbn.ontology import Class, Ontology

if TYPE_CHECKING:
    from numpy.random import Generator

HOUR_S, WEEK_S = 3600.0, 604_800.0
PUBLISHER_EVERY_S, SUBSCRIBER_EVERY_S = 600.0, 37.73
SUBSCRIPTIONS_MEAN = 6.6
KEYWORDS, KEYWORDS_WANTED_MAX, KEYWORDS_PUBLISHED = 80, 3, 4
CATEGORIES_PUBLISHED = (2, 3, 4)


class Arrivals(NamedTuple):
    """Subscriptions in the order they are made, a row each: the same for any number of clusters."""

    seconds: Any
    categories: Any
    word_counts: Any
    words: Any
    placing: Any  # a number in [0, 1) that picks the broker within the cluster

    @classmethod
    def drawn(cls, rng: Generator, horizon_s: float, categories: int) -> Arrivals:
        """All subscriptions before the horizon."""
        came = _poisson(rng, SUBSCRIBER_EVERY_S, horizon_s)
        fewer = int(SUBSCRIPTIONS_MEAN)
        more = rng.random(came.shape[0]) < SUBSCRIPTIONS_MEAN - fewer
        begun = np.repeat(came, fewer + more)
        seconds = begun + rng.random(begun.shape[0]) * WEEK_S
        seconds = np.sort(seconds[seconds < horizon_s])
        count = seconds.shape[0]
        return cls(
            seconds,
            rng.integers(0, categories, count).astype(np.int16),
            rng.integers(0, KEYWORDS_WANTED_MAX + 1, count).astype(np.int8),
            samples(rng, count, KEYWORDS, KEYWORDS_WANTED_MAX).astype(np.int16),
            rng.random(count),
        )


def publications_before(rng: Generator, horizon_s: float) -> int:
    """How many notifications are published: each publisher's first is within its first week."""
    began = _poisson(rng, PUBLISHER_EVERY_S, horizon_s)
    first = began + rng.random(began.shape[0]) * WEEK_S
    return int(np.maximum(0, np.ceil((horizon_s - first) / WEEK_S)).sum())


def _poisson(rng: Generator, every_s: float, horizon_s: float) -> Any:
    expected = horizon_s / every_s
    room = int(expected + 10 * np.sqrt(expected) + 10)
    times = np.cumsum(rng.exponential(every_s, room))
    return times[times < horizon_s]


class Filters:
    """The filters that can be wanted; those that many want are made once and shared."""

    def __init__(self, ontology: Ontology) -> None:
        self._categories = [
            Constraint("category", "#>/@>", Bag(Class(iri))) for iri in ontology.classes
        ]
        self._bags: dict[tuple[int, ...], Constraint] = {}
        self._common: dict[tuple[int, ...], Filter] = {}

    def wanted(self, category: int, words: tuple[int, ...]) -> Filter:
        """The filter for a category and some keywords, in increasing order."""
        common = (category, *words)
        known = self._common.get(common)
        if known is None:
            parts = (self._categories[category],)
            known = Filter.trusted((*parts, self._bag(words)) if words else parts)
            if len(words) < KEYWORDS_WANTED_MAX:
                self._common[common] = known
        return known

    def _bag(self, words: tuple[int, ...]) -> Constraint:
        known = self._bags.get(words)
        if known is None:
            bag = Bag.of([keyword(word) for word in words])
            known = Constraint.trusted("keywords", Operator.SUPER_BAG, bag)
            self._bags[words] = known
        return known


def keyword(number: int) -> str:
    return f"keyword{number:02d}"


@dataclass(eq=False)
class Node:
    """One broker's tables."""

    name: str
    ontology: Ontology
    parent: Node | None = None
    received: int = 0
    told: int = 0
    order: Poset = field(init=False)
    _clients: Matcher = field(init=False)
    _children: Matcher = field(init=False)
    _waiting: list[tuple[Filter, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.order = Poset(self.ontology)
        self._clients = Matcher(self.ontology)
        self._children = Matcher(self.ontology)

    @property
    def table_size(self) -> int:
        """The number of distinct filters."""
        return self.order.entry_count

    def subscribe(self, filter: Filter, number: int) -> None:
        """A client's subscription; the parent learns of new roots."""
        self.received += 1
        self._waiting.append((filter, number))
        change = self.order.add(filter, number)
        if change:
            self._tell_parent(change)

    def announced(self, child: str, change: PosetChange) -> None:
        """A child's roots have changed: its new ones first, so that nothing is missed."""
        for filter in change.send:
            self.received += 1
            self._children.add(filter, (child, filter))
            self._tell_parent(self.order.add(filter, (child, filter)))
        for filter in change.withdraw:
            self._children.remove((child, filter))
            self._tell_parent(self.order.remove((child, filter)))

    def wanted(self, notification: Notification) -> tuple[int, set[str]]:
        """How many subscriptions of clients match, and which children want it."""
        if self._waiting:
            self._clients.add_many(self._waiting)
            self._waiting = []
        keys: Iterable[Any] = self._children.match(notification)
        return len(self._clients.match(notification)), {child for child, _ in keys}

    def _tell_parent(self, change: PosetChange) -> None:
        if self.parent is not None and change:
            self.told += len(change.send) + len(change.withdraw)
            self.parent.announced(self.name, change)


class Passage(NamedTuple):
    """What became of one notification."""

    brokers: int
    deliveries: int
    hops: int  # of all deliveries together


class Overlay:
    """The 37 brokers' tables, with the clients spread over 1, 2 or 3 clusters."""

    def __init__(self, ontology: Ontology, clusters: int) -> None:
        self.ontology = ontology
        self.nodes: dict[str, Node] = {}
        for name, parent in parents().items():
            above = None if parent is None else self.nodes[parent]
            self.nodes[name] = Node(name, ontology, above)
        self._members = clusters_of_brokers(clusters)
        self._everyone = [name for members in self._members for name in members]
        self._cluster_of = clusters_of_categories(ontology, clusters)
        self._filters = Filters(ontology)

    def subscribe_until(self, arrivals: Arrivals, first: int, seconds: float) -> int:
        """Make the subscriptions from row `first` up to a moment; the row to go on with."""
        last = int(np.searchsorted(arrivals.seconds, seconds))
        for start in range(first, last, 50_000):
            for number, node, filter in self.placed(arrivals, start, min(start + 50_000, last)):
                node.subscribe(filter, number)
        return last

    def publish(self, notification: Notification, broker: str) -> Passage:
        """Let a notification pass: to the parent always, down to the children that want it."""
        brokers = deliveries = hops = 0
        to_visit: list[tuple[str, str | None, int]] = [(broker, None, 1)]
        while to_visit:
            name, source, hop = to_visit.pop()
            node = self.nodes[name]
            here, onwards = node.wanted(notification)
            if node.parent is not None:
                onwards.add(node.parent.name)
            to_visit += [(other, name, hop + 1) for other in sorted(onwards) if other != source]
            brokers, deliveries, hops = brokers + 1, deliveries + here, hops + here * hop
        return Passage(brokers, deliveries, hops)

    def entry_of(self, categories: Iterable[int], rng: Generator) -> str:
        """Where a notification is published: in the cluster of most of its categories."""
        counts = np.bincount(self._cluster_of[list(categories)], minlength=len(self._members))
        most = np.flatnonzero(counts == counts.max())
        among = self._members[most[0]] if most.shape[0] == 1 else self._everyone
        return among[int(rng.integers(len(among)))]

    def placed(
        self, arrivals: Arrivals, first: int, last: int
    ) -> Iterator[tuple[int, Node, Filter]]:
        """Some rows of the arrivals: their numbers, where they are made, and what they want."""
        rows = slice(first, last)
        clusters = self._cluster_of[arrivals.categories[rows]].tolist()
        for number, category, count, words, cluster, place in zip(
            range(first, last),
            arrivals.categories[rows].tolist(),
            arrivals.word_counts[rows].tolist(),
            arrivals.words[rows].tolist(),
            clusters,
            arrivals.placing[rows].tolist(),
            strict=True,
        ):
            members = self._members[cluster]
            node = self.nodes[members[int(place * len(members))]]
            yield number, node, self._filters.wanted(category, tuple(sorted(words[:count])))


def drawn_notification(rng: Generator, ontology: Ontology) -> tuple[Notification, list[int]]:
    """A notification of 15 attributes, and the numbers of its categories."""
    size = int(rng.choice(CATEGORIES_PUBLISHED))
    chosen = rng.choice(len(ontology.classes), size, replace=False).tolist()
    words = rng.choice(KEYWORDS, KEYWORDS_PUBLISHED, replace=False).tolist()
    iris = list(ontology.classes)
    content: dict[str, Any] = {f"text{i:02d}": "as in every other" for i in range(13)}
    content["category"] = Bag.of([Class(iris[number]) for number in chosen])
    content["keywords"] = Bag.of([keyword(word) for word in words])
    return Notification(content), chosen


def run_year(
    clusters: int, seed: int, sample_hours: list[float], publications: int
) -> dict[str, list[dict[str, Any]]]:
    """Subscriptions up to the last of some hours; the tables, and some notifications, at each.

    Everything drawn is the same for any number of clusters.
    """
    from time import perf_counter, process_time

    from kbn.lab.measuring import peak_bytes, undisturbed

    started, worked = perf_counter(), process_time()
    ontology = Ontology.load(data.path("podcast"))
    overlay = Overlay(ontology, clusters)
    horizon_s = sample_hours[-1] * HOUR_S
    arrivals = Arrivals.drawn(np.random.default_rng([seed, 1]), horizon_s, len(ontology.classes))
    rng = np.random.default_rng([seed, 2])
    tables: list[dict[str, Any]] = []
    passages: list[dict[str, Any]] = []
    row = 0
    with undisturbed():  # the collector would walk over millions of filters, again and again
        for hour in sample_hours:
            row = overlay.subscribe_until(arrivals, row, hour * HOUR_S)
            tables += _levels(overlay, clusters, hour, row)
            sent = [_publish_one(overlay, rng) for _ in range(publications)]
            passages.append({"clusters": clusters, "hour": hour, **_summed(sent)})
    summary = {
        "clusters": clusters,
        "hours": sample_hours[-1],
        "subscriptions": row,
        "notifications in that time": publications_before(
            np.random.default_rng([seed, 3]), horizon_s
        ),
        "notifications sampled": publications * len(sample_hours),
        "announcements": sum(node.told for node in overlay.nodes.values()),
        "parent's roots": len(overlay.nodes[ROOT].order.roots),
        "seconds": perf_counter() - started,
        "µs per subscription": (process_time() - worked) / max(1, row) * 1e6,
        "peak MB": (peak_bytes() or 0) / 1e6,
    }
    return {"tables": tables, "passages": passages, "summary": [summary]}


def _publish_one(overlay: Overlay, rng: Generator) -> Passage:
    notification, categories = drawn_notification(rng, overlay.ontology)
    return overlay.publish(notification, overlay.entry_of(categories, rng))


def _levels(overlay: Overlay, clusters: int, hour: float, made: int) -> list[dict[str, Any]]:
    """The mean table of each level's brokers."""
    rows = []
    for level in range(1, LEVELS + 1):
        nodes = [node for node in overlay.nodes.values() if level_of(node.name) == level]
        rows.append(
            {
                "clusters": clusters,
                "hour": hour,
                "subscriptions": made,
                "level": level,
                "brokers": len(nodes),
                "received": _mean(node.received for node in nodes),
                "filters": _mean(node.table_size for node in nodes),
                "roots": _mean(len(node.order.roots) for node in nodes),
            }
        )
    return rows


def _summed(sent: list[Passage]) -> Mapping[str, Any]:
    deliveries = sum(each.deliveries for each in sent)
    return {
        "notifications": len(sent),
        "brokers each": _mean(each.brokers for each in sent),
        "deliveries each": _mean(each.deliveries for each in sent),
        "hops per delivery": sum(each.hops for each in sent) / deliveries if deliveries else None,
    }


def _mean(values: Iterable[float]) -> float:
    several = list(values)
    return sum(several) / max(1, len(several))
