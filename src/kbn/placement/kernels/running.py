"""Sums of distances that follow a changing set of terms (compiled by Numba; arrays only).

Per candidate c: how many of the terms it misses, the sum of its distances to the others, and that
of their squares. A term that comes or goes adds or takes its row of distances. The order of
candidates is that of `choosing.py`: fewest missed, least cost, least squares, a member, the
smaller node number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit


class Sums(NamedTuple):
    """What is kept: the first three per candidate, `times` (how often it is there) per node."""

    missed: Any
    cost: Any
    squares: Any
    times: Any


class Nodes(NamedTuple):
    """The candidates' nodes, the pendants' nodes, and per node what `graph.py` says of it."""

    core: Any
    pendants: Any
    hub: Any
    from_hub: Any
    to_hub: Any


@njit(cache=True)
def change(table, rows, far, nodes, changes, places, sums):
    """Let `nodes[j]` be there `changes[j]` times more; its hub's distances are in `rows[j]`."""
    for j in range(len(nodes)):
        node, times = nodes[j], changes[j]
        sums.times[node] += times
        extra = places.from_hub[node]
        row = table[rows[j]]
        for c in range(len(row)):
            # Without branches, so that the processor takes several candidates at a time.
            reached = row[c] != far
            length = reached * (row[c] + extra)
            sums.missed[c] += times * (1 - reached)
            sums.cost[c] += times * length
            sums.squares[c] += times * length * length


@njit(cache=True)
def best(sums, places, terms):
    """The node that is nearest to all `terms`, how many it misses, its cost and its squares."""
    top = (-1, terms + 1, 0, 0)
    for c in range(len(places.core)):
        # Most candidates are out by the first two numbers.
        if sums.missed[c] < top[1] or (sums.missed[c] == top[1] and sums.cost[c] <= top[2]):
            one = (places.core[c], sums.missed[c], sums.cost[c], sums.squares[c])
            top = _better(one, top, sums.times)
    for p in range(len(places.pendants)):
        node = places.pendants[p]
        if sums.times[node] > 0:
            top = _better(_from_pendant(node, sums, places, terms), top, sums.times)
    return top


@njit(cache=True)
def _from_pendant(node, sums, places, terms):
    """A pendant as a candidate: it has itself, and all else is beyond its hub."""
    times, extra, way = sums.times[node], places.from_hub[node], places.to_hub[node]
    if way < 0:
        return node, terms - times, 0, 0
    hub = places.hub[node]
    others = terms - sums.missed[hub] - times
    cost = sums.cost[hub] - times * extra
    squares = sums.squares[hub] - times * extra * extra
    longer = squares + 2 * way * cost + others * way * way
    return node, sums.missed[hub], cost + others * way, longer


@njit(cache=True)
def _better(one, other, times):
    if one[1] != other[1]:
        return one if one[1] < other[1] else other
    if one[2] != other[2]:
        return one if one[2] < other[2] else other
    if one[3] != other[3]:
        return one if one[3] < other[3] else other
    member, other_member = times[one[0]] > 0, times[other[0]] > 0
    if member != other_member:
        return one if member else other
    return one if one[0] < other[0] else other
