"""Kernels that scan the slabs for one notification (compiled by Numba; arrays only).

A batch goes over a slab while its rows are in the cache. For one notification all rows come from
memory, and what counts is how many lines are under way at once. So the work is done in passes over
some slabs at a time: find the rows, OR them, list the candidates, ask the first check of each. Each
pass asks for the memory that the next one reads. (The arrays are described in `slab.py`.)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.bits import position_of
from kbn.matching.kernels.code import MATCHED, RESIDUAL, grown, verify
from kbn.matching.kernels.lane import CELLS, SEVERAL, counted_cell, mark_notifications
from kbn.matching.kernels.prefetching import prefetch
from kbn.matching.kernels.slab import (
    NOBODY_FAILS,
    SLAB,
    SLAB_WORDS,
    fail,
    fail_in_each,
    within,
)
from kbn.matching.kernels.views import Positions

TOGETHER = 16
"""How many slabs go through the passes at a time."""
_ONE = np.uint64(1)


@njit(cache=True)
def _inside(masks, hull_lane, hull_mask, slabs, out):
    """The slabs in whose two hulls the notification lies, into `out`; their number."""
    count = 0
    for slab in range(slabs):
        out[count] = slab
        first = masks[hull_lane[slab, 0]] & hull_mask[slab, 0]
        second = masks[hull_lane[slab, 1]] & hull_mask[slab, 1]
        count += (first != 0) & (second != 0)
    return count


@njit(cache=True)
def _announce(visiting, first, last, lane_start, lane_of, cells, row_of):
    """Ask for what `_pick` reads of some slabs."""
    for v in range(first, last):
        for i in range(lane_start[visiting[v]], lane_start[visiting[v] + 1]):
            prefetch(row_of, i * CELLS + (cells[lane_of[i]] & (CELLS - 1)))


@njit(cache=True)
def _ask_for_row(rows, row):
    prefetch(rows, row * SLAB_WORDS)
    prefetch(rows, row * SLAB_WORDS + SLAB_WORDS // 2)


@njit(cache=True)
def _pick(start, end, cells, lane_of, row_of, rows, picked):
    """The rows of the notification's cells; whether it lies in several of a lane."""
    several = False
    for i in range(start, end):
        cell = cells[lane_of[i]]
        in_several = cell == SEVERAL
        several |= in_several
        row = NOBODY_FAILS if in_several else row_of[i, cell]
        picked[i - start] = row
        _ask_for_row(rows, row)
    return several


@njit(cache=True)
def _candidates(failed, slab, check_start, members, out, count):
    """The places of a slab that did not fail, behind out[:count]; the new count."""
    for w in range(SLAB_WORDS):
        left = ~failed[w]
        while left != 0:
            lowest = left & (~left + _ONE)
            left ^= lowest
            place = slab * SLAB + w * 64 + position_of(lowest)
            prefetch(check_start, place)
            prefetch(members, place)
            out[count] = place
            count += 1
    return count


@njit(cache=True)
def _ask_first(places, count, check_start, checks, bounds, values):
    """Keep the places whose first check holds, cannot be told or is none; their number."""
    if checks.shape[0] == 0:
        return count
    for i in range(count):
        prefetch(checks, 3 * (check_start[places[i]] >> 1))
    kept = 0
    last = checks.shape[0] - 1
    for i in range(count):
        place = places[i]
        start, end = check_start[place] >> 1, check_start[place + 1] >> 1
        at = min(start, last)
        axis = checks[at, 0]
        value = values[max(axis, 0)]
        outside = (value < bounds[at, 1]) | (value > bounds[at, 2])
        places[kept] = place
        kept += not (outside & (axis >= 0) & (start < end))
    return kept


