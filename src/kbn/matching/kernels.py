"""The inner loops of the index, compiled by Numba: everything here is arrays and integers.

Theory of operation. A filter is compiled (see `codes.py`) to a *code*: tokens that must be hit,
tokens that must not be, numeric ranges, and checks that only Python can do. Two structures find the
filters a notification satisfies, each cheap where the other is dear:

* The **trie** holds filters by their tokens, in the order of `rank` (rarest first). It is one
  open-addressing table from (node, token) to child, so inserting is incremental and the same arrays
  serve a live matcher and a memory-mapped snapshot. A walk visits just the nodes whose tokens were
  all hit. A node's 64-bit mask of its children's tokens saves most probes that would miss.
* The **slabs** hold filters whose ranges select better than their tokens: per slab of 4,096 filters,
  per axis and grid cell, a bit set of the filters that fail there. One notification ORs one row per
  axis; the zeros left are candidates, and their exact bounds are compared. (This is the idea of HEM,
  with rows cut into slabs so that a batch works on one slab while it is in the cache.)

Numbers are compared exactly although they are stored as float64: a number x is the pair
(float(x), x - float(x)), ordered lexicographically; rounding is monotone, so that order is x's own.

Every kernel that emits takes growable arrays and returns them, since Numba has no cheap list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

EMPTY = -1
GROUP_BITS = 31
SLAB = 4096
SLAB_WORDS = SLAB // 64

# How a candidate left the kernel: surely matched, or its checks remain to be done in Python.
MATCHED = 1
UNCHECKED = 2

_HASH = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ALL_BITS = _ALL


# --- codes -----------------------------------------------------------------------------------------
# header word: tokens (20 bits) | negatives (14) | checks (14) | ranges (14)
# range words: axis (24) | low open | high open | low is int | high is int | low rest (12) | high rest (12)
#              then the bits of float64 low and high


@njit(cache=True, inline="always")
def token_count(header):
    return header & 0xFFFFF


@njit(cache=True, inline="always")
def negative_count(header):
    return (header >> 20) & 0x3FFF


@njit(cache=True, inline="always")
def check_count(header):
    return (header >> 34) & 0x3FFF


@njit(cache=True, inline="always")
def range_count(header):
    return (header >> 48) & 0x3FFF


@njit(cache=True, inline="always")
def _in_range(word, low, high, value, rest):
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
def verify(code, code_as_float, start, with_tokens, stamps, stamp, values, rests, present, covering):
    """What the code at `start` says of the notification: 0 no, MATCHED, or UNCHECKED.

    With `covering`, negatives and checks are taken as held: the caller wants every filter that
    could cover, and asks the oracle about each.
    """
    header = code[start]
    position = start + 1
    tokens = token_count(header)
    if with_tokens:
        for i in range(position, position + tokens):
            if stamps[code[i]] != stamp:
                return 0
    position += tokens
    negatives = negative_count(header)
    if not covering:
        for i in range(position, position + negatives):
            if stamps[code[i]] == stamp:
                return 0
    position += negatives
    checks = check_count(header)
    position += checks
    for _ in range(range_count(header)):
        word = code[position]
        axis = word & 0xFFFFFF
        if not present[axis]:
            return 0
        low = code_as_float[position + 1]
        high = code_as_float[position + 2]
        if not _in_range(word, low, high, values[axis], rests[axis]):
            return 0
        position += 3
    return UNCHECKED if checks > 0 else MATCHED


@njit(cache=True)
def content_hash(words, start, end):
    h = np.uint64(1469598103934665603)
    for i in range(start, end):
        h = (h ^ np.uint64(words[i])) * _HASH
        h ^= h >> np.uint64(29)
    return np.int64(h & np.uint64(0x7FFFFFFFFFFFFFFF))


@njit(cache=True, inline="always")
def _same_words(a, a_start, b, b_start, length):
    for i in range(length):
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


# --- the trie ---------------------------------------------------------------------------------------
# slots[:, 0] = node << 32 | token, or EMPTY;  slots[:, 1] = child << 33 | (group + 1) << 1 | inner
# inner says the child has children or a chain, so that a leaf costs one look at memory.


@njit(cache=True, inline="always")
def _slot_of(key, bits):
    return np.int64((np.uint64(key) * _HASH) >> np.uint64(64 - bits))


@njit(cache=True, inline="always")
def _child_bit(token):
    return _ONE << ((np.uint64(token) * _HASH) >> np.uint64(58))


@njit(cache=True)
def rehash_trie(old, new, bits):
    mask = new.shape[0] - 1
    new[:, 0] = EMPTY
    for i in range(old.shape[0]):
        key = old[i, 0]
        if key == EMPTY:
            continue
        slot = _slot_of(key, bits)
        while new[slot, 0] != EMPTY:
            slot = (slot + 1) & mask
        new[slot, 0] = key
        new[slot, 1] = old[i, 1]


@njit(cache=True)
def insert_group(group, tokens, count, residual, slots, bits, masks, chains, chain_next, nodes):
    """Hang `group` under the path of tokens[:count]; returns the number of nodes.

    A group with a residual joins the node's chain, one without is the node's own. The path's
    tokens are in rank order, and the caller has made room for `count` more nodes.
    """
    mask = slots.shape[0] - 1
    node = 0
    parent_slot = np.int64(-1)
    for i in range(count):
        token = tokens[i]
        masks[node] |= _child_bit(token)
        if parent_slot >= 0:
            slots[parent_slot, 1] |= 1
        key = (np.int64(node) << 32) | np.int64(token)
        slot = _slot_of(key, bits)
        while slots[slot, 0] != EMPTY and slots[slot, 0] != key:
            slot = (slot + 1) & mask
        if slots[slot, 0] == EMPTY:
            slots[slot, 0] = key
            slots[slot, 1] = np.int64(nodes) << 33
            masks[nodes] = np.uint64(0)
            chains[nodes] = EMPTY
            nodes += 1
        node = slots[slot, 1] >> 33
        parent_slot = slot
    if residual or parent_slot < 0:
        chain_next[group] = chains[node]
        chains[node] = group
        if parent_slot >= 0:
            slots[parent_slot, 1] |= 1
    else:
        slots[parent_slot, 1] |= (np.int64(group) + 1) << 1
    return nodes


@njit(cache=True, inline="always")
def _sort_by_rank(tokens, start, end, rank):
    for i in range(start + 1, end):
        token = tokens[i]
        j = i - 1
        while j >= start and rank[tokens[j]] > rank[token]:
            tokens[j + 1] = tokens[j]
            j -= 1
        tokens[j + 1] = token


@njit(cache=True)
def sort_by_rank(tokens, start, end, rank):
    if end - start < 48:
        _sort_by_rank(tokens, start, end, rank)
        return
    part = tokens[start:end].copy()
    order = np.argsort(rank[part])
    for i in range(end - start):
        tokens[start + i] = part[order[i]]


@njit(cache=True)
def insert_groups(
    members, code, code_start, rank, slots, bits, masks, chains, chain_next, nodes, path
):
    """Insert many groups; `path` is room for the longest token list. Returns the node count."""
    for m in range(members.shape[0]):
        group = members[m]
        start = code_start[group]
        header = code[start]
        count = token_count(header)
        for i in range(count):
            path[i] = code[start + 1 + i]
        sort_by_rank(path, 0, count, rank)
        residual = header != count
        nodes = insert_group(
            group, path, count, residual, slots, bits, masks, chains, chain_next, nodes
        )
    return nodes


@njit(cache=True)
def _grown(array):
    bigger = np.empty(2 * array.shape[0], array.dtype)
    bigger[: array.shape[0]] = array
    return bigger


@njit(cache=True)
def walk(
    tokens,
    start,
    end,
    slots,
    bits,
    masks,
    chains,
    chain_next,
    code,
    code_as_float,
    code_start,
    alive,
    some_dead,
    stamps,
    stamp,
    values,
    rests,
    present,
    covering,
    found,
    count,
    stack,
):
    """Emit the groups of the trie satisfied by the hit tokens[start:end], sorted by rank.

    `found` receives the group shifted left by one, the low bit set when checks remain. `stack` has
    room for (end - start + 2) levels and more: the walk is depth first, siblings wait on it.
    """
    mask = slots.shape[0] - 1
    stack[0, 0] = 0
    stack[0, 1] = start
    top = 1
    while top > 0:
        top -= 1
        node = stack[top, 0]
        first = stack[top, 1]
        group = chains[node]
        while group != EMPTY:
            if alive[group] > 0:
                verdict = verify(
                    code, code_as_float, code_start[group], False, stamps, stamp,
                    values, rests, present, covering,
                )  # fmt: skip
                if verdict > 0:
                    if count >= found.shape[0]:
                        found = _grown(found)
                    found[count] = (np.int64(group) << 1) | (verdict == UNCHECKED)
                    count += 1
            group = chain_next[group]
        children = masks[node]
        for j in range(first, end):
            token = tokens[j]
            if children & _child_bit(token) == 0:
                continue
            key = (np.int64(node) << 32) | np.int64(token)
            slot = _slot_of(key, bits)
            while slots[slot, 0] != key and slots[slot, 0] != EMPTY:
                slot = (slot + 1) & mask
            if slots[slot, 0] == EMPTY:
                continue
            payload = slots[slot, 1]
            group = ((payload >> 1) & 0xFFFFFFFF) - 1
            if group >= 0 and (not some_dead or alive[group] > 0):
                if count >= found.shape[0]:
                    found = _grown(found)
                found[count] = np.int64(group) << 1
                count += 1
            if payload & 1:
                if top >= stack.shape[0]:
                    bigger = np.empty((2 * top, 2), stack.dtype)
                    bigger[:top] = stack
                    stack = bigger
                stack[top, 0] = payload >> 33
                stack[top, 1] = j + 1
                top += 1
    return found, count, stack


# --- the slabs --------------------------------------------------------------------------------------
# rows[slab, axis, cell, word]: bit set = the filter fails there. Cell 0 stands for "axis absent";
# cells 1… lie between the axis' grid points. idle[slab, word]: bit set = no live filter there.


@njit(cache=True, inline="always")
def cell_of(grid, axis, size, value):
    """1 + the number of grid points at or below `value`."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if grid[axis, middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low + 1


