"""Plain filters: conjunctions of equalities and ranges, whose covering the kernels decide.

A constraint is *plain* when it is an order on numbers or times, or an equality with a number, a
time, a truth value, bytes or a text that is not empty. What a plain filter implies is known from
its code: an equality implies every constraint that accepts its value, which are the tokens the
value hits; a bound implies that the attribute is there, and looser bounds. And an equality follows
from the same equality alone. So for a plain filter no pair of filters has to be put to the oracle,
but for what tokens and ranges do not say (negatives, residual constraints).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import inf, nextafter
from typing import Any

import numpy as np

from kbn.filters import ORDER_OPERATORS, Constraint, Family, Filter, Operator
from kbn.matching.groups import Array, grown
from kbn.matching.index import Index
from kbn.matching.kernels.views import Boxes, TokenPoints
from kbn.matching.pairs import as_pair, microseconds

ON_AXES = {int: Family.NUMBER, float: Family.NUMBER, datetime: Family.TIME}
_COMPARED = (bool, bytes)
_BOX_TYPES = (np.float64, np.int64, np.bool_, np.float64, np.int64, np.bool_, np.bool_)


def is_plain(constraint: Constraint) -> bool:
    """Whether the constraint is one of those that the kernels know all about."""
    kind = constraint.operand.__class__
    if constraint.operator is Operator.EQ:
        return kind in ON_AXES or kind in _COMPARED or (kind is str and constraint.operand != "")
    return constraint.operator in ORDER_OPERATORS and kind in ON_AXES


def is_plain_filter(filter: Filter) -> bool:
    """Whether the filter has constraints, all of them plain."""
    return bool(filter.constraints) and all(map(is_plain, filter.constraints))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a filter says of one axis: the tightest bound on each side, as pairs."""

    low: tuple[float, int]
    low_open: bool
    high: tuple[float, int]
    high_open: bool

    def point(self) -> tuple[float, int] | None:
        """A place between the bounds; None where there is none, or none was found."""
        if self.low > self.high:
            return None
        if self.low == self.high:
            return None if self.low_open or self.high_open else self.low
        low, high = self.low[0], self.high[0]
        if low == -inf and high == inf:
            return (0.0, 0)
        if high == inf:
            return (nextafter(low, inf), 0) if low < inf else None
        if low == -inf:
            return (nextafter(high, -inf), 0)
        middle = low / 2 + high / 2
        if self.low < (middle, 0) < self.high:
            return (middle, 0)
        if not self.low_open:
            return self.low
        return None if self.high_open else self.high


@dataclass(frozen=True, slots=True)
class PlainCode:
    """The code of a plain filter, taken apart."""

    words: Array
    bounds: dict[int, Bounds]


class PlainFilters:
    """Takes plain filters apart, with the tables of an index."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._places = TokenPoints(
            np.full(64, -1, np.int32), np.zeros(64, np.float64), np.zeros(64, np.int64)
        )
        self._known = (0, 0)
        self._box = room_for_boxes(1, 0)
        self._in_box: list[int] = []

    def code_of(self, filter: Filter, code: bytes) -> PlainCode | None:
        """The filter's code taken apart; None when the filter is not plain."""
        if not is_plain_filter(filter):
            return None
        bounds: dict[int, Bounds] = {}
        if code[6] or code[7]:  # some ranges: their number is in the upper bits of the first word
            words, numbers = array("q", code), memoryview(code).cast("d")
            for at in range(1 + (words[0] & 0xFFFFF), len(words), 3):
                word = words[at]
                bounds[word & 0xFFFFFF] = Bounds(
                    (numbers[at + 1], (word >> 28 & 0xFFF) - 1024), bool(word >> 24 & 1),
                    (numbers[at + 2], (word >> 40 & 0xFFF) - 1024), bool(word >> 25 & 1),
                )  # fmt: skip
        for axis, place in self._equalities(filter):
            bounds[axis] = _narrowed(bounds.get(axis), place)
        return PlainCode(np.frombuffer(code, np.int64), bounds)

    def hits(self, filter: Filter) -> list[int]:
        """The tokens whose constraints follow from the filter's, and those of families."""
        found: list[int] = []
        for constraint in filter.constraints:
            index = self._index.table.attributes.get(constraint.attribute)
            if index is None:
                continue
            if constraint.operator is Operator.EQ:
                found += index.hits(constraint.operand)
            else:
                found += index.every_value_hits(ON_AXES[constraint.operand.__class__])
        return found

    def box(self, bounds: dict[int, Bounds]) -> Boxes:
        """The bounds as the kernels take them; it holds until the next call."""
        axes = len(self._index.encoder.axes)
        if self._box.low.shape[1] < axes:
            self._box = room_for_boxes(1, 2 * axes)
        box = self._box
        box.present[0, self._in_box] = False
        self._in_box = list(bounds)
        for axis, said in bounds.items():
            box.low[0, axis], box.low_rest[0, axis] = said.low
            box.high[0, axis], box.high_rest[0, axis] = said.high
            box.low_open[0, axis], box.high_open[0, axis] = said.low_open, said.high_open
            box.present[0, axis] = True
        return box

    def places(self) -> TokenPoints:
        """Where the equalities among the tokens lie."""
        table, axes = self._index.table, self._index.encoder.axes
        first, known_axes = self._known
        if known_axes != len(axes):
            first = 0  # an old token may have an axis now
        if first < len(table) or known_axes != len(axes):
            arrays = (grown(each, len(table)) for each in self._places)
            self._places = TokenPoints(*arrays)
            for token in range(first, len(table)):
                self._set_place(token, table.constraints[token])
            self._known = (len(table), len(axes))
        return self._places

    def _set_place(self, token: int, constraint: Constraint | None) -> None:
        self._places.axis[token] = -1
        if constraint is not None and constraint.operator is Operator.EQ:
            for axis, (value, rest) in self._equalities((constraint,)):
                self._places.axis[token] = axis
                self._places.value[token], self._places.rest[token] = value, rest

    def _equalities(
        self, constraints: Filter | tuple[Constraint, ...]
    ) -> Iterator[tuple[int, tuple[float, int]]]:
        """The axes on which equalities lie, and where."""
        axes = self._index.encoder.axes
        for constraint in constraints:
            operand: Any = constraint.operand
            kind = ON_AXES.get(operand.__class__)
            if kind is not None and constraint.operator is Operator.EQ:
                axis = axes.get((constraint.attribute, kind))
                if axis is not None:
                    number = operand if kind is Family.NUMBER else microseconds(operand)
                    yield axis, as_pair(number)


def _narrowed(bounds: Bounds | None, place: tuple[float, int]) -> Bounds:
    """The bounds narrowed to one place, each side by itself."""
    if bounds is None:
        return Bounds(place, False, place, False)
    low, low_open, high, high_open = bounds.low, bounds.low_open, bounds.high, bounds.high_open
    if place > low:
        low, low_open = place, False
    if place < high:
        high, high_open = place, False
    return Bounds(low, low_open, high, high_open)


def room_for_boxes(rows: int, axes: int) -> Boxes:
    """Boxes that say nothing yet."""
    return Boxes._make(np.zeros((rows, axes), kind) for kind in _BOX_TYPES)
