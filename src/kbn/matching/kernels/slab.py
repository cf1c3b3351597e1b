"""Kernels of the slabs: filters by their ranges, as bit sets (compiled by Numba; arrays only).

Per slab of 2,048 filters, per axis and grid cell, a row of bits says which filters fail there. One
notification ORs one row per axis; the zeros left are candidates. Of each candidate the narrowest
range, its pivot, is compared first, from arrays that lie in slab order, and only then the whole
code. A bulk load sorts filters by pivot, so that most slabs have one pivot axis and a narrow hull
of pivots, and a notification outside the hull passes the whole slab by. (The bit sets are HEM's
idea; cutting them into slabs keeps one slab's rows in the cache while a batch goes over it.)

    rows[slab, axis, cell]  bit set = the filter fails there; cell 0 stands for "axis absent",
                            cells 1… lie between the axis' grid points
    idle[slab]              bit set = no filter in that place
    members, pivot_*        per place: the group, and its narrowest range
    copy, copy_start        the codes once more, in the order of places: near each other in memory
    hull_*                  per slab: the axis all its pivots share, or -1, and their hull
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.code import (
    emit,
    first_range,
    grown,
    range_count,
    token_count,
    verify,
)

SLAB = 2048
SLAB_WORDS = SLAB // 64
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)

_ONE = np.uint64(1)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_POSITIONS = np.zeros(64, np.int64)
for _i in range(64):
    _POSITIONS[(int(_DE_BRUIJN) << _i & 0xFFFFFFFFFFFFFFFF) >> 58] = _i


@njit(cache=True)
def _lowest_bit(word):
    """The position of the only set bit of `word`, by a de Bruijn sequence."""
    return _POSITIONS[(word * _DE_BRUIJN) >> np.uint64(58)]


@njit(cache=True)
def cell_of(grid, axis, size, value):
    """1 + the number of grid points at or below `value`."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if grid[axis, middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low + 1


@njit(cache=True)
def find_pivots(groups, codes, grid, grid_size):
    """The axis, low and high of each group's narrowest range.

    Widths on different axes compare by the share of the grid they span, in a cell by length.
    """
    axes = np.empty(groups.shape[0], np.int32)
    lows = np.empty(groups.shape[0], np.float64)
    highs = np.empty(groups.shape[0], np.float64)
    for i in range(groups.shape[0]):
        start = codes.start[groups[i]]
        position = first_range(codes.words, start)
        narrowest = np.inf
        for _ in range(range_count(codes.words[start])):
            axis = codes.words[position] & 0xFFFFFF
            low, high = codes.as_float[position + 1], codes.as_float[position + 2]
            size = grid_size[axis]
            cells = cell_of(grid, axis, size, high) - cell_of(grid, axis, size, low) + 1
            width = cells / (size + 1)
            if cells == 1 and size > 1:
                spread = grid[axis, size - 1] - grid[axis, 0]
                width = min(width, (high - low) / spread)
            if width < narrowest:
                narrowest = width
                axes[i], lows[i], highs[i] = axis, low, high
            position += 3
    return axes, lows, highs


@njit(cache=True)
def insert_slabs(groups, pivots, first_place, codes, slabs):
    """Put the groups, with their pivots, into the places from `first_place` on."""
    axes, lows, highs = pivots
    for i in range(groups.shape[0]):
        place = first_place + i
        slab = place // SLAB
        if place % SLAB == 0:
            slabs.hull_axis[slab] = axes[i]
            slabs.hull_low[slab], slabs.hull_high[slab] = lows[i], highs[i]
        elif slabs.hull_axis[slab] != axes[i]:
            slabs.hull_axis[slab] = -1
        slabs.hull_low[slab] = min(slabs.hull_low[slab], lows[i])
        slabs.hull_high[slab] = max(slabs.hull_high[slab], highs[i])
        slabs.pivot_axis[place] = axes[i]
        slabs.pivot_low[place], slabs.pivot_high[place] = lows[i], highs[i]
        slabs.members[place] = groups[i]
        _copy_code(groups[i], place, codes, slabs)
        _mark_failing(groups[i], place, codes, slabs)


@njit(cache=True)
def _copy_code(group, place, codes, slabs):
    start = codes.start[group]
    length = codes.start[group + 1] - start
    to = slabs.copy_start[place]
    slabs.copy_start[place + 1] = to + length
    for k in range(length):
        slabs.copy[to + k] = codes.words[start + k]


@njit(cache=True)
def _mark_failing(group, place, codes, slabs):
    """Set the filter's bit in the row of every cell that its range on that axis leaves out."""
    slab = place // SLAB
    word = (place % SLAB) >> 6
    bit = _ONE << np.uint64(place & 63)
    slabs.idle[slab, word] &= ~bit
    start = codes.start[group]
    position = first_range(codes.words, start)
    for _ in range(range_count(codes.words[start])):
        axis = codes.words[position] & 0xFFFFFF
        size = slabs.grid_size[axis]
        first = cell_of(slabs.grid, axis, size, codes.as_float[position + 1])
        last = cell_of(slabs.grid, axis, size, codes.as_float[position + 2])
        for cell in range(size + 2):
            if cell < first or cell > last:
                slabs.rows[slab, axis, cell, word] |= bit
        position += 3


