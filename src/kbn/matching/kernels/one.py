"""The kernel for one notification: stamp, walk the trie, scan the slabs.

Numba needs as long to recognise a named tuple of arrays as it needs for the whole of a small match,
and recognises a plain tuple at once. So `match_one`, the one kernel that is called for each
notification, takes its arrays as plain tuples and gives them their names inside.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.slab_one import scan_one
from kbn.matching.kernels.trie import sort_by_rank, stamp_hits, walk
from kbn.matching.kernels.views import Codes, LaneArrays, Points, SlabArrays, Stamps, TrieArrays


@njit(cache=True)
def match_one(hits, covering, view):
    """The groups satisfied by one notification, in the form `emit` gives them.

    `view` holds the fields of `Points` (of one row), `Stamps`, `Codes`, `TrieArrays`, `SlabArrays`
    and `LaneArrays`, a plain tuple each. With `covering`, see `verify`.
    """
    points = Points(*view[0])
    stamps = Stamps(*view[1])
    codes = Codes(*view[2])
    trie = TrieArrays(*view[3])
    slabs = SlabArrays(*view[4])
    lanes = LaneArrays(*view[5])
    end = stamp_hits(hits, 0, hits.shape[0], stamps)
    sort_by_rank(hits, 0, end, trie.rank)
    found = np.empty(256, np.int64)
    stack = np.empty((64, 2), np.int64)
    found, count, stack = walk(
        hits, 0, end, trie, codes, stamps, points, 0, covering, found, 0, stack
    )
    if slabs.slab_count == 0:
        return found[:count]
    more = scan_one(hits, end, covering, slabs, lanes, codes, stamps, points)
    both = np.empty(count + more.shape[0], np.int64)
    both[:count] = found[:count]
    both[count:] = more
    return both
