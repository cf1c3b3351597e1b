"""Kernels of bulk encoding: constraints in columns to codes (compiled by Numba; arrays only).

Filters are laid out one behind the other, an integer per constraint: the number of a *part* that
was compiled before, or the complement of `axis << 4 | side` for a plain bound of a range, whose
number stands in `bounds`, in order. A part's tokens, negatives, residual constraints and ranges lie
in arrays of their own, each part's where its `…_start` says.

The codes are those of `Encoder.encode`, word by word (see `code.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

# A side: which bound it is, and how.
HIGH = 1
OPEN = 2
INT = 4


class PartArrays(NamedTuple):
    """The parts, as kernels see them."""

    token_start: Any
    tokens: Any
    negative_start: Any
    negatives: Any
    residual_start: Any
    residuals: Any
    range_start: Any
    range_axes: Any
    range_sides: Any
    range_bounds: Any
    range_rests: Any


@njit(cache=True)
def encode_many(offsets, codes, bounds, parts):
    """The words of the filters codes[offsets[i]:offsets[i+1]], and where each begins."""
    filters = offsets.shape[0] - 1
    total, most = _room(offsets, codes, parts)
    words = np.empty(total, np.int64)
    as_float = words.view(np.float64)
    starts = np.empty(filters + 1, np.int64)
    held = np.empty((3, most), np.int64)
    axes = np.empty(most, np.int64)
    flags = np.empty((most, 6), np.int64)  # open, is int, rest: of the low bound, of the high one
    limits = np.empty((most, 2), np.float64)
    at = 0
    next_bound = 0
    for number in range(filters):
        starts[number] = at
        counts = (0, 0, 0)
        ranges = 0
        for i in range(offsets[number], offsets[number + 1]):
            code = codes[i]
            if code < 0:
                code = ~code
                ranges = _narrow(
                    code >> 4, code & 15, bounds[next_bound], 0, axes, flags, limits, ranges
                )
                next_bound += 1
                continue
            counts = (
                _gather(held[0], counts[0], parts.tokens, parts.token_start, code),
                _gather(held[1], counts[1], parts.negatives, parts.negative_start, code),
                _gather(held[2], counts[2], parts.residuals, parts.residual_start, code),
            )
            for k in range(parts.range_start[code], parts.range_start[code + 1]):
                ranges = _narrow(
                    parts.range_axes[k], parts.range_sides[k], parts.range_bounds[k],
                    parts.range_rests[k], axes, flags, limits, ranges,
                )  # fmt: skip
        header = at
        at += 1
        words[header] = ranges << 48
        for kind in range(3):
            kept = _sorted_once(held[kind], counts[kind])
            words[header] |= kept << (0, 20, 34)[kind]
            for k in range(kept):
                words[at] = held[kind, k]
                at += 1
        at = _write_ranges(words, as_float, at, axes, flags, limits, ranges)
    starts[filters] = at
    return words[:at].copy(), starts


@njit(cache=True)
def _room(offsets, codes, parts):
    """Words enough for all the filters, and places enough for the parts of one."""
    total, most = 0, 1
    for number in range(offsets.shape[0] - 1):
        here = 0
        for i in range(offsets[number], offsets[number + 1]):
            code = codes[i]
            if code < 0:
                here += 3
            else:
                here += parts.token_start[code + 1] - parts.token_start[code]
                here += parts.negative_start[code + 1] - parts.negative_start[code]
                here += parts.residual_start[code + 1] - parts.residual_start[code]
                here += 3 * (parts.range_start[code + 1] - parts.range_start[code])
        total += 1 + here
        most = max(most, here)
    return total, most


@njit(cache=True)
def _gather(held, count, values, start, part):
    for k in range(start[part], start[part + 1]):
        held[count] = values[k]
        count += 1
    return count


@njit(cache=True)
def _sorted_once(held, count):
    """Sort the first `count` and keep each once; how many that is."""
    if count < 2:
        return count
    if count > 24:
        held[:count] = np.sort(held[:count])
    else:
        for i in range(1, count):
            value = held[i]
            k = i
            while k > 0 and held[k - 1] > value:
                held[k] = held[k - 1]
                k -= 1
            held[k] = value
    kept = 1
    for i in range(1, count):
        if held[i] != held[kept - 1]:
            held[kept] = held[i]
            kept += 1
    return kept


@njit(cache=True)
def _narrow(axis, side, bound, rest, axes, flags, limits, ranges):
    """Take a bound into the interval of its axis, as `Interval.narrow` does; how many there are."""
    place = ranges
    while place > 0 and axes[place - 1] >= axis:
        place -= 1
    if place == ranges or axes[place] != axis:
        for k in range(ranges, place, -1):
            axes[k] = axes[k - 1]
            flags[k] = flags[k - 1]
            limits[k] = limits[k - 1]
        axes[place] = axis
        flags[place] = 0
        limits[place, 0], limits[place, 1] = -np.inf, np.inf
        ranges += 1
    high = side & HIGH
    known, known_rest = limits[place, high], flags[place, 3 * high + 2]
    is_open = (side & OPEN) >> 1
    if high:
        tighter = bound < known or (bound == known and rest < known_rest)
    else:
        tighter = bound > known or (bound == known and rest > known_rest)
    if tighter or (is_open and bound == known and rest == known_rest):
        limits[place, high] = bound
        flags[place, 3 * high] = is_open
        flags[place, 3 * high + 1] = (side & INT) >> 2
        flags[place, 3 * high + 2] = rest
    return ranges


@njit(cache=True)
def _write_ranges(words, as_float, at, axes, flags, limits, ranges):
    for k in range(ranges):
        words[at] = (
            axes[k]
            | flags[k, 0] << 24
            | flags[k, 3] << 25
            | flags[k, 1] << 26
            | flags[k, 4] << 27
            | (flags[k, 2] + 1024) << 28
            | (flags[k, 5] + 1024) << 40
        )
        as_float[at + 1] = limits[k, 0]
        as_float[at + 2] = limits[k, 1]
        at += 3
    return at
