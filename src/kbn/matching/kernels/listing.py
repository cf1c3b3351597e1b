"""The kernel that lists a trie depth first, for walks that visit it in order (compiled by Numba).

    listed[:, 0]    the token that leads to the node
    listed[:, 1]    where the list goes on after the nodes below it
    listed[:, 2]    how deep it is: 0 for a child of the root, which is not listed itself
    listed[:, 3]    the node's own group, or EMPTY
    listed[:, 4:6]  where its block begins and ends
    root_of         per token, where the child of the root by that token is listed, or EMPTY

Blocks are laid in the same order, so that a walk reads list and blocks from front to back.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.code import EMPTY

TOKEN, BEHIND, DEPTH, OWN, BLOCK, BLOCK_END = 0, 1, 2, 3, 4, 5
COLUMNS = 6


@njit(cache=True)
def lay(trie, codes, nodes):
    """List the trie and copy the chains' groups into blocks, which ends the chains.

    Returns the list, `root_of`, how deep the deepest node is, where the block of each node begins
    and ends, and the blocks.
    """
    first_child, sibling, token_of, group_of = _children(trie.slots, nodes)
    block_of, blocks = np.zeros((nodes, 2), np.int64), _room_for_blocks(trie, codes, nodes)
    listed = np.empty((nodes - 1, COLUMNS), np.int32)
    root_of = np.full(trie.rank.shape[0], EMPTY, np.int32)
    depth_of = np.empty(nodes, np.int32)
    waiting = np.empty(nodes, np.int32)
    path = np.empty(nodes, np.int32)
    depth_of[0], waiting[0] = -1, 0
    top, deepest, at, count, open_nodes = 1, 0, 0, 0, 0
    while top > 0:
        top -= 1
        node = waiting[top]
        block_of[node, 0] = at
        at = _lay_block(node, trie, codes, blocks, at)
        block_of[node, 1] = at
        if node > 0:
            depth = depth_of[node]
            while open_nodes > depth:
                open_nodes -= 1
                listed[path[open_nodes], BEHIND] = count
            path[open_nodes] = count
            open_nodes += 1
            deepest = max(deepest, depth + 1)
            listed[count, TOKEN], listed[count, DEPTH] = token_of[node], depth
            listed[count, OWN] = group_of[node]
            listed[count, BLOCK], listed[count, BLOCK_END] = block_of[node, 0], at
            if depth == 0:
                root_of[token_of[node]] = count
            count += 1
        child = first_child[node]
        while child != EMPTY:
            depth_of[child] = depth_of[node] + 1
            waiting[top] = child
            top += 1
            child = sibling[child]
    while open_nodes > 0:
        open_nodes -= 1
        listed[path[open_nodes], BEHIND] = count
    return listed, root_of, deepest, block_of, blocks


@njit(cache=True)
def _children(slots, nodes):
    """Per node: its first child, its next sibling, the token that leads to it, its own group."""
    first_child = np.full(nodes, EMPTY, np.int32)
    sibling = np.full(nodes, EMPTY, np.int32)
    token_of = np.empty(nodes, np.int32)
    group_of = np.empty(nodes, np.int32)
    for slot in range(slots.shape[0]):
        key = slots[slot, 0]
        if key == EMPTY:
            continue
        payload = slots[slot, 1]
        node, child = key >> 32, payload >> 33
        sibling[child] = first_child[node]
        first_child[node] = child
        token_of[child] = key & 0xFFFFFFFF
        group_of[child] = ((payload >> 1) & 0xFFFFFFFF) - 1
    return first_child, sibling, token_of, group_of


@njit(cache=True)
def _room_for_blocks(trie, codes, nodes):
    size = 0
    for node in range(nodes):
        group = trie.chains[node]
        while group != EMPTY:
            size += 1 + codes.start[group + 1] - codes.start[group]
            group = trie.chain_next[group]
    return np.empty(size, np.int64)


@njit(cache=True)
def _lay_block(node, trie, codes, blocks, at):
    """Copy the groups of a node's chain to blocks[at:] and end the chain; where the block ends."""
    group = trie.chains[node]
    while group != EMPTY:
        start = codes.start[group]
        length = codes.start[group + 1] - start
        blocks[at] = (length << 32) | np.int64(group)
        for k in range(length):
            blocks[at + 1 + k] = codes.words[start + k]
        at += 1 + length
        group = trie.chain_next[group]
    trie.chains[node] = EMPTY
    return at
