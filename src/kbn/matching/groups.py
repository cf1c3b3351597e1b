"""Groups: distinct codes, and the subscriptions that sit behind each.

Identical filters share one group, however many subscriptions ask for it, so that the index costs
what the distinct interests cost. A subscription of several filters has one *entry* in each of its
groups; an entry is an element of its group's doubly linked list, kept in arrays so that a million
of them are four small NumPy arrays and not four million objects.

Ids only grow: a group that loses its last subscription stays, with `alive` 0, until the matcher
compacts. Arrays are grown by doubling; the live part is the first `group_count`, `entry_count`, ….
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbn.matching.kernels import code as kernels
from kbn.matching.kernels.views import Codes

Array = NDArray[Any]

_GROUP_FIELDS = ("hashes", "alive", "single", "first")
_ENTRY_FIELDS = ("next_entry", "previous_entry", "entry_group", "entry_subscription")
# The live part of each array: what a snapshot saves.
ARRAYS = ("code", "code_start", "table", *_GROUP_FIELDS, *_ENTRY_FIELDS, "entry_start")


def grown(array: Array, size: int, fill: int | None = None) -> Array:
    """`array` itself if it holds `size` rows, else a copy with room to spare."""
    have = array.shape[0]
    if have >= size:
        return array
    room = max(size, have + have // 2, 16)
    bigger = np.empty((room, *array.shape[1:]), array.dtype)
    bigger[:have] = array
    if fill is not None:
        bigger[have:] = fill
    return bigger


def each_once(groups: Array, sizes: Array) -> tuple[Array, Array]:
    """Drop a group that a subscription would enter twice (two texts of one filter).

    The i-th subscription is in the next sizes[i] of `groups`.
    """
    owners = np.repeat(np.arange(sizes.shape[0], dtype=np.int64), sizes)
    pairs = np.unique(owners << 32 | groups.astype(np.int64))
    counted = np.bincount(pairs >> 32, minlength=sizes.shape[0])
    return (pairs & 0xFFFFFFFF).astype(np.int32), counted.astype(np.int32)


class Groups:
    """The store of distinct codes, their entries and their subscriptions."""

    def __init__(self) -> None:
        self.group_count = 0
        self.entry_count = 0
        self.subscription_count = 0
        self.dead_groups = 0
        self.code = np.empty(64, np.int64)
        self.code_start = np.zeros(17, np.int64)
        self.table = np.full(32, kernels.EMPTY, np.int32)
        self.hashes = np.empty(16, np.int64)
        self.alive = np.empty(16, np.int32)
        self.single = np.empty(16, np.int32)
        self.first = np.empty(16, np.int32)
        self.next_entry = np.empty(16, np.int32)
        self.previous_entry = np.empty(16, np.int32)
        self.entry_group = np.empty(16, np.int32)
        self.entry_subscription = np.empty(16, np.int32)
        self.entry_start = np.zeros(17, np.int32)

    def view(self) -> Codes:
        """What the kernels see."""
        return Codes(
            self.code, self.code.view(np.float64), self.code_start, self.alive, self.dead_groups > 0
        )

    def words(self, group: int) -> Array:
        """The code of one group."""
        return self.code[self.code_start[group] : self.code_start[group + 1]]

    def intern(self, words: Array, starts: Array) -> Array:
        """The group of each code words[starts[i]:starts[i+1]]; new codes make new groups."""
        count = starts.shape[0] - 1
        self._reserve_groups(count, words.shape[0])
        out = np.empty(count, np.int32)
        before = self.group_count
        self.group_count = kernels.intern_groups(
            words, starts, count, self.table, self.hashes, self.code, self.code_start, before, out
        )
        if self.group_count > before:
            fresh = slice(before, self.group_count)
            self.alive[fresh] = 0
            self.single[fresh] = 0
            self.first[fresh] = kernels.EMPTY
            self.dead_groups += self.group_count - before
        return out

    def forget_from(self, first: int) -> None:
        """Forget the groups from `first` on, which nobody has entered."""
        if self.group_count > first:
            self.dead_groups -= self.group_count - first
            self.group_count = first
            kernels.rehash_groups(self.table, self.hashes, first)

    def find(self, words: Array) -> int:
        """The group with just this code, or -1."""
        group, _ = kernels.find_group(
            self.table, self.hashes, self.code, self.code_start, words, 0, words.shape[0],
            kernels.content_hash(words, 0, words.shape[0]),
        )  # fmt: skip
        return int(group)

    def add_entries(self, groups: Array, sizes: Array) -> int:
        """Enter subscriptions, the i-th in the next sizes[i] of `groups`; returns the first id."""
        first_entry, first = self.entry_count, self.subscription_count
        self._reserve_entries(groups.shape[0], sizes.shape[0])
        kernels.link_entries(first_entry, groups, self.first, self.next_entry, self.previous_entry)
        ids = np.arange(first, first + sizes.shape[0], dtype=np.int32)
        owners = np.repeat(ids, sizes)
        self.entry_subscription[first_entry : first_entry + groups.shape[0]] = owners
        self.entry_group[first_entry : first_entry + groups.shape[0]] = groups
        ends = first_entry + np.cumsum(sizes)
        self.entry_start[first + 1 : first + 1 + sizes.shape[0]] = ends
        kernels.count_entries(groups, np.repeat(sizes, sizes), self.alive, self.single)
        self.dead_groups = int(np.count_nonzero(self.alive[: self.group_count] == 0))
        self.entry_count += groups.shape[0]
        self.subscription_count += sizes.shape[0]
        return first

    def add_one(self, groups: list[int]) -> int:
        """`add_entries` for one subscription, without the cost of arrays."""
        entry, subscription = self.entry_count, self.subscription_count
        self._reserve_entries(len(groups), 1)
        for group in groups:
            head = self.first[group]
            self.next_entry[entry] = head
            self.previous_entry[entry] = kernels.EMPTY
            if head != kernels.EMPTY:
                self.previous_entry[head] = entry
            self.first[group] = entry
            self.entry_subscription[entry] = subscription
            self.entry_group[entry] = group
            self.dead_groups -= bool(self.alive[group] == 0)
            self.alive[group] += 1
            if len(groups) == 1:
                self.single[group] += 1
            entry += 1
        self.entry_count = entry
        self.entry_start[subscription + 1] = entry
        self.subscription_count += 1
        return subscription

    def remove(self, subscription: int) -> list[int]:
        """Take a subscription out of its groups; returns the groups it was in."""
        start, end = self.entry_start[subscription : subscription + 2].tolist()
        left = []
        for entry in range(start, end):
            group = self._unlink(entry)
            self.alive[group] -= 1
            if end - start == 1:
                self.single[group] -= 1
            self.dead_groups += bool(self.alive[group] == 0)
            left.append(group)
        return left

    def groups_of(self, subscription: int) -> list[int]:
        """The groups a subscription is in, one per filter."""
        start, end = self.entry_start[subscription : subscription + 2].tolist()
        groups: list[int] = self.entry_group[start:end].tolist()
        return groups

    def has_several(self, subscription: int) -> bool:
        return bool(self.entry_start[subscription + 1] - self.entry_start[subscription] > 1)

    def members(self, group: int) -> list[int]:
        """The subscriptions behind one group."""
        found = []
        entry = int(self.first[group])
        while entry != kernels.EMPTY:
            found.append(int(self.entry_subscription[entry]))
            entry = int(self.next_entry[entry])
        return found

    def compacted(self, kept: Array) -> Groups:
        """The same groups with only the subscriptions `kept`, renumbered in their order."""
        alive = self.alive[: self.group_count] > 0
        fresh = Groups()
        lengths = np.diff(self.code_start[: self.group_count + 1])
        words = self.code[: self.code_start[self.group_count]][np.repeat(alive, lengths)]
        starts = np.concatenate(([0], np.cumsum(lengths[alive])))
        fresh.intern(np.ascontiguousarray(words), starts)
        renumbered = np.cumsum(alive) - 1
        sizes = np.diff(self.entry_start[: self.subscription_count + 1])
        of_kept = np.zeros(self.subscription_count, bool)
        of_kept[kept] = True
        entries = np.repeat(of_kept, sizes)
        groups = renumbered[self.entry_group[: self.entry_count][entries]].astype(np.int32)
        fresh.add_entries(groups, sizes[kept])
        return fresh

    def memory(self) -> int:
        """The bytes the arrays hold."""
        return sum(getattr(self, name).nbytes for name in ARRAYS)

    def check_invariants(self) -> None:
        """Every list is whole and every count is right (slow; for tests)."""
        total = 0
        for group in range(self.group_count):
            members = self.members(group)
            assert len(members) == self.alive[group], (group, members, self.alive[group])
            assert self.find(self.words(group)) == group
            total += len(members)
        assert total <= self.entry_count
        assert self.dead_groups == np.count_nonzero(self.alive[: self.group_count] == 0)

    def _unlink(self, entry: int) -> int:
        group = int(self.entry_group[entry])
        before, after = self.previous_entry[entry], self.next_entry[entry]
        if before == kernels.EMPTY:
            self.first[group] = after
        else:
            self.next_entry[before] = after
        if after != kernels.EMPTY:
            self.previous_entry[after] = before
        return group

    def _reserve_groups(self, groups: int, words: int) -> None:
        total = self.group_count + groups
        self.code = grown(self.code, int(self.code_start[self.group_count]) + words)
        self.code_start = grown(self.code_start, total + 1)
        if self.hashes.shape[0] < total:  # the others of a group are as long
            for name in _GROUP_FIELDS:
                setattr(self, name, grown(getattr(self, name), total))
        if self.table.shape[0] < 2 * total:
            size = 1 << (2 * total - 1).bit_length()
            self.table = np.empty(size, np.int32)
            kernels.rehash_groups(self.table, self.hashes, self.group_count)

    def _reserve_entries(self, entries: int, subscriptions: int) -> None:
        if self.entry_group.shape[0] < self.entry_count + entries:  # the others are as long
            for name in _ENTRY_FIELDS:
                setattr(self, name, grown(getattr(self, name), self.entry_count + entries))
        self.entry_start = grown(self.entry_start, self.subscription_count + subscriptions + 1)
