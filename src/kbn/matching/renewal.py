"""A renewal: an index made anew beside the one in use, in steps, while subscriptions come and go.

An index that has doubled is to be arranged anew, and one that lost most of its subscriptions is to
forget them. Where nobody may wait for that, both are done by making another one: what is subscribed
is taken over a part at a time, arranged, and what has come since is taken over, too. Then the new
one takes the place of the old. What is asked meanwhile is answered by the old one. What is removed
is removed from both; what comes has the next number and is taken over at the end.

The steps are the same in every run. Each says about how many microseconds it took.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from kbn.matching.groups import Array
from kbn.matching.index import Index
from kbn.matching.subscribers import Subscribers, is_key

if TYPE_CHECKING:
    from kbn.matching.indexed_subscriptions import IndexedSubscriptions

TAKEN_OVER = 2_048  # filters in a step
ENTERED = 128  # of those that came since: each is placed by itself
WORDS = 1 << 16  # of their codes
ARRANGED = 4_096  # groups


class Renewal:
    """What is to take the place of an index and its subscribers."""

    def __init__(self, held: IndexedSubscriptions) -> None:
        self._held_weakly = ref(held)  # no cycle, that only a search would find
        self.index = Index.empty_like(held.index)
        self.subscribers = Subscribers()
        self._next = 0  # the subscriptions before this one were taken over
        self._taken: list[Array] = []  # their numbers, but for those removed before
        self._is_arranged = False

    @property
    def _held(self) -> IndexedSubscriptions:
        held = self._held_weakly()
        assert held is not None, "who has the steps of it is there"
        return held

    @property
    def kept(self) -> Array:
        """The numbers that the subscriptions had, in the order of those that they have now."""
        return np.concatenate(self._taken) if self._taken else np.zeros(0, np.int64)

    @property
    def is_complete(self) -> bool:
        """Whether it has all that the old one has, arranged, and may take its place now."""
        return self._is_arranged and self._next == self._held.index.groups.subscription_count

    def removed(self, key: Hashable) -> None:
        """A subscription is removed that may have been taken over."""
        number = self.subscribers.remove(key)
        if number is not None:
            self.index.groups.remove(number)

    def steps(self) -> Iterator[int]:
        """Do it; each step says about how many microseconds it took. They do not end."""
        groups = self._held.index.groups
        there = groups.subscription_count
        while self._next < there:
            _, words = self._take_over(self._end(there, TAKEN_OVER))
            yield TAKEN_OVER // 2 + words // 50
        yield from self.index.arranging(ARRANGED, ARRANGED)
        self._is_arranged = True
        while True:
            new, words = self._take_over(self._end(groups.subscription_count, ENTERED))
            self.index.place_in_parts(new)
            yield 20 * ENTERED + words // 50

    def _end(self, there: int, filters: int) -> int:
        """Up to where a step goes: one subscription, or as many as have so few filters."""
        groups, first = self._held.index.groups, self._next
        end = min(there, first + filters)
        while end - first > 1:
            entries = groups.entry_group[groups.entry_start[first] : groups.entry_start[end]]
            words = groups.code_start[entries + 1] - groups.code_start[entries]
            if entries.shape[0] <= filters and int(words.sum()) <= WORDS:
                break
            end = first + (end - first) // 2
        return end

    def _take_over(self, end: int) -> tuple[Array, int]:
        """Enter the subscriptions up to a number; their groups, and how long their codes are."""
        old, first = self._held.index.groups, self._next
        self._next = end
        there = self._held.subscribers.at(list(range(first, end)))
        numbers = np.array([n for n, key in enumerate(there, first) if is_key(key)], np.int64)
        if not numbers.shape[0]:
            return np.zeros(0, np.int32), 0
        keys = [key for key in there if is_key(key)]
        sizes = (old.entry_start[numbers + 1] - old.entry_start[numbers]).astype(np.int32)
        entries = _ranges(old.entry_start[numbers].astype(np.int64), sizes)
        groups = old.entry_group[entries]
        lengths = old.code_start[groups + 1] - old.code_start[groups]
        words = old.code[_ranges(old.code_start[groups], lengths)]
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        new = self.index.groups.intern(words, starts)
        number = self.index.groups.add_entries(new, sizes)
        self.subscribers.numbers().update(zip(keys, range(number, number + len(keys)), strict=True))
        self.subscribers.extend(keys)
        self._taken.append(numbers)
        return new, words.shape[0]


def _ranges(starts: Array, sizes: Array) -> Array:
    """starts[0], starts[0] + 1, … sizes[0] of them, then those of starts[1] and so on."""
    before = np.cumsum(sizes) - sizes
    found: Array = np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))
    return found