@njit(cache=True)
def _decide(places, count, hits, hit_count, covering, slabs, codes, stamps, points, values):
    """Ask the other checks and the whole codes where they must be; findings take the places."""
    # As at the end of `scan`. In a function of both, each call takes 3 % longer.
    check_start, checks, bounds = slabs.check_start, slabs.checks, slabs.checks_as_float
    members = slabs.members
    stamped = False
    kept = 0
    for i in range(count):
        place = places[i]
        begin = check_start[place]
        sure = within(begin >> 1, check_start[place + 1] >> 1, checks, bounds, values)
        if sure == 0:
            continue
        group = members[place]
        if codes.some_dead and codes.alive[group] == 0:
            continue
        verdict = MATCHED
        if sure == 2 or begin & 1:
            if not stamped:
                stamped = True
                stamps.clock[0] += 1
                for k in range(hit_count):
                    stamps.hit_at[hits[k]] = stamps.clock[0]
            verdict = verify(
                codes.words, codes.as_float, codes.start[group], True, stamps, points, 0, covering
            )
            if verdict == 0:
                continue
        places[kept] = (np.int64(group) << 1) | (verdict == RESIDUAL)
        kept += 1
    return kept


@njit(cache=True)
def scan_one(hits, hit_count, covering, slabs, lanes, codes, stamps, points, found, count):
    """The slabs' answer for one notification that hits hits[:hit_count], behind found[:count].

    Returns the findings and their number. With `covering`, see `verify`.
    """
    hit_start = np.zeros(2, np.int64)
    hit_start[1] = hit_count
    positions = Positions(*mark_notifications(hits, hit_start, points, lanes))
    cells, values = positions.cells[0], positions.rounded[0]
    rows, row_of, lane_of, idle = slabs.rows, slabs.row_of, slabs.lane_of, slabs.idle
    visiting = np.empty(slabs.slab_count + 1, np.int64)
    visits = _inside(
        positions.masks[:, 0].copy(), slabs.hull_lane, slabs.hull_mask, slabs.slab_count, visiting
    )
    picked = np.zeros((TOGETHER, lanes.lanes + 8), np.uint64)
    several = np.zeros(TOGETHER, np.bool_)
    failed = np.empty((TOGETHER, SLAB_WORDS), np.uint64)
    _announce(visiting, 0, min(visits, TOGETHER), slabs.lane_start, lane_of, cells, row_of)
    for begun in range(0, visits, TOGETHER):
        together = min(TOGETHER, visits - begun)
        after = begun + together
        _announce(
            visiting, after, min(visits, after + TOGETHER), slabs.lane_start, lane_of, cells, row_of
        )
        for v in range(together):
            slab = visiting[begun + v]
            start, end = slabs.lane_start[slab], slabs.lane_start[slab + 1]
            several[v] = _pick(start, end, cells, lane_of, row_of, rows, picked[v])
            axis = slabs.local_axis[slab]
            if axis >= 0:
                size = slabs.local_size[slab]
                cell = counted_cell(slabs.local_grid, slab, size, points.values[0, axis])
                picked[v, 0] = row_of[start, cell]
                _ask_for_row(rows, row_of[start, cell])
        for v in range(together):
            slab = visiting[begun + v]
            lane_count = slabs.lane_start[slab + 1] - slabs.lane_start[slab]
            failed[v] = idle[slab]
            fail(rows, picked[v], lane_count, failed[v])
        while count + TOGETHER * SLAB > found.shape[0]:
            found = grown(found)
        here = found[count:]
        candidates = 0
        for v in range(together):
            slab = visiting[begun + v]
            if several[v]:
                start, end = slabs.lane_start[slab], slabs.lane_start[slab + 1]
                fail_in_each(start, end, 0, positions, slabs, failed[v])
            candidates = _candidates(
                failed[v], slab, slabs.check_start, slabs.members, here, candidates
            )
        kept = _ask_first(
            here, candidates, slabs.check_start, slabs.checks, slabs.checks_as_float, values
        )
        count += _decide(
            here, kept, hits, hit_count, covering, slabs, codes, stamps, points, values
        )
    return found, count
