"""Kernels of inner bags: which bags of one list fit which of another, 512 pairs at a time.

A bag to be *served* fits another if each of its elements has a partner of its own there. Here one
served bag is asked about all others together. For element s of it and place p, the *table* has a
row of bits, one for each of the others: whether their element at place p is a partner of s. The
steps of a decision are then operations on rows, whatever the single bags look like:

* a bag fits only if each element has a partner, and, where all places are needed, each place;
* it fits if serving one element after the other, first come first served, comes to an end;
* in between, the places are gone through, and for every set of elements there is the row of the
  others whose places up to here can serve that set. That is exact and takes 2^s steps for each
  place, so large bags are decided pair by pair, by moving over (Kuhn's search).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.filters.kernels.wide import WORDS, add, add_both, drop, put, take

__all__ = ["PLACES_MAX", "WORDS", "bound", "decide", "dense_rows", "ready_rows", "rows_of"]

PLACES_MAX = 64
SETS_MAX = 12
"""Elements of a bag whose sets are gone through."""

_ONE = np.uint64(1)
_NONE = np.uint64(0)
_ALL = ~_NONE
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, np.int64)
for _i in range(64):
    _PLACES[(int(_DE_BRUIJN) << _i & 0xFFFFFFFFFFFFFFFF) >> 58] = _i

# About what it costs, in steps on a wide word, to look at one pair by itself, and one place of it.
_PAIR_STEPS, _PLACE_STEPS = 50, 2


@njit(cache=True)
def _place_of(bit):
    return _PLACES[(bit * _DE_BRUIJN) >> np.uint64(58)]


@njit(cache=True)
def _bits_in(word):
    count = 0
    while word != 0:
        word &= word - _ONE
        count += 1
    return count


@njit(cache=True)
def rows_of(left, right, count):
    """Pairs as rows: where those of each left number begin, and their right numbers."""
    starts = np.zeros(count + 1, np.int64)
    for i in range(left.shape[0]):
        starts[left[i] + 1] += 1
    for i in range(count):
        starts[i + 1] += starts[i]
    fill = starts.copy()
    items = np.empty(right.shape[0], np.int64)
    for i in range(left.shape[0]):
        items[fill[left[i]]] = right[i]
        fill[left[i]] += 1
    return starts, items


@njit(cache=True)
def _fill(element, relation, others, rows, first):
    """The rows of an element to be served, one for each place, into rows[first:]."""
    related_start, related, kinds, taken, negative = relation[:5]
    held_start, held_place, held_bag, dense, dense_rows, places, words = others
    size = places * words
    if kinds[element] < 0 or not negative:
        for i in range(first, first + size):
            rows[i] = _NONE
        if kinds[element] < 0:
            return
    else:
        base = kinds[element] * size - first
        for i in range(first, first + size, WORDS):
            put(rows, i, taken, base + i)
    for k in range(related_start[element], related_start[element + 1]):
        partner = related[k]
        if dense[partner] >= 0:
            base = dense[partner] * size - first
            if negative:
                for i in range(first, first + size, WORDS):
                    drop(rows, i, dense_rows, base + i)
            else:
                for i in range(first, first + size, WORDS):
                    add(rows, i, dense_rows, base + i)
            continue
        for h in range(held_start[partner], held_start[partner + 1]):
            at = first + held_place[h] * words + (held_bag[h] >> 6)
            bit = _ONE << np.uint64(held_bag[h] & 63)
            if negative:
                rows[at] &= ~bit
            else:
                rows[at] |= bit


@njit(cache=True)
def ready_rows(ready, count, relation, others):
    """The rows of the elements that `ready` numbers: those that are asked for again and again."""
    size = others[5] * others[6]
    rows = np.empty(count * size, np.uint64)
    for element in range(ready.shape[0]):
        if ready[element] >= 0:
            _fill(element, relation, others, rows, ready[element] * size)
    return rows


@njit(cache=True)
def _lay_out(bag, served, relation, others, table):
    """The table of one served bag, flat: row (element, place) after row. Returns the bag's size."""
    starts, codes, ready, rows = served
    size = others[5] * others[6]
    for s in range(starts[bag + 1] - starts[bag]):
        element = codes[starts[bag] + s]
        first = s * size
        if ready[element] >= 0:
            base = ready[element] * size - first
            for i in range(first, first + size, WORDS):
                put(table, i, rows, base + i)
        else:
            _fill(element, relation, others, table, first)
    return starts[bag + 1] - starts[bag]


