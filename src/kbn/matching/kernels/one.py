"""The kernel for one notification: stamp, walk the trie, scan the slabs.

`match_one` is called for each notification, so it takes the arrays of the index packed into one
(see `packing.py`) and gives them their names inside.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.packing import matrix, number, vector
from kbn.matching.kernels.slab_one import scan_one
from kbn.matching.kernels.trie import room_for_walk, sort_by_rank, stamp_hits, walk
from kbn.matching.kernels.views import Codes, LaneArrays, Points, SlabArrays, Stamps, TrieArrays

# What is packed, in this order: the fields of `Points` (of one row), `Stamps`, `Codes`,
# `TrieArrays`, `SlabArrays` and `LaneArrays`.
_STAMPS = len(Points._fields)
_CODES = _STAMPS + len(Stamps._fields)
_TRIE = _CODES + len(Codes._fields)
_SLABS = _TRIE + len(TrieArrays._fields)
_LANES = _SLABS + len(SlabArrays._fields)


@njit(cache=True)
def match_one(hits, covering, packed):
    """The groups satisfied by one notification, and how many of them, the last ones, are satisfied
    only if their residual constraints are. With `covering`, see `verify`.
    """
    points = Points(
        matrix(packed, 0, np.float64), matrix(packed, 1, np.int64), matrix(packed, 2, np.bool_)
    )
    stamps = Stamps(vector(packed, _STAMPS, np.int64), vector(packed, _STAMPS + 1, np.int64))
    codes = _codes(packed)
    trie = _trie(packed)
    end = stamp_hits(hits, 0, hits.shape[0], stamps)
    sort_by_rank(hits, 0, end, trie.rank)
    found = np.empty(256, np.int64)
    stack = room_for_walk()
    found, count, stack = walk(
        hits, 0, end, trie, codes, stamps, points, 0, covering, found, 0, stack
    )
    slabs = _slabs(packed)
    if slabs.slab_count > 0:
        found, count = scan_one(
            hits, end, covering, slabs, _lanes(packed), codes, stamps, points, found, count
        )
    return _residual_last(found[:count])


@njit(cache=True)
def _residual_last(found):
    """The groups of findings, those that have residual constraints behind; how many these are."""
    groups = np.empty(found.shape[0], np.int64)
    sure, last = 0, found.shape[0]
    for i in range(found.shape[0]):
        if found[i] & 1:
            last -= 1
            groups[last] = found[i] >> 1
        else:
            groups[sure] = found[i] >> 1
            sure += 1
    return groups, found.shape[0] - sure


@njit(cache=True)
def _codes(packed):
    return Codes(
        vector(packed, _CODES, np.int64),
        vector(packed, _CODES + 1, np.float64),
        vector(packed, _CODES + 2, np.int64),
        vector(packed, _CODES + 3, np.int32),
        number(packed, _CODES + 4) != 0,
    )


@njit(cache=True)
def _trie(packed):
    return TrieArrays(
        vector(packed, _TRIE, np.int32),
        matrix(packed, _TRIE + 1, np.int64),
        number(packed, _TRIE + 2),
        vector(packed, _TRIE + 3, np.uint64),
        vector(packed, _TRIE + 4, np.int32),
        vector(packed, _TRIE + 5, np.int32),
        matrix(packed, _TRIE + 6, np.int64),
        vector(packed, _TRIE + 7, np.int64),
        vector(packed, _TRIE + 8, np.float64),
        matrix(packed, _TRIE + 9, np.int32),
        vector(packed, _TRIE + 10, np.int32),
        number(packed, _TRIE + 11),
        vector(packed, _TRIE + 12, np.int32),
        number(packed, _TRIE + 13),
    )


@njit(cache=True)
def _slabs(packed):
    return SlabArrays(
        number(packed, _SLABS),
        matrix(packed, _SLABS + 1, np.int32),
        matrix(packed, _SLABS + 2, np.uint64),
        vector(packed, _SLABS + 3, np.int32),
        vector(packed, _SLABS + 4, np.int64),
        matrix(packed, _SLABS + 5, np.float64),
        vector(packed, _SLABS + 6, np.int64),
        vector(packed, _SLABS + 7, np.int32),
        matrix(packed, _SLABS + 8, np.int32),
        matrix(packed, _SLABS + 9, np.uint64),
        matrix(packed, _SLABS + 10, np.uint64),
        vector(packed, _SLABS + 11, np.int32),
        vector(packed, _SLABS + 12, np.int64),
        matrix(packed, _SLABS + 13, np.int32),
        matrix(packed, _SLABS + 14, np.float32),
    )


@njit(cache=True)
def _lanes(packed):
    return LaneArrays(
        number(packed, _LANES),
        vector(packed, _LANES + 1, np.int32),
        vector(packed, _LANES + 2, np.int32),
        matrix(packed, _LANES + 3, np.float64),
        vector(packed, _LANES + 4, np.int64),
        matrix(packed, _LANES + 5, np.float64),
        vector(packed, _LANES + 6, np.float64),
        vector(packed, _LANES + 7, np.float64),
    )
