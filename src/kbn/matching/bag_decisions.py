"""Bag decisions: what the kernels say of whole bags, for one notification or a batch of them.

Twice in a match: before it, which sub-bag constraints the bags satisfy (their tokens are hits like
any other); after it, whether the residual constraints of the candidates hold. Both look at a bag
by what its elements hit, so the ontology is not asked here. Bags of more than 64 elements are left
to Python, in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kbn.filters import Bag, accepts
from kbn.matching.codes import Encoder
from kbn.matching.elements import BagColumn, HitColumn, bag_column
from kbn.matching.groups import Array, grown
from kbn.matching.kernels import bags as kernels
from kbn.matching.kernels.views import Codes, Partners, TokenMasks
from kbn.matching.metering import ask_each, costs_of


class Rows(Protocol):
    """Notifications, a row each, as their bags are asked for."""

    def bags(self, attribute: str) -> BagColumn | None:
        """The bags of one attribute; None when no row has any."""

    def value(self, row: int, attribute: str) -> Any:
        """One row's value, None when it lacks the attribute."""


class BagDecisions:
    """Asks the kernels about bags; owns the room they work in."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._marks = TokenMasks(
            np.zeros(1, np.int64), np.zeros(64, np.int64), np.zeros(64, np.uint64)
        )
        self._room = _room_for(0, 0)

    @property
    def wants_sub_bags(self) -> bool:
        """Whether any constraint is about sub-bags."""
        return self._encoder.table.sub_bags.count > 0

    def rows_of(self, several: Sequence[Mapping[str, Any]]) -> Rows:
        """Notifications as Python has them."""
        return _MappedRows(several, self._encoder)

    def sub_bag_hits(self, rows: Rows) -> Iterator[tuple[BagColumn, Array, Array]]:
        """Per attribute with such constraints: its bags, the tokens hit, where each row's begin."""
        sub_bags = self._encoder.table.sub_bags
        for attribute, number in sub_bags.attributes.items():
            column = rows.bags(attribute)
            if column is None:
                continue
            count = column.present.shape[0]
            arrays = self._arrays(column, tuple(sub_bags.view()))
            tokens, starts = kernels.find_sub_bags(number, count, arrays)
            large = column.large_rows(kernels.PLACES_MAX)
            if large:
                value_of = rows.value
                asked = {row: self._asked(attribute, value_of(row, attribute)) for row in large}
                tokens, starts = _with_rows(tokens, starts, asked)
            yield column, tokens, starts

    def settled(
        self, rows: Rows, first: int, found: Array, starts: Array, codes: Codes
    ) -> tuple[Array, Array]:
        """The findings of rows `first`… without those that some composite constraint refutes.

        The low bit stays set where a residual constraint is left for Python.
        """
        composites = self._encoder.composites
        state = np.zeros((int(np.count_nonzero(found & 1)), 2), np.int64)
        rules = tuple(composites.view())
        for attribute, number in composites.attributes.items():
            column = rows.bags(attribute)
            if column is not None:
                arrays = self._arrays(column, rules)
                kernels.decide(
                    number, first, found, starts, state, codes.words, codes.start, arrays
                )
        kept: tuple[Array, Array] = kernels.keep_satisfied(
            found, starts, codes.words, codes.start, state
        )
        return kept

    def _asked(self, attribute: str, bag: Any) -> list[int]:
        """The sub-bag tokens of a large bag, asked one by one."""
        table = self._encoder.table
        if not isinstance(bag, Bag):
            return []
        tokens = table.sub_bags.tokens_of[attribute]

        cost_for = costs_of(bag)

        def cost(token: int) -> int:
            constraint = table.constraints[token]
            assert constraint is not None
            is_large_enough = len(constraint.operand) >= len(bag)  # type: ignore[arg-type]
            return cost_for(constraint.operator, constraint.operand) if is_large_enough else 1

        def is_hit(token: int) -> bool:
            constraint = table.constraints[token]
            assert constraint is not None
            is_large_enough = len(constraint.operand) >= len(bag)  # type: ignore[arg-type]
            return is_large_enough and accepts(constraint, bag, table.ontology)

        return ask_each((table.sub_bags, attribute, bag), tokens, cost, is_hit)

    def _arrays(self, column: BagColumn, asked: tuple[Any, ...]) -> tuple[Any, ...]:
        table = self._encoder.table
        if self._marks.at.shape[0] < len(table):
            clock, at, mask = self._marks
            self._marks = TokenMasks(clock, grown(at, len(table), 0), grown(mask, len(table), 0))
        longest = max(self._encoder.composites.longest, table.sub_bags.longest)
        room = self._room
        if room.masks.shape[0] < longest or room.seen.shape[0] < table.sub_bags.count:
            self._room = room = _room_for(2 * longest, 2 * table.sub_bags.count)
        return tuple(column.view()), asked, tuple(self._marks), tuple(room)


class _MappedRows:
    """Rows that are mappings from attribute to value."""

    def __init__(self, several: Sequence[Mapping[str, Any]], encoder: Encoder) -> None:
        self._several = several
        self._encoder = encoder
        self._columns: dict[str, BagColumn | None] = {}

    def bags(self, attribute: str) -> BagColumn | None:
        if attribute not in self._columns:
            self._columns[attribute] = self._made(attribute)
        return self._columns[attribute]

    def value(self, row: int, attribute: str) -> Any:
        return self._several[row].get(attribute)

    def _made(self, attribute: str) -> BagColumn | None:
        values = [each.get(attribute) for each in self._several]
        bags = [value if value.__class__ is Bag else None for value in values]
        if all(bag is None for bag in bags):
            return None
        with_order = attribute in self._encoder.composites.with_order
        hits = self._encoder.table.index(attribute).element_hits
        return bag_column(bags, hits, with_order)


def as_hit_column(tokens: Array, starts: Array) -> HitColumn:
    """Tokens of each row as a column of hits."""
    numbers = np.arange(tokens.shape[0])
    every = np.ones(tokens.shape[0], bool)
    return HitColumn(starts, numbers, every, numbers, numbers + 1, tokens)


def _with_rows(tokens: Array, starts: Array, asked: Mapping[int, list[int]]) -> tuple[Array, Array]:
    """The same with the tokens of some rows, which have none yet, put in."""
    parts = [
        np.array(asked[row], np.int64) if row in asked else tokens[starts[row] : starts[row + 1]]
        for row in range(starts.shape[0] - 1)
    ]
    sizes = [part.shape[0] for part in parts]
    return np.concatenate(parts), np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _room_for(wants: int, sub_bags: int) -> Partners:
    places = kernels.PLACES_MAX
    return Partners(
        masks=np.zeros(wants, np.uint64),
        partner=np.zeros(wants, np.int64),
        queue=np.zeros(places + 1, np.int64),
        holder=np.zeros(places, np.int64),
        asked_by=np.zeros(places, np.int64),
        values=np.zeros(places, np.float64),
        rests=np.zeros(places, np.int64),
        seen=np.zeros(sub_bags, np.int64),
        promising=np.zeros(sub_bags, np.int64),
        signatures=np.zeros(places, np.uint64),
    )