@njit(cache=True)
def insert_slab(group, place, code, code_as_float, code_start, rows, idle, grid, grid_size, members):
    """Put `group` into slot `place` of the slabs."""
    slab = place // SLAB
    word = (place % SLAB) >> 6
    bit = _ONE << np.uint64(place & 63)
    start = code_start[group]
    header = code[start]
    position = start + 1 + token_count(header) + negative_count(header) + check_count(header)
    for _ in range(range_count(header)):
        axis = code[position] & 0xFFFFFF
        size = grid_size[axis]
        first = cell_of(grid, axis, size, code_as_float[position + 1])
        last = cell_of(grid, axis, size, code_as_float[position + 2])
        for cell in range(size + 2):
            if cell < first or cell > last:
                rows[slab, axis, cell, word] |= bit
        position += 3
    idle[slab, word] &= ~bit
    members[place] = group


@njit(cache=True)
def insert_slabs(groups, first_place, code, code_as_float, code_start, rows, idle, grid, grid_size, members):
    for i in range(groups.shape[0]):
        insert_slab(
            groups[i], first_place + i, code, code_as_float, code_start, rows, idle, grid,
            grid_size, members,
        )  # fmt: skip


@njit(cache=True)
def collect_bounds(groups, code, code_as_float, code_start):
    """Both bounds of every range of the groups, and the axis of each."""
    total = 0
    for i in range(groups.shape[0]):
        total += 2 * range_count(code[code_start[groups[i]]])
    axis_of = np.empty(total, np.int64)
    bounds = np.empty(total, np.float64)
    at = 0
    for i in range(groups.shape[0]):
        start = code_start[groups[i]]
        header = code[start]
        position = start + 1 + token_count(header) + negative_count(header) + check_count(header)
        for _ in range(range_count(header)):
            axis = code[position] & 0xFFFFFF
            axis_of[at] = axis
            bounds[at] = code_as_float[position + 1]
            axis_of[at + 1] = axis
            bounds[at + 1] = code_as_float[position + 2]
            at += 2
            position += 3
    return axis_of, bounds


