"""Clustering of subscriptions: the baselines publisher groups are compared with.

Four are after Riabov, Liu, Wolf, Yu and Zhang (Clustering Algorithms for Content-Based
Publication-Subscription Systems, 2002), one after SemCast (Papaemmanouil and Çetintemel, 2005), all
as the Stuttgart thesis tells of them, in the setting of `publisher_groups.py` and with at most `k`
clusters. `cells.py` says what a cell is and what is counted.

*Grid* (`k_means`, `pairwise`, `spanning_tree`): each cell belongs to one cluster, and whoever is
interested in one of its cells joins it. So a publisher has one connection, and a subscriber may
have many. The expected waste of a cluster of cells with rates r and interested s is
Σ r·|∪s| - Σ r·|s|: what its members receive less what they want. Putting clusters a and b together
adds r(a)·|s(b) - s(a)| + r(b)·|s(a) - s(b)|, which for two cells is their distance.

*No-Loss* (`no_loss`): only clusters nobody gets a false positive from; the rest is unicast.

*Channels* (`channels`): each subscriber is in one channel, as in publisher groups, and a publisher
sends to all channels that have somebody interested.

All know every subscriber beforehand: they are made anew when these change, where publisher groups
follow arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kbn.errors import InvalidInputError, LimitError
from kbn.grouping import Combination
from kbn.lab.baselines.cells import (
    Advertisements,
    Cells,
    SubscriptionClusters,
    cells_of,
    over_subsets,
    over_supersets,
)

PASSES_MAX = 100
CANDIDATES_MAX = 2048
COMPARED_MAX = 4096

Wanted = Mapping[Combination, int] | None
Sent = Mapping[Any, int] | None


def k_means(
    advertisements: Advertisements, k: int, wanted: Wanted = None, sent: Sent = None
) -> SubscriptionClusters:
    """Cells move between clusters while the expected waste falls.

    The k heaviest cells begin a cluster each and the others join where they add least; then cells
    move one at a time. In the end no move of one cell is better (or, in large systems, PASSES_MAX
    rounds are over), though another arrangement may be.

    >>> made = k_means([["a", "b"], ["a", "b"], ["a"], ["c"], ["c"], ["c"]], k=2)
    >>> [sorted("".join(sorted(cell)) for cell in each.cells) for each in made.clusters]
    [['a', 'ab'], ['c']]
    >>> made.deliveries()
    Delivery(received=12, false_positives=2)
    """
    cells = _cells(advertisements, k, wanted, sent)
    moving = _Moving(cells, k)
    sizes = cells.interested @ cells.subscribers
    heaviest = np.argsort(-cells.rates * sizes, kind="stable")
    for cluster, cell in enumerate(heaviest[:k]):
        moving.add(cell, cluster)
    for cell in heaviest[k:]:
        moving.add(cell, int(moving.added(cell).argmin()))
    for _ in range(PASSES_MAX):
        # A list: every cell has its turn, whether or not one before it has moved.
        if not any([moving.move(cell) for cell in heaviest]):
            break
    return _of_labels("k-means", cells, moving.labels)


def pairwise(
    advertisements: Advertisements, k: int, wanted: Wanted = None, sent: Sent = None
) -> SubscriptionClusters:
    """Each cell is a cluster; the two that add least waste together are joined until k remain."""
    cells = _cells(advertisements, k, wanted, sent)
    labels = _joined(cells.interested, cells.subscribers, cells.rates, k)
    return _of_labels("pairwise", cells, labels)


def spanning_tree(
    advertisements: Advertisements, k: int, wanted: Wanted = None, sent: Sent = None
) -> SubscriptionClusters:
    """What is left of the minimum spanning tree of all cells without its k - 1 longest edges.

    Of all ways to make k clusters of the cells, this one keeps them the furthest apart (the least
    distance of two cells in different clusters), which need not be that with the least waste.
    """
    cells = _cells(advertisements, k, wanted, sent)
    _check_compared(len(cells.kinds))
    distance = _added_waste(cells.interested.astype(float), cells.subscribers, cells.rates)
    edges = sorted(_tree(distance))
    labels = np.arange(len(cells.kinds))
    for _, here, there in edges[: max(0, len(labels) - k)]:
        labels[labels == labels[there]] = labels[here]
    return _of_labels("spanning tree", cells, labels)


def no_loss(
    advertisements: Advertisements, k: int, wanted: Wanted = None, sent: Sent = None
) -> SubscriptionClusters:
    """Clusters without false positives; whom no cluster serves is reached by unicast.

    A cluster is an intersection of subscriptions: it is for the notifications that all of them
    want, so those with all attributes A of theirs, and everyone with Φ ⊆ A joins. A cell is sent to
    that of its clusters with the most members. The clusters are chosen one after the other, each
    with the most deliveries spared from unicast, among the CANDIDATES_MAX with the most deliveries
    (with up to 11 attributes, all). So they spare at least 1 - 1/e of what the best k would.
    """
    cells = _cells(advertisements, k, wanted, sent)
    candidates, members = _intersections(cells)
    serves = (cells.kinds[None, :] & candidates[:, None]) == candidates[:, None]
    value = serves * members[:, None]
    spared = np.zeros(len(cells.kinds), np.int64)
    chosen: list[int] = []
    for _ in range(min(k, len(candidates))):
        gains = np.maximum(value - spared, 0) @ cells.rates
        best = int(gains.argmax())
        if gains[best] <= 0:
            break
        chosen.append(best)
        spared = np.maximum(spared, value[best])
    return _without_loss(cells, candidates[chosen], value[chosen])


def channels(
    advertisements: Advertisements, k: int, wanted: Wanted = None, sent: Sent = None
) -> SubscriptionClusters:
    """Channels of subscriptions that cover each other or overlap, as in SemCast.

    Hierarchies come first: a combination that another wanted one covers is in the channel of a root
    (one nothing else covers), of several that which overlaps it most. Then the two channels that
    add the least waste together are merged until k remain. So there are never more channels than
    roots. SemCast estimates the overlap from a window of notifications; here the rates are known.
    """
    cells = _cells(advertisements, k, wanted, sent)
    roots = np.flatnonzero(_is_root(cells))
    hears = cells.rates @ cells.interested[:, roots]
    root = np.zeros(len(cells.wants), np.int64)
    # All a covered combination hears, its root hears: the quietest root overlaps it most.
    for place in np.argsort(-hears, kind="stable"):
        mask = cells.wants[roots[place]]
        root[(cells.wants & mask) == mask] = place
    members = np.bincount(root, weights=cells.subscribers, minlength=len(roots))
    labels = _joined(cells.interested[:, roots].T, cells.rates, members, k)
    joined = _one_hot(labels[root]).T
    sends = (cells.interested.astype(float) @ joined.T.astype(float)) > 0
    return SubscriptionClusters("channels", cells, sends, joined)


BASELINES: dict[str, Callable[..., SubscriptionClusters]] = {
    "k-means": k_means,
    "pairwise": pairwise,
    "spanning tree": spanning_tree,
    "no-loss": no_loss,
    "channels": channels,
}


def _cells(advertisements: Advertisements, k: int, wanted: Wanted, sent: Sent) -> Cells:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidInputError(f"k is the most clusters there may be, at least 1, not {k!r}")
    return cells_of(advertisements, wanted, sent)


def _of_labels(algorithm: str, cells: Cells, labels: Any) -> SubscriptionClusters:
    """Each cell in the cluster its label names; whoever is interested in one of them joins."""
    sends = _one_hot(labels)
    joined = (sends.T.astype(float) @ cells.interested.astype(float)) > 0
    return SubscriptionClusters(algorithm, cells, sends, joined)


def _one_hot(labels: Any) -> Any:
    """Things by clusters, the clusters in the order of their first thing."""
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[place][:, None] == np.arange(len(first))[None, :]


class _Moving:
    """Clusters of cells under k-means, with what a move would change."""

    def __init__(self, cells: Cells, k: int) -> None:
        count, combinations = cells.interested.shape
        self.labels = np.zeros(count, np.int64)
        self._interested = cells.interested
        self._subscribers = cells.subscribers.astype(float)
        self._weighted = cells.interested * self._subscribers
        self._rates = cells.rates.astype(float)
        clusters = min(k, max(1, count))
        self._held = np.zeros((clusters, combinations), np.int64)  # by how many of its cells
        self._union = np.zeros((clusters, combinations))
        self._size = np.zeros(clusters)
        self._rate = np.zeros(clusters)

    def added(self, cell: int) -> Any:
        """What each cluster's members would receive more, with this cell too."""
        together = self._union @ self._weighted[cell]
        size = self._size + self._weighted[cell].sum() - together
        return (self._rate + self._rates[cell]) * size - self._rate * self._size

    def add(self, cell: int, cluster: int) -> None:
        self.labels[cell] = cluster
        self._change(cell, cluster, 1)

    def move(self, cell: int) -> bool:
        """Move the cell to where it adds least, if that is less than it adds here."""
        here = int(self.labels[cell])
        self._change(cell, here, -1)
        added = self.added(cell)
        best = int(added.argmin())
        is_better = bool(added[best] < added[here])
        self.add(cell, best if is_better else here)
        return is_better

    def _change(self, cell: int, cluster: int, sign: int) -> None:
        self._held[cluster] += sign * self._interested[cell]
        self._union[cluster] = self._held[cluster] > 0
        self._size[cluster] = self._union[cluster] @ self._subscribers
        self._rate[cluster] += sign * self._rates[cell]


