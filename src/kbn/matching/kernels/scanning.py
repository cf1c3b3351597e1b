"""Kernels that cut texts of subscriptions into their parts (compiled by Numba; arrays only).

A text that is plainly a conjunction is cut at its `and`s. A part such as `price < 20` is read here:
a name, an order, a decimal number of up to fifteen digits. Any other part is only named: equal
parts get one number, and Python parses each of them once. A text that could be something else (it
has brackets, escapes, a comment, a declaration, quotes that hold an `and`) is left to the parser,
and so is anything this grammar does not know: it never has to be right about what is wrong.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.encoding import HIGH, INT, OPEN

PARTS_MAX = 256
TEXT_MAX = 1 << 16
"""Bytes: a text so short is within the parser's own limits."""
DIGITS_MAX = 15

_SPACE, _QUOTE, _HASH, _DOT, _MINUS = 0x20, 0x22, 0x23, 0x2E, 0x2D
_LESS, _EQUAL, _GREATER = 0x3C, 0x3D, 0x3E
_ODD = np.zeros(256, np.bool_)
for _byte in b"\\()'`\n\r|":
    _ODD[_byte] = True
_NAME = np.zeros(256, np.bool_)
for _byte in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789":
    _NAME[_byte] = True
_POWERS = np.array([10.0**k for k in range(DIGITS_MAX + 1)])


@njit(cache=True)
def scan_texts(data, offsets):
    """Cut the texts data[offsets[i]:offsets[i+1]].

    Gives, per text, where its constraints begin among `codes`, and whether it was cut at all; the
    codes (as `encode_many` takes them, but with numbers of names in place of axes) and bounds; and
    the names and the other parts, as where each begins and ends.
    """
    texts = offsets.shape[0] - 1
    room = (offsets[texts] - offsets[0]) // 6 + texts + 1
    codes = np.empty(room, np.int64)
    bounds = np.empty(room, np.float64)
    starts = np.zeros(texts + 1, np.int64)
    cut = np.zeros(texts, np.bool_)
    slots = 64
    while slots < 2 * room:
        slots *= 2
    names, parts = np.empty((room, 2), np.int64), np.empty((room, 2), np.int64)
    name_slots, part_slots = np.full(slots, -1, np.int32), np.full(slots, -1, np.int32)
    name_count, part_count, count, bound_count = 0, 0, 0, 0
    for text in range(texts):
        starts[text] = count
        start, end = offsets[text], offsets[text + 1]
        before, bounds_before = count, bound_count
        plain = end - start <= TEXT_MAX and _is_plain(data, start, end)
        while plain:
            stop = _next_and(data, start, end)
            side, first, last, value = _bound(data, start, stop)
            if side >= 0:
                name = _number_of(data, first, last, names, name_slots, name_count)
                name_count = max(name_count, name + 1)
                codes[count] = ~(np.int64(name) << 4 | side)
                bounds[bound_count] = value
                bound_count += 1
            else:
                part = _number_of(data, start, stop, parts, part_slots, part_count)
                part_count = max(part_count, part + 1)
                codes[count] = part
                plain = _quotes_are_paired(data, start, stop)
            count += 1
            plain = plain and count - before <= PARTS_MAX
            if stop == end:
                break
            start = stop + 5
        cut[text] = plain
        if not plain:
            count, bound_count = before, bounds_before
    starts[texts] = count
    return (
        (starts, cut),
        (codes[:count].copy(), bounds[:bound_count].copy()),
        (names[:name_count].copy(), parts[:part_count].copy()),
    )


@njit(cache=True)
def _is_plain(data, start, end):
    """Whether nothing in the text could make it mean something else than its parts do."""
    first = start
    while first < end and (data[first] == _SPACE or 9 <= data[first] <= 13):
        first += 1
    if first == end or data[first] in (0x7B, 0x5B) or data[first] >= 0x80:
        return False
    for i in range(start, end):
        byte = data[i]
        if _ODD[byte]:
            return False
        if byte == _HASH and (i + 1 == end or not _LESS <= data[i + 1] <= _GREATER):
            return False
        if byte | 0x20 == 0x70 and end - i >= 6 and _says_prefix(data, i):
            return False
    return True


@njit(cache=True)
def _says_prefix(data, at):
    word = (0x70, 0x72, 0x65, 0x66, 0x69, 0x78)
    for i in range(6):  # noqa: SIM110 (Numba has no generators)
        if data[at + i] | 0x20 != word[i]:
            return False
    return True


@njit(cache=True)
def _next_and(data, start, end):
    """Where the next ` and ` begins, or the end."""
    for i in range(start, end - 4):
        if (
            data[i] == _SPACE
            and data[i + 1] == 0x61
            and data[i + 2] == 0x6E
            and data[i + 3] == 0x64
            and data[i + 4] == _SPACE
        ):
            return i
    return end


@njit(cache=True)
def _quotes_are_paired(data, start, stop):
    quotes = 0
    for i in range(start, stop):
        quotes += data[i] == _QUOTE
    return quotes % 2 == 0


@njit(cache=True)
def _bound(data, start, stop):
    """The side of a plain bound, where its name begins and ends, and the number; or -1."""
    none = (-1, start, start, 0.0)
    at = _spaces(data, start, stop)
    first = at
    if at == stop or 0x30 <= data[at] <= 0x39:
        return none
    while at < stop and _NAME[data[at]]:
        at += 1
    last = at
    at = _spaces(data, at, stop)
    if first == last or at == stop or (data[at] != _LESS and data[at] != _GREATER):
        return none
    side = HIGH if data[at] == _LESS else 0
    at += 1
    if at < stop and data[at] == _EQUAL:
        at += 1
    else:
        side |= OPEN
    at = _spaces(data, at, stop)
    negative = at < stop and data[at] == _MINUS
    at += negative
    digits, behind, number = 0, -1, np.int64(0)
    while at < stop:
        if data[at] == _DOT and behind < 0 and digits > 0:
            behind = 0
        elif 0x30 <= data[at] <= 0x39:
            number = 10 * number + (data[at] - 0x30)
            digits += 1
            behind += behind >= 0
            if digits > DIGITS_MAX:
                return none
        else:
            break
        at += 1
    if digits == 0 or behind == 0 or _spaces(data, at, stop) < stop:
        return none
    # Both sides are exact, so their quotient is the float nearest to what is written.
    value = float(number) / _POWERS[max(0, behind)]
    return (side | INT if behind < 0 else side), first, last, (-value if negative else value) + 0.0


@njit(cache=True)
def _spaces(data, at, stop):
    while at < stop and data[at] == _SPACE:
        at += 1
    return at


@njit(cache=True)
def _number_of(data, start, stop, known, slots, count):
    """The number of these bytes among those `known`, the next one when they are new."""
    h = np.uint64(1469598103934665603)
    for i in range(start, stop):
        h = (h ^ np.uint64(data[i])) * np.uint64(1099511628211)
    mask = np.uint64(slots.shape[0] - 1)
    slot = (h ^ h >> np.uint64(29)) & mask
    while slots[slot] >= 0:
        number = slots[slot]
        if _same(data, start, stop, known[number, 0], known[number, 1]):
            return number
        slot = (slot + np.uint64(1)) & mask
    slots[slot] = count
    known[count, 0], known[count, 1] = start, stop
    return count


@njit(cache=True)
def _same(data, start, stop, other, other_stop):
    if stop - start != other_stop - other:
        return False
    for i in range(stop - start):  # noqa: SIM110 (Numba has no generators)
        if data[start + i] != data[other + i]:
            return False
    return True