@njit(cache=True)
def token_frequencies(groups, code, code_start, tokens):
    """How many of the groups hold each token; the tokens in all; the most in one group."""
    frequencies = np.zeros(tokens, np.int64)
    total, longest = 0, 0
    for i in range(groups.shape[0]):
        start = code_start[groups[i]]
        count = token_count(code[start])
        total += count
        longest = max(longest, count)
        for k in range(start + 1, start + 1 + count):
            frequencies[code[k]] += 1
    return frequencies, total, longest


@njit(cache=True)
def choose_slabs(groups, code, code_start, selectivity, threshold):
    """Which groups belong in the slabs: those with ranges whose tokens select too little."""
    chosen = np.zeros(groups.shape[0], np.bool_)
    for i in range(groups.shape[0]):
        start = code_start[groups[i]]
        header = code[start]
        if range_count(header) == 0:
            continue
        share = 1.0
        for k in range(start + 1, start + 1 + token_count(header)):
            share *= selectivity[code[k]]
        chosen[i] = share > threshold
    return chosen


@njit(cache=True)
def _lowest_bit(word):
    """The index of the lowest set bit of a non-zero word."""
    n = 0
    if word & np.uint64(0xFFFFFFFF) == 0:
        n += 32
        word >>= np.uint64(32)
    if word & np.uint64(0xFFFF) == 0:
        n += 16
        word >>= np.uint64(16)
    if word & np.uint64(0xFF) == 0:
        n += 8
        word >>= np.uint64(8)
    if word & np.uint64(0xF) == 0:
        n += 4
        word >>= np.uint64(4)
    if word & np.uint64(0x3) == 0:
        n += 2
        word >>= np.uint64(2)
    if word & _ONE == 0:
        n += 1
    return n


