"""Whom a newcomer should measure: nobody knows its links yet, so all that counts is the tree.

Half of those named are connected peers with a free slot, the soonest reached first: below them most
bounds hold. The other half are spread evenly over the rest, free slot or not, for one of them may
be near the newcomer, and its children may be put elsewhere.
"""

from __future__ import annotations

import numpy as np

from kbn.grouping.tree_members import Bound, Members, Peer


def suggest(members: Members, count: int, bound: Bound | None) -> list[Peer]:
    """At most `count` peers, the source first, then as soon as they are reached."""
    rows = np.flatnonzero(members.is_in)
    rows = rows[rows != members.source.row]
    if bound is not None:
        rows = rows[members.mean[rows] <= bound.within]
    rows = rows[np.argsort(members.mean[rows], kind="stable")]
    is_free = members.is_free[rows]
    free = rows[is_free][: count // 2]
    others = np.setdiff1d(rows, free, assume_unique=True)
    others = others[np.argsort(members.mean[others], kind="stable")]
    left = max(0, count - 1 - free.size)
    if others.size > left:
        others = others[np.linspace(0, others.size - 1, left).astype(np.int64)]
    chosen = np.concatenate((free, others))
    chosen = chosen[np.argsort(members.mean[chosen], kind="stable")]
    found: list[Peer] = [members.source.peer, *members.peers[chosen].tolist()]
    return found[:count]
