"""The `traffic` planner: the broker of each cluster, so that notifications pass few brokers.

What is known is how many notifications went from publishers with one medoid to subscribers with
another, and how much load the clients with a medoid are. Summed up by cluster this is a quadratic
assignment problem: for clusters c, d with f(c, d) deliveries between them and brokers s(c), s(d),

    hops = Σ f(c, d) · (links from s(c) to s(d) + 1)         is to be least, while
    load of a broker ≤ load_max · (load of all / brokers)    holds for every broker.

Assignments are compared by what is over the limit first and by hops second (`Rating`), so a limit
that cannot be kept is broken as little as possible. Three steps:

1. Descend from the `taxonomic` assignment and from a greedy one (the busiest clusters first, each
   where it is nearest to those placed): take the best single change of one cluster's broker while
   there is one, else the best exchange of two. A table with the cost of every cluster at every
   broker is kept up to date, so that a change costs one outer product.
2. Kick a few clusters of the best to random brokers and descend again, a number of times that
   falls with the size of the problem. What ends no better than the best is forgotten.
3. Where a cluster alone has more load than a broker may have, no assignment keeps the limit: it
   gets helpers, as `balancing` gives them.

Step 1 starts from `taxonomic` and every step only improves, so the result never loses to it: it has
less over the limit, or as much and no more hops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kbn.errors import InvalidInputError
from kbn.placement import balancing
from kbn.placement.distances import Distances, Link, overlay_distances

if TYPE_CHECKING:
    from kbn.placement.plans import Plan
    from kbn.placement.taxonomic import Clusters

Deliveries = Mapping[tuple[str, str], float]
"""(medoid of the publisher, medoid of the subscriber) -> how many notifications."""

Array = npt.NDArray[np.float64]
Indexes = npt.NDArray[np.int64]

STEPS_MAX = 100_000
KICKS_MAX = 40
KICKS_WORK = 100_000
"""Kicks times clusters times brokers stays under this."""
TOLERANCE = 1e-10
"""For sums added up in another order; loads and hops are near 1 in the search."""


class Rating(NamedTuple):
    """How good an assignment is; the smaller is the better."""

    excess: float
    """Load over the limit, over all brokers."""
    hops: float
    """Brokers passed, over all deliveries."""


def rate_plan(
    plan: Plan,
    distances: Distances,
    deliveries: Deliveries,
    clients: Mapping[str, float] | None = None,
    load_max: float = 2.0,
) -> Rating:
    """What `traffic` makes least, for any plan; a cluster with helpers counts by its shares.

    >>> from kbn.placement import overlay_distances, plan
    >>> from kbn.data import namespace, path
    >>> from kbn.ontology import Ontology
    >>> animals, here = Ontology.load(path("animals")), namespace("animals")
    >>> brokers, links = ["top", "left", "right"], [("left", "top"), ("right", "top")]
    >>> heard = {(here + "Gus", here + "Dixie"): 10, (here + "Food", here + "Food"): 10}
    >>> for made in plan(animals, brokers), plan(
    ...     animals, brokers, "traffic", links=links, deliveries=heard
    ... ):
    ...     print(made.planner, rate_plan(made, overlay_distances(brokers, links), heard))
    taxonomic Rating(excess=0.0, hops=30.0)
    traffic Rating(excess=0.0, hops=20.0)
    """
    keys = [cluster.key for cluster in plan.clusters]
    flows, loads = _summed(keys, plan.cluster_for, deliveries, clients)
    limit = balancing.load_limit(load_max, float(loads.sum()), len(plan.brokers))
    by_key = dict(zip(keys, loads.tolist(), strict=True))
    assignments = {key: plan.brokers_of(key) for key in keys}
    parts = balancing.shares(assignments, by_key, plan.brokers)
    share = np.zeros((len(keys), len(distances.brokers)))
    for number, key in enumerate(keys):
        for broker, part in parts[key].items():
            share[number, distances.place(broker)] = part
    hops = float((flows * (share @ distances.links @ share.T)).sum() + flows.sum())
    on_brokers = balancing.spread(assignments, by_key, plan.brokers)
    return Rating(balancing.excess(on_brokers, limit), hops)


def traffic(
    parts: Clusters,
    brokers: Sequence[str],
    /,
    *,
    links: Iterable[Link],
    deliveries: Deliveries,
    clients: Mapping[str, float] | None = None,
    load_max: float = 2.0,
    seed: int = 0,
) -> dict[str, tuple[str, ...]]:
    """Each cluster's brokers, the main one first, so that deliveries pass the fewest brokers.

    `links` are the overlay's. `deliveries` and `clients` (the load of those with a medoid) go by
    medoid; medoids in no cluster are left out, as their clients stay where they are. Without
    `clients` a cluster's load is the deliveries it sends and gets. A broker has at most `load_max`
    times a fair share of the load; a cluster that alone is larger gets helpers.

    Never loses to `taxonomic`: it has less load over the limit, or as much and no more hops. So
    where `taxonomic` overloads a broker, the hops may be more than its. The same seed gives the
    same answer.
    """
    from kbn.placement.planning import taxonomic

    apart = overlay_distances(brokers, links)
    keys = list(parts.keys())
    flows, loads = _summed(keys, parts.cluster_of, deliveries, clients)
    limit = balancing.load_limit(load_max, float(loads.sum()), len(brokers))
    by_taxonomy = taxonomic(parts, brokers)
    start = np.array([apart.place(by_taxonomy[key]) for key in keys], dtype=np.int64)
    problem = _Problem.of(flows, loads, apart, limit)
    best = _searched(problem, start, np.random.default_rng(seed))
    assignments = {key: (brokers[place],) for key, place in zip(keys, best, strict=True)}
    return balancing.helped(assignments, dict(zip(keys, loads.tolist(), strict=True)), limit, apart)


def _summed(
    keys: Sequence[str],
    cluster_of: Callable[[str], str | None],
    deliveries: Deliveries,
    clients: Mapping[str, float] | None,
) -> tuple[Array, Array]:
    """Deliveries between clusters, and the load of each."""
    number = {key: place for place, key in enumerate(keys)}
    flows, loads = np.zeros((len(keys), len(keys))), np.zeros(len(keys))
    for (publisher, subscriber), count in deliveries.items():
        one, other = cluster_of(publisher), cluster_of(subscriber)
        if one is not None and other is not None:
            flows[number[one], number[other]] += _checked(count, "deliveries")
    if clients is None:
        return flows, flows.sum(axis=0) + flows.sum(axis=1)
    for medoid, load in clients.items():
        key = cluster_of(medoid)
        if key is not None:
            loads[number[key]] += _checked(load, "load")
    return flows, loads


def _checked(value: float, what: str) -> float:
    if not 0 <= value < float("inf"):
        raise InvalidInputError(f"{what} are counted from 0 up, not {value!r}")
    return value


# The search.


@dataclass(frozen=True, eq=False)
class _Problem:
    flows: Array
    """Of all deliveries, those between two clusters, both ways together; none with themselves."""
    loads: Array
    """As parts of what a broker may have."""
    links: Array

    @classmethod
    def of(cls, flows: Array, loads: Array, apart: Distances, limit: float) -> _Problem:
        both = (flows + flows.T) / (flows.sum() or 1.0)
        np.fill_diagonal(both, 0.0)
        return cls(both, loads / (limit or 1.0), apart.links.astype(np.float64))

    def on_brokers(self, at: Indexes) -> Array:
        return np.bincount(at, self.loads, len(self.links)).astype(np.float64)

    def over(self, on_brokers: Array) -> Array:
        return np.maximum(0.0, on_brokers - 1.0)

    def rating(self, at: Indexes) -> Rating:
        """In parts of the limit, and in links for each delivery."""
        hops = (self.flows * self.links[np.ix_(at, at)]).sum() / 2
        return Rating(float(self.over(self.on_brokers(at)).sum()), float(hops))


class _Descent:
    """An assignment that is improved step by step."""

    def __init__(self, problem: _Problem, at: Indexes) -> None:
        self.problem = problem
        self.at = at.copy()
        self.on_brokers = problem.on_brokers(at)
        self.costs = problem.flows @ problem.links[at]
        """Hops of each cluster (row) if it were at a broker (column), the others staying."""

    def run(self) -> Indexes:
        for _ in range(STEPS_MAX):
            if not self._change() and not self._exchange():
                break
        return self.at

    def _move(self, cluster: int, broker: int) -> None:
        links, old = self.problem.links, self.at[cluster]
        self.costs += np.outer(self.problem.flows[cluster], links[broker] - links[old])
        self.on_brokers[old] -= self.problem.loads[cluster]
        self.on_brokers[broker] += self.problem.loads[cluster]
        self.at[cluster] = broker

    def _change(self) -> bool:
        """Move the cluster that had best be on another broker; False when none had."""
        problem, at = self.problem, self.at
        rows, loads = np.arange(len(at)), problem.loads
        more_hops = self.costs - self.costs[rows, at][:, None]
        over = problem.over(self.on_brokers)
        here = problem.over(self.on_brokers[at] - loads) - over[at]
        there = problem.over(self.on_brokers + loads[:, None]) - over
        more_over = there + here[:, None]
        more_over[rows, at] = 0.0  # it stays: nothing changes
        place = _least(more_over, more_hops)
        if place is None:
            return False
        self._move(*divmod(place, len(problem.links)))
        return True

    def _exchange(self) -> bool:
        """Have clusters change places that had better be where the other is; False when none had.

        Looking at all pairs costs far more than exchanging one. So every cluster's best partner is
        tried, the best pair first, as long as it helps after those before it.
        """
        every = np.arange(len(self.at))
        more_over, more_hops = self._exchanges(every)
        place = _least(more_over, more_hops)
        if place is None:
            return False
        partners = np.where(more_over <= TOLERANCE, more_hops, np.inf).argmin(axis=1)
        order = np.argsort(more_hops[every, partners], kind="stable")
        pairs = [divmod(place, len(every)), *((int(one), int(partners[one])) for one in order)]
        for pair in pairs:
            if _least(*self._exchanges(np.array(pair))) is not None:
                one, other = pair
                old, new = int(self.at[one]), int(self.at[other])
                self._move(one, new)
                self._move(other, old)
        return True

    def _exchanges(self, some: Indexes) -> tuple[Array, Array]:
        """What more is over the limit, and how many more hops there are, if two of `some` change
        places.
        """
        problem, at, loads = self.problem, self.at[some], self.problem.loads[some]
        costs = self.costs[some][:, at]
        change = costs - np.diagonal(costs)[:, None]
        # Each was counted as if the other stayed: they keep their distance.
        apart = problem.flows[np.ix_(some, some)] * problem.links[np.ix_(at, at)]
        more_hops = change + change.T + 2 * apart
        on = self.on_brokers[at]
        gets = problem.over(on[:, None] - loads[:, None] + loads) - problem.over(on)[:, None]
        more_over = gets + gets.T
        # Within one broker nothing changes, whatever rounding says.
        same = at[:, None] == at
        more_hops[same] = more_over[same] = 0.0
        return more_over, more_hops


def _least(more_over: Array, more_hops: Array) -> int | None:
    """The place of the best change, by load over the limit and then by hops; None if none helps."""
    if not more_over.size:
        return None
    least = float(more_over.min())
    if least < -TOLERANCE:
        return int(np.where(more_over <= least + TOLERANCE, more_hops, np.inf).argmin())
    open_to_all = np.where(more_over <= TOLERANCE, more_hops, np.inf)
    place = int(open_to_all.argmin())
    return place if open_to_all.flat[place] < -TOLERANCE else None


def _searched(problem: _Problem, start: Indexes, rng: np.random.Generator) -> Indexes:
    """The best assignment found from `start`, from a greedy one, and from kicks."""
    best, rating = start, problem.rating(start)
    for begin in (start, _greedy(problem)):
        best, rating = _better(problem, _Descent(problem, begin).run(), best, rating)
    clusters, brokers = len(start), len(problem.links)
    if brokers == 1 or not clusters:
        return best
    for _ in range(min(KICKS_MAX, KICKS_WORK // (clusters * brokers))):
        kicked = best.copy()
        which = rng.choice(clusters, min(clusters, 2 + clusters // 8), replace=False)
        kicked[which] = rng.integers(0, brokers, len(which))
        best, rating = _better(problem, _Descent(problem, kicked).run(), best, rating)
    return best


def _better(
    problem: _Problem, found: Indexes, best: Indexes, rating: Rating
) -> tuple[Indexes, Rating]:
    new = problem.rating(found)
    is_better = new.excess < rating.excess - TOLERANCE or (
        new.excess <= rating.excess and new.hops < rating.hops - TOLERANCE
    )
    return (found, new) if is_better else (best, rating)


def _greedy(problem: _Problem) -> Indexes:
    """The busiest clusters first, each where it keeps the limit and is nearest to those placed."""
    clusters, brokers = len(problem.loads), len(problem.links)
    at = np.zeros(clusters, dtype=np.int64)
    costs = np.zeros((clusters, brokers))
    on_brokers = np.zeros(brokers)
    central = problem.links.sum(axis=1)
    for cluster in np.argsort(-problem.flows.sum(axis=1), kind="stable"):
        over = problem.over(on_brokers + problem.loads[cluster]) - problem.over(on_brokers)
        order = np.lexsort((on_brokers, central, costs[cluster], over))
        at[cluster] = broker = order[0]
        on_brokers[broker] += problem.loads[cluster]
        costs += np.outer(problem.flows[cluster], problem.links[broker])
    return at
