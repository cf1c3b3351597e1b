"""Where a member goes: a place that keeps its bound and everybody else's.

`place` finds one for a member that waits, with all below it:

1. Below somebody with a free slot. All are looked at at once by their moments (the quantile of a
   sum by Cornish and Fisher's expansion: mean, variance and skewness add up); the few best are then
   computed exactly. Of those in time the *farthest* is taken, so that places near the source are
   left for those who need them; who feeds many is put *near*, for its slots are worth more there.
2. In the place of another, which then looks for a place itself by the same rules, below the first
   or elsewhere, and may put out a third (`depth` limits how far this goes). Who is late anyway is
   put out first, then who has most slack.

Either the member has a place and no bound is lost, or nothing has changed. `place_late` is for
those who found none: where they are least late.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np

from kbn.grouping.distribution import Distribution
from kbn.grouping.links import Links
from kbn.grouping.tree_members import Bound, Member, Members

Array = np.ndarray[Any, Any]

EXACT_MAX = 4  # free places computed exactly, of those that look good
OUSTED_MAX = 4  # places of others that are tried, of each sort
MANY_SLOTS = 2
EFFORT = 60  # sums of distributions a search for a place may cost before it gives up
LOOK_AROUND = 8  # what looking at all possible parents costs, in such sums
WALKED = 4  # how many members are taken out and back for the price of one sum


class Placing:
    """Searches over members; what it finds it does."""

    def __init__(self, members: Members, links: Links) -> None:
        self._members = members
        self._links = links
        self._effort = 0

    def place(self, member: Member, depth: int, effort: int = EFFORT) -> bool:
        """Put a waiting member where no bound is lost, its own included; False: none was found.

        `effort` is what it may cost, counted in sums of distributions, besides those of the free
        places that look best: it is bounded, however large the tree.
        """
        self._effort = effort
        return self._place(member, depth, OUSTED_MAX)

    def _place(self, member: Member, depth: int, wide: int) -> bool:
        self._effort -= LOOK_AROUND
        rows, promised = self.promises(member)
        in_time = self._in_time(member, promised)
        if self._place_free(member, rows[in_time], promised[in_time]):
            return True
        if depth == 0 or not in_time.any():
            return False
        for other in self._to_oust(member, rows[in_time], wide):
            if self._effort <= 0:
                return False
            if self._oust(member, other, depth, wide):
                return True
        return False

    def place_late(self, member: Member, may_lose: bool = True) -> bool:
        """Put a waiting member where it is least late; False when nobody has a free slot.

        If no slot is free and the member has one, it goes between two others. `may_lose` says
        whether a leaf may be late by that, if all slots of the tree are taken: else nobody could
        come any more, with however many slots.
        """
        rows, promised = self.promises(member)
        is_free = self._members.is_free[rows]
        rows, promised = rows[is_free], promised[is_free]
        if not rows.size:
            return self._insert(member, may_lose)
        most = -1
        for row in rows[np.argsort(promised, kind="stable")[:EXACT_MAX]].tolist():
            parent = self._at(row)
            arrivals = self._arrivals(member, parent)
            if arrivals is None:
                continue
            kept = sum(_keeps(each.bound, arrival) for each, arrival in arrivals.items())
            if kept > most:
                most, chosen = kept, (parent, arrivals)
            if len(arrivals) == 1:
                break
        if most < 0:
            return False
        self._members.attach(member, *chosen)
        return True

    def put_below(self, member: Member, parent: Member) -> bool:
        """Put a waiting member below that parent; False when it has no slot or no known link."""
        if len(parent.children) >= parent.slots or not self._members.is_in[parent.row]:
            return False
        arrivals = self._arrivals(member, parent)
        if arrivals is None:
            return False
        self._members.attach(member, parent, arrivals)
        return True

    def move_outwards(self, member: Member) -> bool:
        """Move a leaf to the farthest free place that keeps its bound, if that is farther."""
        members = self._members
        parent = member.parent
        assert parent is not None
        rows, promised = self.promises(member)
        here = promised[rows == parent.row]
        good = self._in_time(member, promised) & members.is_free[rows] & (rows != member.row)
        if not good.any() or not here.size or promised[good].max() <= here[0]:
            return False
        mark = members.mark()
        members.detach(member)
        chosen = self._at(int(rows[good][np.argmax(promised[good])]))
        arrivals = self._without_loss(member, chosen)
        if arrivals is None:
            members.undo_to(mark)
            return False
        members.attach(member, chosen, arrivals)
        members.forget_undo()
        return True

    def measure_below(self, top: Member) -> None:
        """Compute anew when those below a connected member are reached."""
        for child in tuple(top.children):
            arrivals = self._arrivals(child, top)
            if arrivals is None:  # a link that nobody knows any more
                self._members.detach(child)
            else:
                for member, arrival in arrivals.items():
                    self._members.set_arrival(member, arrival)

    def check(self, member: Member) -> None:
        """Assert that a member is reached when its parent and the link say."""
        assert member.parent is not None and member.parent.arrival is not None
        link = self._links.between(member.parent.peer, member.peer)
        assert link is not None and member.arrival is not None
        again = member.parent.arrival.then(link)
        assert np.array_equal(again.values, member.arrival.values)
        assert np.array_equal(again.masses, member.arrival.masses)
        assert member.bound is None or member.slack == member.bound.slack(again)

    def promises(self, member: Member) -> tuple[Array, Array]:
        """Rows of possible parents, and what they could promise the member, about."""
        members = self._members
        known = self._links.known(member.peer)
        if known is None:
            rows = np.flatnonzero(members.is_in)
        else:
            there = (members.by_peer.get(peer) for peer in known)
            rows = np.array(
                [each.row for each in there if each is not None and members.is_in[each.row]],
                np.int64,
            )
        if not rows.size:
            return rows, np.empty(0)
        mean, variance, third = self._links.moments(members.peers[rows], member.peer)
        return rows, about(
            members.mean[rows] + mean,
            members.variance[rows] + variance,
            members.third[rows] + third,
            1.645 if member.bound is None else member.bound.score,
        )

    def _in_time(self, member: Member, promised: Array) -> Array:
        found: Array = promised <= (math.inf if member.bound is None else member.bound.within)
        return found & (promised < math.inf)

    def _place_free(self, member: Member, rows: Array, promised: Array) -> bool:
        is_free = self._members.is_free[rows]
        rows, promised = rows[is_free], promised[is_free]
        key = promised if member.slots >= MANY_SLOTS else -promised
        for row in rows[np.argsort(key, kind="stable")[:EXACT_MAX]].tolist():
            parent = self._at(row)
            arrivals = self._without_loss(member, parent)
            if arrivals is not None:
                self._members.attach(member, parent, arrivals)
                return True
        return False

    def _to_oust(self, member: Member, parents: Array, wide: int) -> list[Member]:
        """Children of those parents: the late, then those with most slack; leaves and others."""
        members = self._members
        is_parent = np.zeros(members.is_in.shape[0], bool)
        is_parent[parents] = True
        rows = np.flatnonzero(members.is_in & is_parent[members.parent_row])
        rows = rows[rows != members.source.row]
        slack = members.slack[rows]
        slack = np.where(slack < 0, math.inf, slack)
        needed = member.slack if member.is_kept else 0.0
        found: list[Member] = []
        for is_sort in (members.is_leaf[rows], ~members.is_leaf[rows]):
            of_sort, their = rows[is_sort], slack[is_sort]
            order = np.argsort(-their, kind="stable")[:wide]
            found += [self._at(row) for row in of_sort[order[their[order] > needed]].tolist()]
        return found

    def _oust(self, member: Member, other: Member, depth: int, wide: int) -> bool:
        members = self._members
        parent = other.parent
        assert parent is not None
        # Taking a branch out and back walks through it: a large one is not worth a try.
        branch = list(islice(other.branch(), max(1, self._effort)))
        if len(branch) == self._effort:
            return False
        self._effort -= len(branch) // WALKED
        mark = members.mark()
        was_kept = any(each.is_kept and each.bound is not None for each in branch)
        members.detach(other)
        arrivals = self._without_loss(member, parent)
        if arrivals is not None:
            members.attach(member, parent, arrivals)
            if was_kept:
                found = self._place(other, depth - 1, max(1, wide // 2))
            else:
                found = self.place_late(other, may_lose=False)
            if found:
                return True
        members.undo_to(mark)
        return False

    def _insert(self, member: Member, may_lose: bool) -> bool:
        """No slot is free: go between a parent and its child, if the member can feed it."""
        if len(member.children) >= member.slots:
            return False
        self._effort = EFFORT
        rows, promised = self.promises(member)
        parents = [self._at(row) for row in rows[np.argsort(promised, kind="stable")].tolist()]
        children = [child for parent in parents[: 4 * EXACT_MAX] for child in parent.children]
        if any(self._effort > 0 and self._go_between(member, each, True) for each in children):
            return True
        if not may_lose or self._members.is_free.any():
            return False
        leaves = [child for child in children if not child.children]
        return any(self._go_between(member, leaf, False) for leaf in leaves)

    def _go_between(self, member: Member, other: Member, must_keep: bool) -> bool:
        members = self._members
        parent = other.parent
        assert parent is not None
        mark = members.mark()
        members.detach(other)
        arrivals = self._arrivals(member, parent)
        if arrivals is not None:
            members.attach(member, parent, arrivals)
            below = (self._without_loss if must_keep else self._arrivals)(other, member)
            if below is not None:
                members.attach(other, member, below)
                return True
        members.undo_to(mark)
        return False

    # What a place would mean for a branch.

    def _without_loss(self, top: Member, parent: Member) -> dict[Member, Distribution] | None:
        """When a branch would be reached; None when a bound, or the top's own, would not hold."""
        found: dict[Member, Distribution] = {}
        for member in top.branch():
            if self._effort <= 0 and found:
                return None
            arrival = self._reached(member, parent if member is top else None, found)
            if arrival is None:
                return None
            must_hold = member is top or member.is_kept
            if must_hold and not _keeps(member.bound, arrival):
                return None
            found[member] = arrival
        return found

    def _arrivals(self, top: Member, parent: Member) -> dict[Member, Distribution] | None:
        """When a branch would be reached; None when the link is not known."""
        found: dict[Member, Distribution] = {}
        for member in top.branch():
            arrival = self._reached(member, parent if member is top else None, found)
            if arrival is None:
                return None
            found[member] = arrival
        return found

    def _reached(
        self, member: Member, parent: Member | None, found: dict[Member, Distribution]
    ) -> Distribution | None:
        above = parent or member.parent
        assert above is not None
        self._effort -= 1
        link = self._links.between(above.peer, member.peer)
        before = above.arrival if parent else found[above]
        assert before is not None
        return None if link is None else before.then(link)

    def _at(self, row: int) -> Member:
        member = self._members.by_row[row]
        assert member is not None
        return member


def about(mean: Array, variance: Array, third: Array, score: float) -> Array:
    """The quantile of a normal law at that score, corrected for skewness (Cornish, Fisher)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        skew = np.where(variance > 0, third / variance, 0.0)
    found: Array = mean + score * np.sqrt(variance) + skew * (score * score - 1) / 6
    return found


def _keeps(bound: Bound | None, arrival: Distribution) -> bool:
    return bound is None or bound.slack(arrival) >= 0
