"""Kernels of covering in bulk: many plain codes put in order and compared (arrays only).

See `covering.py` for what a box is, and `matching/bulk_covering.py` for the order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.code import first_range, range_count, token_count
from kbn.matching.kernels.covering import (
    PERHAPS,
    SURELY,
    _high_rest,
    _low_rest,
    _ranges_hold,
    _tighter,
    _verdict,
)


@njit(cache=True)
def _bound_below(boxes, row, axis, value, rest, is_open):
    if not boxes.present[row, axis]:
        boxes.present[row, axis] = True
        boxes.low[row, axis], boxes.high[row, axis] = -np.inf, np.inf
        boxes.low_rest[row, axis], boxes.high_rest[row, axis] = 0, 0
        boxes.low_open[row, axis], boxes.high_open[row, axis] = False, False
    if _tighter(
        value, rest, is_open,
        boxes.low[row, axis], boxes.low_rest[row, axis], boxes.low_open[row, axis],
    ):  # fmt: skip
        boxes.low[row, axis], boxes.low_rest[row, axis] = value, rest
        boxes.low_open[row, axis] = is_open


@njit(cache=True)
def _bound_above(boxes, row, axis, value, rest, is_open):
    if _tighter(
        -value, -rest, is_open,
        -boxes.high[row, axis], -boxes.high_rest[row, axis], boxes.high_open[row, axis],
    ):  # fmt: skip
        boxes.high[row, axis], boxes.high_rest[row, axis] = value, rest
        boxes.high_open[row, axis] = is_open


@njit(cache=True)
def draw_boxes(words, as_float, starts, rows, places, boxes):
    """Draw the boxes of the codes with the numbers `rows`, a row each."""
    for row in range(rows.shape[0]):
        boxes.present[row, :] = False
        start = starts[rows[row]]
        header = words[start]
        for i in range(start + 1, start + 1 + token_count(header)):
            token = words[i]
            axis = places.axis[token]
            if axis >= 0:
                value, rest = places.value[token], places.rest[token]
                _bound_below(boxes, row, axis, value, rest, False)
                _bound_above(boxes, row, axis, value, rest, False)
        position = first_range(words, start)
        for i in range(position, position + 3 * range_count(header), 3):
            word = words[i]
            axis = word & 0xFFFFFF
            low_open, high_open = bool((word >> 24) & 1), bool((word >> 25) & 1)
            _bound_below(boxes, row, axis, as_float[i + 1], _low_rest(word), low_open)
            _bound_above(boxes, row, axis, as_float[i + 2], _high_rest(word), high_open)


@njit(cache=True)
def _place_between(low, low_rest, low_open, high, high_rest, high_open):
    """A place between two bounds, as a pair, and whether one was found."""
    none = (0.0, np.int64(0), False)
    if low > high or (low == high and low_rest > high_rest):
        return none
    if low == high and low_rest == high_rest:
        return none if low_open or high_open else (low, low_rest, True)
    if low == -np.inf and high == np.inf:
        return 0.0, np.int64(0), True
    if high == np.inf:
        return np.nextafter(low, np.inf), np.int64(0), True
    if low == -np.inf:
        return np.nextafter(high, -np.inf), np.int64(0), True
    middle = low / 2 + high / 2
    if low < middle and middle < high:
        return middle, np.int64(0), True
    if not low_open:
        return low, low_rest, True
    return none if high_open else (high, high_rest, True)


@njit(cache=True)
def set_points(boxes, points):
    """Put a point into each box; per box, whether that was possible."""
    found = np.ones(points.present.shape[0], np.bool_)
    for row in range(found.shape[0]):
        for axis in range(points.present.shape[1]):
            points.present[row, axis] = boxes.present[row, axis]
            if not boxes.present[row, axis]:
                continue
            value, rest, is_there = _place_between(
                boxes.low[row, axis], boxes.low_rest[row, axis], boxes.low_open[row, axis],
                boxes.high[row, axis], boxes.high_rest[row, axis], boxes.high_open[row, axis],
            )  # fmt: skip
            points.values[row, axis], points.rests[row, axis] = value, rest
            found[row] &= is_there
    return found


@njit(cache=True)
def list_bounds(boxes, rows):
    """Every bound of the boxes: whose it is, the values, and a number that grows with tightness
    among bounds of one value.
    """
    count = 0
    for row in range(rows.shape[0]):
        for axis in range(boxes.present.shape[1]):
            count += boxes.present[row, axis]
    owner = np.empty(count, np.int64)
    lows, highs = np.empty(count, np.float64), np.empty(count, np.float64)
    ties = np.empty(count, np.int64)
    at = 0
    for row in range(rows.shape[0]):
        for axis in range(boxes.present.shape[1]):
            if boxes.present[row, axis]:
                owner[at] = rows[row]
                lows[at], highs[at] = boxes.low[row, axis], boxes.high[row, axis]
                low_tie = 2 * boxes.low_rest[row, axis] + boxes.low_open[row, axis]
                high_tie = -2 * boxes.high_rest[row, axis] + boxes.high_open[row, axis]
                ties[at] = low_tie + high_tie
                at += 1
    return owner, lows, highs, ties


@njit(cache=True)
def _part_at(words, start, n, axes_from):
    """The n-th part of the code at `start`: a token, or an axis behind all tokens."""
    tokens = token_count(words[start])
    if n < tokens:
        return words[start + 1 + n]
    return axes_from + (words[first_range(words, start) + 3 * (n - tokens)] & 0xFFFFFF)


@njit(cache=True)
def count_attributes(words, starts, attribute_of, axes_from, seen):
    """Per code: how many attributes it asks about, and a mask of them.

    The attribute of a token is attribute_of[token], of an axis attribute_of[axes_from + axis].
    `seen` has room for a stamp per attribute.
    """
    count = starts.shape[0] - 1
    sizes, masks = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for n in range(count):
        start = starts[n]
        for part in range(token_count(words[start]) + range_count(words[start])):
            attribute = attribute_of[_part_at(words, start, part, axes_from)]
            if seen[attribute] != n + 1:
                seen[attribute] = n + 1
                sizes[n] += 1
                masks[n] |= np.int64(1) << (attribute % 63)
    return sizes, masks


@njit(cache=True)
def gather_hits(words, starts, rows, implied_start, implied, axes_from):
    """What the codes imply, one after another, and where each begins."""
    hit_start = np.zeros(rows.shape[0] + 1, np.int64)
    for row in range(rows.shape[0]):
        start = starts[rows[row]]
        size = 0
        for n in range(token_count(words[start]) + range_count(words[start])):
            part = _part_at(words, start, n, axes_from)
            size += implied_start[part + 1] - implied_start[part]
        hit_start[row + 1] = hit_start[row] + size
    hits = np.empty(hit_start[rows.shape[0]], np.int64)
    at = 0
    for row in range(rows.shape[0]):
        start = starts[rows[row]]
        for n in range(token_count(words[start]) + range_count(words[start])):
            part = _part_at(words, start, n, axes_from)
            for k in range(implied_start[part], implied_start[part + 1]):
                hits[at] = implied[k]
                at += 1
    return hits, hit_start


@njit(cache=True)
def first_that_cover(found, at, words, as_float, starts, boxes):
    """Per box the first group that surely covers it, else -1; and whether some perhaps do."""
    rows = at.shape[0] - 1
    first = np.full(rows, -1, np.int64)
    perhaps = np.zeros(rows, np.bool_)
    for row in range(rows):
        for i in range(at[row], at[row + 1]):
            verdict = _verdict(words, as_float, starts[found[i] >> 1], boxes, row)
            if verdict == SURELY:
                first[row] = found[i] >> 1
                break
            if verdict == PERHAPS:
                perhaps[row] = True
    return first, perhaps


@njit(cache=True)
def compare_in_order(words, as_float, starts, rows, masks, hits, hit_start, boxes, taken, stamps):
    """Which of the codes `rows`, in order, an earlier one of them covers: its place, else -1.

    Those that are `taken` are left out: -1, and they cover nobody.
    """
    parents = np.full(rows.shape[0], -1, np.int64)
    roots = np.empty(rows.shape[0], np.int64)
    count = 0
    clock, hit_at = stamps.clock, stamps.hit_at
    for row in range(rows.shape[0]):
        if taken[row]:
            continue
        clock[0] += 1
        for i in range(hit_start[row], hit_start[row + 1]):
            hit_at[hits[i]] = clock[0]
        mask = masks[rows[row]]
        for r in range(count):
            other = rows[roots[r]]
            if masks[other] & ~mask != 0:
                continue
            start = starts[other]
            held = True
            for i in range(start + 1, start + 1 + token_count(words[start])):
                if hit_at[words[i]] != clock[0]:
                    held = False
                    break
            if held and _ranges_hold(words, as_float, start, boxes, row):
                parents[row] = roots[r]
                break
        if parents[row] == -1:
            roots[count] = row
            count += 1
    return parents
