"""Kernels of the slabs: scanning filters by bit sets (compiled by Numba; arrays only).

A slab holds up to 1,024 filters that ask for similar things (see `layout.py`). On each lane it has
a row of bits per cell: which filters fail there. One notification ORs a row per lane; the zeros
left are candidates, and what the masks left open is checked for them alone. (The bit sets are
HEM's idea; cutting them into slabs keeps the rows in the cache while a batch goes over them.)

    hull_lane, hull_mask   per slab, two lanes on which all its filters ask something (else the
                           lane of ones), and the cells in which some filter may pass: most slabs
                           are passed over by these two
    local_*                per slab, a finer grid for its first lane, if that is an axis (else -1)
    lane_start, lane_of    the lanes of a slab, in fours; `row_of` gives the row of each cell
    rows                   the rows; NOBODY_FAILS and ALL_FAIL are shared by all slabs
    idle                   per slab, bit set = no filter in that place
    members                per place, the group
    check_start, checks    per place, where its checks begin << 1 | whether its whole code must be
                           verified; a check is (axis, low, high) in float32, or (-1, token, -),
                           or, of a token that rows decide, (DECIDED - lane, cell, -)

Where a slab has many lanes, few filters are often left after the first: those are then checked in
full, which costs less than the rows of the other lanes.

Rounding is monotone, so a float32 that lies strictly between two rounded bounds lies between the
bounds, and one outside lies outside. Only one that equals a rounded bound is verified in full.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.bits import ones_in, position_of
from kbn.matching.kernels.code import MATCHED, RESIDUAL, grown, verify
from kbn.matching.kernels.lane import SEVERAL, counted_cell, mark_notifications
from kbn.matching.kernels.views import Positions

SLAB = 1024
SLAB_WORDS = SLAB // 64
NOBODY_FAILS = 0
ALL_FAIL = 1
DECIDED = -2
LANES_FIRST = 16
"""So many lanes are ORed before it is counted what is left, in a slab of more than twice as many.
To check a filter in full costs about what a lane costs: two lines of the cache, some branches."""
FOUND_EACH = 1024
"""Room for findings per notification; what is not written takes no memory, and growing copies."""


_ONE = np.uint64(1)

# The functions below take arrays one by one: to take an array out of a named tuple counts a
# reference up and down, which costs more than what is done with it here.


@njit(cache=True)
def _visitors(first, first_hull, second, second_hull, out):
    """The notifications that lie inside both hulls of a slab, into `out`; their number."""
    count = 0
    for notification in range(first.shape[0]):
        out[count] = notification
        count += (first[notification] & first_hull != 0) & (second[notification] & second_hull != 0)
    return count


@njit(cache=True)
def _pick(start, end, cells, lane_of, row_of, picked):
    """The rows of one notification's cells, into `picked`; whether it lies in several of a lane."""
    several = False
    for i in range(start, end):
        cell = cells[lane_of[i]]
        if cell == SEVERAL:
            several = True
            picked[i - start] = NOBODY_FAILS
        else:
            picked[i - start] = row_of[i, cell]
    return several


@njit(cache=True)
def fail(rows, picked, count, failed):
    """OR the rows picked into `failed`."""
    for i in range(0, count, 4):
        # Four rows at a time: `failed` is read and written once for them all.
        a, b, c, d = picked[i], picked[i + 1], picked[i + 2], picked[i + 3]
        for w in range(SLAB_WORDS):
            failed[w] |= rows[a, w] | rows[b, w] | rows[c, w] | rows[d, w]


@njit(cache=True)
def _left(failed):
    """How many filters have not failed."""
    count = 0
    for w in range(SLAB_WORDS):
        count += ones_in(~failed[w])
    return count


@njit(cache=True)
def _fail_on(first, end, cells, lane_of, row_of, rows, picked, failed):
    """Go on failing on the lanes from `first` on, until few filters are left to be checked.

    Returns the lane after the last one looked at, and whether the notification lies in several
    cells of one of them.
    """
    several = False
    step = LANES_FIRST
    while first < end and _left(failed) > end - first:
        last = min(end, first + step)
        several |= _pick(first, last, cells, lane_of, row_of, picked)
        fail(rows, picked, last - first, failed)
        first = last
        step *= 2
    return first, several


@njit(cache=True)
def fail_in_each(start, end, notification, positions, slabs, failed):
    """Where a notification lies in several cells of a lane, a filter fails if it does in each."""
    for i in range(start, end):
        lane = slabs.lane_of[i]
        if positions.cells[notification, lane] != SEVERAL:
            continue
        for w in range(SLAB_WORDS):
            in_each = ~np.uint64(0)
            left = positions.masks[lane, notification]
            while left != 0:
                lowest = left & (~left + _ONE)
                left ^= lowest
                in_each &= slabs.rows[slabs.row_of[i, position_of(lowest)], w]
            failed[w] |= in_each


@njit(cache=True)
def _stamp(notification, hits, hit_start, clock, hit_at, stamped):
    """Stamp the tokens of the notification, unless they are those stamped last."""
    if stamped[0] != notification:
        stamped[0] = notification
        clock[0] += 1
        for i in range(hit_start[notification], hit_start[notification + 1]):
            hit_at[hits[i]] = clock[0]


