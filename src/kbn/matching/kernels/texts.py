"""Kernels over lists of texts: the same few lists, written out for very many pairs."""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.copying import copy_bytes


@njit(cache=True)
def each_text_once(starts, texts):
    """Set to -1 what a list texts[starts[i]:starts[i+1]] says again."""
    for i in range(starts.shape[0] - 1):
        for k in range(starts[i] + 1, starts[i + 1]):
            for before in range(starts[i], k):
                if texts[before] == texts[k]:
                    texts[k] = -1
                    break


@njit(cache=True)
def sizes_of_lists(starts, texts, text_start):
    """How many texts a list has, and how many bytes they have together."""
    counts = np.zeros(starts.shape[0] - 1, np.int64)
    sizes = np.zeros(starts.shape[0] - 1, np.int64)
    for i in range(counts.shape[0]):
        for k in range(starts[i], starts[i + 1]):
            text = texts[k]
            if text >= 0:
                counts[i] += 1
                sizes[i] += text_start[text + 1] - text_start[text]
    return counts, sizes


@njit(cache=True)
def write_lists(chosen, starts, texts, text_start, content, counts, sizes):
    """The lists of `chosen` as Arrow has them: offsets of lists, offsets of texts, and bytes."""
    lists = counts.shape[0]
    block_start = np.zeros(lists + 1, np.int64)
    end_start = np.zeros(lists + 1, np.int64)
    for one in range(lists):
        block_start[one + 1] = block_start[one] + sizes[one]
        end_start[one + 1] = end_start[one] + counts[one]
    # Each list in one piece, and where its texts end within it.
    blocks = np.empty(block_start[-1] + 1, np.uint8)
    ends = np.empty(end_start[-1], np.int32)
    for one in range(lists):
        byte, at = block_start[one], end_start[one]
        for k in range(starts[one], starts[one + 1]):
            text = texts[k]
            if text >= 0:
                length = text_start[text + 1] - text_start[text]
                copy_bytes(blocks, byte, content, text_start[text], length)
                byte += length
                ends[at] = byte - block_start[one]
                at += 1
    texts_all, bytes_all = 0, 0
    for pair in range(chosen.shape[0]):
        texts_all += counts[chosen[pair]]
        bytes_all += sizes[chosen[pair]]
    list_offsets = np.empty(chosen.shape[0] + 1, np.int32)
    text_offsets = np.empty(texts_all + 1, np.int32)
    written = np.empty(bytes_all, np.uint8)
    list_offsets[0] = text_offsets[0] = 0
    at, byte = 0, 0
    for pair in range(chosen.shape[0]):
        one = chosen[pair]
        copy_bytes(written, byte, blocks, block_start[one], sizes[one])
        for k in range(end_start[one], end_start[one + 1]):
            at += 1
            text_offsets[at] = byte + ends[k]
        byte += sizes[one]
        list_offsets[pair + 1] = at
    return list_offsets, text_offsets, written
