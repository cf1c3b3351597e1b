"""Kernels that lay filters out in slabs (compiled by Numba; arrays and integers only).

A slab of a bulk load is built at once from its members, which the caller has ordered so that those
with similar first and second parts lie side by side. The open slab takes filters one by one; its
rows are coarse, one for each eight cells, and it has no hull.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.bits import position_of
from kbn.matching.kernels.code import (
    first_range,
    negative_count,
    range_count,
    residual_count,
    token_count,
)
from kbn.matching.kernels.lane import ALL_BITS, CELLS, PARTS_MAX, bits_between, cell_of, parts_of
from kbn.matching.kernels.slab import ALL_FAIL, DECIDED, NOBODY_FAILS, SLAB, SLAB_WORDS

CHECKS_MAX = 8
COARSE_ROWS = 9

_ONE = np.uint64(1)


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
def use_of_tokens(groups, codes, tokens):
    """How many of the groups ask for each token, or for its absence."""
    uses = np.zeros(tokens, np.int64)
    for i in range(groups.shape[0]):
        start = codes.start[groups[i]]
        header = codes.words[start]
        end = start + 1 + token_count(header) + negative_count(header)
        for k in range(start + 1, end):
            uses[codes.words[k]] += 1
    return uses


@njit(cache=True)
def asked_on_lanes(members, codes, lanes):
    """Per lane, how many members ask something there, and the union of their masks."""
    users = np.zeros(lanes.lanes, np.int64)
    hulls = np.zeros(lanes.lanes, np.uint64)
    part_lane = np.empty(PARTS_MAX, np.int64)
    part_mask = np.empty(PARTS_MAX, np.uint64)
    part_token = np.empty(PARTS_MAX, np.int64)
    for i in range(members.shape[0]):
        count = parts_of(members[i], codes, lanes, part_lane, part_mask, part_token)
        for k in range(count):
            users[part_lane[k]] += 1
            hulls[part_lane[k]] |= part_mask[k]
    return users, hulls


@njit(cache=True)
def bounds_on(axis, members, codes):
    """The low and high bound of each member on an axis that all of them ask something on."""
    lows = np.empty(members.shape[0], np.float64)
    highs = np.empty(members.shape[0], np.float64)
    for i in range(members.shape[0]):
        start = codes.start[members[i]]
        position = first_range(codes.words, start)
        for _ in range(range_count(codes.words[start])):
            if codes.words[position] & 0xFFFFFF == axis:
                lows[i], highs[i] = codes.as_float[position + 1], codes.as_float[position + 2]
            position += 3
    return lows, highs


@njit(cache=True)
def local_masks(lows, highs, grid, slab, size):
    """The masks of ranges on a slab's own grid."""
    masks = np.empty(lows.shape[0], np.uint64)
    for i in range(lows.shape[0]):
        masks[i] = bits_between(
            cell_of(grid, slab, size, lows[i]), cell_of(grid, slab, size, highs[i])
        )
    return masks


@njit(cache=True)
def mark_passing(members, codes, lanes, slot_of_lane, local, passing):
    """Set each member's bit in passing[slot, cell] where it may pass.

    One more row per slot says who asks something there. The masks of slot 0 are those in `local`,
    if there are any.
    """
    part_lane = np.empty(PARTS_MAX, np.int64)
    part_mask = np.empty(PARTS_MAX, np.uint64)
    part_token = np.empty(PARTS_MAX, np.int64)
    for i in range(members.shape[0]):
        group = members[i]
        word = i >> 6
        bit = _ONE << np.uint64(i & 63)
        count = parts_of(group, codes, lanes, part_lane, part_mask, part_token)
        for k in range(count):
            slot = slot_of_lane[part_lane[k]]
            left = local[i] if slot == 0 and local.shape[0] > 0 else part_mask[k]
            passing[slot, CELLS, word] |= bit
            while left != 0:
                lowest = left & (~left + _ONE)
                left ^= lowest
                passing[slot, position_of(lowest), word] |= bit


@njit(cache=True)
def write_rows(passing, most, row_of, first_lane, rows, row_count, everybody):
    """Turn what passes into rows of what fails, equal ones shared; returns the number of rows.

    A slot with more than most[slot] different rows has neighbours merged: a filter fails in a
    merged row only if it fails in all its cells.
    """
    row = np.empty(SLAB_WORDS, np.uint64)
    for slot in range(passing.shape[0]):
        asking = passing[slot, CELLS]
        different = 1
        for cell in range(2, CELLS):
            different += not _same(passing[slot, cell], passing[slot, cell - 1])
        step = (different + most[slot] - 1) // most[slot]
        begun = row_count
        cell = 0
        while cell < CELLS:
            end = cell + 1
            if cell > 0:
                # As far as `step` different rows go.
                seen = 1
                while end < CELLS:
                    changes = not _same(passing[slot, end], passing[slot, end - 1])
                    if changes and seen == step:
                        break
                    seen += changes
                    end += 1
            some, all_ = False, True
            for w in range(SLAB_WORDS):
                pass_here = np.uint64(0)
                for c in range(cell, end):
                    pass_here |= passing[slot, c, w]
                row[w] = asking[w] & ~pass_here
                some |= row[w] != 0
                all_ &= row[w] == everybody[w]
            if not some:
                number = NOBODY_FAILS
            elif all_:
                number = ALL_FAIL
            else:
                number = _known_row(rows, begun, row_count, row)
                if number == row_count:
                    rows[row_count] = row
                    row_count += 1
            for c in range(cell, end):
                row_of[first_lane + slot, c] = number
            cell = end
    return row_count


