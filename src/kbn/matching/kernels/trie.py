"""Kernels of the trie: filters by their tokens (compiled by Numba; arrays and integers only).

The trie is one open-addressing table from (node, token) to child, so that inserting is incremental
and the same arrays serve a live matcher and a memory-mapped snapshot. The tokens of a filter, and
the hits of a notification, are in the order of `rank`; a walk visits just the nodes whose tokens
were all hit. A node's 64-bit mask of its children's tokens saves most probes that would miss.

    slots[:, 0]  node << 32 | token, or EMPTY
    slots[:, 1]  child << 33 | (group + 1) << 1 | inner
    masks        per node, a bit for the hash of each child's token, and TO_VERIFY
    block_of     per node of the last build, where its groups that need verifying are in `blocks`
    blocks       per such group: group | length of its code << 32, then its code
    chains       per node, the first of those that came since; chain_next leads on

`inner` says that the child has children or a chain, so that a leaf costs one look at memory, and
TO_VERIFY that a node has groups to verify, so that most others cost no look at block and chain.
A notification that hits a popular token verifies thousands of groups. Copied side by side they are
read in order, where following a chain would miss the cache three times for each.

Kernels that emit take a growable array and return it: Numba has no cheap list.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.code import (
    EMPTY,
    MATCHED,
    emit,
    grown,
    in_range,
    negative_count,
    range_count,
    residual_count,
    token_count,
    verify,
)

_HASH = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
TO_VERIFY = _ONE


@njit(cache=True)
def _slot_of(key, bits):
    return np.int64((np.uint64(key) * _HASH) >> np.uint64(64 - bits))


@njit(cache=True)
def _child_bit(token):
    """One of 63 bits; the lowest is TO_VERIFY."""
    return _ONE << max((np.uint64(token) * _HASH) >> np.uint64(58), _ONE)


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
def insert_group(group, tokens, count, residual, trie, nodes):
    """Hang `group` under the path of tokens[:count]; returns the number of nodes.

    A group with a residual joins the node's chain, one without is the node's own. The path's
    tokens are in rank order, and the caller has made room for `count` more nodes.
    """
    slots = trie.slots
    mask = slots.shape[0] - 1
    node = 0
    parent_slot = np.int64(-1)
    for i in range(count):
        token = tokens[i]
        trie.masks[node] |= _child_bit(token)
        if parent_slot >= 0:
            slots[parent_slot, 1] |= 1
        key = (np.int64(node) << 32) | np.int64(token)
        slot = _slot_of(key, trie.bits)
        while slots[slot, 0] != EMPTY and slots[slot, 0] != key:
            slot = (slot + 1) & mask
        if slots[slot, 0] == EMPTY:
            slots[slot, 0] = key
            slots[slot, 1] = np.int64(nodes) << 33
            trie.masks[nodes] = np.uint64(0)
            trie.chains[nodes] = EMPTY
            nodes += 1
        node = slots[slot, 1] >> 33
        parent_slot = slot
    if residual or parent_slot < 0:
        trie.chain_next[group] = trie.chains[node]
        trie.chains[node] = group
        trie.masks[node] |= TO_VERIFY
        if parent_slot >= 0:
            slots[parent_slot, 1] |= 1
    else:
        slots[parent_slot, 1] |= (np.int64(group) + 1) << 1
    return nodes


@njit(cache=True)
def sort_by_rank(tokens, start, end, rank):
    """Sort tokens[start:end] in place: Shell's sort, for the few a notification usually hits.

    With one gap it is an insertion sort; np.argsort would double the time Numba takes to compile.
    """
    gap = 1
    while 9 * gap < end - start:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(start + gap, end):
            token = tokens[i]
            j = i - gap
            while j >= start and rank[tokens[j]] > rank[token]:
                tokens[j + gap] = tokens[j]
                j -= gap
            tokens[j + gap] = token
        gap //= 3


@njit(cache=True)
def insert_groups(members, words, starts, trie, nodes, path):
    """Insert many groups, whose codes are in words[starts[group]:]; returns the node count.

    `path` is room for the longest token list, `trie` a `NodeArrays`.
    """
    for m in range(members.shape[0]):
        group = members[m]
        start = starts[group]
        header = words[start]
        count = token_count(header)
        for i in range(count):
            path[i] = words[start + 1 + i]
        sort_by_rank(path, 0, count, trie.rank)
        nodes = insert_group(group, path, count, header != count, trie, nodes)
    return nodes


@njit(cache=True)
def _verify_block(blocks, as_float, at, end, hit_at, now, values, rests, present, covering, out):
    """What `verify` says of the codes in blocks[at:end]; findings go into `out`, their number back.

    The arrays come one by one and the parts of a code are looked at in place: taking an array out
    of a named tuple counts its references, which for a code costs more than looking at it.
    """
    count = 0
    while at < end:
        head = blocks[at]
        header = blocks[at + 1]
        position = at + 2 + token_count(header)
        at += 1 + (head >> 32)
        negatives = position + negative_count(header)
        holds = True
        if not covering:
            for i in range(position, negatives):
                if hit_at[blocks[i]] == now:
                    holds = False
                    break
        residuals = residual_count(header)
        position = negatives + residuals
        if holds:
            for i in range(position, position + 3 * range_count(header), 3):
                word = blocks[i]
                axis = word & 0xFFFFFF
                if not present[axis] or not in_range(
                    word, as_float[i + 1], as_float[i + 2], values[axis], rests[axis]
                ):
                    holds = False
                    break
        if holds:
            out[count] = ((head & 0xFFFFFFFF) << 1) | (residuals > 0)
            count += 1
    return count


@njit(cache=True)
def _drop_dead(found, start, end, alive):
    """Close up found[start:end] over groups that nobody is behind; the new end."""
    kept = start
    for i in range(start, end):
        if alive[found[i] >> 1] > 0:
            found[kept] = found[i]
            kept += 1
    return kept


@njit(cache=True)
def room_for_walk():
    """The `stack` of a walk: columns 0 and 1 are of the nodes that wait, 2 of those to verify."""
    return np.empty((64, 3), np.int64)


@njit(cache=True)
def _higher(stack):
    higher = np.empty((2 * stack.shape[0], 3), np.int64)
    higher[: stack.shape[0]] = stack
    return higher


@njit(cache=True)
def walk(
    tokens, start, end, trie, codes, stamps, points, notification, covering, found, count, stack
):
    """Emit the groups of the trie satisfied by the hit tokens[start:end], sorted by rank.

    The walk is depth first, and siblings wait on `stack`, which is grown where it must. Verifying
    comes after the walk: in one loop, each would leave too few registers for the other.
    """
    slots, masks, bits = trie.slots, trie.masks, trie.bits
    alive, some_dead = codes.alive, codes.some_dead
    mask = slots.shape[0] - 1
    stack[0, 0] = 0
    stack[0, 1] = start
    top, to_verify = 1, 0
    while top > 0:
        top -= 1
        node = stack[top, 0]
        first = stack[top, 1]
        children = masks[node]
        if children & TO_VERIFY:
            if to_verify >= stack.shape[0]:
                stack = _higher(stack)
            stack[to_verify, 2] = node
            to_verify += 1
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
                found = emit(found, count, group, MATCHED)
                count += 1
            if payload & 1:
                if top >= stack.shape[0]:
                    stack = _higher(stack)
                stack[top, 0] = payload >> 33
                stack[top, 1] = j + 1
                top += 1
    if to_verify > 0:
        found, count = _verify_nodes(
            stack[:to_verify, 2], trie, codes, stamps, points, notification, covering, found, count
        )
    return found, count, stack


@njit(cache=True)
def _verify_nodes(nodes, trie, codes, stamps, points, notification, covering, found, count):
    """Emit the groups in the blocks and chains of `nodes` that are satisfied."""
    chains, chain_next = trie.chains, trie.chain_next
    block_of, blocks, blocks_as_float = trie.block_of, trie.blocks, trie.blocks_as_float
    alive, some_dead = codes.alive, codes.some_dead
    hit_at, now = stamps.hit_at, stamps.clock[0]
    values, rests = points.values[notification], points.rests[notification]
    present = points.present[notification]
    for i in range(nodes.shape[0]):
        node = nodes[i]
        if node < block_of.shape[0]:
            at, behind = block_of[node, 0], block_of[node, 1]
            while found.shape[0] < count + (behind - at) // 2:
                found = grown(found)
            before = count
            count += _verify_block(
                blocks, blocks_as_float, at, behind, hit_at, now, values, rests, present, covering,
                found[before:],
            )  # fmt: skip
            if some_dead:
                count = _drop_dead(found, before, count, alive)
        group = chains[node]
        while group != EMPTY:
            if alive[group] > 0:
                verdict = verify(
                    codes.words, codes.as_float, codes.start[group], False, stamps, points,
                    notification, covering,
                )  # fmt: skip
                if verdict > 0:
                    found = emit(found, count, group, verdict)
                    count += 1
            group = chain_next[group]
    return found, count


@njit(cache=True)
def stamp_hits(hits, start, end, stamps):
    """Move the clock on, stamp the hit tokens, close up duplicates in place; the new end."""
    stamps.clock[0] += 1
    now, hit_at = stamps.clock[0], stamps.hit_at
    kept = start
    for i in range(start, end):
        token = hits[i]
        if hit_at[token] != now:
            hit_at[token] = now
            hits[kept] = token
            kept += 1
    return kept


@njit(cache=True)
def walk_many(hits, hit_start, covering, trie, codes, stamps, points):
    """The trie's answer for a batch: found groups and, per notification, where its own begin.

    With `covering`, see `verify`.
    """
    notifications = hit_start.shape[0] - 1
    found = np.empty(max(1024, 64 * notifications), np.int64)
    found_start = np.empty(notifications + 1, np.int64)
    stack = room_for_walk()
    count = 0
    for notification in range(notifications):
        found_start[notification] = count
        start = hit_start[notification]
        end = stamp_hits(hits, start, hit_start[notification + 1], stamps)
        sort_by_rank(hits, start, end, trie.rank)
        found, count, stack = walk(
            hits, start, end, trie, codes, stamps, points, notification, covering, found, count,
            stack,
        )  # fmt: skip
    found_start[notifications] = count
    return found[:count], found_start
