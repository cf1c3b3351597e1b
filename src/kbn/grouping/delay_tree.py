"""Dissemination trees: who passes a cluster's notifications on to whom, so that delay bounds hold.

A source feeds subscribers; each may feed a few others (`slots`, what its bandwidth allows) and
wants what it gets within its own delay bound, with a stated probability. Delays of links are
measured (`links.py`) and add up along a path (`distribution.py`); a bound is *kept* when the sum is
within it with the probability asked for.

- `join`: the newcomer gets a place that keeps its bound and loses nobody else's (`placing.py`), and
  is *admitted*. If there is none it gets the best there is, as *best effort*, and is told why.
- `leave`, `crash`: those it fed get other places, with all they feed. This always works: who finds
  no free slot waits for one.
- `repair`, `rebalance`: the late look for places again. Each step that loses a bound is undone, so
  there are never fewer kept than before.

The rest of the tree stays as it is; each operation returns whose parent is another now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from kbn.errors import InvalidInputError
from kbn.grouping.distribution import NOTHING, Distribution
from kbn.grouping.links import Links
from kbn.grouping.placing import EFFORT, Placing
from kbn.grouping.repairing import grow, rebalance, repair
from kbn.grouping.suggesting import suggest
from kbn.grouping.tree_members import SLOTS_MAX, Bound, Member, Members, Moves, Peer

OTHERS_MOVED = 2  # how many others a newcomer may have moved, one for the other
WAITING_TRIED = 8  # how many of those who wait are tried when somebody comes or goes


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a peer is and what it is promised.

    `probability` is that of its bound (of being reached at all, without one); `best_within` the
    time kept with the probability asked for, infinite while it waits; `reason` why it is not
    admitted; `moves` whose parents are others now, its own among them.
    """

    peer: Peer
    parent: Peer | None
    is_admitted: bool
    probability: float
    best_within: float
    reason: str = ""
    moves: Moves = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Satisfaction:
    """How many bounds hold, of how many."""

    satisfied: int
    subscribers: int

    @property
    def fraction(self) -> float:
        return self.satisfied / self.subscribers if self.subscribers else 1.0


