"""Shortest distances from up to 64 nodes at once (compiled by Numba; arrays only).

Weights are small whole numbers, so distances are whole too, and nodes can be settled distance by
distance: what is first reached at distance d hangs by an edge of some weight w on what was settled
at d - w. All 64 starts go together, one bit each: a node that is as far from many of them is
handled once for all of them. (Multi-source breadth-first search, Then et al., VLDB 2015, with
weights.)

    starts[k], ends       the edges of the k-th distinct weight by their first node (CSR)
    seen, found           per node, which starts have reached it; and at the present distance
    log_nodes, log_bits   (node, starts) in the order they were settled; distance d has the part
                          first[d]:first[d + 1]
"""

from __future__ import annotations

import numpy as np
from numba import njit

WIDTH = 64

_ONE = np.uint64(1)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_POSITIONS = np.zeros(64, np.int64)
for _i in range(64):
    _POSITIONS[(int(_DE_BRUIJN) << _i & 0xFFFFFFFFFFFFFFFF) >> 58] = _i


@njit(cache=True)
def search(weights, starts, ends, sources, limit, out):
    """Write the distance from `sources[i]` to each node to `out[node, i]`.

    `out` comes filled with what stands for "not reached". False when it had to look beyond `limit`.
    """
    count = len(out)
    seen = np.zeros(count, np.uint64)
    found = np.zeros(count, np.uint64)
    touched = np.empty(count, np.int32)
    log_nodes = np.empty(4 * count + WIDTH, np.int32)
    log_bits = np.empty(4 * count + WIDTH, np.uint64)
    first = np.zeros(limit + 2, np.int64)
    for i in range(len(sources)):
        node = sources[i]
        seen[node] |= _ONE << np.uint64(i)
        out[node, i] = 0
        log_nodes[i] = node
        log_bits[i] = _ONE << np.uint64(i)
    size = len(sources)
    first[1] = size
    last = 0
    distance = 1
    # Beyond the heaviest edge from the last distance at which something was settled is nothing.
    while distance <= last + weights[-1]:
        if distance > limit:
            return False
        reached = _reach(
            distance, weights, starts, ends, first, log_nodes, log_bits, seen, found, touched
        )
        if size + reached > len(log_nodes):
            log_nodes = _grown(log_nodes, 2 * (size + reached))
            log_bits = _grown(log_bits, 2 * (size + reached))
        for t in range(reached):
            node = touched[t]
            bits = found[node]
            found[node] = 0
            seen[node] |= bits
            log_nodes[size] = node
            log_bits[size] = bits
            size += 1
            while bits:
                lowest = bits & (~bits + _ONE)
                out[node, _POSITIONS[(lowest * _DE_BRUIJN) >> np.uint64(58)]] = distance
                bits ^= lowest
        first[distance + 1] = size
        if reached:
            last = distance
        distance += 1
    return True


@njit(cache=True)
def _reach(distance, weights, starts, ends, first, log_nodes, log_bits, seen, found, touched):
    """Put what is first reached at `distance` into `found`; the number of nodes `touched`."""
    reached = 0
    for k in range(len(weights)):
        before = distance - weights[k]
        if before < 0:
            continue
        for entry in range(first[before], first[before + 1]):
            bits = log_bits[entry]
            node = log_nodes[entry]
            for edge in range(starts[k, node], starts[k, node + 1]):
                end = ends[edge]
                fresh = bits & ~seen[end]
                if fresh:
                    if not found[end]:
                        touched[reached] = end
                        reached += 1
                    found[end] |= fresh
    return reached


@njit(cache=True)
def _grown(array, size):
    bigger = np.empty(size, array.dtype)
    bigger[: len(array)] = array
    return bigger
