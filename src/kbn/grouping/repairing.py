"""Repair: places for those who are late, without losing a bound.

`repair` takes out each late member with all it feeds. It looks for a place (`Placing.place`) and
gets one only where its own bound holds and nobody else's is lost; else it goes back. So the number
of bounds kept never falls, and few are moved. Who is least late comes first.

`rebalance` grows the whole tree anew, tightest bound first, and goes back to the old one unless the
new one keeps more bounds. That moves nearly everybody, and finds what single moves do not: peers
came in an order that did not suit the tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kbn.grouping.placing import Placing
from kbn.grouping.tree_members import Member, Members

DEPTH = 2
EFFORT = 400
GROWING_DEPTH, GROWING_EFFORT = 2, 400
SLOTS_COUNT = 0.3  # how much each slot brings a peer forward when a tree is grown


def repair(members: Members, placing: Placing, tries: int) -> int:
    """Find places for the late, at most so many of them; how many got one."""
    late = [each for each in members.source.branch() if not each.is_kept]
    late.sort(key=lambda member: -member.slack)
    return sum(_moved(members, placing, member) for member in late[:tries])


def rebalance(members: Members, placing: Placing, gain_min: int) -> int:
    """Grow the tree anew if that keeps at least so many more bounds; how many more it keeps."""
    for order in (by_bound, feeders_first):
        before = members.kept()
        mark = members.mark()
        everybody = [each for each in members.by_peer.values() if each is not members.source]
        for member in everybody:
            if member.parent is not None:
                members.detach(member)
        grow(members, placing, everybody, order)
        gained = members.kept() - before
        if gained >= max(1, gain_min):
            members.forget_undo()
            return gained
        members.undo_to(mark)
    return 0


def by_bound(member: Member) -> tuple[float, ...]:
    """The tightest bound first, but who feeds many sooner: those after it need its slots."""
    return (_within(member) / (1 + SLOTS_COUNT * member.slots), -member.slots)


def feeders_first(member: Member) -> tuple[float, ...]:
    """Those who feed nobody last: they could take the slots that all the others need."""
    return (member.slots == 0, _within(member), -member.slots)


def grow(
    members: Members,
    placing: Placing,
    coming: list[Member],
    order: Callable[[Member], tuple[float, ...]] = by_bound,
) -> None:
    """Give places to many who wait, in that order, and last to those that will be late."""
    late = [
        each
        for each in sorted(coming, key=order)
        if not placing.place(each, GROWING_DEPTH, GROWING_EFFORT)
    ]
    for member in sorted(late, key=feeders_first):
        if not placing.place(member, 0):
            placing.place_late(member)


def _within(member: Member) -> float:
    return math.inf if member.bound is None else member.bound.within


def _moved(members: Members, placing: Placing, member: Member) -> bool:
    if member.is_kept or member.parent is None:  # by what was moved for another
        return False
    mark = members.mark()
    members.detach(member)
    if placing.place(member, DEPTH, EFFORT):
        members.forget_undo()
        return True
    members.undo_to(mark)
    return False
