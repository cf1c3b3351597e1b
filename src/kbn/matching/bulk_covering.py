"""Covering in bulk: many plain filters at once, each below one that covers it, or a root.

A plain filter that covers another asks about no attribute that the other does not ask about, its
bounds are nowhere tighter, and its equalities are among the other's. So filters are ordered by the
number of their attributes, then by how tight their bounds are (the sum of the ranks of all bounds,
by tightness), then by the number of their equalities: whoever covers another comes first, unless
the two are equivalent. They are taken in that order, some thousand at a time. Those that no root
covers are compared with one another, and what is left are roots that no later one covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from kbn.filters import BulkReader, Filter, Operator
from kbn.matching.bulk_encoding import BulkEncoder
from kbn.matching.groups import Array
from kbn.matching.index import Index
from kbn.matching.kernels import bulk_covering as kernels
from kbn.matching.kernels.batch import merge_by_event
from kbn.matching.kernels.slab import scan
from kbn.matching.kernels.trie import walk_many
from kbn.matching.kernels.views import Boxes
from kbn.matching.plain_filters import PlainFilters, is_plain, room_for_boxes

RUN = 4096
"""How many filters are compared with one another at most; fewer where there are many axes."""
CELLS_MAX = 1 << 20


class Settled(NamedTuple):
    """What became of a run of filters, by their places in what was given."""

    places: list[int]
    coverers: list[int | None]
    """Per filter an entry from before the run that covers it, if there is one."""
    in_run: list[int | None]
    """Per filter the place of one in the run that covers it, if no entry does."""

    def roots(self) -> list[int]:
        """The places of those that nobody covers."""
        whole = zip(self.places, self.coverers, self.in_run, strict=True)
        return [place for place, coverer, other in whole if coverer is None and other is None]


class BulkCovering:
    """Plain filters on their way into the index of roots."""

    def __init__(self, index: Index, plain: PlainFilters, filters: list[Filter]) -> None:
        """All filters are encoded here: what cannot be is an error before anything is changed."""
        self._index = index
        self._plain = plain
        self._filters = filters
        encoder = BulkEncoder(index.encoder, BulkReader(None))
        encoded = encoder.of_rows(filters, lambda filter: (filter,))
        for error in encoded.errors.values():
            raise error
        self._words, self._starts = encoded.pieces[0]
        self._as_float = self._words.view(np.float64)
        self._implied_start, self._implied = self._implications()
        sizes, self._masks = self._attributes()
        self._order = self._ordered(sizes)

    def code(self, place: int) -> Array:
        """The code of one filter."""
        return self._words[self._starts[place] : self._starts[place + 1]]

    def runs(
        self, entries_of: Callable[[int], list[int]], ask: Callable[[Filter], int | None]
    ) -> Iterator[Settled]:
        """Run by run what became of the filters; the caller enters the roots in between.

        `entries_of` names the entries of a group of the index; `ask` finds who covers a filter that
        the kernels cannot tell about.
        """
        size = max(16, min(RUN, CELLS_MAX // max(1, len(self._index.encoder.axes))))
        for first in range(0, self._order.shape[0], size):
            rows = self._order[first : first + size]
            boxes = self._boxes(rows)
            hits, at = self._hits(rows)
            groups, unclear = self._covered(hits, at, boxes)
            coverers: list[int | None] = [
                entries_of(group)[0] if group >= 0 else None for group in groups.tolist()
            ]
            for row in np.flatnonzero(unclear & (groups < 0)).tolist():
                coverers[row] = ask(self._filters[rows[row]])
            taken = np.array([each is not None for each in coverers], bool)
            parents = kernels.compare_in_order(
                self._words, self._as_float, self._starts, rows, self._masks, hits, at, boxes,
                taken, self._index.view().stamps,
            )  # fmt: skip
            places = rows.tolist()
            in_run = [places[row] if row >= 0 else None for row in parents.tolist()]
            yield Settled(places, coverers, in_run)

    def _boxes(self, rows: Array) -> Boxes:
        boxes = room_for_boxes(rows.shape[0], len(self._index.encoder.axes))
        places = self._plain.places()
        kernels.draw_boxes(self._words, self._as_float, self._starts, rows, places, boxes)
        return boxes

    def _hits(self, rows: Array) -> tuple[Array, Array]:
        found: tuple[Array, Array] = kernels.gather_hits(
            self._words, self._starts, rows, self._implied_start, self._implied, self._axes_from
        )
        return found

    def _covered(self, hits: Array, at: Array, boxes: Boxes) -> tuple[Array, Array]:
        """Per filter a group that covers it, else -1; and whether to ask."""
        view = self._index.view()
        points = self._index.axis_room(at.shape[0] - 1)
        whole = kernels.set_points(boxes, points)
        found, start = walk_many(hits, at, True, view.trie, view.codes, view.stamps, points)
        if self._index.slabs.count:
            more, owner = scan(
                hits, at, True, view.slabs, view.lanes, view.codes, view.stamps, points
            )
            found, start = merge_by_event(found, start, more, owner)
        groups, perhaps = kernels.first_that_cover(
            found, start, view.codes.words, view.codes.as_float, view.codes.start, boxes
        )
        groups[~whole] = -1
        return groups, perhaps | ~whole

    def _implications(self) -> tuple[Array, Array]:
        """What each token implies, and then each axis: where that begins, and the tokens."""
        table, axes = self._index.table, self._index.encoder.axes
        starts, found = [0], list[int]()
        for constraint in table.constraints:
            is_equality = constraint is not None and constraint.operator is Operator.EQ
            if constraint is not None and is_equality and is_plain(constraint):
                found += table.attributes[constraint.attribute].hits(constraint.operand)
            starts.append(len(found))
        self._axes_from = len(table)
        for attribute, kind in axes:
            index = table.attributes.get(attribute)
            found += [] if index is None else index.every_value_hits(kind)
            starts.append(len(found))
        return np.array(starts, np.int64), np.array(found, np.int64)

    def _attributes(self) -> tuple[Array, Array]:
        table, numbers = self._index.table, dict[str, int]()
        names = [
            table.families[token][0] if constraint is None else constraint.attribute
            for token, constraint in enumerate(table.constraints)
        ]
        names += [attribute for attribute, _ in self._index.encoder.axes]
        attribute_of = np.array([numbers.setdefault(n, len(numbers)) for n in names], np.int64)
        seen = np.zeros(len(numbers), np.int64)
        found: tuple[Array, Array] = kernels.count_attributes(
            self._words, self._starts, attribute_of, self._axes_from, seen
        )
        return found

    def _ordered(self, sizes: Array) -> Array:
        """The filters, whoever covers another before it."""
        count = sizes.shape[0]
        owner, lows, highs, ties = self._bounds(count)
        tightness = np.zeros(count)
        for values in (lows, -highs):
            _, rank = np.unique(values, return_inverse=True)
            tightness += np.bincount(owner, rank, count)
        tokens = self._words[self._starts[:-1]] & 0xFFFFF
        order: Array = np.lexsort((tokens, np.bincount(owner, ties, count), tightness, sizes))
        return order

    def _bounds(self, count: int) -> tuple[Array, ...]:
        axes = max(1, len(self._index.encoder.axes))
        parts = [
            kernels.list_bounds(self._boxes(rows), rows)
            for rows in np.array_split(np.arange(count), 1 + count * axes // CELLS_MAX)
        ]
        return tuple(map(np.concatenate, zip(*parts, strict=True)))
