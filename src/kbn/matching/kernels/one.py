"""The kernel for one notification: stamp, walk the trie, scan the slabs (compiled by Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.slab import SLAB_WORDS, cells_of, scan_slab
from kbn.matching.kernels.trie import sort_by_rank, stamp_hits, walk


@njit(cache=True)
def match_one(
    hits,
    rank,
    slots,
    bits,
    masks,
    chains,
    chain_next,
    code,
    code_as_float,
    code_start,
    alive,
    some_dead,
    clock,
    stamps,
    values,
    rests,
    present,
    covering,
    axes,
    slabs,
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
    """The groups satisfied by one notification, each shifted left by one, low bit: checks remain.

    `values`, `rests` and `present` have one row. With `covering`, see `verify`.
    """
    clock[0] += 1
    stamp = clock[0]
    end = stamp_hits(hits, 0, hits.shape[0], stamps, stamp)
    sort_by_rank(hits, 0, end, rank)
    found = np.empty(256, np.int64)
    stack = np.empty((64, 2), np.int64)
    found, count, stack = walk(
        hits, 0, end, slots, bits, masks, chains, chain_next, code, code_as_float, code_start,
        alive, some_dead, stamps, stamp, values[0], rests[0], present[0], covering, found, 0,
        stack,
    )  # fmt: skip
    if slabs > 0:
        cells = cells_of(values, present, axes, grid, grid_size)[0]
        failed = np.empty(SLAB_WORDS, np.uint64)
        for slab in range(slabs):
            found, count = scan_slab(
                slab, rows, idle, cells, members, pivot_axis, pivot_low, pivot_high, hull_axis,
                hull_low, hull_high, copy, copy_start, copy_as_float, alive, some_dead, stamps,
                stamp, values[0], rests[0], present[0], covering, failed, found, count,
            )  # fmt: skip
    return found[:count]