def _added_waste(rows: Any, weights: Any, rates: Any) -> Any:
    """For each two things the waste they add when put together."""
    together = (rows * weights) @ rows.T
    sizes = np.diagonal(together)
    apart = rates[:, None] * (sizes[None, :] - together)
    return apart + apart.T


def _joined(rows: Any, weights: Any, rates: Any, k: int) -> Any:
    """Labels after the two that add the least waste were joined until k remain.

    For cells, a row says who is interested; for channels, which cells are sent to it. Each keeps
    its nearest, so that a step does not look at all pairs. An older one is not told when one joined
    anew is nearer: of each pair the younger looked at the other, which is enough to find the best.
    """
    count = len(rows)
    _check_compared(count)
    every = np.arange(count)
    labels = every.copy()
    rows, rates = rows.astype(float), rates.astype(float)
    sizes = rows @ weights
    cost = _added_waste(rows, weights, rates)
    np.fill_diagonal(cost, np.inf)
    nearest = cost.argmin(axis=1) if count else every
    for _ in range(count - k):
        first = int(cost[every, nearest].argmin())
        kept, gone = sorted((first, int(nearest[first])))
        labels[labels == gone] = kept
        rows[kept] = np.maximum(rows[kept], rows[gone])
        rates[kept] += rates[gone]
        sizes[kept] = rows[kept] @ weights
        together = rows @ (rows[kept] * weights)
        anew = rates * (sizes[kept] - together) + rates[kept] * (sizes - together)
        anew[labels != every] = np.inf  # those joined to another before
        anew[kept] = np.inf
        cost[kept], cost[:, kept] = anew, anew
        cost[gone], cost[:, gone] = np.inf, np.inf
        is_stale = (nearest == kept) | (nearest == gone)
        is_stale[[kept, gone]] = True
        nearest[is_stale] = cost[is_stale].argmin(axis=1)
    return labels


