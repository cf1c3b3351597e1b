"""Bits of a word: how many are set, where the only one is (compiled by Numba).

The place of a bit is found by a de Bruijn sequence.

A loop that can bear no call looks it up itself: `POSITIONS[(bit * DE_BRUIJN) >> np.uint64(58)]`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
POSITIONS = np.zeros(64, np.int64)
for _i in range(64):
    POSITIONS[(int(DE_BRUIJN) << _i & 0xFFFFFFFFFFFFFFFF) >> 58] = _i


@njit(cache=True)
def position_of(bit):
    """The position of the only set bit of a word."""
    return POSITIONS[(bit * DE_BRUIJN) >> np.uint64(58)]


@njit(cache=True)
def ones_in(word):
    """How many bits of a word are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