@njit(cache=True)
def dense_rows(held_start, held_place, held_bag, dense, count, places, words):
    """Rows of the partners that many bags hold."""
    rows = np.zeros(count * places * words, np.uint64)
    for partner in range(dense.shape[0]):
        if dense[partner] < 0:
            continue
        base = dense[partner] * places * words
        for h in range(held_start[partner], held_start[partner + 1]):
            bit = _ONE << np.uint64(held_bag[h] & 63)
            rows[base + held_place[h] * words + (held_bag[h] >> 6)] |= bit
    return rows


@njit(cache=True)
def bound(allowed, size_class, served, relation, others, exists, sure, may):
    """For each served bag the others that it fits for sure, and those that it may fit.

    `allowed` has a row for each class of size of a served bag: the others of the right size.
    `exists` says, place by place, which of the others have it, if all places are needed; else it
    has no rows.
    """
    starts = served[0]
    places, words = others[5], others[6]
    longest = 0
    for bag in range(starts.shape[0] - 1):
        longest = max(longest, starts[bag + 1] - starts[bag])
    table = np.empty(max(longest, 1) * places * words + WORDS, np.uint64)
    free = np.empty(places * WORDS + WORDS, np.uint64)
    used = np.empty(places * WORDS + WORDS, np.uint64)
    got = np.empty(WORDS, np.uint64)
    for bag in range(starts.shape[0] - 1):
        if size_class[bag] < 0:
            continue
        anybody = _NONE
        for w in range(words):
            may[bag, w] = allowed[size_class[bag], w]
            anybody |= may[bag, w]
        if anybody == 0:
            continue
        size = _lay_out(bag, served, relation, others, table)
        for block in range(0, words, WORDS):
            candidates = _NONE
            for w in range(WORDS):
                candidates |= may[bag, block + w]
                sure[bag, block + w] = may[bag, block + w]
            if candidates == 0:
                continue
            free[:] = _ALL
            used[:] = _NONE
            for s in range(size):
                got[:] = _NONE
                for p in range(places):
                    at = (s * places + p) * words + block
                    take(free, p * WORDS, got, 0, table, at)
                    add(used, p * WORDS, table, at)
                for w in range(WORDS):
                    sure[bag, block + w] &= got[w]
                got[:] = _NONE
                for p in range(places):
                    add(got, 0, table, (s * places + p) * words + block)
                for w in range(WORDS):
                    may[bag, block + w] &= got[w]
            for p in range(exists.shape[0] // words):
                for w in range(WORDS):
                    needed = exists[p * words + block + w]
                    may[bag, block + w] &= used[p * WORDS + w] | ~needed


@njit(cache=True)
def _sets_of(size):
    """The sets of so many elements by how many they have and by an element that they have.

    Returns where those of n elements with element s begin, at n * size + s, and the sets.
    """
    count = 1 << size
    sizes = np.zeros(count, np.int64)
    first = np.zeros((size + 1) * size + 1, np.int64)
    for each in range(1, count):
        sizes[each] = sizes[each >> 1] + (each & 1)
        for s in range(size):
            first[sizes[each] * size + s + 1] += (each >> s) & 1
    for n in range(1, first.shape[0]):
        first[n] += first[n - 1]
    fill = first.copy()
    sets = np.zeros(first[-1], np.int64)
    for each in range(1, count):
        for s in range(size):
            if (each >> s) & 1:
                sets[fill[sizes[each] * size + s]] = each
                fill[sizes[each] * size + s] += 1
    return first, sets


@njit(cache=True)
def _decide_by_sets(size, places, spare, block, words, table, first, sets, reached, row):
    """Leave in a wide word of `row` those that can serve the whole set.

    Larger sets come first: what is known of smaller ones is then still from the places before.
    """
    whole = (1 << size) - 1
    reached[: (whole + 1) * WORDS] = _NONE
    for w in range(WORDS):
        reached[w] = row[block + w]
    for p in range(places):
        for n in range(min(p + 1, size), max(1, p + 1 - spare) - 1, -1):
            for s in range(size):
                at = (s * places + p) * words + block
                without = (1 << s) * WORDS
                for i in range(first[n * size + s], first[n * size + s + 1]):
                    each = sets[i] * WORDS
                    add_both(reached, each, reached, each - without, table, at)
    for w in range(WORDS):
        row[block + w] = reached[whole * WORDS + w]


@njit(cache=True)
def _fits(other, size, places, words, table, masks, holder, partner, asked_by, queue):
    """Whether each of the elements has a place of its own in one other bag."""
    at, shift = other >> 6, np.uint64(other & 63)
    for s in range(size):
        mask = _NONE
        for p in range(places):
            mask |= ((table[(s * places + p) * words + at] >> shift) & _ONE) << np.uint64(p)
        masks[s] = mask
    taken = _NONE
    for want in range(size):
        free = masks[want] & ~taken
        if free != 0:
            free &= ~free + _ONE
            place = _place_of(free)
            holder[place] = want
            partner[want] = place
            taken |= free
            continue
        more = _move_over(want, masks, taken, holder, partner, asked_by, queue)
        if more == taken:
            return False
        taken = more
    return True


@njit(cache=True)
def _move_over(want, masks, taken, holder, partner, asked_by, queue):
    """Seat `want` by letting others change places; the places taken, as before if there is no way.

    Kuhn's search, breadth first.
    """
    seen = _NONE
    queue[0] = want
    head, tail = 0, 1
    while head < tail:
        asking = queue[head]
        head += 1
        fresh = masks[asking] & ~seen
        seen |= fresh
        while fresh != 0:
            bit = fresh & (~fresh + _ONE)
            fresh ^= bit
            place = _place_of(bit)
            asked_by[place] = asking
            if taken & bit != 0:
                queue[tail] = holder[place]
                tail += 1
                continue
            while True:
                mover = asked_by[place]
                left = partner[mover]
                holder[place] = mover
                partner[mover] = place
                if mover == want:
                    return taken | bit
                place = left
    return taken


@njit(cache=True)
def decide(served, relation, others, open_rows):
    """Leave in each row of `open_rows` only the others that the served bag fits."""
    starts = served[0]
    places, words = others[5], others[6]
    longest, longest_of_sets = 0, 0
    for bag in range(starts.shape[0] - 1):
        size = starts[bag + 1] - starts[bag]
        longest = max(longest, size)
        if size <= SETS_MAX:
            longest_of_sets = max(longest_of_sets, size)
    table = np.empty(max(longest, 1) * places * words + WORDS, np.uint64)
    reached = np.empty((1 << longest_of_sets) * WORDS, np.uint64)
    masks = np.zeros(max(longest, 1), np.uint64)
    partner = np.zeros(max(longest, 1), np.int64)
    holder, asked_by = np.zeros(PLACES_MAX, np.int64), np.zeros(PLACES_MAX, np.int64)
    queue = np.zeros(PLACES_MAX + 1, np.int64)
    known_size, first, sets = -1, np.zeros(1, np.int64), np.zeros(1, np.int64)
    for bag in range(starts.shape[0] - 1):
        anybody = _NONE
        for w in range(words):
            anybody |= open_rows[bag, w]
        if anybody == 0:
            continue
        size = _lay_out(bag, served, relation, others, table)
        by_sets = size <= SETS_MAX
        if by_sets and size != known_size:
            known_size = size
            first, sets = _sets_of(size)
        spare = places - size
        steps = (size << size >> 1) * (spare + 1)
        row = open_rows[bag]
        for block in range(0, words, WORDS):
            left = 0
            for w in range(WORDS):
                left += _bits_in(row[block + w])
            if left == 0:
                continue
            if by_sets and steps < left * (_PAIR_STEPS + _PLACE_STEPS * size * places):
                _decide_by_sets(size, places, spare, block, words, table, first, sets, reached, row)
                continue
            for w in range(block, block + WORDS):
                rest = row[w]
                while rest != 0:
                    bit = rest & (~rest + _ONE)
                    rest ^= bit
                    other = (w << 6) + _place_of(bit)
                    if not _fits(
                        other, size, places, words, table, masks, holder, partner, asked_by, queue
                    ):
                        row[w] ^= bit
