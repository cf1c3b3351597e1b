"""Placement: which groups lie in the trie and which in the slabs, and when that is arranged anew.

Each group is placed where it is estimated to cost less (`costs.py`): a slab costs every
notification a little for every filter, the trie costs only those that get there.

The grid, the ranks and the placement are estimates from what is stored. They are made anew when
what came in bulk, or what came to the slabs one by one, is more than an eighth of what was there,
and whenever the index has doubled: an addition costs a constant amount on average, and a rebuild
now and then. (A bulk has slabs of its own, with filters less alike than those of all together: an
index filled in fifty bulks and arranged only as it doubled took 1.67 times as long on u100.) Where
nobody may wait for a rebuild, it is made in steps beside the index in use (`renewal.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kbn.matching.codes import Encoder
from kbn.matching.costs import cheaper_in_slabs
from kbn.matching.groups import Array, Groups, grown
from kbn.matching.kernels.code import token_frequencies
from kbn.matching.kernels.lane import weigh
from kbn.matching.kernels.slab import SLAB
from kbn.matching.slabs import LOOSE_MIN, Slabs
from kbn.matching.trie import Trie

REBUILD_MIN = 1024
WEIGHED_MAX = 1 << 16
LOOSE_AT_ONCE = 128
INSERTED_MAX = 100_000
"""How many filters the trie takes at once: it makes room for as many nodes as they have tokens."""


class Placement:
    """Groups in trie and slabs. Whoever asks these is told by `changed` that they are others."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.table = encoder.table
        self.in_parts = False  # then it is not arranged anew where one group is placed
        self.empty()

    def empty(self) -> None:
        """Have no groups."""
        self.groups = Groups()
        self.trie = Trie()
        self.slabs = Slabs()
        self.placed = np.zeros(16, bool)
        self.placed_count = 0
        self.built_count = 0

    def take_from(self, other: Placement) -> None:
        """Go on with the groups of another, as they are placed there."""
        self.groups, self.trie, self.slabs = other.groups, other.trie, other.slabs
        self.placed, self.placed_count = other.placed, other.placed_count
        self.built_count = other.built_count
        self.changed()

    def changed(self) -> None:
        """Groups, trie or slabs were changed."""

    def place(self, candidates: Array) -> None:
        """Make the groups among `candidates` that are not yet in trie or slabs findable."""
        self.changed()
        self.placed = grown(self.placed, self.groups.group_count, 0)
        new = candidates[~self.placed[candidates]]
        if new.shape[0] == 0:
            return
        new = np.unique(new)
        if self._has_doubled(new.shape[0]) or self._has_outgrown(new.shape[0]):
            self.rebuild()
        else:
            self._insert(new)

    def place_one(self, group: int) -> None:
        """`place` for one group."""
        self.changed()
        self.placed = grown(self.placed, self.groups.group_count, 0)
        if self.placed[group]:
            return
        if not self.in_parts and self._has_doubled(1):
            self.rebuild()
            return
        self._insert_one(group)
        if not self.in_parts and self.slabs.too_loose:
            self.rebuild()

    def place_in_parts(self, candidates: Array) -> None:
        """`place` for a few groups, without arranging anything anew."""
        self.changed()
        self.placed = grown(self.placed, self.groups.group_count, 0)
        for group in candidates.tolist():
            if not self.placed[group]:
                self._insert_one(group)

    def _has_doubled(self, new: int) -> bool:
        return self.placed_count + new > max(REBUILD_MIN, 2 * self.built_count)

    def _has_outgrown(self, new: int) -> bool:
        """Whether more has come since it was arranged than may lie apart from the rest."""
        return self.placed_count + new - self.built_count > max(LOOSE_MIN, self.built_count // 8)

    @property
    def is_out_of_order(self) -> bool:
        """Whether so many groups came that it should be arranged anew."""
        return self._has_doubled(0) or self.slabs.too_loose

    def _insert_one(self, group: int) -> None:
        member = np.array([group], np.int32)
        header = int(self.groups.code[self.groups.code_start[group]])
        if header >> 48 and self._is_cheaper_in_slabs(member):
            self.slabs.insert_one(group, self.groups.view())
        else:
            tokens = header & 0xFFFFF
            self.trie.cover_tokens(len(self.table))
            self.trie.insert(member, self.groups, tokens, tokens)
        self.placed[group] = True
        self.placed_count += 1

    def _is_cheaper_in_slabs(self, member: Array) -> bool:
        """Whether the only group given belongs in the slabs, with lanes as they are."""
        lanes, codes = self.slabs.lanes, self.groups.view()
        lanes.cover(len(self.table), len(self.encoder.axes))
        return bool(cheaper_in_slabs(weigh(member, codes, lanes.view()), member, codes)[0])

    def rebuild(self) -> None:
        """Order, grid and placement anew, from the groups that are alive."""
        for _ in self.arranging(WEIGHED_MAX, INSERTED_MAX):
            pass

    def arranging(self, weighed: int, inserted: int) -> Iterator[int]:
        """`rebuild` in steps of so many groups that are weighed, or inserted in the trie; each
        gives about how many microseconds it took. Nothing is asked in between, and nothing placed.
        """
        groups = self.groups
        members = np.flatnonzero(groups.alive[: groups.group_count] > 0).astype(np.int32)
        self.trie = Trie()
        self.slabs = Slabs()
        self.placed = np.zeros(max(16, groups.group_count), bool)
        self.placed_count = 0
        while self.table.guess_shares(weighed):
            yield weighed
        frequencies, _, _ = token_frequencies(members, groups.view(), len(self.table))
        self.trie.set_ranks(frequencies)
        yield (members.shape[0] + len(self.table)) // 50
        in_slabs = np.empty(members.shape[0], bool)
        yield from self._choosing(members, in_slabs, weighed)
        if in_slabs.any() and not in_slabs.all():
            self._lay_lanes(members[in_slabs])
            yield self._laying_took()
        yield from self._putting(members[~in_slabs], members[in_slabs], weighed, inserted)
        self.trie.trim()
        yield self.trie.node_count // 50
        self.trie.lay(groups)
        self.built_count = self.placed_count
        yield self.trie.node_count // 12

    def _choosing(self, members: Array, chosen: Array, part: int) -> Iterator[int]:
        """Which of the groups belong in the slabs, by what each would cost here and there."""
        self._lay_lanes(members)
        yield self._laying_took()
        codes, lanes = self.groups.view(), self.slabs.lanes.view()
        for first in range(0, members.shape[0], part):
            some = members[first : first + part]
            weights = weigh(some, codes, lanes)
            chosen[first : first + part] = cheaper_in_slabs(weights, some, codes)
            yield some.shape[0] // 4
        # Those that do not fill one slab bear its cost alone, which may be more than the trie's.
        few, before = int(chosen.sum()), SLAB
        while 0 < few < before:
            some = members[chosen]
            weights = weigh(some, codes, lanes)
            chosen[chosen] = cheaper_in_slabs(weights, some, codes, few / SLAB)
            few, before = int(chosen.sum()), few

    def _laying_took(self) -> int:
        return 2_000 + 8 * self.slabs.lanes.count + len(self.table) // 20

    def _lay_lanes(self, members: Array) -> None:
        self.slabs.lanes.lay(members, self.groups, len(self.encoder.axes), self.table)

    def _insert(self, members: Array) -> None:
        """Place a few more groups, with lanes and ranks as they are."""
        lanes = self.slabs.lanes
        lanes.cover(len(self.table), len(self.encoder.axes))
        weights = weigh(members, self.groups.view(), lanes.view())
        in_slabs = cheaper_in_slabs(weights, members, self.groups.view())
        self._put(members[~in_slabs], members[in_slabs])
        if self.slabs.too_loose:
            self.rebuild()

    def _put(self, in_trie: Array, in_slabs: Array) -> None:
        for _ in self._putting(in_trie, in_slabs, WEIGHED_MAX, INSERTED_MAX):
            pass

    def _putting(
        self, in_trie: Array, in_slabs: Array, weighed: int, inserted: int
    ) -> Iterator[int]:
        groups = self.groups
        self.trie.cover_tokens(len(self.table))
        for part in np.array_split(in_trie, 1 + in_trie.shape[0] // inserted):
            _, tokens, longest = token_frequencies(part, groups.view(), len(self.table))
            self.trie.insert(part, groups, tokens, longest)
            yield (tokens + len(self.table)) // 20
        if in_slabs.shape[0] >= SLAB:
            for looked_at in self.slabs.inserting(in_slabs, groups, weighed):
                yield looked_at // 4
        else:
            for first in range(0, in_slabs.shape[0], LOOSE_AT_ONCE):
                self.slabs.insert(in_slabs[first : first + LOOSE_AT_ONCE], groups)
                yield 20 * LOOSE_AT_ONCE
        for part in (in_trie, in_slabs):
            self.placed[part] = True
            self.placed_count += part.shape[0]
        self.changed()
