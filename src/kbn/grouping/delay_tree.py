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

A node that leaves has its children attached anew with all below them, where nobody of the branch
gets late by it, if there is such a place; one that comes is attached like the others. The rest of
the tree stays as it is, and is a little worse each time: `repair` places the late ones anew.
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
TOLERANCE = 1e-9  # for sums that were added up in another order


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
        self._room = int(self._slots[SOURCE])  # free slots in the whole tree

    def __len__(self) -> int:
        """The number of subscribers in the tree."""
        return len(self._members)

    def __contains__(self, peer: int) -> bool:
        return peer in self._members

    @property
    def delays(self) -> Delays:
        """What was measured."""
        return self._delays

    def edges(self) -> list[tuple[int, int]]:
        """Who feeds whom, from the source outwards: a parent is fed before it feeds."""
        found = [(SOURCE, child) for child in sorted(self._children[SOURCE])]
        for _, parent in found:  # grows as it is read
            found.extend((parent, child) for child in sorted(self._children[parent]))
        return found

    def parent_of(self, peer: int) -> int:
        """Who feeds a peer."""
        return int(self._parent[self._checked(peer)])

    def children_of(self, peer: int) -> frozenset[int]:
        return frozenset(self._children[peer])

    def promised(self, peer: int) -> float:
        """Within what time a peer is reached, with the probability asked for."""
        self._checked(peer)
        return float(self._mean[peer] + self._z * np.sqrt(self._variance[peer]))

    def is_satisfied(self, peer: int) -> bool:
        """Whether a peer's bound holds with the probability asked for."""
        return self.promised(peer) <= float(self._bounds[peer]) + TOLERANCE

    def path(self, peer: int) -> list[int]:
        """From the source to a peer."""
        found = [self._checked(peer)]
        while found[-1] != SOURCE:
            found.append(int(self._parent[found[-1]]))
        return found[::-1]

    def join_all(self, peers: Iterable[int]) -> None:
        """Have many join at once: tightest bound first, those that will be late last."""
        coming = list(peers)
        self._check_new(coming)
        coming.sort(key=lambda peer: (self._bounds[peer], -self._slots[peer], peer))
        self._room += int(self._slots[coming].sum()) - len(coming)
        late = [peer for peer in coming if not self._place(peer)]
        # Those who feed nobody come last: they could take the slots that all the others need.
        for peer in sorted(late, key=lambda peer: bool(self._slots[peer] == 0)):
            self._place_late(peer)

    def join(self, peer: int) -> None:
        """Have one more."""
        self.join_all([peer])

    def leave(self, peer: int) -> None:
        """Have one less; those it fed are fed by others from now on, with all they feed."""
        if peer not in self._members:
            raise InvalidInputError(f"peer {peer} cannot leave: it is not in the tree")
        if self._room + 1 < self._slots[peer]:
            raise InvalidInputError(f"peer {peer} cannot leave: the others have too few slots")
        self._room += 1 - int(self._slots[peer])
        branches = [(child, sorted(self._branch(child))) for child in self._children[peer]]
        self._detach(peer)
        self._members.discard(peer)
        # Large ones first, for the place that got free is a good one; but those without a free slot
        # last, or they could take the only one there is.
        branches.sort(key=lambda each: (not self._free[each[1]].any(), -len(each[1]), each[0]))
        for _, branch in branches:
            self._free[branch] = False
        for orphan, branch in branches:
            self._children[peer].discard(orphan)
            self._move(orphan, branch)

    def repair(self) -> int:
        """Place anew whoever is late, with all they feed; how many more bounds hold then.

        The rest of the tree stays as it is. It can be fewer: placing is no search for the best.
        """
        before = self._held().sum()
        moving: set[int] = set()
        for peer in self._sorted_members()[~self._held()].tolist():
            if peer not in moving:
                moving |= self._branch(peer)
        self._members -= moving
        for peer in moving:
            self._detach(peer)
            self._room += 1 - int(self._slots[peer])
        self.join_all(moving)
        return int(self._held().sum() - before)

    def satisfaction(self) -> Satisfaction:
        """Whose bounds hold."""
        members = self._sorted_members()
        return Satisfaction(int(self._held().sum()), len(members), self._reachable(members))

    def check_invariants(self) -> None:
        """A tree, within everybody's slots, and the promises are those of its paths."""
        for peer in self._members:
            path = self.path(peer)
            assert len(set(path)) == len(path)
            mean = sum(float(self._delays.mean[a, b]) for a, b in itertools.pairwise(path))
            assert abs(mean - self._mean[peer]) < 1e-6
        for peer in (SOURCE, *self._members):
            assert len(self._children[peer]) <= self._slots[peer]
            assert self._free[peer] == (len(self._children[peer]) < self._slots[peer])
            assert self._is_leaf[peer] == (peer != SOURCE and not self._children[peer])
        slots = sum(int(self._slots[peer]) for peer in (SOURCE, *self._members))
        assert self._room == slots - len(self._members)

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
        candidates, promised = self._parents_for(peer)
        return _farthest(candidates, promised, self._bounds[peer])

    def _parents_for(self, peer: int) -> tuple[Array, Array]:
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
        """Attach a peer where it is least late: its bound holds nowhere."""
        candidates, promised = self._parents_for(peer)
        if candidates.shape[0]:
            self._attach(peer, int(candidates[np.argmin(promised)]))
            return
        # All slots are taken, and there are enough with those of the peer: it goes between.
        leaves = np.flatnonzero(self._is_leaf)
        other = int(leaves[np.argmax(self._bounds[leaves])])
        parent = int(self._parent[other])
        self._detach(other)
        self._attach(peer, parent)
        self._attach(other, peer)

    def _move(self, top: int, branch: list[int]) -> None:
        """Attach a branch that is not in the tree where nobody gets late by it, or least late."""
        promised = self._mean[branch] + self._z * np.sqrt(self._variance[branch])
        to_spare = self._bounds[branch] - promised
        to_spare = to_spare[to_spare >= 0]
        candidates, promised = self._parents_for(top)
        parent = None
        if to_spare.shape[0]:
            before = float(self._mean[top] + self._z * np.sqrt(self._variance[top]))
            parent = _farthest(candidates, promised, before + float(to_spare.min()))
        self._attach(top, int(candidates[np.argmin(promised)]) if parent is None else parent)
        self._open_slots(branch)

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
        # Who is not in the tree feeds nobody, and least of all itself when its place is looked for.
        self._free[peer] = False

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

    def _sorted_members(self) -> Array:
        return np.array(sorted(self._members), np.int64)

    def _held(self) -> Array:
        """Of each member, in order, whether its bound holds."""
        members = self._sorted_members()
        promised = self._mean[members] + self._z * np.sqrt(self._variance[members])
        held: Array = promised <= self._bounds[members] + TOLERANCE
        return held

    def _reachable(self, members: Array) -> int:
        """How many bounds hold on the shortest ways, slots without limit."""
        everybody = np.concatenate(([SOURCE], members))
        # The least promise of any path is at least the least mean plus what the last link's, the
        # smallest, variance adds: so a bound that fails here fails on every path.
        shortest = _shortest(self._delays.mean, everybody)[1:]
        promise = shortest + self._z * np.sqrt(self._least_variances(members))
        return int(np.count_nonzero(promise <= self._bounds[members] + TOLERANCE))

    def _least_variances(self, members: Array) -> Array:
        """The smallest variance of any link that ends at each."""
        # Row by row, for a matrix of the members alone would be as large as that of all peers.
        can_feed = np.full(len(self._delays), np.inf)
        can_feed[[SOURCE, *members]] = 0
        least = np.empty(members.shape[0])
        for place, peer in enumerate(members.tolist()):
            can_feed[peer] = np.inf
            least[place] = (self._variances_to[peer] + can_feed).min()
            can_feed[peer] = 0
        return least

    def _checked(self, peer: int) -> int:
        if peer != SOURCE and peer not in self._members:
            raise InvalidInputError(f"peer {peer} is not in the tree")
        return peer

    def _check_new(self, peers: list[int]) -> None:
        """All of them can join, or none does."""
        seen = {SOURCE}
        for peer in peers:
            if not 0 <= peer < len(self._delays) or peer in self._members or peer in seen:
                raise InvalidInputError(
                    f"peer {peer} cannot join: it is the source, unknown or there"
                )
            seen.add(peer)
        room = self._room + sum(int(self._slots[peer]) - 1 for peer in peers)
        if peers and (room < 0 or not self._slots[SOURCE]):
            raise InvalidInputError("no peer has a free slot for all of them: the tree is full")


def _farthest(candidates: Array, promised: Array, at_most: float) -> int | None:
    """The one that promises latest among those that are in time."""
    good = np.flatnonzero(promised <= at_most + TOLERANCE)
    if not good.shape[0]:
        return None
    return int(candidates[good[np.argmax(promised[good])]])


def _shortest(lengths: Array, nodes: Array) -> Array:
    """From the first of the nodes to each of them, by way of them (Dijkstra).

    All pairs are linked, so a graph library, made for sparse graphs, takes minutes for what is one
    row of additions per node.
    """
    found: Array = np.asarray(lengths[nodes[0]][nodes], np.float64)
    open_ = found.copy()  # infinite for those that are done
    open_[0] = np.inf
    for _ in range(found.shape[0] - 1):
        nearest = int(np.argmin(open_))
        shorter = found[nearest] + lengths[nodes[nearest]][nodes]
        is_better = shorter < found
        found[is_better] = open_[is_better] = shorter[is_better]
        open_[nearest] = np.inf
    return found
