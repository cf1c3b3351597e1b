"""Whom a newcomer should measure: nobody knows its links yet, so all that counts is the tree.

Half of those named are connected peers with a free slot, the soonest reached first: below them most
bounds hold. The other half are spread evenly over the rest, free slot or not, for one of them may
be near the newcomer, and its children may be put elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbn.grouping.tree_members import Bound, Members, Peer

Array = np.ndarray[Any, Any]


def suggest(members: Members, count: int, bound: Bound | None) -> list[Peer]:
    """At most `count` peers, the source first, then as soon as they are reached."""
    rows = np.flatnonzero(members.is_in)
    rows = rows[rows != members.source.row]
    free = _soonest(members, rows[members.is_free[rows]], count // 2)
    if bound is not None:
        rows = rows[members.mean[rows] <= bound.within]
    left = max(0, count - 1 - free.size)
    others = np.setdiff1d(rows, free, assume_unique=True)
    if others.size > left:
        others = others[np.linspace(0, others.size - 1, left).astype(np.int64)]
    chosen = _soonest(members, np.concatenate((free, others)), count)
    found: list[Peer] = [members.source.peer, *members.peers[chosen].tolist()]
    return found[:count]


def _soonest(members: Members, rows: Array, count: int) -> Array:
    """Those of them that are reached first, on average, in that order."""
    if rows.size > count:
        # Ten thousand are not sorted for the first eight.
        rows = rows[np.argpartition(members.mean[rows], count)[:count]]
    found: Array = rows[np.argsort(members.mean[rows], kind="stable")]
    return found
