"""Sub-bags: constraints `#</λ Q`, as tokens that a bag hits exactly when it fits into Q.

Each is kept with its wants, the tokens of `#>/λ {q}` for the elements q of Q. A bag that fits has a
want of Q for each of its elements. `kernels/bags.py` finds those that may hold a bag by this.

    in_order      the sub-bags, the largest first; what follows names them by their rank there
    large_enough  per size, how many have at least so many wants
    postings      per want, from posting_start on, the ranks of the sub-bags that have it
    row_of, rows  the row of a want that one in DENSE_SHARE sub-bags has: a bit for each that does;
                  rows[c] holds the bits of the c-th 512 ranks for all rows, side by side

These are made anew each time the number of sub-bags has grown by a quarter; those that came since
are few, and each is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbn.matching.groups import Array, grown
from kbn.matching.kernels.bags import ROW_BITS, ROW_WORDS
from kbn.matching.kernels.views import SubBagArrays

UNPOSTED_MAX = 64
DENSE_SHARE = 128
"""So a row takes at most as much room as sixteen bytes for each of its postings."""


class SubBags:
    """The sub-bag constraints of all attributes, in arrays that grow."""

    def __init__(self) -> None:
        self.attributes: dict[str, int] = {}
        self.tokens_of: dict[str, list[int]] = {}
        self.longest = 0
        self.count = 0
        self._built = 0
        self._token = np.zeros(16, np.int64)
        self._attribute = np.zeros(16, np.int64)
        self._want_start = np.zeros(17, np.int64)
        self._wants = np.zeros(16, np.int64)
        self._posting_start = np.zeros(1, np.int64)
        self._postings = np.zeros(0, np.int32)
        self._in_order = np.zeros(0, np.int32)
        self._large_enough = np.zeros(0, np.int64)
        self._row_of = np.zeros(0, np.int32)
        self._rows = np.zeros((0, 0, ROW_WORDS), np.uint64)

    def add(self, attribute: str, token: int, wants: Sequence[int]) -> None:
        """From now on `token` is hit by the bags that fit into those with these wants."""
        number, start = self.count, int(self._want_start[self.count])
        end = start + len(wants)
        self._token = grown(self._token, number + 1)
        self._attribute = grown(self._attribute, number + 1)
        self._want_start = grown(self._want_start, number + 2)
        self._wants = grown(self._wants, end)
        self._token[number] = token
        self._attribute[number] = self.attributes.setdefault(attribute, len(self.attributes))
        self._wants[start:end] = wants
        self._want_start[number + 1] = end
        self.tokens_of.setdefault(attribute, []).append(token)
        self.longest = max(self.longest, len(wants))
        self.count = number + 1

    def view(self) -> SubBagArrays:
        """What the kernels see; postings are made first where too many are without."""
        if self.count - self._built > max(UNPOSTED_MAX, self._built // 4):
            self._post()
        return SubBagArrays(
            self.count, self._built, self._token, self._attribute, self._want_start, self._wants,
            self._posting_start, self._postings, self._in_order, self._large_enough,
            self._row_of, self._rows,
        )  # fmt: skip

    def _post(self) -> None:
        """Order, postings and rows of all there are."""
        count = self.count
        sizes = np.diff(self._want_start[: count + 1])
        self._in_order = np.argsort(-sizes, kind="stable").astype(np.int32)
        self._large_enough = np.cumsum(np.bincount(sizes)[::-1])[::-1].astype(np.int64)
        rank_of = np.empty(count, np.int64)
        rank_of[self._in_order] = np.arange(count)
        wants = self._wants[: int(self._want_start[count])]
        # A bag that wants the same twice is posted once.
        pairs = np.unique(wants * count + np.repeat(rank_of, sizes))
        wants, ranks = np.divmod(pairs, max(1, count))
        self._postings = ranks.astype(np.int32)
        counts = np.bincount(wants, minlength=1)
        self._posting_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        self._row_of, self._rows = _rows(wants, ranks, counts, count)
        self._built = count


def _rows(wants: Array, ranks: Array, counts: Array, sub_bags: int) -> tuple[Array, Array]:
    """The row of each want that many have, -1 for the others; and the rows."""
    dense = np.flatnonzero(counts * DENSE_SHARE > sub_bags)
    row_of = np.full(counts.shape[0], -1, np.int32)
    row_of[dense] = np.arange(dense.shape[0])
    rows = np.zeros((-(-sub_bags // ROW_BITS), dense.shape[0], ROW_WORDS), np.uint64)
    chosen = row_of[wants] >= 0
    row, rank = row_of[wants[chosen]], ranks[chosen]
    word, bit = rank % ROW_BITS // 64, np.uint64(1) << (rank % 64).astype(np.uint64)
    np.bitwise_or.at(rows, (rank // ROW_BITS, row, word), bit)
    return row_of, rows
