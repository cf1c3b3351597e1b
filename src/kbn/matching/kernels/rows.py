"""Kernels of rows: a trie walked once for many notifications (compiled by Numba; arrays only).

A round is up to 512 notifications, and a row has a bit for each of them. A token that some of them
hit has the row of those. The rows of a filter's tokens are ANDed, those of its negatives taken
away, and so are those outside its ranges: what is left accepted it. A node of the trie that no
notification of the round reaches is passed over with all that is below it. So what a filter costs
is shared by the whole round, and is the same for one match as for five hundred.

Ranges have rows by sorting: the notifications are put in the order of their points on an axis, and
the row of the first n of them is kept for each n. A range is the difference of two such rows.

Filters that came since the trie was listed (`listing.py`) are few; each is looked at by itself.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.bits import DE_BRUIJN, POSITIONS
from kbn.matching.kernels.code import (
    grown,
    in_range,
    negative_count,
    range_count,
    residual_count,
    token_count,
)
from kbn.matching.kernels.listing import BEHIND, BLOCK, BLOCK_END, DEPTH, OWN, TOKEN

ROW_WORDS = 8
ROUND = 64 * ROW_WORDS
SORTED_MAX = 256
"""How many axes are sorted; on others, the notifications of a row are compared one by one."""

ABSENT = 0
"""The row of a token that no notification of the round hits."""

NOBODY, SOME = 0, 1

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_ALL = ~np.uint64(0)


@njit(cache=True)
def walk_rows(hits, hit_start, trie, codes, points):
    """The trie's answer for a batch: found groups and, per notification, where its own begin.

    The same as that of `walk_many`, in another order.
    """
    notifications = hit_start.shape[0] - 1
    found, owner = np.empty(1024, np.int64), np.empty(1024, np.int32)
    sorted_out = np.empty(max(1024, 64 * notifications), np.int64)
    starts = np.zeros(notifications + 1, np.int64)
    row_of = np.zeros(trie.rank.shape[0], np.int32)
    rows = np.zeros((1024, ROW_WORDS), np.uint64)
    hit_tokens = np.empty(1024, np.int64)
    stack = np.empty((trie.depth + 1, ROW_WORDS), np.uint64)
    axes = points.values.shape[1]
    sizes = np.empty(axes, np.int64)
    values = np.empty((min(axes, SORTED_MAX), ROUND), np.float64)
    rests = np.empty((min(axes, SORTED_MAX), ROUND), np.int64)
    firsts = np.empty((min(axes, SORTED_MAX), ROUND + 1, ROW_WORDS), np.uint64)
    for first in range(0, notifications, ROUND):
        last = min(first + ROUND, notifications)
        rows, hit_tokens, distinct = _mark(hits, hit_start, first, last, row_of, rows, hit_tokens)
        sizes[:] = -1
        found, owner, count = _walk(
            first, last, hit_tokens, distinct, row_of, rows, stack, trie, codes, points,
            sizes, values, rests, firsts, found, owner,
        )  # fmt: skip
        while sorted_out.shape[0] < starts[first] + count:
            bigger = np.empty(2 * sorted_out.shape[0], np.int64)
            bigger[: starts[first]] = sorted_out[: starts[first]]
            sorted_out = bigger
        _by_notification(found, owner, count, first, last, starts, sorted_out)
        for i in range(distinct):
            row_of[hit_tokens[i]] = ABSENT
    return sorted_out[: starts[notifications]], starts


@njit(cache=True)
def _mark(hits, hit_start, first, last, row_of, rows, hit_tokens):
    """Give each token that is hit in the round its row; the tokens, and how many they are."""
    distinct = 0
    for notification in range(first, last):
        word = (notification - first) >> 6
        bit = _ONE << np.uint64((notification - first) & 63)
        for i in range(hit_start[notification], hit_start[notification + 1]):
            token = hits[i]
            row = row_of[token]
            if row == ABSENT:
                if distinct + 1 >= rows.shape[0]:
                    more = np.zeros((2 * rows.shape[0], ROW_WORDS), np.uint64)
                    more[: rows.shape[0]] = rows
                    rows = more
                    longer = np.empty(2 * hit_tokens.shape[0], np.int64)
                    longer[: hit_tokens.shape[0]] = hit_tokens
                    hit_tokens = longer
                hit_tokens[distinct] = token
                distinct += 1
                row = distinct
                row_of[token] = row
                for w in range(ROW_WORDS):
                    rows[row, w] = _NONE
            rows[row, word] |= bit
    return rows, hit_tokens, distinct


@njit(cache=True)
def _walk(
    first, last, hit_tokens, distinct, row_of, rows, stack, trie, codes, points,
    sizes, values, rests, firsts, found, owner,
):  # fmt: skip
    """All findings of one round, in no order: findings, whose each is, and their number."""
    listed, root_of, block_of = trie.listed, trie.root_of, trie.block_of
    blocks, blocks_as_float = trie.blocks, trie.blocks_as_float
    alive, some_dead = codes.alive, codes.some_dead
    everyone = np.empty(ROW_WORDS, np.uint64)
    row = np.empty(ROW_WORDS, np.uint64)
    _first_bits(last - first, everyone)
    count = 0
    if block_of.shape[0] > 0 and block_of[0, 0] < block_of[0, 1]:
        found, owner, count = _look_at_block(
            block_of[0, 0], block_of[0, 1], everyone, row, blocks, blocks_as_float, row_of, rows,
            first, points, sizes, values, rests, firsts, alive, some_dead, found, owner, count,
        )  # fmt: skip
    for n in range(distinct):
        token = hit_tokens[n]
        if token >= root_of.shape[0] or root_of[token] < 0:
            continue
        at = np.uint64(root_of[token])
        end = np.uint64(listed[at, BEHIND])
        while at < end:
            depth = np.uint64(listed[at, DEPTH])
            of_token = np.uint64(row_of[listed[at, TOKEN]])
            anybody = _NONE
            if depth == 0:
                for w in range(ROW_WORDS):
                    stack[0, w] = rows[of_token, w]
                anybody = _ONE
            elif of_token != ABSENT:
                above = depth - _ONE
                for w in range(ROW_WORDS):
                    left = stack[above, w] & rows[of_token, w]
                    stack[depth, w] = left
                    anybody |= left
            if anybody == _NONE:
                at = np.uint64(listed[at, BEHIND])
                continue
            if found.shape[0] < count + ROUND:
                found, owner = grown(found), grown(owner)
            own = listed[at, OWN]
            if own >= 0 and (not some_dead or alive[own] > 0):
                count = _write(stack[depth], np.int64(own) << 1, found, owner, count)
            if listed[at, BLOCK] < listed[at, BLOCK_END]:
                found, owner, count = _look_at_block(
                    listed[at, BLOCK], listed[at, BLOCK_END], stack[depth], row, blocks,
                    blocks_as_float, row_of, rows, first, points, sizes, values, rests, firsts,
                    alive, some_dead, found, owner, count,
                )  # fmt: skip
            at += _ONE
    for n in range(trie.loose_count):
        group = trie.loose[n]
        if alive[group] == 0:
            continue
        state = _narrow(
            codes.words, codes.as_float, codes.start[group], True, everyone, row, row_of, rows,
            first, points, sizes, values, rests, firsts,
        )  # fmt: skip
        if state == SOME:
            if found.shape[0] < count + ROUND:
                found, owner = grown(found), grown(owner)
            residual = residual_count(codes.words[codes.start[group]]) > 0
            count = _write(row, (np.int64(group) << 1) | residual, found, owner, count)
    return found, owner, count


@njit(cache=True)
def _look_at_block(
    at, end, reached, row, blocks, as_float, row_of, rows, first, points,
    sizes, values, rests, firsts, alive, some_dead, found, owner, count,
):  # fmt: skip
    """Write down who of those that `reached` a node is accepted by the codes of its block."""
    while at < end:
        group = blocks[at] & 0xFFFFFFFF
        start = at + 1
        at = start + (blocks[at] >> 32)
        if some_dead and alive[group] == 0:
            continue
        state = _narrow(
            blocks, as_float, start, False, reached, row, row_of, rows,
            first, points, sizes, values, rests, firsts,
        )  # fmt: skip
        if state == SOME:
            if found.shape[0] < count + ROUND:
                found, owner = grown(found), grown(owner)
            finding = (group << 1) | (residual_count(blocks[start]) > 0)
            count = _write(row, finding, found, owner, count)
    return found, owner, count


@njit(cache=True)
def _narrow(
    words, as_float, start, with_tokens, reached, row, row_of, rows,
    first, points, sizes, values, rests, firsts,
):  # fmt: skip
    """Put into `row` those of `reached` that the code at `start` accepts: NOBODY or SOME.

    Residual constraints are left open, and tokens are asked only `with_tokens`.
    """
    header = words[start]
    for w in range(ROW_WORDS):
        row[w] = reached[w]
    position = start + 1
    tokens = token_count(header)
    if with_tokens:
        for i in range(position, position + tokens):
            of_token = row_of[words[i]]
            if of_token == ABSENT or not _and(row, rows[of_token]):
                return NOBODY
    position += tokens
    negatives = negative_count(header)
    for i in range(position, position + negatives):
        of_token = row_of[words[i]]
        if of_token != ABSENT and not _and_not(row, rows[of_token]):
            return NOBODY
    position += negatives + residual_count(header)
    for i in range(position, position + 3 * range_count(header), 3):
        word, low, high = words[i], as_float[i + 1], as_float[i + 2]
        axis = word & 0xFFFFFF
        if axis < SORTED_MAX:
            if sizes[axis] < 0:
                sizes[axis] = _sort(axis, first, points, values, rests, firsts)
            below, within = _bounds(word, low, high, values[axis], rests[axis], sizes[axis])
            if below >= within or not _and_between(row, firsts[axis], below, within):
                return NOBODY
        elif not _compare(word, low, high, axis, row, first, points):
            return NOBODY
    return SOME


@njit(cache=True)
def _and(row, other):
    anybody = _NONE
    for w in range(ROW_WORDS):
        row[w] &= other[w]
        anybody |= row[w]
    return anybody != _NONE


@njit(cache=True)
def _and_not(row, other):
    anybody = _NONE
    for w in range(ROW_WORDS):
        row[w] &= ~other[w]
        anybody |= row[w]
    return anybody != _NONE


@njit(cache=True)
def _and_between(row, firsts, below, within):
    """Keep those that come after the first `below`, up to the first `within`."""
    anybody = _NONE
    for w in range(ROW_WORDS):
        row[w] &= firsts[within, w] & ~firsts[below, w]
        anybody |= row[w]
    return anybody != _NONE


@njit(cache=True)
def _first_bits(count, row):
    for w in range(ROW_WORDS):
        left = count - 64 * w
        if left >= 64:
            row[w] = _ALL
        elif left <= 0:
            row[w] = _NONE
        else:
            row[w] = (_ONE << np.uint64(left)) - _ONE


@njit(cache=True)
def _sort(axis, first, points, values, rests, firsts):
    """Sort the round's points on an axis, and make the rows of the first n; how many there are."""
    present, point, rest = points.present, points.values, points.rests
    notification_of = np.empty(ROUND, np.int64)
    size = 0
    for notification in range(first, min(first + ROUND, present.shape[0])):
        if present[notification, axis]:
            notification_of[size] = notification
            size += 1
    gap = 1
    while 9 * gap < size:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            notification = notification_of[i]
            j = i - gap
            while j >= 0 and (
                point[notification_of[j], axis] > point[notification, axis]
                or (
                    point[notification_of[j], axis] == point[notification, axis]
                    and rest[notification_of[j], axis] > rest[notification, axis]
                )
            ):
                notification_of[j + gap] = notification_of[j]
                j -= gap
            notification_of[j + gap] = notification
        gap //= 3
    for w in range(ROW_WORDS):
        firsts[axis, 0, w] = _NONE
    for n in range(size):
        notification = notification_of[n]
        values[axis, n], rests[axis, n] = point[notification, axis], rest[notification, axis]
        for w in range(ROW_WORDS):
            firsts[axis, n + 1, w] = firsts[axis, n, w]
        place = notification - first
        firsts[axis, n + 1, place >> 6] |= _ONE << np.uint64(place & 63)
    return size


