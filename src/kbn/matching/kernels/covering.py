"""Kernels of covering: whether codes of equalities and ranges imply one another (arrays only).

A constraint on numbers, or on times, bounds its axis from below, from above, or from both sides
when it is an equality. What a filter says of an axis is the tightest bound on each side, and a
bound of another filter follows exactly when it is not tighter than that. So a filter's *box* (its
bounds on each axis) and its tokens decide what it implies. Bounds are compared as pairs, exactly.

    places   per token, the axis on which an equality of numbers or times lies (else -1), and where
    boxes    per filter (a row each) and axis: low, its rest, whether it is open; high, its rest,
             whether it is open; `present` says whether the filter says anything of the axis
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.code import (
    first_range,
    negative_count,
    range_count,
    residual_count,
    token_count,
)

NO, SURELY, PERHAPS = 0, 1, 2


@njit(cache=True)
def _low_rest(word):
    return ((word >> 28) & 0xFFF) - 1024


@njit(cache=True)
def _high_rest(word):
    return ((word >> 40) & 0xFFF) - 1024


@njit(cache=True)
def _tighter(value, rest, is_open, than, than_rest, than_open):
    """Whether a lower bound excludes more than another."""
    if value != than:
        return value > than
    if rest != than_rest:
        return rest > than_rest
    return is_open and not than_open


@njit(cache=True)
def _holds_box(word, low, high, boxes, row):
    """Whether a range contains all that a box allows on its axis."""
    axis = word & 0xFFFFFF
    if not boxes.present[row, axis]:
        return False
    if _tighter(
        low, _low_rest(word), bool((word >> 24) & 1),
        boxes.low[row, axis], boxes.low_rest[row, axis], boxes.low_open[row, axis],
    ):  # fmt: skip
        return False
    return not _tighter(
        -high, -_high_rest(word), bool((word >> 25) & 1),
        -boxes.high[row, axis], -boxes.high_rest[row, axis], boxes.high_open[row, axis],
    )  # fmt: skip


@njit(cache=True)
def _ranges_hold(words, as_float, start, boxes, row):
    """Whether all ranges of the code at `start` contain the box."""
    position = first_range(words, start)
    for i in range(position, position + 3 * range_count(words[start]), 3):
        if not _holds_box(words[i], as_float[i + 1], as_float[i + 2], boxes, row):
            return False
    return True


@njit(cache=True)
def _verdict(words, as_float, start, boxes, row):
    """Whether the code at `start`, whose tokens all follow, covers: NO, SURELY or PERHAPS."""
    if not _ranges_hold(words, as_float, start, boxes, row):
        return NO
    header = words[start]
    return PERHAPS if negative_count(header) > 0 or residual_count(header) > 0 else SURELY


@njit(cache=True)
def which_cover(groups, words, as_float, starts, boxes):
    """Per group whether its ranges contain the only box; the tokens of all are known to follow.

    Negatives and residual constraints leave it open.
    """
    found = np.empty(groups.shape[0], np.int8)
    for g in range(groups.shape[0]):
        found[g] = _verdict(words, as_float, starts[groups[g]], boxes, 0)
    return found


@njit(cache=True)
def _has_token(words, start, count, token):
    """Whether the sorted tokens at start + 1 hold one."""
    for i in range(start + 1, start + 1 + count):  # noqa: SIM110 (Numba has no generators)
        if words[i] == token:
            return True
    return False


@njit(cache=True)
def _inside(words, as_float, start, word, low, high, places):
    """Whether what the code at `start` says of an axis lies inside a range of it."""
    axis = word & 0xFFFFFF
    header = words[start]
    below, above = False, False
    said = False
    position = first_range(words, start)
    for i in range(position, position + 3 * range_count(header), 3):
        mine = words[i]
        if mine & 0xFFFFFF != axis:
            continue
        said = True
        below = not _tighter(
            low, _low_rest(word), bool((word >> 24) & 1),
            as_float[i + 1], _low_rest(mine), bool((mine >> 24) & 1),
        )  # fmt: skip
        above = not _tighter(
            -high, -_high_rest(word), bool((word >> 25) & 1),
            -as_float[i + 2], -_high_rest(mine), bool((mine >> 25) & 1),
        )  # fmt: skip
    for i in range(start + 1, start + 1 + token_count(header)):
        token = words[i]
        if places.axis[token] != axis:
            continue
        said = True
        value, rest = places.value[token], places.rest[token]
        below = below or not _tighter(
            low, _low_rest(word), bool((word >> 24) & 1), value, rest, False
        )
        above = above or not _tighter(
            -high, -_high_rest(word), bool((word >> 25) & 1), -value, -rest, False
        )
    if said:
        return SURELY if below and above else NO
    # `!= 3` says of an axis that there is a number, which is all that a range without ends asks.
    return PERHAPS if low == -np.inf and high == np.inf and negative_count(header) > 0 else NO


@njit(cache=True)
def which_are_covered(groups, words, as_float, starts, wide, wide_as_float, places):
    """Per group whether it implies all of the code `wide`, which has tokens and ranges only."""
    found = np.empty(groups.shape[0], np.int8)
    tokens = token_count(wide[0])
    first = first_range(wide, 0)
    for g in range(groups.shape[0]):
        start = starts[groups[g]]
        count = token_count(words[start])
        verdict = SURELY
        for i in range(1, 1 + tokens):
            if not _has_token(words, start, count, wide[i]):
                verdict = NO
                break
        if verdict != NO:
            for i in range(first, first + 3 * range_count(wide[0]), 3):
                inside = _inside(
                    words, as_float, start, wide[i], wide_as_float[i + 1], wide_as_float[i + 2],
                    places,
                )  # fmt: skip
                if inside == NO:
                    verdict = NO
                    break
                if inside == PERHAPS:
                    verdict = PERHAPS
        found[g] = verdict
    return found


@njit(cache=True)
def select(ids, lows, highs, masks, count, low, high, mask):
    """The ids whose interval lies in [low, high] and whose mask holds all bits of `mask`."""
    found = np.empty(count, np.int64)
    kept = 0
    for i in range(count):
        found[kept] = ids[i]
        kept += (lows[i] >= low) & (highs[i] <= high) & (masks[i] & mask == mask)
    return found[:kept]
