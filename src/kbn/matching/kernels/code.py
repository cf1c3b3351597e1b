"""Kernels over codes: reading, verifying, interning (compiled by Numba; arrays and integers only).

A code (see `codes.py`) is a run of 64-bit words: a header, tokens, negatives, residual constraints,
ranges.

    header   tokens (20 bits) | negatives (14) | residual constraints (14) | ranges (14)
    token    one word each, then negatives and residual constraints the same
    range    axis (24) | low open | high open | low is int | high is int | low rest (12)
             | high rest (12)
             float64 low
             float64 high

The counts in a header, and the parts of a range's first word, begin at the lowest bit.

Numbers are compared exactly although they are stored as float64: a number x is the pair
(float(x), x - float(x)), ordered lexicographically; rounding is monotone, so that order is x's own.
"""

from __future__ import annotations

import numpy as np
from numba import njit

EMPTY = -1

# How a candidate leaves a kernel: surely matched, or its residual constraints remain for Python.
MATCHED = 1
RESIDUAL = 2

_HASH = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def token_count(header):
    return header & 0xFFFFF


@njit(cache=True)
def negative_count(header):
    return (header >> 20) & 0x3FFF


@njit(cache=True)
def residual_count(header):
    return (header >> 34) & 0x3FFF


@njit(cache=True)
def range_count(header):
    return (header >> 48) & 0x3FFF


@njit(cache=True)
def first_range(code, start):
    """Where the ranges of the code at `start` begin."""
    header = code[start]
    return start + 1 + token_count(header) + negative_count(header) + residual_count(header)


@njit(cache=True)
def in_range(word, low, high, value, rest):
    """Whether low ≤ (value, rest) ≤ high, with the openness and rests that `word` carries."""
    if value < low or value > high:
        return False
    if value == low:
        low_rest = ((word >> 28) & 0xFFF) - 1024
        if rest < low_rest or (rest == low_rest and (word >> 24) & 1):
            return False
    if value == high:
        high_rest = ((word >> 40) & 0xFFF) - 1024
        if rest > high_rest or (rest == high_rest and (word >> 25) & 1):
            return False
    return True


@njit(cache=True)
def verify(words, as_float, start, with_tokens, stamps, points, notification, covering):
    """What the code at `start` says of the notification: 0 no, MATCHED, or RESIDUAL.

    Its tokens are asked only `with_tokens`: a walk of the trie has seen to them. With `covering`,
    negatives and residual constraints are taken as held: the caller wants every filter that could
    cover, and asks the oracle about each.
    """
    now = stamps.clock[0]
    header = words[start]
    position = start + 1
    tokens = token_count(header)
    if with_tokens:
        for i in range(position, position + tokens):
            if stamps.hit_at[words[i]] != now:
                return 0
    position += tokens
    negatives = negative_count(header)
    if not covering:
        for i in range(position, position + negatives):
            if stamps.hit_at[words[i]] == now:
                return 0
    residuals = residual_count(header)
    position += negatives + residuals
    for _ in range(range_count(header)):
        word = words[position]
        axis = word & 0xFFFFFF
        if not points.present[notification, axis]:
            return 0
        low, high = as_float[position + 1], as_float[position + 2]
        value, rest = points.values[notification, axis], points.rests[notification, axis]
        if not in_range(word, low, high, value, rest):
            return 0
        position += 3
    return RESIDUAL if residuals > 0 else MATCHED


@njit(cache=True)
def content_hash(words, start, end):
    h = np.uint64(1469598103934665603)
    for i in range(start, end):
        h = (h ^ np.uint64(words[i])) * _HASH
        h ^= h >> np.uint64(29)
    return np.int64(h & np.uint64(0x7FFFFFFFFFFFFFFF))


@njit(cache=True)
def _same_words(a, a_start, b, b_start, length):
    for i in range(length):  # noqa: SIM110 (Numba has no generators)
        if a[a_start + i] != b[b_start + i]:
            return False
    return True