@njit(cache=True)
def failing(rows, idle, slab, cells, axes, accumulated):
    """OR into `accumulated` the slab's rows for the notification's cells; whether any filter is left."""
    for w in range(SLAB_WORDS):
        accumulated[w] = idle[slab, w]
    for axis in range(axes):
        row = rows[slab, axis, cells[axis]]
        for w in range(SLAB_WORDS):
            accumulated[w] |= row[w]
        if axis & 3 == 3:
            every = _ALL
            for w in range(SLAB_WORDS):
                every &= accumulated[w]
            if every == _ALL:
                return False
    return True


@njit(cache=True)
def scan_slab(
    slab,
    rows,
    idle,
    cells,
    axes,
    members,
    code,
    code_as_float,
    code_start,
    alive,
    stamps,
    stamp,
    values,
    rests,
    present,
    covering,
    accumulated,
    found,
    count,
):
    """Emit the groups of one slab that the notification satisfies (as `walk` does)."""
    if not failing(rows, idle, slab, cells, axes, accumulated):
        return found, count
    for w in range(SLAB_WORDS):
        left = ~accumulated[w]
        while left != 0:
            place = slab * SLAB + w * 64 + _lowest_bit(left)
            left &= left - _ONE
            group = members[place]
            if alive[group] == 0:
                continue
            verdict = verify(
                code, code_as_float, code_start[group], True, stamps, stamp, values, rests,
                present, covering,
            )  # fmt: skip
            if verdict > 0:
                if count >= found.shape[0]:
                    found = _grown(found)
                found[count] = (np.int64(group) << 1) | (verdict == UNCHECKED)
                count += 1
    return found, count


# --- whole notifications ----------------------------------------------------------------------------


@njit(cache=True, inline="always")
def _stamp_hits(hits, start, end, stamps, stamp):
    """Stamp the hit tokens and close up duplicates in place; returns the new end."""
    kept = start
    for i in range(start, end):
        token = hits[i]
        if stamps[token] != stamp:
            stamps[token] = stamp
            hits[kept] = token
            kept += 1
    return kept


@njit(cache=True)
def match_one(
    hits,
    rank,
    slots,
    bits,
    masks,
    chains,
    chain_next,
    code,
    code_as_float,
    code_start,
    alive,
    some_dead,
    clock,
    stamps,
    values,
    rests,
    present,
    covering,
    axes,
    slabs,
    rows,
    idle,
    grid,
    grid_size,
    members,
):
    """The groups satisfied by one notification, each shifted left by one, low bit: checks remain."""
    clock[0] += 1
    stamp = clock[0]
    end = _stamp_hits(hits, 0, hits.shape[0], stamps, stamp)
    sort_by_rank(hits, 0, end, rank)
    found = np.empty(256, np.int64)
    stack = np.empty((64, 2), np.int64)
    found, count, stack = walk(
        hits, 0, end, slots, bits, masks, chains, chain_next, code, code_as_float, code_start,
        alive, some_dead, stamps, stamp, values, rests, present, covering, found, 0, stack,
    )  # fmt: skip
    if slabs > 0:
        cells = np.zeros(axes, np.int64)
        for axis in range(axes):
            if present[axis]:
                cells[axis] = cell_of(grid, axis, grid_size[axis], values[axis])
        accumulated = np.empty(SLAB_WORDS, np.uint64)
        for slab in range(slabs):
            found, count = scan_slab(
                slab, rows, idle, cells, axes, members, code, code_as_float, code_start, alive,
                stamps, stamp, values, rests, present, covering, accumulated, found, count,
            )  # fmt: skip
    return found[:count]


