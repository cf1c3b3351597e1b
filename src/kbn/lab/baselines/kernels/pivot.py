"""Kernels of the pivot scan (see `baselines/pivot.py`; compiled by Numba, arrays only).

The words of one filter: its number, its number of constraints, then for each constraint the
attribute, the lowest rank and the highest rank, the pivot first.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def file_filters(starts, attributes, lows, highs, first, last, cells, at, words):
    """Write each filter's words at `at` of every cell its pivot touches; `at` moves on.

    Without `words` (an empty array) it only counts.
    """
    counting = words.shape[0] == 0
    for number in range(starts.shape[0] - 1):
        start, end = starts[number], starts[number + 1]
        for cell in range(first[number], last[number] + 1):
            place = attributes[start] * cells + cell
            here = at[place]
            at[place] = here + 2 + 3 * (end - start)
            if counting:
                continue
            words[here] = number
            words[here + 1] = end - start
            here += 2
            for i in range(start, end):
                words[here] = attributes[i]
                words[here + 1] = lows[i]
                words[here + 2] = highs[i]
                here += 3


@njit(cache=True)
def scan(words, bounds, values, cells, counts, found):
    """Count the filters that accept each row of `values` (ranks, -1 for none).

    `cells` holds the place of each value's cell. `found` takes the numbers of those that accept
    the row it is at: after one row, its findings.
    """
    attributes = values.shape[1]
    for row in range(values.shape[0]):
        have = values[row]
        count = np.uint64(0)
        for attribute in range(attributes):
            if have[attribute] < 0:
                continue
            place = cells[row, attribute]
            at, end = np.uint64(bounds[place]), np.uint64(bounds[place + 1])
            while at < end:
                step = at + np.uint64(2)
                at = step + np.uint64(3) * np.uint64(words[at + np.uint64(1)])
                accepted = True
                i = step
                while i < at:
                    value = have[np.uint64(words[i])]
                    if value < words[i + np.uint64(1)] or value > words[i + np.uint64(2)]:
                        accepted = False
                        break
                    i += np.uint64(3)
                if accepted:
                    found[count] = words[step - np.uint64(2)]
                    count += np.uint64(1)
        counts[row] = count