@njit(cache=True)
def find_group(table, hashes, code, code_start, words, start, end, h):
    """The group whose code equals words[start:end], or -1; and the free slot of `table` for it."""
    mask = table.shape[0] - 1
    slot = h & mask
    length = end - start
    while table[slot] != EMPTY:
        group = table[slot]
        if (
            hashes[group] == h
            and code_start[group + 1] - code_start[group] == length
            and _same_words(code, code_start[group], words, start, length)
        ):
            return group, slot
        slot = (slot + 1) & mask
    return -1, slot


@njit(cache=True)
def rehash_groups(table, hashes, count):
    mask = table.shape[0] - 1
    table[:] = EMPTY
    for group in range(count):
        slot = hashes[group] & mask
        while table[slot] != EMPTY:
            slot = (slot + 1) & mask
        table[slot] = group


@njit(cache=True)
def intern_groups(words, starts, count, table, hashes, code, code_start, groups, out):
    """Give each code words[starts[i]:starts[i+1]] its group, making new ones; returns their number.

    The caller has made room in every array. out[i] is the group of code i.
    """
    for i in range(count):
        start, end = starts[i], starts[i + 1]
        h = content_hash(words, start, end)
        group, slot = find_group(table, hashes, code, code_start, words, start, end, h)
        if group < 0:
            group = groups
            groups += 1
            at = code_start[group]
            for k in range(end - start):
                code[at + k] = words[start + k]
            code_start[group + 1] = at + end - start
            hashes[group] = h
            table[slot] = group
        out[i] = group
    return groups


@njit(cache=True)
def link_entries(first_entry, groups, first, next_entry, previous_entry):
    """Put entries first_entry… at the head of their groups' lists."""
    for i in range(groups.shape[0]):
        entry = first_entry + i
        group = groups[i]
        head = first[group]
        next_entry[entry] = head
        previous_entry[entry] = EMPTY
        if head != EMPTY:
            previous_entry[head] = entry
        first[group] = entry


@njit(cache=True)
def count_entries(groups, sizes, alive, single):
    """Count each entry in its group; `single` counts those of subscriptions with one filter."""
    for i in range(groups.shape[0]):
        alive[groups[i]] += 1
        if sizes[i] == 1:
            single[groups[i]] += 1


@njit(cache=True)
def token_frequencies(groups, codes, tokens):
    """How many of the groups hold each token; the tokens in all; the most in one group."""
    frequencies = np.zeros(tokens, np.int64)
    total, longest = 0, 0
    for i in range(groups.shape[0]):
        start = codes.start[groups[i]]
        count = token_count(codes.words[start])
        total += count
        longest = max(longest, count)
        for k in range(start + 1, start + 1 + count):
            frequencies[codes.words[k]] += 1
    return frequencies, total, longest


@njit(cache=True)
def grown(array):
    bigger = np.empty(2 * array.shape[0], array.dtype)
    bigger[: array.shape[0]] = array
    return bigger


@njit(cache=True)
def count_members(groups, starts, alive):
    """The number of subscriptions behind groups[starts[e]:starts[e+1]], per notification e."""
    totals = np.zeros(starts.shape[0] - 1, np.int64)
    for notification in range(totals.shape[0]):
        for i in range(starts[notification], starts[notification + 1]):
            totals[notification] += alive[groups[i]]
    return totals


@njit(cache=True)
def expand(groups, starts, totals, first, next_entry, entry_subscription):
    """The (notification, subscription) pairs of groups[starts[e]:starts[e+1]]."""
    size = totals.sum()
    owners = np.empty(size, np.int32)
    subscriptions = np.empty(size, np.int32)
    at = 0
    for notification in range(starts.shape[0] - 1):
        for i in range(starts[notification], starts[notification + 1]):
            entry = first[groups[i]]
            while entry != EMPTY:
                owners[at] = notification
                subscriptions[at] = entry_subscription[entry]
                at += 1
                entry = next_entry[entry]
    return owners, subscriptions


# Inlined: returning an array from a call would count its references up and down, each time.
@njit(cache=True, inline="always")
def emit(found, count, group, verdict):
    """Append a finding: the group shifted left by one, the low bit set for a RESIDUAL verdict."""
    if count >= found.shape[0]:
        found = grown(found)
    found[count] = (np.int64(group) << 1) | (verdict == RESIDUAL)
    return found
