"""Choosing the best node for each of many query sets (compiled by Numba; arrays only).

`table[t, c]` is the distance from candidate c to term t. Candidates with near numbers are near each
other, so a block of eight is as good as its nearest member to each term (`floors`) or worse:
only blocks whose floors sum up to no more than the best so far are looked at one by one. Few are.
All query sets go over one span of blocks before the next, so that its part of the floors stays in
the processor's cache; what a set has found so far lies in `best`.

Reaching one term more is better than any cost, so the two are one number: the cost, and `missed`
for each term missed, which is more than any cost can be. Ties: the smaller sum of squares (which
orders like the spread where number and sum are equal), a member of the set, the smaller node
number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

BLOCK = 8
SPAN = 128


class Sets(NamedTuple):
    """Query sets: set s has the entries starts[s]:starts[s + 1], one per distinct term.

    An entry's distance is `extra` more than what row `row` of the table says. A pendant (`extra` is
    not 0, see `graph.py`) hangs on the candidate `hub`; the way there costs `way`, -1 for no way.
    """

    starts: Any
    node: Any
    times: Any
    row: Any
    extra: Any
    hub: Any
    way: Any


class Best(NamedTuple):
    """Per set: cost and terms missed as one number, the squares, whether a member, which node."""

    key: Any
    squares: Any
    member: Any
    node: Any


@njit(cache=True)
def floors_of(table, floors):
    """Write the least distance of each block of the table's columns to `floors`."""
    for t in range(table.shape[0]):
        for block in range(floors.shape[1]):
            least = table[t, block * BLOCK]
            for c in range(block * BLOCK + 1, min((block + 1) * BLOCK, table.shape[1])):
                least = min(least, table[t, c])
            floors[t, block] = least


@njit(cache=True)
def choose(table, floors, far, first, candidates, sets, missed, sums, best):
    """Improve `best` by the candidates from number `first` on, one per column of the table.

    `candidates` are their nodes; `far` in the table means not reached; `sums` is a buffer of SPAN
    numbers, of a type that holds the largest sum.
    """
    for start in range(0, floors.shape[1], SPAN):
        width = min(SPAN, floors.shape[1] - start)
        for s in range(len(sets.starts) - 1):
            if sets.starts[s] < sets.starts[s + 1]:
                least = _sum_up(floors, far, start, width, s, sets, missed, sums)
                if sums[least] > best.key[s]:
                    continue
                # The most promising first: what it finds spares most of the others.
                _try_block(table, far, first, start + least, candidates, s, sets, missed, best)
                for block in range(width):
                    if sums[block] <= best.key[s] and block != least:
                        _try_block(
                            table, far, first, start + block, candidates, s, sets, missed, best
                        )
    for s in range(len(sets.starts) - 1):
        for one in range(sets.starts[s], sets.starts[s + 1]):
            column = sets.hub[one] - first
            if sets.extra[one] > 0 and 0 <= column < table.shape[1]:
                key, squares = _from_pendant(table, far, column, s, one, sets, missed)
                _take(s, key, squares, True, sets.node[one], best)


@njit(cache=True)
def _sum_up(floors, far, start, width, s, sets, missed, sums):
    """Fill `sums` with the floors of the blocks from `start` on; where the least of them is."""
    kind = sums.dtype.type
    sums[:width] = 0
    for j in range(sets.starts[s], sets.starts[s + 1]):
        part = floors[sets.row[j], start : start + width]
        extra, miss, times = kind(sets.extra[j]), kind(missed), kind(sets.times[j])
        if times == 1:
            for c in range(width):
                sums[c] += miss if part[c] == far else kind(part[c]) + extra
        else:
            for c in range(width):
                sums[c] += times * (miss if part[c] == far else kind(part[c]) + extra)
    return np.argmin(sums[:width])


@njit(cache=True)
def _try_block(table, far, first, block, candidates, s, sets, missed, best):
    for c in range(block * BLOCK, min((block + 1) * BLOCK, table.shape[1])):
        key = 0
        for j in range(sets.starts[s], sets.starts[s + 1]):
            distance = np.int64(table[sets.row[j], c])
            key += sets.times[j] * (missed if distance == far else distance + sets.extra[j])
            if key > best.key[s]:
                break
        if key <= best.key[s]:
            node = candidates[first + c]
            squares = _squares(table, far, c, s, sets)
            _take(s, key, squares, _is_member(node, s, sets), node, best)


@njit(cache=True)
def _squares(table, far, column, s, sets):
    total = 0
    for j in range(sets.starts[s], sets.starts[s + 1]):
        distance = np.int64(table[sets.row[j], column])
        if distance != far:
            total += sets.times[j] * (distance + sets.extra[j]) ** 2
    return total


@njit(cache=True)
def _is_member(node, s, sets):
    for j in range(sets.starts[s], sets.starts[s + 1]):  # noqa: SIM110 (Numba has no such any)
        if sets.node[j] == node:
            return True
    return False


@njit(cache=True)
def _from_pendant(table, far, column, s, one, sets, missed):
    """The key and the squares of entry `one` as a candidate: all but itself is beyond its hub."""
    key, squares = 0, 0
    for j in range(sets.starts[s], sets.starts[s + 1]):
        if j == one:
            continue
        distance = np.int64(table[sets.row[j], column])
        if distance == far or sets.way[one] < 0:
            key += sets.times[j] * missed
        else:
            length = distance + sets.extra[j] + sets.way[one]
            key += sets.times[j] * length
            squares += sets.times[j] * length**2
    return key, squares


@njit(cache=True)
def _take(s, key, squares, member, node, best):
    """Keep the candidate for set s when it is better than what that has."""
    if key > best.key[s]:
        return
    if key == best.key[s]:
        if squares > best.squares[s]:
            return
        if squares == best.squares[s]:
            if best.member[s] and not member:
                return
            if best.member[s] == member and best.node[s] <= node:
                return
    best.key[s] = key
    best.squares[s] = squares
    best.member[s] = member
    best.node[s] = node
