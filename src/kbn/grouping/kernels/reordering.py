"""Strategy 4: what to put together so that everyone keeps their limit at the least cost (compiled).

With w(C) the weight of a cluster's combinations and n(C) its publishers, the notifications received
are the sum of w(C)·n(C) over all clusters; how many of them are wanted does not depend on the
clusters. So the false positives are least where that sum, the *cost*, is.

1. A newcomer's new combinations each get a cluster of their own: split at join.
2. Who has too many connections then, has clusters merged (`fit`), two at a time: the two that cost
   least for each publisher's kind whose trouble it relieves. Merging gives nobody a connection.
3. Single combinations move to another cluster, or to one of their own, where that lowers the cost
   and nobody's limit stands against it (`improve`): among those with whom the newcomer shares
   attributes at once, and among those of a cluster where false positives show.
4. Now and then everything is done again from single combinations (`reorder`), and what comes out is
   kept if it costs less. Early publishers did not know what the later ones would need.

In step 2 only neighbours are looked at, combinations that differ by one attribute: they have most
publishers in common, and any two combinations of a kind are joined by a chain of them. A kind of
more than BROAD attributes has too many combinations for this: it comes as in strategy 3.1, and what
it offers is moved but never taken apart by step 4.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.grouping.kernels.lattice import (
    KINDS,
    audience,
    inner,
    make,
    pour,
    put,
    register,
    take,
    touched,
    touches,
    touches_besides,
)

BROAD = 7
SWEEPS_MAX = 30
ALONE, NOWHERE = -1, -2  # where a combination is best: in its own cluster, or where it is


@njit(cache=True)
def arrive_apart(lattice, kind, limit):
    """A newcomer of strategy 4, registered: steps 1 to 3."""
    combination = kind
    while combination > 0:
        if lattice.owner[combination] < 0:
            put(lattice, combination, make(lattice))
        combination = (combination - 1) & kind
    register(lattice, kind, limit)
    fit(lattice, kind)
    # The hundredth of its kind changes next to nothing: look around at the 1st, 2nd, 4th, 8th …
    if lattice.publishers[kind] & (lattice.publishers[kind] - 1) == 0:
        improve_kind(lattice, kind)


@inner
def fit(lattice, kind):
    """Merge clusters the kind touches until it keeps its limit."""
    while lattice.used[kind] > lattice.limit[kind]:
        least, source, target = np.inf, -1, -1
        combination = kind
        while combination > 0:
            bit = 1
            while bit <= combination:
                part = combination & ~bit
                one, other = lattice.owner[combination], lattice.owner[part]
                if part > 0 and part != combination and one != other:
                    cost = _cost_of_merging(lattice, one, other)
                    if cost < least:
                        least, source, target = cost, one, other
                bit <<= 1
            combination = (combination - 1) & kind
        pour(lattice, source, target)


@inner
def _cost_of_merging(lattice, one, other):
    """What it adds to the cost, for each kind with too many connections that it relieves."""
    first, second, both, relieved = 0, 0, 0, 0
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        in_one, in_other = touches(lattice, kind, one), touches(lattice, kind, other)
        publishers = lattice.publishers[kind]
        if in_one:
            first += publishers
        if in_other:
            second += publishers
        if in_one and in_other:
            both += publishers
            if lattice.used[kind] > lattice.limit[kind]:
                relieved += 1
    added = _weight(lattice, one) * (second - both) + _weight(lattice, other) * (first - both)
    return added / max(1, relieved)


@njit(cache=True)
def improve_kind(lattice, kind):
    """Move each combination of a kind to where it costs least; nobody need offer it any more."""
    combination = kind
    while combination > 0:
        if lattice.owner[combination] >= 0:
            improve(lattice, combination)
        combination = (combination - 1) & kind


@njit(cache=True)
def improve_cluster(lattice, cluster):
    """Move each combination of a cluster to where it costs least."""
    members = lattice.buffer[3]
    count = lattice.size[cluster]
    combination = lattice.first[cluster]
    for at in range(count):
        members[at] = combination
        combination = lattice.after[combination]
    for at in range(count):
        improve(lattice, members[at])


@inner
def improve(lattice, combination):
    """Move a combination to where it costs least, if limits allow; whether it moved.

    Only clusters that somebody who offers it is connected to are looked at: elsewhere every
    notification would be a false positive.
    """
    holders, stays, others = lattice.buffer[0], lattice.buffer[1], lattice.buffer[2]
    here = lattice.owner[combination]
    count = _advertising(lattice, combination, holders)
    leaving = 0
    for at in range(count):
        stays[at] = touches_besides(lattice, holders[at], here, combination)
        if not stays[at]:
            leaving += lattice.publishers[holders[at]]
    weight = lattice.weight[combination]
    publishers = audience(lattice, here)
    saved = weight * publishers + (_weight(lattice, here) - weight) * leaving
    best, place = saved, NOWHERE
    if lattice.size[here] > 1 and _may_add(lattice, holders, stays, count):
        alone = weight * lattice.cover[combination]
        if alone < best:
            best, place = alone, ALONE
    for at in range(_near(lattice, combination, holders[:count], others)):
        added = _cost_of_moving(lattice, combination, others[at], holders, stays, count, best)
        if added < best:
            best, place = added, others[at]
    if place == NOWHERE:
        return False
    _move(lattice, combination, make(lattice) if place == ALONE else place, holders, stays, count)
    return True


@inner
def _may_add(lattice, holders, stays, count):
    """Whether all who offer it may have a connection more, or lose one by the move."""
    for at in range(count):
        if stays[at] and lattice.used[holders[at]] >= lattice.limit[holders[at]]:
            return False
    return True


@inner
def _cost_of_moving(lattice, combination, target, holders, stays, count, most):
    """What a combination adds to the cost of `target`; infinite if more than `most` or a limit."""
    held = _weight(lattice, target)
    weight = lattice.weight[combination]
    # Those who offer it and are not connected yet are added; at most all of them.
    added, known = 0, 0
    for at in range(count):
        kind = holders[at]
        if touches(lattice, kind, target):
            known += lattice.publishers[kind]
        else:
            if stays[at] and lattice.used[kind] >= lattice.limit[kind]:
                return np.inf
            added += lattice.publishers[kind]
            if (held + weight) * added >= most:
                return np.inf
    if known == 0:
        return np.inf
    return float(held * added + weight * (audience(lattice, target) + added))


@inner
def _move(lattice, combination, target, holders, stays, count):
    for at in range(count):
        kind = holders[at]
        if not stays[at]:
            lattice.used[kind] -= 1
        if not touches(lattice, kind, target):
            lattice.used[kind] += 1
    take(lattice, combination)
    put(lattice, combination, target)


@inner
def _advertising(lattice, combination, found):
    """Write the kinds that offer the combination to `found`; how many there are."""
    count = 0
    for at in range(lattice.counts[KINDS]):
        if combination & ~lattice.kinds[at] == 0:
            found[count] = lattice.kinds[at]
            count += 1
    return count


@inner
def _near(lattice, combination, holders, found):
    """Write the clusters of combinations that differ by one attribute to `found`, each once."""
    reach = 0
    for kind in holders:
        reach |= kind
    count = 0
    bit = 1
    while bit <= reach:
        other = combination ^ bit
        if bit & reach and other > 0:
            cluster = lattice.owner[other]
            is_new = cluster >= 0 and cluster != lattice.owner[combination]
            for at in range(count):
                if found[at] == cluster:
                    is_new = False
            if is_new:
                found[count] = cluster
                count += 1
        bit <<= 1
    return count


@inner
def _weight(lattice, cluster):
    total = 0
    combination = lattice.first[cluster]
    while combination >= 0:
        total += lattice.weight[combination]
        combination = lattice.after[combination]
    return total


@njit(cache=True)
def cost(lattice):
    """Notifications received, each publisher sending one and each combination wanted `weight`."""
    total = 0
    for cluster in range(len(lattice.size)):
        if lattice.size[cluster] > 0:
            total += _weight(lattice, cluster) * audience(lattice, cluster)
    return total


@njit(cache=True)
def reorder(lattice):
    """Step 4 on a lattice that may be spoilt: everything from single combinations."""
    _take_apart(lattice)
    for at in range(lattice.counts[KINDS]):
        fit(lattice, lattice.kinds[at])
    for _ in range(SWEEPS_MAX):
        moves = 0
        for combination in range(1, len(lattice.owner)):
            if lattice.owner[combination] >= 0:
                moves += improve(lattice, combination)
        if moves == 0:
            break


@inner
def _take_apart(lattice):
    """Each combination that no broad kind offers into a cluster of its own."""
    is_kept = lattice.buffer[0]
    is_kept[:] = 0
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        if is_broad(kind):
            combination = kind
            while combination > 0:
                is_kept[combination] = 1
                combination = (combination - 1) & kind
    for combination in range(1, len(lattice.owner)):
        owner = lattice.owner[combination]
        if owner >= 0 and lattice.size[owner] > 1 and not is_kept[combination]:
            take(lattice, combination)
            put(lattice, combination, make(lattice))
    for at in range(lattice.counts[KINDS]):
        kind = lattice.kinds[at]
        lattice.used[kind] = touched(lattice, kind, lattice.buffer[3])


@njit(cache=True)
def is_broad(kind):
    """Whether a kind has more than BROAD attributes."""
    count = 0
    while kind > 0:
        kind &= kind - 1
        count += 1
    return count > BROAD
