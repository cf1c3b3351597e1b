"""Kernels of the lanes: where filters and notifications lie (compiled by Numba; arrays only).

A lane is one attribute's numbers, its times, or its tokens of one operator. It has up to 64 cells.
Cell 0 stands for "nothing here". On a range lane, cells 1… lie between grid points; on a token
lane, a token that many filters ask for has a cell of its own, and the rest share cells.

What a filter asks for on a lane is its *mask*: the cells in which it may pass. A notification lies
in one cell of each range lane and in one or several of a token lane, and passes a filter's lane if
it lies in a cell of the mask. So a mask may promise too much (a cell holds a bound, or several
tokens) and never too little; what it leaves open is checked afterwards.

    axis_lane    per range axis, its lane or -1
    token_cell   per token, lane << 8 | cell << 1 | exact, or -1; `exact` if the cell is its own
    grid         per lane, its grid points; `grid_size` of them, 0 on a token lane
    below        per lane and cell, the share of notifications that lie in a lower cell from 1 on
    token_share  per token, the share of notifications that hit it
    token_use    per token, how many filters ask for it
    masks        per lane and notification, a bit for each cell it lies in; one more lane of ones
    cells        per notification and lane, its cell, or SEVERAL
    rounded      per notification and axis, its value as float32, NaN where it has none
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.code import (
    first_range,
    negative_count,
    range_count,
    token_count,
)

CELLS = 64
SEVERAL = 255
PARTS_MAX = 64
SHARE_MIN = 1e-7
WEIGHTS = 11

ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)


@njit(cache=True)
def cell_of(grid, lane, size, value):
    """1 + the number of grid points at or below `value`."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if grid[lane, middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low + 1


@njit(cache=True)
def counted_cell(grid, lane, size, value):
    """`cell_of` by counting: no step waits for another, and no branch is guessed wrong."""
    points = grid[lane]
    cell = 1
    for i in range(size):
        cell += points[i] <= value
    return cell


@njit(cache=True)
def bits_between(first, last):
    """The mask of the cells from `first` to `last`."""
    return (ALL_BITS << np.uint64(first)) & (ALL_BITS >> np.uint64(63 - last))


@njit(cache=True)
def _asks(part_lane, count, lane):
    for i in range(count):  # noqa: SIM110 (Numba has no generators)
        if part_lane[i] == lane:
            return True
    return False


@njit(cache=True)
def parts_of(group, codes, lanes, part_lane, part_mask, part_token):
    """The lanes a filter asks something on, its mask on each, and the token it decides or -1.

    At most one part per lane and PARTS_MAX in all; what is left out is only checked.
    """
    words = codes.words
    start = codes.start[group]
    header = words[start]
    count = 0
    tokens = token_count(header)
    negatives = negative_count(header)
    for i in range(tokens + negatives):
        token = words[start + 1 + i]
        place = lanes.token_cell[token] if token < lanes.token_cell.shape[0] else -1
        if place < 0 or count >= PARTS_MAX or _asks(part_lane, count, place >> 8):
            continue
        bit = _ONE << np.uint64((place >> 1) & 63)
        part_lane[count] = place >> 8
        part_token[count] = -1
        if i < tokens:
            part_mask[count] = bit
            if place & 1:
                part_token[count] = token
            count += 1
        elif place & 1:
            part_mask[count] = ~bit
            count += 1
    position = first_range(words, start)
    for _ in range(range_count(header)):
        axis = words[position] & 0xFFFFFF
        lane = lanes.axis_lane[axis] if axis < lanes.axis_lane.shape[0] else -1
        if lane >= 0 and count < PARTS_MAX:
            size = lanes.grid_size[lane]
            first = cell_of(lanes.grid, lane, size, codes.as_float[position + 1])
            last = cell_of(lanes.grid, lane, size, codes.as_float[position + 2])
            part_lane[count] = lane
            part_mask[count] = bits_between(first, last)
            part_token[count] = -1
            count += 1
        position += 3
    return count


@njit(cache=True)
def _share_below(grid, size, below, lane, value):
    """The estimated share of notifications that lie below `value` on a range lane."""
    cell = cell_of(grid, lane, size, value)
    inside = 0.5
    if value == np.inf:
        inside = 1.0
    elif value == -np.inf:
        inside = 0.0
    elif 1 < cell <= size:
        left, right = grid[lane, cell - 2], grid[lane, cell - 1]
        inside = (value - left) / (right - left)
    return below[lane, cell] + inside * (below[lane, cell + 1] - below[lane, cell])