@njit(cache=True)
def _bounds(word, low, high, values, rests, size):
    """How many of the sorted points lie below a range, and how many do not lie above it."""
    low_rest, low_open = ((word >> 28) & 0xFFF) - 1024, (word >> 24) & 1
    high_rest, high_open = ((word >> 40) & 0xFFF) - 1024, (word >> 25) & 1
    below, end = 0, size
    while below < end:
        middle = (below + end) >> 1
        value, rest = values[middle], rests[middle]
        if value < low or (
            value == low and (rest < low_rest or (rest == low_rest and low_open != 0))
        ):
            below = middle + 1
        else:
            end = middle
    within, end = below, size
    while within < end:
        middle = (within + end) >> 1
        value, rest = values[middle], rests[middle]
        if value > high or (
            value == high and (rest > high_rest or (rest == high_rest and high_open != 0))
        ):
            end = middle
        else:
            within = middle + 1
    return below, within


@njit(cache=True)
def _compare(word, low, high, axis, row, first, points):
    """Keep those of a row that lie in a range, asked one by one; whether any are left."""
    anybody = _NONE
    for w in range(ROW_WORDS):
        left = row[w]
        while left != 0:
            bit = left & (~left + _ONE)
            left ^= bit
            notification = first + 64 * w + POSITIONS[(bit * DE_BRUIJN) >> np.uint64(58)]
            if not points.present[notification, axis] or not in_range(
                word, low, high, points.values[notification, axis], points.rests[notification, axis]
            ):
                row[w] ^= bit
        anybody |= row[w]
    return anybody != _NONE


@njit(cache=True)
def _write(row, finding, found, owner, count):
    """Append the finding for each of the row; there is room. The new count."""
    for w in range(ROW_WORDS):
        left = row[w]
        while left != 0:
            bit = left & (~left + _ONE)
            left ^= bit
            found[count] = finding
            owner[count] = 64 * w + POSITIONS[(bit * DE_BRUIJN) >> np.uint64(58)]
            count += 1
    return count


@njit(cache=True)
def _by_notification(found, owner, count, first, last, starts, out):
    """Sort a round's findings by whose they are into `out`, behind those of earlier rounds."""
    at = np.zeros(ROUND + 1, np.int64)
    for i in range(count):
        at[owner[i] + 1] += 1
    at[0] = starts[first]
    for n in range(last - first):
        at[n + 1] += at[n]
        starts[first + n + 1] = at[n + 1]
    for i in range(count):
        n = owner[i]
        out[at[n]] = found[i]
        at[n] += 1
