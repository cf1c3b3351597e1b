"""Dissemination trees: who passes a cluster's notifications on to whom, so that delay bounds hold.

A source feeds subscribers; each may feed a few others (`slots`, what its bandwidth allows) and
wants what it gets within its own delay bound, with a stated probability. Delays of links are
measured: each pair has a mean and a variance. Along a path both add up, and by the normal
approximation a path of mean m and variance v takes at most m + z·√v with the probability asked for
(z = 1.645 for 95 %). That is a node's *promised* delay, and its bound holds when the promise does
not exceed it.

The tree is grown tightest bound first. A node joins below a parent with a free slot that lets its
bound hold; among those, the one *farthest* from the source, so that slots near the source are left
for those who need them. When there is none it takes the place of a node with a looser bound, which
is put below it or elsewhere, if that keeps the other's bound too; else it is attached where it is
least late, after all the others. Finding a parent looks at all free slots at once, so n nodes cost
n² additions in NumPy: ten thousand take seconds.

No tree can do better than give everybody the shortest way there is, as if slots were without limit:
`upper_bound` counts whose bound that satisfies. (It is a bound on the fraction, not an aim: slots
are limited.)

A node that leaves has its children attached anew, and one that comes is attached like the others:
the rest of the tree stays as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from kbn.errors import InvalidInputError

Array = np.ndarray[Any, Any]
SOURCE = 0


@dataclass(frozen=True, slots=True)
class Delays:
    """What was measured between each two peers, in any unit; peer 0 is the source."""

    mean: Array
    variance: Array

    def __post_init__(self) -> None:
        shape = self.mean.shape
        if len(shape) != 2 or shape[0] != shape[1] or self.variance.shape != shape:
            raise InvalidInputError("delays are two square matrices of the same size")
        if not (np.all(self.mean >= 0) and np.all(self.variance >= 0)):
            raise InvalidInputError("delays and their variances are not negative")

    def __len__(self) -> int:
        return int(self.mean.shape[0])


@dataclass(frozen=True, slots=True)
class Satisfaction:
    """How many bounds hold, of how many, and how many could at most."""

    satisfied: int
    subscribers: int
    upper_bound: int

    @property
    def fraction(self) -> float:
        return self.satisfied / self.subscribers if self.subscribers else 1.0


class DelayTree:
    """A tree from the source (peer 0) to subscribers, kept as they come and go.

    `bounds` and `slots` are by peer; the source's bound does not matter. Peers are not in the tree
    until they `join`.

    >>> mean = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]], float)
    >>> delays = Delays(mean, np.zeros((3, 3)))
    >>> tree = DelayTree(delays, bounds=[0, 1, 5], slots=[1, 1, 0])
    >>> tree.join_all([2, 1])
    >>> tree.parent_of(1), tree.parent_of(2), tree.satisfaction().fraction
    (0, 1, 1.0)
    """

    def __init__(
        self,
        delays: Delays,
        bounds: Iterable[float],
        slots: Iterable[int],
        probability: float = 0.95,
    ) -> None:
        self._delays = delays
        self._bounds = np.asarray(list(bounds), np.float64)
        self._slots = np.asarray(list(slots), np.int64)
        if not len(delays) == self._bounds.shape[0] == self._slots.shape[0]:
            raise InvalidInputError("every peer has a bound and a number of slots")
        if not 0.5 <= probability < 1:
            raise InvalidInputError(f"a probability from 0.5 to 1, not {probability}")
        self._z = NormalDist().inv_cdf(probability)
        size = len(delays)
        # By the peer that is reached, so that looking for its parent reads one row.
        self._means_to = np.ascontiguousarray(delays.mean.T)
        self._variances_to = np.ascontiguousarray(delays.variance.T)
        self._parent = np.full(size, -1, np.int64)
        self._children: list[set[int]] = [set() for _ in range(size)]
        self._mean = np.zeros(size)
        self._variance = np.zeros(size)
        self._free = np.zeros(size, bool)
        self._is_leaf = np.zeros(size, bool)
        self._free[SOURCE] = self._slots[SOURCE] > 0
        self._members: set[int] = set()

    def __len__(self) -> int:
        """The number of subscribers in the tree."""
        return len(self._members)

    def __contains__(self, peer: int) -> bool:
        return peer in self._members

    def parent_of(self, peer: int) -> int:
        """Who feeds a peer."""
        return int(self._parent[self._checked(peer)])

    def children_of(self, peer: int) -> frozenset[int]:
        return frozenset(self._children[peer])

    def promised(self, peer: int) -> float:
        """Within what time a peer is reached, with the probability asked for."""
        self._checked(peer)
        return float(self._mean[peer] + self._z * np.sqrt(self._variance[peer]))

    def path(self, peer: int) -> list[int]:
        """From the source to a peer."""
        found = [self._checked(peer)]
        while found[-1] != SOURCE:
            found.append(int(self._parent[found[-1]]))
        return found[::-1]

    def join_all(self, peers: Iterable[int]) -> None:
        """Have many join at once: tightest bound first, those that will be late last."""
        late = []
        for peer in sorted(peers, key=lambda peer: (self._bounds[peer], -self._slots[peer], peer)):
            self._check_new(peer)
            if not self._place(peer):
                late.append(peer)
        for peer in late:
            self._place_late(peer)

    def join(self, peer: int) -> None:
        """Have one more."""
        self.join_all([peer])

    def leave(self, peer: int) -> None:
        """Have one less; those it fed are fed by others from now on, with all they feed."""
        self._checked(peer)
        orphans = sorted(self._children[peer], key=lambda child: self._bounds[child])
        self._detach(peer)
        self._members.discard(peer)
        self._free[peer] = False
        branches = [(orphan, self._branch(orphan)) for orphan in orphans]
        for _, branch in branches:
            self._free[list(branch)] = False
        for orphan, branch in branches:
            self._children[peer].discard(orphan)
            self._parent[orphan] = -1
            parent = self._best_parent(orphan)
            self._attach(orphan, self._least_late(orphan) if parent is None else parent)
            self._open_slots(branch)

    def satisfaction(self) -> Satisfaction:
        """Whose bounds hold."""
        members = np.array(sorted(self._members), np.int64)
        promised = self._mean[members] + self._z * np.sqrt(self._variance[members])
        held = int(np.count_nonzero(promised <= self._bounds[members] + 1e-9))
        return Satisfaction(held, len(members), self._reachable(members))

    def check_invariants(self) -> None:
        """A tree, within everybody's slots, and the promises are those of its paths."""
        for peer in self._members:
            path = self.path(peer)
            assert len(set(path)) == len(path)
            mean = sum(self._delays.mean[a, b] for a, b in itertools.pairwise(path))
            assert abs(mean - self._mean[peer]) < 1e-6
        for peer in (SOURCE, *self._members):
            assert len(self._children[peer]) <= self._slots[peer]
            assert self._free[peer] == (len(self._children[peer]) < self._slots[peer])
            assert self._is_leaf[peer] == (peer != SOURCE and not self._children[peer])

    # Placing.

    def _place(self, peer: int) -> bool:
        """Attach a peer where its bound holds; False when there is no such place."""
        parent = self._best_parent(peer)
        if parent is not None:
            self._attach(peer, parent)
            return True
        return self._take_place(peer)

    def _best_parent(self, peer: int) -> int | None:
        """The farthest of those with a free slot below whom the peer's bound holds."""
        candidates, promised = self._offers(peer)
        good = promised <= self._bounds[peer] + 1e-9
        if not good.any():
            return None
        candidates, promised = candidates[good], promised[good]
        return int(candidates[np.argmax(promised)])

    def _least_late(self, peer: int) -> int:
        candidates, promised = self._offers(peer)
        if not candidates.shape[0]:
            raise InvalidInputError("no peer has a free slot: the tree is full")
        return int(candidates[np.argmin(promised)])

    def _offers(self, peer: int) -> tuple[Array, Array]:
        """Everybody with a free slot, and what they could promise the peer."""
        candidates = np.flatnonzero(self._free)
        mean = self._mean[candidates] + self._means_to[peer][candidates]
        variance = self._variance[candidates] + self._variances_to[peer][candidates]
        return candidates, mean + self._z * np.sqrt(variance)

    def _take_place(self, peer: int) -> bool:
        """Put the peer where a leaf with a looser bound is, and the leaf below it or elsewhere."""
        for other in self._leaves_it_could_replace(peer):
            parent = int(self._parent[other])
            self._detach(other)
            self._attach(peer, parent)
            elsewhere = self._best_parent(other)
            if elsewhere is not None:
                self._attach(other, elsewhere)
                return True
            self._detach(peer)
            self._members.discard(peer)
            self._free[peer] = False
            self._attach(other, parent)
        return False

    def _leaves_it_could_replace(self, peer: int, at_most: int = 8) -> list[int]:
        """Leaves in whose place the peer's bound would hold, loosest bound first."""
        members = np.flatnonzero(self._is_leaf & (self._bounds > self._bounds[peer]))
        parents = self._parent[members]
        mean = self._mean[parents] + self._means_to[peer][parents]
        variance = self._variance[parents] + self._variances_to[peer][parents]
        chosen = members[mean + self._z * np.sqrt(variance) <= self._bounds[peer]]
        loosest = np.argsort(-self._bounds[chosen], kind="stable")[:at_most]
        found: list[int] = chosen[loosest].tolist()
        return found

    def _place_late(self, peer: int) -> None:
        self._attach(peer, self._least_late(peer))

    # The tree itself.

    def _attach(self, peer: int, parent: int) -> None:
        self._parent[peer] = parent
        self._children[parent].add(peer)
        self._members.add(peer)
        self._is_leaf[peer] = not self._children[peer]
        self._is_leaf[parent] = False
        self._free[parent] = len(self._children[parent]) < self._slots[parent]
        self._free[peer] = len(self._children[peer]) < self._slots[peer]
        self._measure(peer)

    def _detach(self, peer: int) -> None:
        parent = int(self._parent[peer])
        self._children[parent].discard(peer)
        self._parent[peer] = -1
        if parent == SOURCE or parent in self._members:
            self._free[parent] = len(self._children[parent]) < self._slots[parent]
            self._is_leaf[parent] = parent != SOURCE and not self._children[parent]
        self._is_leaf[peer] = False

    def _measure(self, top: int) -> None:
        """Work out the delays of a branch anew."""
        waiting = [top]
        while waiting:
            peer = waiting.pop()
            parent = int(self._parent[peer])
            self._mean[peer] = self._mean[parent] + self._delays.mean[parent, peer]
            self._variance[peer] = self._variance[parent] + self._delays.variance[parent, peer]
            waiting.extend(self._children[peer])

    def _branch(self, top: int) -> set[int]:
        found, waiting = {top}, [top]
        while waiting:
            below = self._children[waiting.pop()]
            found |= below
            waiting.extend(below)
        return found

    def _open_slots(self, branch: Iterable[int]) -> None:
        for peer in branch:
            self._free[peer] = len(self._children[peer]) < self._slots[peer]

    def _reachable(self, members: Array) -> int:
        """How many bounds hold on the shortest ways, slots without limit."""
        everybody = np.concatenate(([SOURCE], members))
        mean = self._delays.mean[np.ix_(everybody, everybody)]
        variance = self._delays.variance[np.ix_(everybody, everybody)]
        # The least promise of any path is at least the least mean plus what the last link's, the
        # smallest, variance adds: so a bound that fails here fails on every path.
        shortest = _shortest(mean)[1:]
        arriving = variance + np.where(np.eye(len(everybody), dtype=bool), np.inf, 0.0)
        least = arriving.min(axis=0)[1:]
        promise = shortest + self._z * np.sqrt(least)
        return int(np.count_nonzero(promise <= self._bounds[members] + 1e-9))

    def _checked(self, peer: int) -> int:
        if peer != SOURCE and peer not in self._members:
            raise InvalidInputError(f"peer {peer} is not in the tree")
        return peer

    def _check_new(self, peer: int) -> None:
        if not 0 < peer < len(self._delays) or peer in self._members:
            raise InvalidInputError(f"peer {peer} cannot join: it is the source, unknown or there")


def _shortest(lengths: Array) -> Array:
    """From the first node to each (Dijkstra). All pairs are linked, so a graph library, made for
    sparse graphs, takes minutes for what is one row of additions per node.
    """
    found: Array = lengths[0].copy()
    open_ = np.ones(found.shape[0], bool)
    open_[0] = False
    for _ in range(found.shape[0] - 1):
        nearest = int(np.argmin(np.where(open_, found, np.inf)))
        open_[nearest] = False
        np.minimum(found, found[nearest] + lengths[nearest], out=found)
    return found
