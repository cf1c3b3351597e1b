"""What a publisher's departure undoes, and what publishers deliver (compiled; arrays only)."""

from __future__ import annotations

from numba import njit

from kbn.grouping.kernels.lattice import KINDS, inner, pour, take, touched, touches


@njit(cache=True)
def depart(lattice, kind, limit):
    """One publisher of the kind less; `limit` is the least of those of its kind that stay.

    What nobody offers any more is dropped. With the last of a kind, clusters that were apart only
    because of it are merged: their publishers are the same now, so that costs nothing. Under
    strategy 1 the clusters are then what they had been without it.
    """
    clusters = lattice.buffer[0]
    count = touched(lattice, kind, clusters)
    _unregister(lattice, kind, limit)
    if lattice.publishers[kind] == 0:
        for at in range(count):
            if lattice.size[clusters[at]] > 0:
                _rejoin(lattice, clusters[at])


@inner
def _unregister(lattice, kind, limit):
    """One publisher less; `limit` is the least of those that stay. Drops what nobody offers."""
    lattice.publishers[kind] -= 1
    lattice.limit[kind] = limit
    if lattice.publishers[kind] == 0:
        lattice.counts[KINDS] -= 1
        last = lattice.kinds[lattice.counts[KINDS]]
        lattice.kinds[lattice.place[kind]] = last
        lattice.place[last] = lattice.place[kind]
        lattice.place[kind] = -1
        lattice.used[kind] = 0
    combination = kind
    while combination > 0:
        lattice.cover[combination] -= 1
        if lattice.cover[combination] == 0:
            take(lattice, combination)
        combination = (combination - 1) & kind


@inner
def _rejoin(lattice, cluster):
    """Merge the cluster with one that has the same publishers, if there is one."""
    others = lattice.buffer[1]
    for at in range(touched(lattice, _narrowest(lattice, cluster), others)):
        other = others[at]
        if other != cluster and _have_the_same_publishers(lattice, cluster, other):
            if lattice.born[cluster] < lattice.born[other]:
                pour(lattice, other, cluster)
            else:
                pour(lattice, cluster, other)
            return


@inner
def _narrowest(lattice, cluster):
    """The least kind, as a number, that touches the cluster: whoever shares all, shares it."""
    least = len(lattice.owner)
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        if kind < least and touches(lattice, kind, cluster):
            least = kind
    return least


@inner
def _have_the_same_publishers(lattice, one, other):
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        if touches(lattice, kind, one) != touches(lattice, kind, other):
            return False
    return True


@njit(cache=True)
def deliver(lattice, kind, wanted):
    """Who receives a notification of that kind, and how many of them did not want it.

    `wanted` is how many subscribers each combination has.
    """
    clusters = lattice.buffer[0]
    received, unwanted = 0, 0
    for at in range(touched(lattice, kind, clusters)):
        combination = lattice.first[clusters[at]]
        while combination >= 0:
            received += wanted[combination]
            if combination & ~kind != 0:
                unwanted += wanted[combination]
            combination = lattice.after[combination]
    return received, unwanted


@njit(cache=True)
def deliver_all(lattice, wanted, sent, received, unwanted):
    """Add up per cluster what arrives when each kind sends `sent` notifications."""
    clusters = lattice.buffer[0]
    for kind in range(1, len(sent)):
        if sent[kind] > 0:
            for at in range(touched(lattice, kind, clusters)):
                cluster = clusters[at]
                combination = lattice.first[cluster]
                while combination >= 0:
                    arriving = wanted[combination] * sent[kind]
                    received[cluster] += arriving
                    if combination & ~kind != 0:
                        unwanted[cluster] += arriving
                    combination = lattice.after[combination]
