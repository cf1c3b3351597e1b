"""What strategies 1, 2, 3 and 3.1 do when a publisher arrives (compiled; arrays only).

Strategy 1 is strategy 3 without limits: it splits every partial overlap and joins what is included.
The visiting order is either by size, the largest first (of equal ones the oldest), or by chance;
clusters the publisher does not touch are passed over in both, so only the others are put in order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.grouping.kernels.lattice import (
    KINDS,
    inner,
    make,
    pour,
    put,
    split,
    touched,
    touches,
)

BY_CLUSTER, BY_COMBINATION = 3, 31  # whose free connections count: strategy 3 and 3.1


@njit(cache=True)
def arrive_joining(lattice, kind):
    """Strategy 2: join partial overlaps, merge what is included into the new cluster."""
    clusters = lattice.buffer[0]
    count = touched(lattice, kind, clusters)
    kept = 0
    for at in range(count):
        if _inside(lattice, kind, clusters[at]) == lattice.size[clusters[at]]:
            clusters[kept] = clusters[at]
            kept += 1
    _gather(lattice, kind, clusters[:kept])


@njit(cache=True)
def arrive_splitting(lattice, kind, limit, counted, is_descending, chance):
    """Strategies 3 and 3.1: split while there are free connections, else join, else merge.

    Always leaves the newcomer one connection for what is left at the end.
    """
    clusters, waiting = lattice.buffer[0], lattice.buffer[1]
    count = touched(lattice, kind, clusters)
    _order(lattice, clusters[:count], is_descending, chance)
    free, included, overlapping = limit, 0, 0
    for at in range(count):
        cluster = clusters[at]
        if _inside(lattice, kind, cluster) == lattice.size[cluster]:
            clusters[included] = cluster  # never ahead of `at`, so nothing unread is lost
            included += 1
        elif free > 1:
            free -= _split_or_join(lattice, kind, cluster, free, counted)
        else:
            waiting[overlapping] = cluster
            overlapping += 1
    joined = min(included, free - 1)
    for at in range(joined, included):
        waiting[overlapping] = clusters[at]
        overlapping += 1
    _gather(lattice, kind, waiting[:overlapping])


@inner
def _split_or_join(lattice, kind, cluster, free, counted):
    """Split off what the newcomer shares with the cluster if allowed; the connections it takes."""
    shared = lattice.buffer[2]
    total, allowed = 0, 0
    if counted == BY_CLUSTER:
        is_free = _all_free(lattice, cluster)
    combination = lattice.first[cluster]
    while combination >= 0:
        if combination & ~kind == 0:
            total += 1
            if counted == BY_COMBINATION:
                is_free = _all_free_for(lattice, combination)
            if is_free:
                shared[allowed] = combination
                allowed += 1
        combination = lattice.after[combination]
    if allowed == total:
        split(lattice, shared[:allowed])
        return 1
    if allowed > 0 and free > 2:
        split(lattice, shared[:allowed])
        return 2
    return 1


@inner
def _all_free(lattice, cluster):
    """Whether everyone connected to the cluster has a connection left."""
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        if lattice.used[kind] >= lattice.limit[kind] and touches(lattice, kind, cluster):
            return False
    return True


@inner
def _all_free_for(lattice, combination):
    """Whether everyone who offers the combination has a connection left."""
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        if combination & ~kind == 0 and lattice.used[kind] >= lattice.limit[kind]:
            return False
    return True


@inner
def _gather(lattice, kind, clusters):
    """One new cluster of these and of what the newcomer offers and nobody did before."""
    new = -1
    combination = kind
    while combination > 0:
        if lattice.owner[combination] < 0:
            if new < 0:
                new = make(lattice)
            put(lattice, combination, new)
        combination = (combination - 1) & kind
    if new < 0 and len(clusters) > 0:
        new = make(lattice)
    for cluster in clusters:
        pour(lattice, cluster, new)


@inner
def _inside(lattice, kind, cluster):
    """How many combinations of the cluster the kind offers."""
    count = 0
    combination = lattice.first[cluster]
    while combination >= 0:
        if combination & ~kind == 0:
            count += 1
        combination = lattice.after[combination]
    return count


@inner
def _order(lattice, clusters, is_descending, chance):
    """Put clusters into the order they are visited in."""
    for at in range(1, len(clusters)):
        cluster = clusters[at]
        to = at
        while to > 0 and _is_before(lattice, cluster, clusters[to - 1]):
            clusters[to] = clusters[to - 1]
            to -= 1
        clusters[to] = cluster
    if not is_descending:
        for at in range(len(clusters) - 1, 0, -1):
            other = np.int64(_roll(chance) % np.uint64(at + 1))
            clusters[at], clusters[other] = clusters[other], clusters[at]


@inner
def _is_before(lattice, one, other):
    if lattice.size[one] != lattice.size[other]:
        return lattice.size[one] > lattice.size[other]
    return lattice.born[one] < lattice.born[other]


@inner
def _roll(chance):
    """The next number of Steele, Lea and Flood's SplitMix64, whose state is `chance[0]`."""
    chance[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = chance[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
