"""Kernels over batches: gathering what rows hit, merging what was found (compiled by Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def count_hits(offsets, indices, valid, token_start, token_end, counts):
    """Add to counts[event] how many tokens the event's elements of one column hit."""
    for event in range(offsets.shape[0] - 1):
        for i in range(offsets[event], offsets[event + 1]):
            if valid[i]:
                value = indices[i]
                counts[event] += token_end[value] - token_start[value]


@njit(cache=True)
def fill_hits(offsets, indices, valid, token_start, token_end, tokens, fill, hits):
    """Write those tokens behind fill[event], which moves on."""
    for event in range(offsets.shape[0] - 1):
        at = fill[event]
        for i in range(offsets[event], offsets[event + 1]):
            if valid[i]:
                value = indices[i]
                for k in range(token_start[value], token_end[value]):
                    hits[at] = tokens[k]
                    at += 1
        fill[event] = at


@njit(cache=True)
def merge_by_event(found, found_start, more, owner):
    """One list per notification from the trie's and the slabs' findings."""
    events = found_start.shape[0] - 1
    starts = np.zeros(events + 1, np.int64)
    for event in range(events):
        starts[event + 1] = found_start[event + 1] - found_start[event]
    for i in range(owner.shape[0]):
        starts[owner[i] + 1] += 1
    for event in range(events):
        starts[event + 1] += starts[event]
    merged = np.empty(starts[events], np.int64)
    fill = starts[:-1].copy()
    for event in range(events):
        for i in range(found_start[event], found_start[event + 1]):
            merged[fill[event]] = found[i]
            fill[event] += 1
    for i in range(owner.shape[0]):
        merged[fill[owner[i]]] = more[i]
        fill[owner[i]] += 1
    return merged, starts


@njit(cache=True)
def some_remain(found):
    """Whether some finding has residual constraints that are not yet decided (its lowest bit)."""
    bits = np.int64(0)
    for i in range(found.shape[0]):
        bits |= found[i]
    return bits & 1 == 1


@njit(cache=True)
def runs_of_pairs(left, right, count):
    """Pairs as runs: where those of each left number begin and end, and their right numbers."""
    bounds = np.zeros(count + 1, np.int64)
    for i in range(left.shape[0]):
        bounds[left[i] + 1] += 1
    for i in range(count):
        bounds[i + 1] += bounds[i]
    fill = bounds.copy()
    items = np.empty(right.shape[0], np.int64)
    for i in range(left.shape[0]):
        items[fill[left[i]]] = right[i]
        fill[left[i]] += 1
    return bounds, items
