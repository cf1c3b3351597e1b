"""Where the only set bit of a word is, by a de Bruijn sequence (compiled by Numba).

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