@njit(cache=True)
def weigh(groups, codes, lanes):
    """What is known of each group, a row each, to place it by.

    0, 1, 2   the lane of its most selective part (-1 for none), the share of notifications in its
              cells, its place there
    3, 4, 5   the same for the second
    6         the share of notifications that hit all its tokens
    7         those that hit all but the most wanted one, per filter that wants these same tokens
    8         the share of notifications in the cells of all its parts
    9         1 if such a notification must be compared with the whole code, else 0
    10        how many cells of a lane a notification lies in, where that is most
    """
    # Taken out once: taking an array out of a named tuple counts its references.
    words, bounds, starts = codes.words, codes.as_float, codes.start
    token_share, token_use, token_cell = lanes.token_share, lanes.token_use, lanes.token_cell
    grid, grid_size, below, axis_lane = lanes.grid, lanes.grid_size, lanes.below, lanes.axis_lane
    out = np.empty((groups.shape[0], WEIGHTS), np.float64)
    filters = max(1.0, token_use.sum())
    for i in range(groups.shape[0]):
        row = out[i]
        row[0], row[1], row[2] = -1, 1.0, 0.0
        row[3], row[4], row[5] = -1, 1.0, 0.0
        row[8], row[9], row[10] = 1.0, 0.0, 1.0
        start = starts[groups[i]]
        header = words[start]
        tokens_share, last_share, last_use, sharing = 1.0, 1.0, 0.0, filters
        for k in range(start + 1, start + 1 + token_count(header)):
            token = words[k]
            share, use = token_share[token], max(1.0, token_use[token])
            tokens_share *= share
            sharing *= use / filters
            if use > last_use:
                last_share, last_use = share, use
            _weigh_cell(row, below, token_cell[token])
        sharing = sharing * filters / max(1.0, last_use)
        row[6] = tokens_share
        row[7] = tokens_share / last_share / max(1.0, sharing)
        position = first_range(words, start)
        for _ in range(range_count(header)):
            lane = axis_lane[words[position] & 0xFFFFFF]
            if lane >= 0:
                low = _share_below(grid, grid_size[lane], below, lane, bounds[position + 1])
                high = _share_below(grid, grid_size[lane], below, lane, bounds[position + 2])
                share = max(high - low, SHARE_MIN)
                row[8] *= share
                _rank_part(row, lane, share, (low + high) / 2)
            position += 3
    return out


@njit(cache=True)
def _weigh_cell(row, below, place):
    """Add to the row what the cell of one of the group's tokens lets pass."""
    if place < 0:
        row[9] = 1.0
        return
    lane, cell = place >> 8, (place >> 1) & 63
    share = min(1.0, below[lane, cell + 1] - below[lane, cell])
    row[8] *= share
    row[10] = max(row[10], min(below[lane, CELLS], CELLS))
    if not place & 1:
        row[9] = 1.0
    _rank_part(row, lane, share, cell + 0.0)


@njit(cache=True)
def _rank_part(row, lane, share, place):
    """Keep the two most selective parts, on different lanes."""
    if share < row[1]:
        if row[0] != lane:
            row[3], row[4], row[5] = row[0], row[1], row[2]
        row[0], row[1], row[2] = lane, share, place
    elif share < row[4] and row[0] != lane:
        row[3], row[4], row[5] = lane, share, place


@njit(cache=True)
def mark_notifications(hits, hit_start, points, lanes):
    """Where each notification lies on the lanes: its masks, its cells, its rounded values."""
    notifications = points.values.shape[0]
    axes = points.values.shape[1]
    masks = np.zeros((lanes.lanes + 1, notifications), np.uint64)
    cells = np.zeros((notifications, lanes.lanes + 1), np.uint8)
    rounded = np.empty((notifications, axes), np.float32)
    masks[lanes.lanes] = ALL_BITS
    for notification in range(notifications):
        for i in range(hit_start[notification], hit_start[notification + 1]):
            token = hits[i]
            place = lanes.token_cell[token] if token < lanes.token_cell.shape[0] else -1
            if place >= 0:
                lane, cell = place >> 8, (place >> 1) & 63
                masks[lane, notification] |= _ONE << np.uint64(cell)
                if cells[notification, lane] == 0:
                    cells[notification, lane] = cell
                elif cells[notification, lane] != cell:
                    cells[notification, lane] = SEVERAL
        for axis in range(axes):
            if not points.present[notification, axis]:
                rounded[notification, axis] = np.nan
                continue
            value = points.values[notification, axis]
            rounded[notification, axis] = value
            lane = lanes.axis_lane[axis] if axis < lanes.axis_lane.shape[0] else -1
            if lane >= 0:
                cell = counted_cell(lanes.grid, lane, lanes.grid_size[lane], value)
                cells[notification, lane] = cell
                masks[lane, notification] = _ONE << np.uint64(cell)
        for lane in range(lanes.lanes):
            if cells[notification, lane] == 0:
                masks[lane, notification] = _ONE
    return masks, cells, rounded
