"""Kernels of texts: which of many patterns begin, or are in, each of many texts.

The patterns are sorted by their bytes. Those that begin with given bytes lie side by side; a table
tells where those with the same first two bytes are, and each byte more narrows them down. In UTF-8
no character begins inside another, so what holds for bytes holds for characters.
"""

from __future__ import annotations

import numpy as np
from numba import njit

PAIRS = 256 * 257 + 1


@njit(cache=True)
def first_places(patterns, starts):
    """Where, among the sorted patterns, those begin that begin with a pair of bytes or are larger.

    The pair (a, b) has the number 257 a + b + 1, and (a, nothing) has 257 a.
    """
    found = np.zeros(PAIRS, np.int32)
    for i in range(starts.shape[0] - 1):
        size = starts[i + 1] - starts[i]
        if size == 0:
            continue
        number = 257 * np.int64(patterns[starts[i]])
        if size > 1:
            number += np.int64(patterns[starts[i] + 1]) + 1
        found[number + 1] += 1
    if starts.shape[0] > 1 and starts[1] == starts[0]:
        found[0] = 1  # the empty pattern comes first
    for number in range(1, PAIRS):
        found[number] += found[number - 1]
    return found


@njit(cache=True)
def _narrowed(patterns, starts, low, high, depth, byte):
    """Of the patterns low:high, which share `depth` bytes, those whose next is `byte`."""
    left, right = low, high
    while left < right:
        middle = (left + right) >> 1
        at = starts[middle] + depth
        if at >= starts[middle + 1] or patterns[at] < byte:
            left = middle + 1
        else:
            right = middle
    first = left
    right = high
    while left < right:
        middle = (left + right) >> 1
        if patterns[starts[middle] + depth] == byte:
            left = middle + 1
        else:
            right = middle
    return first, left


@njit(cache=True)
def find(texts, bounds, patterns, starts, firsts, anywhere, most, found_text, found_pattern):
    """Every (text, pattern) where the text begins with, or `anywhere` holds, the pattern, once.

    Text t is texts[bounds[t]:bounds[t + 1]]. Returns the two lists, grown as needed, and how
    many; it stops after `most`.
    """
    total = starts.shape[0] - 1
    last = np.full(total, -1, np.int64)
    has_empty = total > 0 and starts[1] == starts[0]
    count = 0
    for t in range(bounds.shape[0] - 1):
        if count > most:
            break
        begin, end = bounds[t], bounds[t + 1]
        if count + total + 1 > found_text.shape[0]:
            size = max(2 * found_text.shape[0], count + total + 1)
            grown_text, grown_pattern = np.empty(size, np.int64), np.empty(size, np.int64)
            grown_text[:count] = found_text[:count]
            grown_pattern[:count] = found_pattern[:count]
            found_text, found_pattern = grown_text, grown_pattern
        if has_empty:
            found_text[count], found_pattern[count] = t, 0
            count += 1
        for at in range(begin, end if anywhere else min(end, begin + 1)):
            number = 257 * np.int64(texts[at])
            # A pattern of one byte is the first of those that begin with it.
            low, high = firsts[number], firsts[number + 1]
            if low < high and last[low] != t:
                last[low] = t
                found_text[count], found_pattern[count] = t, low
                count += 1
            if at + 1 >= end:
                continue
            number += np.int64(texts[at + 1]) + 1
            low, high = firsts[number], firsts[number + 1]
            depth = 2
            while low < high:
                if starts[low + 1] - starts[low] == depth:
                    if last[low] != t:
                        last[low] = t
                        found_text[count], found_pattern[count] = t, low
                        count += 1
                    low += 1
                if low == high or at + depth >= end:
                    break
                low, high = _narrowed(patterns, starts, low, high, depth, texts[at + depth])
                depth += 1
    return found_text, found_pattern, count
