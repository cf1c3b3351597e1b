"""The index: which groups a notification satisfies, found by trie, slabs and residual constraints.

`Index` owns the tables (tokens, axes, residual constraints) and the groups, placed in trie and
slabs (`placement.py`), and asks the kernels about them. It knows nothing of who subscribed: that is
the matcher's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kbn.filters import Bag, Family, Filter
from kbn.matching.bag_decisions import BagDecisions
from kbn.matching.codes import Decoder, Encoder
from kbn.matching.groups import Array, grown
from kbn.matching.kernels.batch import merge_by_event, some_remain
from kbn.matching.kernels.one import match_one
from kbn.matching.kernels.packing import pack
from kbn.matching.kernels.rows import walk_rows
from kbn.matching.kernels.slab import scan
from kbn.matching.kernels.trie import walk_many
from kbn.matching.kernels.views import (
    Codes,
    LaneArrays,
    Points,
    SlabArrays,
    Stamps,
    TrieArrays,
)
from kbn.matching.memos import Memory
from kbn.matching.pairs import as_pair, microseconds
from kbn.matching.placement import Placement
from kbn.matching.residual_constraints import ResidualEvaluator
from kbn.matching.residual_questions import ResidualQuestions
from kbn.matching.tokens import TokenTable
from kbn.ontology import Ontology

ROWS_MIN = 32
LOOSE_PER_ROW = 256
HITS_PER_ROW = 32
"""The trie is walked once for a batch that has so many rows, where few filters came since the trie
was listed and rows hit many tokens: a walk for one row looks for each of these at every node."""


class Index(Placement):
    """Distinct filters, indexed; `find` answers which of them accept a notification."""

    def __init__(self, ontology: Ontology | None) -> None:
        """Without an ontology, terms are names that relate to themselves alone."""
        self.ontology = Ontology.empty() if ontology is None else ontology
        super().__init__(Encoder(TokenTable(self.ontology), strict=ontology is not None))
        self.decoder = Decoder(self.encoder)
        self._residual_evaluator = ResidualEvaluator(self.ontology)
        self.own_scratch()

    @classmethod
    def empty_like(cls, index: Index) -> Index:
        """An empty index with the tables of another, to take its place (see `renewal.py`)."""
        fresh = copy(index)
        fresh.empty()
        fresh.own_scratch()
        return fresh

    @property
    def memories(self) -> tuple[Memory, ...]:
        """What it remembers of values takes bytes of these."""
        return (*self.table.memories, *self._residual_evaluator.memories)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_view": None}  # it holds addresses, which mean nothing elsewhere

    def own_scratch(self) -> None:
        """Fresh room for the kernels to work in; two indexes must not share it."""
        self._view: IndexView | None = None
        self.bags = BagDecisions(self.encoder)
        self.residuals = ResidualQuestions(self.groups, self.encoder, self._residual_evaluator)
        self._axes: dict[str, tuple[int, int]] = {}
        self._stamps = Stamps(np.zeros(1, np.int64), np.zeros(64, np.int64))
        self._points = _room_for_points(1, 0)

    def changed(self) -> None:
        """Groups, trie or slabs were changed: the kernels are to see them as they are."""
        self._view = None
        if self.residuals.groups is not self.groups:
            self.residuals = ResidualQuestions(self.groups, self.encoder, self._residual_evaluator)

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
            return self.residuals.kept(found, attributes)
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
        if some_remain(found):
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
        remains = some_remain(found)
        groups, bounds = (found >> 1).tolist(), at.tolist()
        split = [groups[bounds[n] : bounds[n + 1]] for n in range(len(several))]
        if remains:
            for n, attributes in enumerate(several):
                part = found[bounds[n] : bounds[n + 1]]
                if (part & 1).any():
                    split[n] = self.residuals.kept(part, attributes).tolist()
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
