"""Who is in a delay tree, below whom, and when it is reached: the state, and how it is undone.

A member keeps when notifications arrive at it (its *arrival*, a distribution: the parent's, then
the link) and its *slack*: its bound less the time that is kept with the probability asked for. A
bound is kept when the slack is not negative.

Rows of arrays repeat what a search over everybody needs, so that a search is a few operations on
arrays and not a walk. Each change notes how to undo it: a search tries a change, looks, and goes
back (`mark`, `undo_to`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from kbn.errors import InvalidInputError
from kbn.grouping.distribution import ROUNDING, Distribution

Array = np.ndarray[Any, Any]
Peer = Hashable
Moves = dict[Peer, Peer | None]

SLOTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Bound:
    """What a subscriber wants: what it gets within a time, with a probability.

    >>> Bound(0.2, 0.95).probability
    0.95
    """

    within: float
    probability: float = 0.95

    def __post_init__(self) -> None:
        if not (isinstance(self.within, int | float) and 0 < self.within < math.inf):
            raise InvalidInputError(f"a delay bound is a time above 0, not {self.within!r}")
        if not (isinstance(self.probability, int | float) and 0.5 <= self.probability < 1):
            raise InvalidInputError(
                f"a bound has a probability from 0.5 to under 1, not {self.probability!r}"
            )

    @property
    def score(self) -> float:
        """How many standard deviations above the mean a normal law has that quantile."""
        return NormalDist().inv_cdf(self.probability)

    def slack(self, arrival: Distribution) -> float:
        """How much later it might be and be in time; negative when it is late."""
        if arrival.within(self.within) >= self.probability - ROUNDING:
            return max(0.0, self.within - arrival.quantile(self.probability))
        return min(-ROUNDING, self.within - arrival.quantile(self.probability))


class Member:
    """A peer in the tree, or waiting for a place in it."""

    __slots__ = ("arrival", "bound", "children", "parent", "peer", "row", "slack", "slots")

    def __init__(self, peer: Peer, bound: Bound | None, slots: int, row: int) -> None:
        self.peer = peer
        self.bound = bound
        self.slots = slots
        self.row = row
        self.parent: Member | None = None
        self.children: list[Member] = []
        self.arrival: Distribution | None = None
        self.slack = -math.inf

    @property
    def is_kept(self) -> bool:
        """Whether its bound holds; without a bound, whether it is reached at all."""
        return self.slack >= 0

    def branch(self) -> Iterator[Member]:
        """Itself and all below, parents first."""
        waiting = [self]
        for member in waiting:  # grows as it is read
            yield member
            waiting.extend(member.children)


class Members:
    """All members by name and by row; row 0 is the source."""

    def __init__(self, source: Peer, slots: int, entry: Distribution) -> None:
        self._rows = 64
        self.peers = np.empty(self._rows, object)
        self.is_in = np.zeros(self._rows, bool)  # connected to the source, by whatever way
        self.is_free = np.zeros(self._rows, bool)
        self.is_leaf = np.zeros(self._rows, bool)
        self.mean = np.zeros(self._rows)
        self.variance = np.zeros(self._rows)
        self.third = np.zeros(self._rows)
        self.slack = np.zeros(self._rows)
        self.parent_row = np.zeros(self._rows, np.int64)
        self.by_row: list[Member | None] = [None] * self._rows
        self.by_peer: dict[Peer, Member] = {}
        self.waiting: dict[Member, None] = {}  # without a parent, oldest first
        self._spare = list(range(self._rows - 1, -1, -1))
        self._undo: list[Callable[[], None]] = []
        self._before: Moves = {}
        self.source = self.add(source, None, slots)
        del self.waiting[self.source]
        self.set_arrival(self.source, entry)
        self._enter(self.source)
        self.forget_undo()
        self._before.clear()

    def __len__(self) -> int:
        return len(self.by_peer) - 1

    def kept(self) -> int:
        """How many are connected and in time."""
        return int(np.count_nonzero(self.is_in & (self.slack >= 0))) - 1

    def add(self, peer: Peer, bound: Bound | None, slots: int) -> Member:
        """A new member, which waits."""
        if not self._spare:
            self._grow()
        member = Member(peer, bound, slots, self._spare.pop())
        self.by_peer[peer] = member
        self.by_row[member.row] = member
        self.peers[member.row] = peer
        self.waiting[member] = None
        self._before.setdefault(peer, None)
        self._count(member)
        return member

    def remove(self, member: Member) -> None:
        """A member without parent and children goes for good."""
        assert member.parent is None and not member.children
        self.waiting.pop(member, None)
        del self.by_peer[member.peer]
        self.by_row[member.row] = self.peers[member.row] = None
        self.is_in[member.row] = self.is_free[member.row] = False
        self._spare.append(member.row)
        self._before.pop(member.peer, None)
        self.forget_undo()

    def _grow(self) -> None:
        more = self._rows
        self._rows += more
        for name in ("peers", "is_in", "is_free", "is_leaf", "mean", "variance", "third", "slack"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.zeros(more, old.dtype))))
        self.parent_row = np.concatenate((self.parent_row, np.zeros(more, np.int64)))
        self.by_row += [None] * more
        self._spare = list(range(self._rows - 1, more - 1, -1))

    # What changes, and can be undone.

    def attach(self, member: Member, parent: Member, arrivals: dict[Member, Distribution]) -> None:
        """Put a member that waits, and all below it, below a parent that is in the tree."""
        assert member.parent is None and self.is_in[parent.row]
        assert len(parent.children) < parent.slots
        self._before.setdefault(member.peer, None)
        self._link(member, parent)
        self._undo.append(lambda: self._unlink(member))
        for each, arrival in arrivals.items():
            self.set_arrival(each, arrival)

    def detach(self, member: Member) -> None:
        """Take a member, with all below it, from its parent; it waits."""
        parent = member.parent
        assert parent is not None
        self._before.setdefault(member.peer, parent.peer)
        self._unlink(member)
        self._undo.append(lambda: self._link(member, parent))

    def set_arrival(self, member: Member, arrival: Distribution) -> None:
        """When it is reached."""
        old, slack = member.arrival, member.slack
        self._set(member, arrival, _slack(member.bound, arrival))
        self._undo.append(lambda: self._set(member, old, slack))

    def mark(self) -> int:
        """Where to `undo_to`."""
        return len(self._undo)

    def undo_to(self, mark: int) -> None:
        """Undo what was done since the mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def forget_undo(self) -> None:
        """What was done stays done."""
        self._undo.clear()

    def moves(self) -> Moves:
        """Whose parent is another than at the last call, and who it is."""
        found: Moves = {}
        for peer, before in self._before.items():
            parent = self.by_peer[peer].parent
            now = None if parent is None else parent.peer
            if now != before:
                found[peer] = now
        self._before.clear()
        self.forget_undo()
        return found

    def _link(self, member: Member, parent: Member) -> None:
        member.parent = parent
        parent.children.append(member)
        self.waiting.pop(member, None)
        self._count(parent)
        self.parent_row[member.row] = parent.row
        self._enter(member)

    def _unlink(self, member: Member) -> None:
        parent = member.parent
        assert parent is not None
        parent.children.remove(member)
        member.parent = None
        self.waiting[member] = None
        self._count(parent)
        for each in member.branch():
            self.is_in[each.row] = self.is_free[each.row] = False

    def _enter(self, top: Member) -> None:
        for each in top.branch():
            self.is_in[each.row] = True
            self._count(each)

    def _count(self, member: Member) -> None:
        row = member.row
        self.is_free[row] = self.is_in[row] and len(member.children) < member.slots
        self.is_leaf[row] = not member.children

    def _set(self, member: Member, arrival: Distribution | None, slack: float) -> None:
        member.arrival, member.slack = arrival, slack
        row = member.row
        self.slack[row] = slack
        if arrival is not None:
            self.mean[row], self.variance[row], self.third[row] = arrival.moments


def _slack(bound: Bound | None, arrival: Distribution) -> float:
    return math.inf if bound is None else bound.slack(arrival)