@njit(cache=True)
def _same(a, b):
    for w in range(SLAB_WORDS):  # noqa: SIM110 (Numba has no generators)
        if a[w] != b[w]:
            return False
    return True


@njit(cache=True)
def _known_row(rows, begun, row_count, row):
    for r in range(begun, row_count):
        if _same(rows[r], row):
            return r
    return row_count


@njit(cache=True)
def _slot_of(axis, slots, lanes):
    lane = lanes.axis_lane[axis] if axis < lanes.axis_lane.shape[0] else -1
    return slots[lane] if 0 <= lane < slots.shape[0] else -1


@njit(cache=True)
def _make_room(axis, first, at, slots, lanes, checks):
    """Where a range goes among the checks first:at, in the order of their slots; it is free now."""
    slot = _slot_of(axis, slots, lanes)
    while at > first and _slot_of(checks[at - 1, 0], slots, lanes) > slot:
        for k in range(3):
            checks[at, k] = checks[at - 1, k]
        at -= 1
    return at


@njit(cache=True)
def write_checks(group, place, exact, slots, codes, lanes, check_start, checks, checks_as_float):
    """The checks of one filter: its ranges, and its tokens, last those that its rows decide.

    Of each lane, `slots` tells which one of the slab's it is; ranges come in their order.
    """
    part_lane = np.empty(PARTS_MAX, np.int64)
    part_mask = np.empty(PARTS_MAX, np.uint64)
    part_token = np.empty(PARTS_MAX, np.int64)
    words = codes.words
    start = codes.start[group]
    header = words[start]
    at = check_start[place] >> 1
    begun = at
    whole = negative_count(header) + residual_count(header) > 0
    decided = 0
    if exact:
        decided = parts_of(group, codes, lanes, part_lane, part_mask, part_token)
    for i in range(start + 1, start + 1 + token_count(header)):
        known = False
        for k in range(decided):
            known |= part_token[k] == words[i]
        if not known:
            if at - begun < CHECKS_MAX:
                checks[at, 0], checks[at, 1], checks[at, 2] = -1, words[i], 0
                at += 1
            else:
                whole = True
    first = at
    position = first_range(words, start)
    for _ in range(range_count(header)):
        if at - begun < CHECKS_MAX:
            axis = words[position] & 0xFFFFFF
            here = _make_room(axis, first, at, slots, lanes, checks)
            checks[here, 0] = axis
            checks_as_float[here, 1] = codes.as_float[position + 1]
            checks_as_float[here, 2] = codes.as_float[position + 2]
            at += 1
        else:
            whole = True
        position += 3
    if whole and token_count(header) + range_count(header) > CHECKS_MAX:
        at = begun
    else:
        at = _write_decided(part_token[:decided], at, lanes, checks)
    check_start[place] = begun << 1 | whole
    check_start[place + 1] = at << 1


@njit(cache=True)
def _write_decided(tokens, at, lanes, checks):
    """The checks of tokens that rows decide; those that are too many are verified."""
    most = at + CHECKS_MAX
    for token in tokens:
        if token < 0:
            continue
        if at == most:
            checks[at, 0], checks[at, 1], checks[at, 2] = -1, token, 0
            return at + 1
        cell = lanes.token_cell[token]
        checks[at, 0], checks[at, 1], checks[at, 2] = DECIDED - (cell >> 8), (cell >> 1) & 63, 0
        at += 1
    return at


@njit(cache=True)
def write_all_checks(members, place, slots, codes, lanes, check_start, checks, checks_as_float):
    """`write_checks` for the members of a slab that begins at `place`."""
    for i in range(members.shape[0]):
        write_checks(
            members[i], place + i, True, slots, codes, lanes, check_start, checks, checks_as_float
        )


@njit(cache=True)
def insert_one(group, place, codes, lanes, slabs):
    """Set the bits of a filter in the open slab, whose slots are the first lanes."""
    part_lane = np.empty(PARTS_MAX, np.int64)
    part_mask = np.empty(PARTS_MAX, np.uint64)
    part_token = np.empty(PARTS_MAX, np.int64)
    slab = place // SLAB
    word = (place % SLAB) >> 6
    bit = _ONE << np.uint64(place & 63)
    start, end = slabs.lane_start[slab], slabs.lane_start[slab + 1]
    slabs.members[place] = group
    count = parts_of(group, codes, lanes, part_lane, part_mask, part_token)
    for k in range(count):
        lane = part_lane[k]
        if lane >= end - start:
            continue
        if not part_mask[k] & _ONE:
            slabs.rows[slabs.row_of[start + lane, 0], word] |= bit
        for coarse in range(8):
            cells = bits_between(8 * coarse, 8 * coarse + 7) & (ALL_BITS << _ONE)
            if part_mask[k] & cells == 0:
                slabs.rows[slabs.row_of[start + lane, 8 * coarse + 1], word] |= bit
    slabs.idle[slab, word] &= ~bit
    write_checks(
        group, place, False, np.zeros(0, np.int64), codes, lanes, slabs.check_start, slabs.checks,
        slabs.checks_as_float,
    )  # fmt: skip
