"""Kernels of bags within bags: reading a column of them in JSON, and deciding one constraint.

Most cells that hold bags within bags are arrays of arrays of strings, numbers and terms. `read`
finds where the elements are, and makes no value of any; a cell that looks otherwise is left to
Python, so this need not know all of JSON.

`decide` asks of each row whether its bag stands in the relation of a composite over a composite.
Inner bag by inner bag it is found which of the operand's it is related to, by masks as in
`bags.py`; these bits are the masks by which the outer bags are decided in the same way.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.bags import (
    EQUAL,
    PLACES_MAX,
    SUB,
    SUPER,
    _before,
    _has_partners,
    in_sorted_order,
)
from kbn.matching.kernels.views import NestedBags, NestedRule, Partners, TokenMasks

REFUTED, HOLDS, UNKNOWN = 0, 1, 2

_ONE = np.uint64(1)
_NONE = np.uint64(0)
_SPACE, _TAB, _NEWLINE, _RETURN = 32, 9, 10, 13
_QUOTE, _BACKSLASH, _COMMA, _COLON = 34, 92, 44, 58
_OPEN, _CLOSE, _OPEN_OBJECT, _CLOSE_OBJECT = 91, 93, 123, 125
_ZERO, _NINE, _MINUS, _PLUS, _DOT, _SMALL_E, _LARGE_E = 48, 57, 45, 43, 46, 101, 69


@njit(cache=True)
def _after_space(text, at, end):
    while at < end and (
        text[at] == _SPACE or text[at] == _NEWLINE or text[at] == _TAB or text[at] == _RETURN
    ):
        at += 1
    return at


@njit(cache=True)
def _after_string(text, at, end):
    """Behind the string that begins at `at`; -1 if there is none, or one that is not plain."""
    if at >= end or text[at] != _QUOTE:
        return -1
    at += 1
    while at < end:
        byte = text[at]
        if byte == _QUOTE:
            return at + 1
        if byte == _BACKSLASH or byte < _SPACE:
            return -1
        at += 1
    return -1


@njit(cache=True)
def _after_element(text, at, end):
    """Behind the string, number or term that begins at `at`; -1 if it is none of them."""
    byte = text[at]
    if byte == _QUOTE:
        return _after_string(text, at, end)
    if byte == _OPEN_OBJECT:
        at = _after_string(text, _after_space(text, at + 1, end), end)
        if at < 0:
            return -1
        at = _after_space(text, at, end)
        if at >= end or text[at] != _COLON:
            return -1
        at = _after_string(text, _after_space(text, at + 1, end), end)
        if at < 0:
            return -1
        at = _after_space(text, at, end)
        return at + 1 if at < end and text[at] == _CLOSE_OBJECT else -1
    first = at
    while at < end:
        byte = text[at]
        is_digit = _ZERO <= byte <= _NINE
        if not (is_digit or byte in (_MINUS, _PLUS, _DOT, _SMALL_E, _LARGE_E)):
            break
        at += 1
    return at if at > first else -1


@njit(cache=True)
def _read_bags(text, at, end, inner_ends, inners, spans, elements):
    """Read one cell; how many inner bags and elements there are then, or -1."""
    at = _after_space(text, at, end)
    if at >= end or text[at] != _OPEN:
        return -1, 0
    at = _after_space(text, at + 1, end)
    if at < end and text[at] == _CLOSE:
        return (inners, elements) if _after_space(text, at + 1, end) == end else (-1, 0)
    while True:
        if at >= end or text[at] != _OPEN:
            return -1, 0
        at = _after_space(text, at + 1, end)
        if at < end and text[at] == _CLOSE:
            at += 1
        else:
            while True:
                if at >= end:
                    return -1, 0
                behind = _after_element(text, at, end)
                if behind < 0:
                    return -1, 0
                spans[elements, 0], spans[elements, 1] = at, behind
                elements += 1
                at = _after_space(text, behind, end)
                if at >= end:
                    return -1, 0
                if text[at] == _CLOSE:
                    at += 1
                    break
                if text[at] != _COMMA:
                    return -1, 0
                at = _after_space(text, at + 1, end)
        inner_ends[inners] = elements
        inners += 1
        at = _after_space(text, at, end)
        if at >= end:
            return -1, 0
        if text[at] == _CLOSE:
            return (inners, elements) if _after_space(text, at + 1, end) == end else (-1, 0)
        if text[at] != _COMMA:
            return -1, 0
        at = _after_space(text, at + 1, end)


@njit(cache=True)
def read(text, bounds, valid):
    """The bags within bags of the cells text[bounds[r]:bounds[r + 1]] that are valid.

    Returns which cells were read, where the inner bags of each row begin, where the elements of
    each inner bag begin, and from where to where the elements are in the text.
    """
    rows = bounds.shape[0] - 1
    room = max(int(bounds[rows] - bounds[0]), 1)  # what is not written takes no memory
    is_read = np.zeros(rows, np.bool_)
    row_start = np.zeros(rows + 1, np.int64)
    inner_start = np.empty(room + 1, np.int64)
    inner_start[0] = 0
    spans = np.empty((room, 2), np.int64)
    inners, elements = 0, 0
    for row in range(rows):
        if valid[row]:
            more, last = _read_bags(
                text, bounds[row], bounds[row + 1], inner_start[1:], inners, spans, elements
            )
            if more >= 0:
                is_read[row] = True
                inners, elements = more, last
        row_start[row + 1] = inners
    return is_read, row_start, inner_start[: inners + 1].copy(), spans[:elements].copy()


@njit(cache=True)
def put_side_by_side(text, spans):
    """The bytes of the spans one after another, and where each begins."""
    starts = np.zeros(spans.shape[0] + 1, np.int32)
    for i in range(spans.shape[0]):
        starts[i + 1] = starts[i] + (spans[i, 1] - spans[i, 0])
    found = np.empty(starts[-1], np.uint8)
    for i in range(spans.shape[0]):
        at = spans[i, 0] - starts[i]
        for k in range(starts[i], starts[i + 1]):
            found[k] = text[at + k]
    return found, starts


@njit(cache=True)
def decide(rows, bags_view, rule_view, marks_view, room_view, bits):
    """REFUTED, HOLDS or, where bags are large, UNKNOWN for each of the rows.

    `bits` has room for a mask of each of the operand's inner bags.
    """
    bags, rule = NestedBags(*bags_view), NestedRule(*rule_view)
    marks, room = TokenMasks(*marks_view), Partners(*room_view)
    answers = np.empty(rows.shape[0], np.int8)
    for i in range(rows.shape[0]):
        answers[i] = _decide_row(rows[i], bags, rule, marks, room, bits)
    return answers


@njit(cache=True)
def _decide_row(row, bags, rule, marks, room, bits):
    first, last = bags.row_start[row], bags.row_start[row + 1]
    count, wanted = last - first, rule.group_start.shape[0] - 1
    if count > PLACES_MAX:
        return UNKNOWN
    if (
        (rule.outer == SUPER and count < wanted)
        or (rule.outer == SUB and count > wanted)
        or (rule.outer == EQUAL and count != wanted)
    ):
        return REFUTED if not rule.negated else HOLDS
    for group in range(wanted):
        bits[group] = _NONE
    for inner in range(first, last):
        start, end = bags.inner_start[inner], bags.inner_start[inner + 1]
        if end - start > PLACES_MAX:
            return UNKNOWN
        now, numbers = 0, 0
        if rule.order:
            numbers = _sort(start, end, bags, rule.family, room)
        else:
            now = _mark(start, end, bags, marks)
        for group in range(wanted):
            if rule.order:
                holds = in_sorted_order(
                    rule.inner, rule.order, rule.group_start[group], rule.group_start[group + 1],
                    end - start, numbers, rule.bounds, rule.rests, room,
                )  # fmt: skip
            else:
                holds = _by_masks(group, end - start, rule, marks, now, room)
            if holds != rule.inner_negated:
                bits[group] |= _ONE << np.uint64(inner - first)
    least = count if rule.outer == SUB else wanted
    holds = _has_partners(bits, wanted, least, room)
    return HOLDS if holds != rule.negated else REFUTED


@njit(cache=True)
def _mark(start, end, bags, marks):
    """Give every want that an element of the inner bag satisfies the mask of its places."""
    marks.clock[0] += 1
    now = marks.clock[0]
    bit = _ONE
    for i in range(start, end):
        value = bags.codes[i]
        for k in range(bags.token_start[value], bags.token_end[value]):
            token = bags.tokens[k]
            if marks.at[token] != now:
                marks.at[token] = now
                marks.mask[token] = bit
            else:
                marks.mask[token] |= bit
        bit <<= _ONE
    return now


@njit(cache=True)
def _sort(start, end, bags, family, room):
    """The inner bag's numbers (or times) in order, in `room`; how many there are."""
    count = 0
    for i in range(start, end):
        code = bags.codes[i]
        if bags.family[code] != family:
            continue
        value, rest = bags.values[code], bags.rests[code]
        j = count
        while j > 0 and _before(value, rest, room.values[j - 1], room.rests[j - 1], 1):
            room.values[j], room.rests[j] = room.values[j - 1], room.rests[j - 1]
            j -= 1
        room.values[j], room.rests[j] = value, rest
        count += 1
    return count


@njit(cache=True)
def _by_masks(group, size, rule, marks, now, room):
    """Whether the marked inner bag of so many elements is related to one of the operand's."""
    start, end = rule.group_start[group], rule.group_start[group + 1]
    wanted = end - start
    if (
        (rule.inner == SUPER and size < wanted)
        or (rule.inner == SUB and size > wanted)
        or (rule.inner == EQUAL and size != wanted)
    ):
        return False
    count = 0
    for i in range(start, end):
        token = rule.wants[i]
        if marks.at[token] == now:
            room.masks[count] = marks.mask[token]
            count += 1
        elif rule.inner != SUB:
            return False
    least = size if rule.inner == SUB else wanted
    return count >= least and _has_partners(room.masks, count, least, room)
