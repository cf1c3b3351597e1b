"""Sub-bags: constraints `#</λ Q`, as tokens that a bag hits exactly when it fits into Q.

Each is kept with its wants, the tokens of `#>/λ {q}` for the elements q of Q. A bag that fits has a
want of Q for each of its elements, so whichever element one picks, Q is among the postings of that
element's tokens. `kernels/bags.py` picks the one with the fewest and checks those.

Postings are made anew each time the number of sub-bags has grown by a quarter; those that came
since are few, and each is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbn.matching.groups import grown
from kbn.matching.kernels.bags import sign_all
from kbn.matching.kernels.views import SubBagArrays

UNPOSTED_MAX = 64


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
        self._posting_size = np.zeros(0, np.int32)
        self._posting_bits = np.zeros(0, np.uint64)

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
            self._posting_start, self._postings, self._posting_size, self._posting_bits,
        )  # fmt: skip

    def _post(self) -> None:
        """Per want the sub-bags that have it, the largest first."""
        sizes = np.diff(self._want_start[: self.count + 1])
        owners = np.repeat(np.arange(self.count, dtype=np.int64), sizes)
        wants = self._wants[: owners.shape[0]]
        # A bag that wants the same twice is posted once.
        wants, owners = np.divmod(np.unique(wants * self.count + owners), max(1, self.count))
        order = np.lexsort((-sizes[owners], wants))
        self._postings = owners[order].astype(np.int32)
        self._posting_size = sizes[self._postings].astype(np.int32)
        signatures = sign_all(self._want_start, self._wants, self.count)
        self._posting_bits = signatures[self._postings]
        counts = np.bincount(wants, minlength=1)
        self._posting_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        self._built = self.count