@njit(cache=True)
def collect_bounds(groups, codes):
    """Both bounds of every range of the groups, and the axis of each."""
    total = 0
    for i in range(groups.shape[0]):
        total += 2 * range_count(codes.words[codes.start[groups[i]]])
    axis_of = np.empty(total, np.int64)
    bounds = np.empty(total, np.float64)
    at = 0
    for i in range(groups.shape[0]):
        start = codes.start[groups[i]]
        position = first_range(codes.words, start)
        for _ in range(range_count(codes.words[start])):
            axis_of[at] = axis_of[at + 1] = codes.words[position] & 0xFFFFFF
            bounds[at] = codes.as_float[position + 1]
            bounds[at + 1] = codes.as_float[position + 2]
            at += 2
            position += 3
    return axis_of, bounds


@njit(cache=True)
def choose_slabs(groups, codes, selectivity, share_max):
    """Which groups belong in the slabs: those with ranges whose tokens select too little."""
    chosen = np.zeros(groups.shape[0], np.bool_)
    for i in range(groups.shape[0]):
        start = codes.start[groups[i]]
        header = codes.words[start]
        if range_count(header) == 0:
            continue
        share = 1.0
        for k in range(start + 1, start + 1 + token_count(header)):
            share *= selectivity[codes.words[k]]
        chosen[i] = share > share_max
    return chosen


@njit(cache=True)
def cells_of(points, slabs):
    """Per notification and axis, its cell; axes rounded up to whole quartets."""
    events = points.values.shape[0]
    cells = np.zeros((events, (slabs.axes + 3) // 4 * 4), np.int64)
    for event in range(events):
        for axis in range(slabs.axes):
            if points.present[event, axis]:
                size = slabs.grid_size[axis]
                cells[event, axis] = cell_of(slabs.grid, axis, size, points.values[event, axis])
    return cells


@njit(cache=True)
def scan_slab(slab, slabs, cells, codes, stamps, points, event, covering, failed, found, count):
    """Emit the groups of one slab that the notification satisfies."""
    values = points.values[event]
    shared = slabs.hull_axis[slab]
    if shared >= 0:
        if not points.present[event, shared]:
            return found, count
        if values[shared] < slabs.hull_low[slab] or values[shared] > slabs.hull_high[slab]:
            return found, count
    for w in range(SLAB_WORDS):
        failed[w] = slabs.idle[slab, w]
    for axis in range(0, cells.shape[1], 4):
        # Four rows at a time: `failed` is read and written once for them all.
        row0 = slabs.rows[slab, axis, cells[event, axis]]
        row1 = slabs.rows[slab, axis + 1, cells[event, axis + 1]]
        row2 = slabs.rows[slab, axis + 2, cells[event, axis + 2]]
        row3 = slabs.rows[slab, axis + 3, cells[event, axis + 3]]
        for w in range(SLAB_WORDS):
            failed[w] |= row0[w] | row1[w] | row2[w] | row3[w]
    for w in range(SLAB_WORDS):
        left = ~failed[w]
        while left != 0:
            lowest = left & (~left + _ONE)
            left ^= lowest
            place = slab * SLAB + w * 64 + _lowest_bit(lowest)
            value = values[slabs.pivot_axis[place]]
            if value < slabs.pivot_low[place] or value > slabs.pivot_high[place]:
                continue
            group = slabs.members[place]
            if codes.some_dead and codes.alive[group] == 0:
                continue
            verdict = verify(
                slabs.copy, slabs.copy_as_float, slabs.copy_start[place], True, stamps, points,
                event, covering,
            )  # fmt: skip
            if verdict > 0:
                found = emit(found, count, group, verdict)
                count += 1
    return found, count


@njit(cache=True)
def scan_many(hits, hit_start, restamp, slabs, codes, stamps, points):
    """The slabs' answer for a batch, slab by slab while its rows are in the cache.

    Returns the found groups and the notification of each. Stamps are set anew for each only if
    some filter in the slabs names tokens.
    """
    events = points.values.shape[0]
    cells = cells_of(points, slabs)
    found = np.empty(max(1024, 64 * events), np.int64)
    owner = np.empty(found.shape[0], np.int32)
    failed = np.empty(SLAB_WORDS, np.uint64)
    count = 0
    for slab in range(slabs.slab_count):
        for event in range(events):
            if restamp:
                stamps.clock[0] += 1
                for i in range(hit_start[event], hit_start[event + 1]):
                    stamps.hit_at[hits[i]] = stamps.clock[0]
            before = count
            found, count = scan_slab(
                slab, slabs, cells, codes, stamps, points, event, False, failed, found, count
            )
            while owner.shape[0] < count:
                owner = grown(owner)
            owner[before:count] = event
    return found[:count], owner[:count]