@njit(cache=True)
def within(start, end, checks, bounds, values):
    """Whether values lie in the ranges to check: 0 no, 1 yes, 2 cannot be told from float32.

    A token to check cannot be told either; those that rows have decided are passed over.
    """
    answer = 1
    for i in range(start, end):
        axis = checks[i, 0]
        if axis <= DECIDED:
            break
        if axis < 0:
            answer = 2
            continue
        value = values[axis]
        low, high = bounds[i, 1], bounds[i, 2]
        if low < value and value < high:
            continue
        if value != low and value != high:
            return 0
        answer = 2
    return answer


@njit(cache=True)
def _fits(start, end, checks, bounds, values, cells, masks, notification):
    """`within` for a filter of which rows have decided little: tokens come first, late lanes next.

    Of a token that has a cell of its own, that cell tells.
    """
    answer = 1
    for i in range(end - 1, start - 1, -1):
        axis = checks[i, 0]
        if axis >= 0:
            value = values[axis]
            low, high = bounds[i, 1], bounds[i, 2]
            if low < value and value < high:
                continue
            if value != low and value != high:
                return 0
            answer = 2
        elif axis > DECIDED:
            answer = 2
        else:
            cell = cells[DECIDED - axis]
            if cell == SEVERAL:
                mask = masks[DECIDED - axis, notification]
                if not mask & (_ONE << np.uint64(checks[i, 1])):
                    return 0
            elif cell != checks[i, 1]:
                return 0
    return answer


@njit(cache=True)
def scan(hits, hit_start, covering, slabs, lanes, codes, stamps, points):
    """The slabs' answer for a batch, slab by slab while its rows are in the cache.

    Returns the found groups and the notification of each. With `covering`, see `verify`.
    """
    positions = Positions(*mark_notifications(hits, hit_start, points, lanes))
    masks, cells, rounded = positions.masks, positions.cells, positions.rounded
    rows, row_of, lane_of, members = slabs.rows, slabs.row_of, slabs.lane_of, slabs.members
    check_start, checks, bounds = slabs.check_start, slabs.checks, slabs.checks_as_float
    local_grid, idle = slabs.local_grid, slabs.idle
    notifications = points.values.shape[0]
    found = np.empty(max(2 * SLAB, FOUND_EACH * notifications), np.int64)
    owner = np.empty(found.shape[0], np.int32)
    failed = np.empty(SLAB_WORDS, np.uint64)
    picked = np.zeros(lanes.lanes + 8, np.uint64)
    visiting = np.empty(notifications + 1, np.int64)
    stamped = np.full(1, -1, np.int64)
    count = 0
    for slab in range(slabs.slab_count):
        start, end = slabs.lane_start[slab], slabs.lane_start[slab + 1]
        local_axis, local_size = slabs.local_axis[slab], slabs.local_size[slab]
        visitors = _visitors(
            masks[slabs.hull_lane[slab, 0]], slabs.hull_mask[slab, 0],
            masks[slabs.hull_lane[slab, 1]], slabs.hull_mask[slab, 1], visiting,
        )  # fmt: skip
        first = end if end - start <= 2 * LANES_FIRST else start + LANES_FIRST
        for v in range(visitors):
            notification = visiting[v]
            own = cells[notification]
            own_row = NOBODY_FAILS
            if local_axis >= 0:
                value = points.values[notification, local_axis]
                own_row = row_of[start, counted_cell(local_grid, slab, local_size, value)]
                if own_row == ALL_FAIL:
                    continue
            several = _pick(start, first, own, lane_of, row_of, picked)
            if local_axis >= 0:
                picked[0] = own_row
            for w in range(SLAB_WORDS):
                failed[w] = idle[slab, w]
            fail(rows, picked, first - start, failed)
            last, more = _fail_on(first, end, own, lane_of, row_of, rows, picked, failed)
            if several or more:
                fail_in_each(start, last, notification, positions, slabs, failed)
            if count + SLAB > found.shape[0]:
                found, owner = grown(found), grown(owner)
            values = rounded[notification]
            for w in range(SLAB_WORDS):
                left = ~failed[w]
                while left != 0:
                    lowest = left & (~left + _ONE)
                    left ^= lowest
                    place = slab * SLAB + w * 64 + position_of(lowest)
                    begin = check_start[place]
                    stop = check_start[place + 1] >> 1
                    if last == end:
                        sure = within(begin >> 1, stop, checks, bounds, values)
                    else:
                        sure = _fits(
                            begin >> 1, stop, checks, bounds, values, own, masks, notification
                        )
                    if sure == 0:
                        continue
                    group = members[place]
                    if codes.some_dead and codes.alive[group] == 0:
                        continue
                    verdict = MATCHED
                    if sure == 2 or begin & 1:
                        _stamp(notification, hits, hit_start, stamps.clock, stamps.hit_at, stamped)
                        verdict = verify(
                            codes.words, codes.as_float, codes.start[group], True, stamps, points,
                            notification, covering,
                        )  # fmt: skip
                        if verdict == 0:
                            continue
                    found[count] = (np.int64(group) << 1) | (verdict == RESIDUAL)
                    owner[count] = notification
                    count += 1
    return found[:count], owner[:count]
