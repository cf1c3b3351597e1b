"""The index: which groups a notification satisfies, found by trie, slabs and residual constraints.

`Index` owns the tables (tokens, axes, residual constraints) and the arrays (groups, trie, slabs)
and keeps them in step. It knows nothing of who subscribed: that is the matcher's business. Groups
are placed either in the trie or in the slabs, by the estimated share of notifications that would
reach them in the trie: a slab costs every notification a little for every filter, the trie costs
only those that get there.

The grid, the ranks and the placement are estimates from what is stored, made anew each time the
index has doubled, or an eighth of the slabs' filters came one by one: an addition costs a constant
amount on average, and a rebuild now and then. Where nobody may wait for one, it is made in steps
beside the index in use (`renewal.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kbn.filters import Bag, Constraint, Family, Filter, accepts, value_key
from kbn.matching.bag_decisions import BagDecisions
from kbn.matching.codes import Decoder, Encoder
from kbn.matching.costs import cheaper_in_slabs
from kbn.matching.groups import Array, Groups, grown
from kbn.matching.kernels.batch import merge_by_event
from kbn.matching.kernels.code import token_frequencies
from kbn.matching.kernels.lane import weigh
from kbn.matching.kernels.nested import HOLDS, UNKNOWN
from kbn.matching.kernels.one import match_one
from kbn.matching.kernels.packing import pack
from kbn.matching.kernels.rows import walk_rows
from kbn.matching.kernels.slab import SLAB, scan
from kbn.matching.kernels.trie import walk_many
from kbn.matching.kernels.views import (
    Codes,
    LaneArrays,
    Points,
    SlabArrays,
    Stamps,
    TrieArrays,
)
from kbn.matching.metering import costs_of, current
from kbn.matching.nested_bags import NestedColumn
from kbn.matching.pairs import as_pair, microseconds
from kbn.matching.residual_constraints import ResidualEvaluator
from kbn.matching.slabs import Slabs
from kbn.matching.tokens import TokenTable
from kbn.matching.trie import Trie
from kbn.ontology import Ontology

REBUILD_MIN = 1024
RESIDUALS_MAX = 200_000  # groups whose residual constraints are remembered
WEIGHED_MAX = 1 << 16
ROWS_MIN = 32
LOOSE_PER_ROW = 256
HITS_PER_ROW = 32
"""The trie is walked once for a batch that has so many rows, where few filters came since the trie
was listed and rows hit many tokens: a walk for one row looks for each of these at every node."""
LOOSE_AT_ONCE = 128
INSERTED_MAX = 100_000
"""How many filters the trie takes at once: it makes room for as many nodes as they have tokens."""


class Index:
    """Distinct filters, indexed; `find` answers which of them accept a notification."""

    def __init__(self, ontology: Ontology | None) -> None:
        """Without an ontology, terms are names that relate to themselves alone."""
        self.ontology = Ontology.empty() if ontology is None else ontology
        self.table = TokenTable(self.ontology)
        self.encoder = Encoder(self.table, strict=ontology is not None)
        self.decoder = Decoder(self.encoder)
        self.groups = Groups()
        self.trie = Trie()
        self.slabs = Slabs()
        self.placed = np.zeros(16, bool)
        self.placed_count = 0
        self.built_count = 0
        self.in_parts = False  # then it is not arranged anew where one group is placed
        self.residual_evaluator = ResidualEvaluator(self.ontology)
        self.own_scratch()

    @classmethod
    def empty_like(cls, index: Index) -> Index:
        """An empty index with the tables of another, to take its place (see `renewal.py`)."""
        fresh = copy(index)
        fresh.groups, fresh.trie, fresh.slabs = Groups(), Trie(), Slabs()
        fresh.placed = np.zeros(16, bool)
        fresh.placed_count = fresh.built_count = 0
        fresh.own_scratch()
        return fresh

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_view": None}  # it holds addresses, which mean nothing elsewhere

    def own_scratch(self) -> None:
        """Fresh room for the kernels to work in; two indexes must not share it."""
        self._view: IndexView | None = None
        self.bags = BagDecisions(self.encoder)
        self._group_residuals: dict[int, tuple[int, ...]] = {}
        self._axes: dict[str, tuple[int, int]] = {}
        self._stamps = Stamps(np.zeros(1, np.int64), np.zeros(64, np.int64))
        self._points = _room_for_points(1, 0)

    def become(self, fresh: Index) -> None:
        """Go on with the groups of another that was made beside this one."""
        self.groups, self.trie, self.slabs = fresh.groups, fresh.trie, fresh.slabs
        self.placed, self.placed_count = fresh.placed, fresh.placed_count
        self.built_count = fresh.built_count
        self._group_residuals = {}
        self._view = None

    # --- changing ------------------------------------------------------------------------------

    def place(self, candidates: Array) -> None:
        """Make the groups among `candidates` that are not yet in trie or slabs findable."""
        self._view = None
        self.placed = grown(self.placed, self.groups.group_count, 0)
        new = candidates[~self.placed[candidates]]
        if new.shape[0] == 0:
            return
        new = np.unique(new)
        if self._has_doubled(new.shape[0]):
            self.rebuild()
        else:
            self._insert(new)

    def place_one(self, group: int) -> None:
        """`place` for one group."""
        self._view = None
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
        self._view = None
        self.placed = grown(self.placed, self.groups.group_count, 0)
        for group in candidates.tolist():
            if not self.placed[group]:
                self._insert_one(group)

    def _has_doubled(self, new: int) -> bool:
        return self.placed_count + new > max(REBUILD_MIN, 2 * self.built_count)

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
        self._group_residuals = {}
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

    def changed(self) -> None:
        """Tell the index that `groups` was changed under it."""
        self._view = None

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
        self._view = None

    # --- asking --------------------------------------------------------------------------------

    def find(self, attributes: Mapping[str, Any]) -> Array:
        """The groups that accept the notification, each once."""
        view = self.view()
        hits: list[int] = []
        indexes = self.table.attributes
        axes = self._axes
        if axes:
            self._points.present.fill(False)
        for attribute, value in attributes.items():
            index = indexes.get(attribute)
            if index is not None:
                hits += index.hits(value)
            if axes and attribute in axes:
                self._set_axes(axes[attribute], value)
        rows = self.bags.rows_of((attributes,))
        if self.bags.wants_sub_bags:
            for _, tokens, _ in self.bags.sub_bag_hits(rows):
                hits += tokens.tolist()
        groups, remaining = self._find_hit(view, hits, covering=False)
        if not remaining:
            return groups
        found = groups << 1
        found[-remaining:] |= 1
        at = np.array([0, found.shape[0]], np.int64)
        found, _ = self.bags.settled(rows, 0, found, at, view.codes)
        if (found & 1).any():
            return self._with_residuals(found, found >> 1, attributes)
        return found >> 1

    def find_many(self, several: Sequence[Mapping[str, Any]]) -> list[list[int]]:
        """For each notification, the groups that accept it: `find` for many at the cost of one call
        of the kernels.
        """
        view = self.view()
        points = self.axis_room(len(several))
        rows = self.bags.rows_of(several)
        sub_bags = list(self.bags.sub_bag_hits(rows)) if self.bags.wants_sub_bags else []
        hits: list[int] = []
        starts = [0]
        for row, attributes in enumerate(several):
            for attribute, value in attributes.items():
                index = self.table.attributes.get(attribute)
                if index is not None:
                    hits += index.hits(value)
                if attribute in self._axes:
                    self._set_axes(self._axes[attribute], value, points, row)
            for _, tokens, at in sub_bags:
                hits += tokens[at[row] : at[row + 1]].tolist()
            starts.append(len(hits))
        hit, hit_start = np.array(hits, np.int64), np.array(starts, np.int64)
        found, at = self.walk_trie(hit, hit_start, points)
        if self.slabs.count:
            more, owner = scan(
                hit, hit_start, False, view.slabs, view.lanes, view.codes, view.stamps, points
            )
            found, at = merge_by_event(found, at, more, owner)
        if (found & 1).any():
            found, at = self.bags.settled(rows, 0, found, at, view.codes)
        return self._split(found, at, several)

    def walk_trie(self, hits: Array, hit_start: Array, points: Points) -> tuple[Array, Array]:
        """The trie's answer for a batch: found groups, and where those of each row begin."""
        view = self.view()
        rows = hit_start.shape[0] - 1
        together = (
            rows >= ROWS_MIN
            and hits.shape[0] >= HITS_PER_ROW * rows
            and self.trie.loose_count <= LOOSE_PER_ROW * rows
        )
        found: tuple[Array, Array] = (
            walk_rows(hits, hit_start, view.trie, view.codes, points)
            if together
            else walk_many(hits, hit_start, False, view.trie, view.codes, view.stamps, points)
        )
        return found

    def _split(
        self, found: Array, at: Array, several: Sequence[Mapping[str, Any]]
    ) -> list[list[int]]:
        """The groups of each notification, those with residual constraints only when these hold."""
        some_remain = bool((found & 1).any())
        groups, bounds = (found >> 1).tolist(), at.tolist()
        split = [groups[bounds[n] : bounds[n + 1]] for n in range(len(several))]
        if some_remain:
            for n, attributes in enumerate(several):
                part = found[bounds[n] : bounds[n + 1]]
                if (part & 1).any():
                    split[n] = self._with_residuals(part, part >> 1, attributes).tolist()
        return split

    def hits(self, attribute: str, value: Any) -> list[int]:
        """The tokens that one attribute's value hits."""
        index = self.table.attributes.get(attribute)
        found = [] if index is None else list(index.hits(value))
        if isinstance(value, Bag) and self.bags.wants_sub_bags:
            for _, tokens, _ in self.bags.sub_bag_hits(self.bags.rows_of(({attribute: value},))):
                found += tokens.tolist()
        return found

    def find_covering(self, hits: list[int], points: Mapping[int, tuple[float, int]]) -> Array:
        """The groups that could cover a filter whose witnesses hit `hits` and lie on `points`."""
        view = self.view()
        self._points.present.fill(False)
        for axis, pair in points.items():
            self._set_point(axis, pair)
        return self._find_hit(view, hits, covering=True)[0]

    def view(self) -> IndexView:
        """What the kernels see, gathered once per change and not once per call."""
        # Encoding grows the tables even when the filter is then not added: make room for those too.
        grew = len(self.encoder.axes) > self._points.values.shape[1]
        if self._view is None or grew or self._view.tokens != len(self.table):
            self._view = self._prepared()
        return self._view

    def satisfies(self, group: int, value_of: Callable[[str], Any], memo: dict[int, bool]) -> bool:
        """Whether the group's residual constraints accept the values; `memo` keeps answers."""
        for residual in self._residuals_of(group):
            held = memo.get(residual)
            if held is None:
                held = memo[residual] = self._asked(residual, value_of)
            if not held:
                return False
        return True

    def nested_answers(
        self,
        candidates: Sequence[tuple[int, int]],
        first: int,
        nested: Callable[[str], NestedColumn | None],
    ) -> dict[int, dict[int, bool]]:
        """What kernels tell of residual constraints on bags within bags: for `satisfies`, by row.

        Candidates are rows and groups; row 0 is row `first` of the columns.
        """
        asked: dict[int, dict[int, None]] = {}
        for row, group in candidates:
            for residual in self._residuals_of(group):
                asked.setdefault(residual, {})[row] = None
        memos: dict[int, dict[int, bool]] = {}
        for residual, rows in asked.items():
            constraint = self.encoder.residuals[residual]
            check = self.residual_evaluator.nested(constraint)
            column = None if check is None else nested(constraint.attribute)
            if check is None or column is None:
                continue
            places = np.fromiter(rows, np.int64, len(rows))
            places = places[column.is_read[places + first]]
            answers = check.decide(column, places + first)
            for row, answer in zip(places.tolist(), answers.tolist(), strict=True):
                if answer != UNKNOWN:
                    memos.setdefault(row, {})[residual] = answer == HOLDS
        return memos

    def _asked(self, residual: int, value_of: Callable[[str], Any]) -> bool:
        """Whether a residual constraint holds, counted where somebody counts."""
        constraint, meter = self.encoder.residuals[residual], current()
        if meter is None:
            return self._residual_holds(constraint, value_of)
        value = value_of(constraint.attribute)
        return meter.ask(
            (self.encoder, residual, value_key(value)),
            costs_of(value)(constraint.operator, constraint.operand),
            lambda: self._residual_holds(constraint, value_of),
        )

    def _residuals_of(self, group: int) -> tuple[int, ...]:
        """The residual constraints in a group's code."""
        found = self._group_residuals.get(group)
        if found is None:
            words = self.groups.words(group).tolist()
            header = words[0]
            first = 1 + (header & 0xFFFFF) + (header >> 20 & 0x3FFF)
            found = tuple(words[first : first + (header >> 34 & 0x3FFF)])
            if len(self._group_residuals) >= RESIDUALS_MAX:
                self._group_residuals.clear()
            self._group_residuals[group] = found
        return found

    def filter_of(self, group: int) -> Filter:
        """The filter a group stands for."""
        return self.decoder.decode(self.groups.words(group).tolist())

    def memory(self) -> int:
        """The bytes of the arrays, without the Python dictionaries of tokens."""
        return self.groups.memory() + self.trie.memory() + self.slabs.memory() + self.placed.nbytes

    def axes_of(self) -> dict[str, tuple[int, int]]:
        """Per attribute with ranges: the axis of its numbers and of its times, -1 for none."""
        found: dict[str, tuple[int, int]] = {}
        for (attribute, kind), axis in self.encoder.axes.items():
            numbers, times = found.get(attribute, (-1, -1))
            found[attribute] = (axis, times) if kind is Family.NUMBER else (numbers, axis)
        return found

    def axis_room(self, rows: int) -> Points:
        """Room for the points of so many notifications, none of them set."""
        return _room_for_points(rows, len(self.encoder.axes))

    def _find_hit(self, view: IndexView, hits: list[int], covering: bool) -> tuple[Array, int]:
        """The kernel's answer for hit tokens and the points as they are set."""
        found: tuple[Array, int] = match_one(np.array(hits, np.int64), covering, view.packed)
        return found

    def _residual_holds(self, constraint: Constraint, value_of: Callable[[str], Any]) -> bool:
        value = value_of(constraint.attribute)
        if value is None:
            return False
        if isinstance(value, Bag):
            return self.residual_evaluator.accepts(constraint, value)
        return accepts(constraint, value, self.ontology)

    def _with_residuals(self, found: Array, groups: Array, attributes: Mapping[str, Any]) -> Array:
        memo: dict[int, bool] = {}
        kept = [
            group
            for group, remains in zip(groups.tolist(), (found & 1).tolist(), strict=True)
            if not remains or self.satisfies(group, attributes.get, memo)
        ]
        return np.array(kept, np.int64)

    def _set_axes(
        self, axes: tuple[int, int], value: Any, points: Points | None = None, row: int = 0
    ) -> None:
        kind = value.__class__
        if kind is int or kind is float:
            axis = axes[0]
            pair = as_pair(value)
        elif kind is bool or not hasattr(value, "tzinfo"):
            return
        else:
            axis = axes[1]
            pair = as_pair(microseconds(value))
        if axis >= 0:
            self._set_point(axis, pair, points, row)

    def _set_point(
        self, axis: int, pair: tuple[float, int], points: Points | None = None, row: int = 0
    ) -> None:
        points = self._points if points is None else points
        points.values[row, axis], points.rests[row, axis] = pair
        points.present[row, axis] = True

    def _prepared(self) -> IndexView:
        tokens = len(self.table)
        self.trie.cover_tokens(tokens)
        if len(self.encoder.axes) > self._points.values.shape[1]:
            self._axes = self.axes_of()
            self._points = self.axis_room(1)
        if self._stamps.hit_at.shape[0] < tokens:
            self._stamps = Stamps(self._stamps.clock, grown(self._stamps.hit_at, tokens, 0))
        return IndexView(
            tokens,
            self._points,
            self._stamps,
            self.groups.view(),
            self.trie.view(),
            self.slabs.view(),
            self.slabs.lanes.view(),
        )


@dataclass(frozen=True)
class IndexView:
    """The arrays the kernels work on, as they were when there were so many tokens."""

    tokens: int
    points: Points
    stamps: Stamps
    codes: Codes
    trie: TrieArrays
    slabs: SlabArrays
    lanes: LaneArrays

    @cached_property
    def packed(self) -> Array:
        """All of it in one array, as `match_one` takes it."""
        fields = (*self.points, *self.stamps, *self.codes, *self.trie, *self.slabs, *self.lanes)
        packed: Array = pack(fields)
        return packed


def _room_for_points(rows: int, axes: int) -> Points:
    shape = (rows, axes)
    return Points(np.zeros(shape, np.float64), np.zeros(shape, np.int64), np.zeros(shape, bool))


def encode_filters(index: Index, filters: Iterable[Filter]) -> tuple[Array, Array]:
    """The filters' codes in one array of words, and where each begins."""
    buffer = bytearray()
    starts = [0]
    encode = index.encoder.encode
    for filter in filters:
        buffer += encode(filter.constraints)
        starts.append(len(buffer) >> 3)
    return np.frombuffer(bytes(buffer), np.int64), np.array(starts, np.int64)
