"""Clusters of attribute combinations, and who is connected to them (compiled; arrays only).

A combination is a bit mask over the attributes, never 0. `owner` names the cluster of each, so none
can be in two. The combinations of a cluster form a chain, so a cluster is walked in its own size.
Publishers with the same attributes are connected to the same clusters, so what is kept is kept per
*kind*, the mask of a publisher's attributes: how many there are, the least limit of any of them,
and how many clusters they are connected to. A hundred thousand publishers are a few hundred kinds.

A kind is connected to (touches) a cluster when one of its combinations is part of the kind.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

# For what only compiled code calls: the way in from Python costs more to compile than most of it.
inner = njit(cache=True, no_cpython_wrapper=True)

UNLIMITED = np.int64(1 << 40)

KINDS, BORN, SPARE, MARK = 0, 1, 2, 3  # places of `counts`


class Lattice(NamedTuple):
    """All tables, of 64-bit numbers; one entry per mask, whether combination, kind or cluster."""

    owner: Any  # combination -> its cluster, -1 for none
    after: Any  # combination -> the next of its cluster, -1 for the last
    before: Any  # combination -> the one before
    first: Any  # cluster -> its first combination
    size: Any  # cluster -> how many combinations; 0: there is no such cluster
    born: Any  # cluster -> when it was made: the older have the smaller numbers
    publishers: Any  # kind -> how many publishers
    limit: Any  # kind -> the fewest connections any of them may have
    used: Any  # kind -> the clusters it touches
    kinds: Any  # the kinds with publishers, counts[KINDS] of them
    place: Any  # kind -> where it stands in `kinds`, -1 for nowhere
    cover: Any  # combination -> how many publishers offer it
    weight: Any  # combination -> how much a notification for it counts (strategy 4)
    counts: Any  # kinds, clusters ever made, spare cluster numbers, the last mark
    spare: Any  # cluster numbers not in use, counts[SPARE] of them
    mark: Any  # cluster -> the mark of the last walk that met it
    buffer: Any  # four rows for whoever needs lists


def empty(attributes: int) -> Lattice:
    """The lattice of that many attributes, without publishers."""
    masks = 1 << attributes
    unset, zero = np.full(masks, -1, np.int64), np.zeros(masks, np.int64)
    return Lattice(
        owner=unset.copy(),
        after=unset.copy(),
        before=unset.copy(),
        first=unset.copy(),
        size=zero.copy(),
        born=zero.copy(),
        publishers=zero.copy(),
        limit=np.full(masks, UNLIMITED, np.int64),
        used=zero.copy(),
        kinds=zero.copy(),
        place=unset.copy(),
        cover=zero.copy(),
        weight=np.ones(masks, np.int64),
        counts=np.array([0, 0, masks, 0], np.int64),
        spare=np.arange(masks, dtype=np.int64)[::-1].copy(),
        mark=zero.copy(),
        buffer=np.zeros((4, masks), np.int64),
    )


@inner
def make(lattice):
    """A new cluster without combinations; the caller puts some in."""
    lattice.counts[SPARE] -= 1
    cluster = lattice.spare[lattice.counts[SPARE]]
    lattice.first[cluster] = -1
    lattice.size[cluster] = 0
    lattice.born[cluster] = lattice.counts[BORN]
    lattice.counts[BORN] += 1
    return cluster


@inner
def put(lattice, combination, cluster):
    """Put a combination that is nowhere into a cluster; `used` is left to the caller."""
    head = lattice.first[cluster]
    lattice.after[combination] = head
    lattice.before[combination] = -1
    if head >= 0:
        lattice.before[head] = combination
    lattice.first[cluster] = combination
    lattice.owner[combination] = cluster
    lattice.size[cluster] += 1


@inner
def take(lattice, combination):
    """Take a combination out of its cluster, which goes when it was the last."""
    cluster = lattice.owner[combination]
    before, after = lattice.before[combination], lattice.after[combination]
    if before >= 0:
        lattice.after[before] = after
    else:
        lattice.first[cluster] = after
    if after >= 0:
        lattice.before[after] = before
    lattice.owner[combination] = -1
    lattice.size[cluster] -= 1
    if lattice.size[cluster] == 0:
        lattice.spare[lattice.counts[SPARE]] = cluster
        lattice.counts[SPARE] += 1


@inner
def touches(lattice, kind, cluster):
    """Whether some combination of the cluster is part of the kind."""
    combination = lattice.first[cluster]
    while combination >= 0:
        if combination & ~kind == 0:
            return True
        combination = lattice.after[combination]
    return False


@inner
def touches_besides(lattice, kind, cluster, but):
    """Whether the kind touches the cluster by another combination than `but`."""
    combination = lattice.first[cluster]
    while combination >= 0:
        if combination & ~kind == 0 and combination != but:
            return True
        combination = lattice.after[combination]
    return False


@inner
def split(lattice, taken):
    """A new cluster of these combinations, taken out of the one cluster they are in."""
    cluster = lattice.owner[taken[0]]
    new = make(lattice)
    for combination in taken:
        take(lattice, combination)
        put(lattice, combination, new)
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        if touches(lattice, kind, new) and touches(lattice, kind, cluster):
            lattice.used[kind] += 1
    return new


@inner
def pour(lattice, source, target):
    """Move all combinations of `source` to `target`; `source` goes."""
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        if touches(lattice, kind, source) and touches(lattice, kind, target):
            lattice.used[kind] -= 1
    for _ in range(lattice.size[source]):
        combination = lattice.first[source]
        take(lattice, combination)
        put(lattice, combination, target)


@inner
def touched(lattice, kind, found):
    """Write the clusters the kind touches to `found`, each once; how many there are."""
    lattice.counts[MARK] += 1
    mark = lattice.counts[MARK]
    count = 0
    combination = kind
    while combination > 0:
        cluster = lattice.owner[combination]
        if cluster >= 0 and lattice.mark[cluster] != mark:
            lattice.mark[cluster] = mark
            found[count] = cluster
            count += 1
        combination = (combination - 1) & kind
    return count


@njit(cache=True)
def register(lattice, kind, limit):
    """One publisher more of a kind, all of whose combinations have clusters by now."""
    if lattice.place[kind] < 0:
        lattice.place[kind] = lattice.counts[KINDS]
        lattice.kinds[lattice.counts[KINDS]] = kind
        lattice.counts[KINDS] += 1
        lattice.limit[kind] = limit
        lattice.used[kind] = touched(lattice, kind, lattice.buffer[3])
    lattice.limit[kind] = min(lattice.limit[kind], limit)
    lattice.publishers[kind] += 1
    combination = kind
    while combination > 0:
        lattice.cover[combination] += 1
        combination = (combination - 1) & kind


@inner
def audience(lattice, cluster):
    """How many publishers are connected to the cluster."""
    total = 0
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        if touches(lattice, kind, cluster):
            total += lattice.publishers[kind]
    return total
