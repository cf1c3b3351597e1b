"""The kernel for one notification: stamp, walk the trie, scan the slabs.

Numba takes named tuples apart slowly, a third of the time of a whole call. So `match_one`, alone
among the kernels, takes every array by itself and puts the views together inside.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.slab import SLAB_WORDS, cells_of, scan_slab
from kbn.matching.kernels.trie import sort_by_rank, stamp_hits, walk
from kbn.matching.kernels.views import Codes, Points, SlabArrays, Stamps, TrieArrays


@njit(cache=True)
def match_one(
    hits,
    covering,
    values,
    rests,
    present,
    clock,
    hit_at,
    words,
    as_float,
    code_start,
    alive,
    some_dead,
    rank,
    slots,
    bits,
    masks,
    chains,
    chain_next,
    axes,
    slab_count,
    rows,
    idle,
    grid,
    grid_size,
    members,
    pivot_axis,
    pivot_low,
    pivot_high,
    hull_axis,
    hull_low,
    hull_high,
    copy,
    copy_start,
    copy_as_float,
):
    """The groups satisfied by one notification, in the form `emit` gives them.

    The arrays are those of `Points` (of one row), `Stamps`, `Codes`, `TrieArrays` and
    `SlabArrays`, in their order. With `covering`, see `verify`.
    """
    points = Points(values, rests, present)
    stamps = Stamps(clock, hit_at)
    codes = Codes(words, as_float, code_start, alive, some_dead)
    trie = TrieArrays(rank, slots, bits, masks, chains, chain_next)
    end = stamp_hits(hits, 0, hits.shape[0], stamps)
    sort_by_rank(hits, 0, end, rank)
    found = np.empty(256, np.int64)
    stack = np.empty((64, 2), np.int64)
    found, count, stack = walk(
        hits, 0, end, trie, codes, stamps, points, 0, covering, found, 0, stack
    )
    if slab_count > 0:
        slabs = SlabArrays(
            axes, slab_count, rows, idle, grid, grid_size, members, pivot_axis, pivot_low,
            pivot_high, hull_axis, hull_low, hull_high, copy, copy_start, copy_as_float,
        )  # fmt: skip
        cells = cells_of(points, slabs)
        failed = np.empty(SLAB_WORDS, np.uint64)
        for slab in range(slab_count):
            found, count = scan_slab(
                slab, slabs, cells, codes, stamps, points, 0, covering, failed, found, count
            )
    return found[:count]