class DelayTree:
    """A tree from a source to subscribers, kept as they come and go.

    `slots` is how many the source feeds; `entry` how long notifications take to the source.

    >>> from kbn.grouping import MeasuredLinks
    >>> links = MeasuredLinks()
    >>> for one, other in (("root", "ann"), ("root", "bob"), ("ann", "bob")):
    ...     links.report(one, other, [0.010] * 99)
    >>> tree = DelayTree(links, "root", slots=1)
    >>> tree.join("bob", Bound(0.05), slots=0).is_admitted
    True
    >>> tree.join("ann", Bound(0.01), slots=1).moves
    {'ann': 'root', 'bob': 'ann'}
    >>> tree.leave("ann")
    {'bob': 'root'}
    """

    def __init__(
        self, links: Links, source: Peer, slots: int, entry: Distribution = NOTHING
    ) -> None:
        self._links = links
        self._members = Members(source, _checked_slots(slots, source), entry)
        self._placing = Placing(self._members, links)

    # Reading.

    def __len__(self) -> int:
        """The number of subscribers, waiting ones included."""
        return len(self._members)

    def __contains__(self, peer: Peer) -> bool:
        return peer in self._members.by_peer and peer != self.source

    @property
    def source(self) -> Peer:
        """Who feeds everybody."""
        return self._members.source.peer

    @property
    def links(self) -> Links:
        """What is known of links."""
        return self._links

    @property
    def entry(self) -> Distribution:
        """How long notifications take to the source."""
        assert self._members.source.arrival is not None
        return self._members.source.arrival

    @property
    def waiting(self) -> tuple[Peer, ...]:
        """Who has no parent for want of a free slot or a known link, oldest first."""
        return tuple(member.peer for member in self._members.waiting)

    def edges(self) -> list[tuple[Peer, Peer]]:
        """Who feeds whom, from the source outwards: a parent is fed before it feeds."""
        return [
            (member.parent.peer, member.peer)
            for member in self._members.source.branch()
            if member.parent is not None
        ]

    def parent_of(self, peer: Peer) -> Peer | None:
        """Who feeds a peer; None while it waits."""
        parent = self._known(peer).parent
        return None if parent is None else parent.peer

    def children_of(self, peer: Peer) -> frozenset[Peer]:
        """Whom a peer feeds, or will when it is fed itself."""
        member = self._members.by_peer.get(peer)
        if member is None:
            raise InvalidInputError(f"peer {peer!r} is not in the tree")
        return frozenset(child.peer for child in member.children)

    def slots_of(self, peer: Peer) -> int:
        """How many a peer may feed."""
        return self._members.by_peer[peer].slots

    def bound_of(self, peer: Peer) -> Bound | None:
        """What a peer wants."""
        return self._known(peer).bound

    def path(self, peer: Peer) -> list[Peer]:
        """From the source to a peer; from whoever waits above it while it is not connected."""
        member: Member | None = self._known(peer)
        found: list[Peer] = []
        while member is not None:
            found.append(member.peer)
            member = member.parent
        return found[::-1]

    def depth_of(self, peer: Peer) -> int:
        """How many links a peer is from the source."""
        return len(self.path(peer)) - 1

    def arrival(self, peer: Peer) -> Distribution | None:
        """When a peer is reached; None while it is not connected."""
        member = self._known(peer)
        return member.arrival if self._members.is_in[member.row] else None

    def probability(self, peer: Peer) -> float:
        """With what probability its bound holds; 0 while it is not connected."""
        arrival, bound = self.arrival(peer), self._known(peer).bound
        if arrival is None:
            return 0.0
        return arrival.within(math.inf if bound is None else bound.within)

    def promised(self, peer: Peer) -> float:
        """Within what time a peer is reached, with the probability asked for (95 % without)."""
        arrival, bound = self.arrival(peer), self._known(peer).bound
        asked = 0.95 if bound is None else bound.probability
        return math.inf if arrival is None else arrival.quantile(asked)

    def is_satisfied(self, peer: Peer) -> bool:
        """Whether a peer is connected and its bound, if it has one, holds."""
        member = self._known(peer)
        return bool(self._members.is_in[member.row]) and member.is_kept

    def satisfaction(self) -> Satisfaction:
        """Whose bounds hold."""
        return Satisfaction(self._members.kept(), len(self))

    def placement_of(self, peer: Peer) -> Placement:
        """Where a peer is and what it is promised, as of now."""
        return self._placement(self._known(peer), {})

    def candidates(self, count: int = 16, bound: Bound | None = None) -> list[Peer]:
        """Whom a newcomer with that bound should measure before it joins, the best first."""
        return suggest(self._members, count, bound)

    # Coming and going.

    def join(self, peer: Peer, bound: Bound | None, slots: int) -> Placement:
        """Have one more."""
        member = self._new(peer, bound, slots)
        self._seek(member, OTHERS_MOVED)
        self._attach_some()
        return self._placement(member, self._members.moves())

    def join_all(self, newcomers: Iterable[tuple[Peer, Bound | None, int]]) -> Moves:
        """Have many join at once: tightest bound first, those that will be late last."""
        seen: set[Peer] = set()
        coming = [each for each in newcomers if self._check_new(each[0], each[2], seen)]
        grow(self._members, self._placing, [self._members.add(*each) for each in coming])
        self._attach_some()
        return self._members.moves()

    def leave(self, peer: Peer) -> Moves:
        """Have one less; those it fed are fed by others from now on, with all they feed."""
        gone = self._known(peer)
        orphans = sorted(gone.children, key=lambda child: -sum(1 for _ in child.branch()))
        for child in orphans:
            self._members.detach(child)
        if gone.parent is not None:
            self._members.detach(gone)
        self._members.remove(gone)
        # Large ones first, for the place that got free is a good one; but those without a free slot
        # last, or they could take the only one there is.
        orphans.sort(key=lambda top: all(len(m.children) >= m.slots for m in top.branch()))
        for child in orphans:
            self._seek(child, 1, EFFORT + 2 * sum(1 for _ in child.branch()))
        self._attach_some()
        return self._members.moves()

    def crash(self, peer: Peer) -> Moves:
        """Have one less that did not say so; the same, for nobody asks the one who leaves."""
        return self.leave(peer)

    def attach_waiting(self) -> Moves:
        """Give places to those who wait, as far as there are free slots and known links."""
        is_changed = True
        while is_changed and self._members.waiting:
            is_changed = any([self._seek(each, 0) for each in tuple(self._members.waiting)])
        return self._members.moves()

    def _attach_some(self) -> None:
        """The same for a few of them, in turn, so that who comes does not pay for all who wait."""
        members = self._members
        for member in tuple(islice(members.waiting, WAITING_TRIED)):
            if not members.is_free.any():
                return
            if not self._seek(member, 0):
                members.waiting[member] = members.waiting.pop(member)

    def repair(self, tries: int = 1_000) -> Moves:
        """Find places for the late, at most so many of them; no bound is lost by it."""
        self._attach_some()
        repair(self._members, self._placing, tries)
        return self._members.moves()

    def rebalance(self, gain_min: int = 1) -> Moves:
        """Grow the tree anew if that keeps at least so many more bounds, else leave it as it is."""
        self._attach_some()
        rebalance(self._members, self._placing, gain_min)
        return self._members.moves()

    # What was measured anew, and what others know.

    def set_entry(self, entry: Distribution) -> None:
        """Notifications take another time to the source: everybody's predictions change."""
        self._members.set_arrival(self._members.source, entry)
        self._placing.measure_below(self._members.source)
        self._members.forget_undo()

    def measured_again(self, peers: Iterable[Peer]) -> None:
        """Links of these peers were measured again: predictions below them are computed anew."""
        for peer in peers:
            member = self._members.by_peer.get(peer)
            if member is not None and self._members.is_in[member.row]:
                self._placing.measure_below(member.parent or member)
        self._members.forget_undo()

    def restore(self, known: Iterable[tuple[Peer, Peer | None, Bound | None, int]]) -> None:
        """Take over a tree as its peers tell it: (peer, parent, bound, slots); moves nobody.

        What cannot be (a parent nobody knows, a circle, a link nobody measured, more children than
        slots) makes the peer wait: `attach_waiting` then finds it a place.
        """
        told = list(known)
        seen: set[Peer] = set()
        for peer, _, _, slots in told:
            self._check_new(peer, slots, seen)
        for peer, _, bound, slots in told:
            self._members.add(peer, bound, slots)
        by_parent: dict[Peer | None, list[Peer]] = {}
        for peer, parent, _, _ in told:
            by_parent.setdefault(parent, []).append(peer)
        outwards: list[Peer] = [self.source]
        for parent in outwards:  # grows as it is read
            for peer in by_parent.get(parent, ()):
                if self._placing.put_below(
                    self._members.by_peer[peer], self._members.by_peer[parent]
                ):
                    outwards.append(peer)
        self._members.moves()

    # Checks.

    def check_invariants(self) -> None:
        """A tree, within everybody's slots; promises are those of its paths."""
        members = self._members
        connected = list(members.source.branch())
        assert len({member.peer for member in connected}) == len(connected), "a circle"
        below_waiting = [each for top in members.waiting for each in top.branch()]
        assert len(connected) + len(below_waiting) == len(members) + 1
        for member in connected + below_waiting:
            assert len(member.children) <= member.slots, f"{member.peer!r} feeds too many"
            is_in = bool(members.is_in[member.row])
            assert members.is_free[member.row] == (is_in and len(member.children) < member.slots)
            assert members.is_leaf[member.row] == (not member.children)
            assert all(child.parent is member for child in member.children)
        for member in connected:
            assert members.is_in[member.row]
            if member.parent is not None:
                self._placing.check(member)
        assert not any(members.is_in[each.row] for each in below_waiting)

    def _new(self, peer: Peer, bound: Bound | None, slots: int) -> Member:
        self._check_new(peer, slots, set())
        return self._members.add(peer, bound, slots)

    def _check_new(self, peer: Peer, slots: int, seen: set[Peer]) -> bool:
        if peer in self._members.by_peer or peer in seen:
            raise InvalidInputError(f"peer {peer!r} cannot join: it is there already")
        _checked_slots(slots, peer)
        seen.add(peer)
        return True

    def _seek(self, member: Member, depth: int, effort: int = EFFORT) -> bool:
        """A place that keeps the bounds, else the best there is; False when there is none."""
        found = self._placing.place(member, depth, effort) or self._placing.place_late(member)
        self._members.forget_undo()
        return found

    def _known(self, peer: Peer) -> Member:
        if peer not in self:
            raise InvalidInputError(f"peer {peer!r} is not in the tree")
        return self._members.by_peer[peer]

    def _placement(self, member: Member, moves: Moves) -> Placement:
        peer = member.peer
        parent = None if member.parent is None else member.parent.peer
        is_admitted = self.is_satisfied(peer)
        reason = "" if is_admitted else self._reason(member)
        return Placement(
            peer, parent, is_admitted, self.probability(peer), self.promised(peer), reason, moves
        )

    def _reason(self, member: Member) -> str:
        rows, promised = self._placing.promises(member)
        if not rows.size:
            return "no link from a connected peer to it has been measured"
        if not self._members.is_in[member.row]:
            return "all slots are taken: it waits for a free one"
        assert member.bound is not None
        asked = f"{member.bound.within:g} with a probability of {member.bound.probability:.1%}"
        if float(promised.min()) > member.bound.within:
            return f"nobody could reach it within {asked}, not even from the best place"
        return f"the places that would keep {asked} are taken by peers who need them"


def _checked_slots(slots: int, peer: Peer) -> int:
    if type(slots) is not int or not 0 <= slots <= SLOTS_MAX:
        raise InvalidInputError(
            f"the slots of peer {peer!r} are a number from 0 to {SLOTS_MAX}, not {slots!r}"
        )
    return slots