def _tree(distance: Any) -> list[tuple[float, int, int]]:
    """The edges of a minimum spanning tree, after Prim: length and both ends."""
    count = len(distance)
    if not count:
        return []
    outside = distance[0].astype(float)  # how far each is from the tree; inf within
    outside[0] = np.inf
    inside = np.arange(count) == 0
    parent = np.zeros(count, np.int64)
    edges = []
    for _ in range(count - 1):
        place = int(outside.argmin())
        edges.append((float(outside[place]), int(parent[place]), place))
        inside[place] = True
        outside[place] = np.inf
        is_closer = (distance[place] < outside) & ~inside
        outside[is_closer] = distance[place][is_closer]
        parent[is_closer] = place
    return edges


def _intersections(cells: Cells) -> tuple[Any, Any]:
    """Masks of the intersections of subscriptions that are ever sent, and who wants each."""
    members, rates = (np.zeros(1 << len(cells.attributes), np.int64) for _ in range(2))
    members[cells.wants] = cells.subscribers
    rates[cells.kinds] = cells.rates
    members, rates = over_subsets(members), over_supersets(rates)
    masks = np.arange(len(members))
    within = np.zeros(len(members), np.int64)  # the union of the combinations wanted within
    for bit in range(len(cells.attributes)):
        is_wanted = np.zeros(len(members), np.int64)
        is_wanted[cells.wants[(cells.wants >> bit) & 1 == 1]] = 1
        within |= (over_subsets(is_wanted) > 0).astype(np.int64) << bit
    found = np.flatnonzero((within == masks) & (rates > 0) & (members > 0))
    best = np.argsort(-(rates * members)[found], kind="stable")[:CANDIDATES_MAX]
    return found[best], members[found[best]]


def _without_loss(cells: Cells, chosen: Any, value: Any) -> SubscriptionClusters:
    """Each cell sent to the one of the chosen with the most members that it may be sent to."""
    joined = (cells.wants[None, :] & ~chosen[:, None]) == 0
    sends = np.zeros((len(cells.kinds), len(chosen)), bool)
    if len(chosen):
        best = value.argmax(axis=0)
        served = np.flatnonzero(value.max(axis=0) > 0)
        sends[served, best[served]] = True
    return SubscriptionClusters("no-loss", cells, sends, joined)


def _is_root(cells: Cells) -> Any:
    """Which combinations no other wanted one covers."""
    is_wanted = np.zeros(1 << len(cells.attributes), np.int64)
    is_wanted[cells.wants] = 1
    return over_subsets(is_wanted)[cells.wants] == 1


def _check_compared(count: int) -> None:
    if count > COMPARED_MAX:
        raise LimitError(
            f"{count} sets of attributes are too many to compare each with each; up to "
            f"{COMPARED_MAX} can be: use k_means or no_loss, or leave out attributes",
            limit="cells",
            maximum=COMPARED_MAX,
        )
