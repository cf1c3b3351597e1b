"""Constraint columns: many filters, an integer for each constraint, encoded together by a kernel.

Most constraints of a million filters are of two sorts: bounds of ranges, which differ from filter
to filter and need no compiling, and others, which many filters share. A bound becomes its axis, its
side and its number; any other constraint becomes the number of a *part* that the encoder compiled
when it was first met. What `Encoder.encode` does for one filter at a time, a kernel does then for
all (`kernels/encoding.py`), and gives the same words.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from kbn.filters import Bag, Constraint, Family, Filter, Operator
from kbn.matching.codes import Encoder
from kbn.matching.groups import Array
from kbn.matching.kernels.encoding import HIGH, INT, OPEN, PartArrays, encode_many
from kbn.matching.pairs import EXACT_INT_MAX

Codes: TypeAlias = tuple[Array, Array]
"""The words of some filters, and where each begins."""

SIDES: dict[Any, int] = {
    Operator.LT: HIGH | OPEN,
    Operator.LE: HIGH,
    Operator.GT: OPEN,
    Operator.GE: 0,
}
TOKENS_MAX = 4_000
"""A part with more tokens is left to the encoder, which knows how many a code can hold."""
_PART_BYTES = 600
"""What a part takes besides its tokens: its constraint, its places in a dictionary and arrays."""


class PartTable:
    """The parts met so far, numbered, and what each adds to a code."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.has_long = False
        self.bytes = 0
        self.known: dict[Constraint, int] = {}
        self._axes: dict[str, int] = {}
        self._starts = tuple(array("q", [0]) for _ in range(4))
        self._values = tuple(array("q") for _ in range(3))
        self._ranges: tuple[Any, ...] = (array("q"), array("q"), array("d"), array("q"))

    def number(self, constraint: Constraint) -> int:
        """The part of one constraint; an error if the encoder refuses it."""
        known = self.known.get(constraint)
        if known is None:
            known = self.known[constraint] = self._add(constraint)
        return known

    def _add(self, constraint: Constraint) -> int:
        parts, bound = self.encoder.pieces_of(constraint)
        tokens, negatives, residuals = self._values
        tokens.extend(parts.tokens)
        if parts.negatives:
            negatives.extend(parts.negatives)
        if parts.residuals:
            residuals.extend(parts.residuals)
        for column, value in zip(self._ranges, bound, strict=False):
            column.append(value)
        starts = self._starts
        number = len(starts[0]) - 1
        starts[0].append(len(tokens))
        starts[1].append(len(negatives))
        starts[2].append(len(residuals))
        starts[3].append(len(self._ranges[0]))
        count = len(parts.tokens)
        self.has_long = self.has_long or count > TOKENS_MAX
        self.bytes += _PART_BYTES + 8 * count + _operand_bytes(constraint)
        return number

    def tokens_of(self, part: int) -> int:
        """How many tokens a part has."""
        start = self._starts[0]
        return start[part + 1] - start[part]

    def axis(self, attribute: str) -> int:
        """The axis of an attribute's numbers."""
        known = self._axes.get(attribute)
        if known is None:
            known = self._axes[attribute] = self.encoder.axis(attribute, Family.NUMBER)
        return known

    def arrays(self) -> PartArrays:
        """What the kernel sees."""
        lists: list[Any] = []
        for start, values in zip(self._starts, self._values, strict=False):
            lists += [as_array(start), as_array(values)]
        lists.append(as_array(self._starts[3]))
        lists += map(as_array, self._ranges)
        return PartArrays(*lists)


def _operand_bytes(constraint: Constraint) -> int:
    operand: Any = constraint.operand
    if isinstance(operand, Bag):
        return 100 * len(operand)
    return len(operand) if isinstance(operand, (str, bytes)) else 0


class ConstraintColumns:
    """Filters in columns: where each begins, a code for each constraint, the bounds of ranges."""

    def __init__(self, parts: PartTable) -> None:
        self._parts = parts
        self._offsets = array("q", [0])
        self._codes = array("q")
        self._bounds = array("d")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def add(self, filters: Iterable[Filter]) -> None:
        """Lay out some more filters; an error leaves the columns as they were."""
        places = len(self._offsets), len(self._codes), len(self._bounds)
        try:
            for filter in filters:
                self._lay_out(filter.constraints)
                if self._parts.has_long:
                    self._parts.encoder.encode(filter.constraints)  # refuses what is too long
                self._offsets.append(len(self._codes))
        except BaseException:
            del self._offsets[places[0] :], self._codes[places[1] :], self._bounds[places[2] :]
            raise

    def append(self, codes: list[int], bounds: list[float]) -> None:
        """One more filter, laid out already."""
        self._codes.extend(codes)
        self._bounds.extend(bounds)
        self._offsets.append(len(self._codes))

    def _lay_out(self, constraints: Iterable[Constraint]) -> None:
        codes, parts = self._codes, self._parts
        known = parts.known
        for constraint in constraints:
            side = SIDES.get(constraint.operator)
            if side is not None:
                number: Any = constraint.operand
                kind = number.__class__
                if kind is float:
                    codes.append(~(parts.axis(constraint.attribute) << 4 | side))
                    self._bounds.append(number + 0.0)
                    continue
                if kind is int and -EXACT_INT_MAX <= number <= EXACT_INT_MAX:
                    codes.append(~(parts.axis(constraint.attribute) << 4 | side | INT))
                    self._bounds.append(number)
                    continue
            part = known.get(constraint)
            codes.append(parts.number(constraint) if part is None else part)

    def encoded(self) -> Codes:
        """The codes of the filters."""
        columns = (as_array(self._offsets), as_array(self._codes), as_array(self._bounds))
        return encode_columns(*columns, self._parts)


def as_array(values: array[Any]) -> Array:
    """The same values, copied: an array that somebody looks at cannot grow."""
    return np.array(values, values.typecode)


def encode_columns(offsets: Array, codes: Array, bounds: Array, parts: PartTable) -> Codes:
    """The words of filters laid out in columns, and where each begins."""
    words, starts = encode_many(offsets, codes, bounds, parts.arrays())
    return words, starts