@njit(cache=True)
def walk_many(
    hits,
    hit_start,
    rank,
    slots,
    bits,
    masks,
    chains,
    chain_next,
    code,
    code_as_float,
    code_start,
    alive,
    some_dead,
    clock,
    stamps,
    values,
    rests,
    present,
):
    """The trie's answer for a batch: found groups and, per notification, where its own begin."""
    events = hit_start.shape[0] - 1
    found = np.empty(max(1024, 64 * events), np.int64)
    found_start = np.empty(events + 1, np.int64)
    stack = np.empty((64, 2), np.int64)
    count = 0
    for event in range(events):
        found_start[event] = count
        clock[0] += 1
        stamp = clock[0]
        start = hit_start[event]
        end = _stamp_hits(hits, start, hit_start[event + 1], stamps, stamp)
        sort_by_rank(hits, start, end, rank)
        found, count, stack = walk(
            hits, start, end, slots, bits, masks, chains, chain_next, code, code_as_float,
            code_start, alive, some_dead, stamps, stamp, values[event], rests[event],
            present[event], False, found, count, stack,
        )  # fmt: skip
    found_start[events] = count
    return found[:count], found_start


@njit(cache=True)
def scan_many(
    hits,
    hit_start,
    restamp,
    code,
    code_as_float,
    code_start,
    alive,
    clock,
    stamps,
    values,
    rests,
    present,
    axes,
    slabs,
    rows,
    idle,
    grid,
    grid_size,
    members,
):
    """The slabs' answer for a batch, slab by slab while its rows are in the cache.

    Returns the found groups and the notification of each.
    """
    events = values.shape[0]
    cells = np.zeros((events, axes), np.int64)
    for event in range(events):
        for axis in range(axes):
            if present[event, axis]:
                cells[event, axis] = cell_of(grid, axis, grid_size[axis], values[event, axis])
    found = np.empty(max(1024, 64 * events), np.int64)
    owner = np.empty(found.shape[0], np.int32)
    accumulated = np.empty(SLAB_WORDS, np.uint64)
    count = 0
    for slab in range(slabs):
        for event in range(events):
            if restamp:
                clock[0] += 1
                for i in range(hit_start[event], hit_start[event + 1]):
                    stamps[hits[i]] = clock[0]
            before = count
            found, count = scan_slab(
                slab, rows, idle, cells[event], axes, members, code, code_as_float, code_start,
                alive, stamps, clock[0], values[event], rests[event], present[event], False,
                accumulated, found, count,
            )  # fmt: skip
            while owner.shape[0] < count:
                owner = _grown(owner)
            owner[before:count] = event
    return found[:count], owner[:count]


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
def count_hits(offsets, indices, valid, token_start, counts):
    """Add to counts[event] how many tokens the event's elements of one column hit."""
    for event in range(offsets.shape[0] - 1):
        for i in range(offsets[event], offsets[event + 1]):
            if valid[i]:
                value = indices[i]
                counts[event] += token_start[value + 1] - token_start[value]


@njit(cache=True)
def fill_hits(offsets, indices, valid, token_start, tokens, fill, hits):
    """Write those tokens behind fill[event], which moves on."""
    for event in range(offsets.shape[0] - 1):
        at = fill[event]
        for i in range(offsets[event], offsets[event + 1]):
            if valid[i]:
                value = indices[i]
                for k in range(token_start[value], token_start[value + 1]):
                    hits[at] = tokens[k]
                    at += 1
        fill[event] = at


@njit(cache=True)
def count_members(groups, starts, alive):
    """The number of subscriptions behind groups[starts[e]:starts[e+1]], per notification e."""
    totals = np.zeros(starts.shape[0] - 1, np.int64)
    for event in range(totals.shape[0]):
        for i in range(starts[event], starts[event + 1]):
            totals[event] += alive[groups[i]]
    return totals


@njit(cache=True)
def expand(groups, starts, totals, first, next_entry, entry_subscription):
    """The (notification, subscription) pairs of groups[starts[e]:starts[e+1]]."""
    size = totals.sum()
    owners = np.empty(size, np.int32)
    subscriptions = np.empty(size, np.int32)
    at = 0
    for event in range(starts.shape[0] - 1):
        for i in range(starts[event], starts[event + 1]):
            entry = first[groups[i]]
            while entry != EMPTY:
                owners[at] = event
                subscriptions[at] = entry_subscription[entry]
                at += 1
                entry = next_entry[entry]
    return owners, subscriptions
