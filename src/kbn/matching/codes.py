"""Codes: a filter as a short run of 64-bit words that the kernels can verify.

A filter becomes four sets, and two filters with the same four sets are one group:

* **tokens** a notification must hit,
* **negatives**, tokens it must not hit (`!= v` is "a value of v's family, and not `= v`"),
* **ranges**, an interval per axis; an axis is one attribute's numbers, or its times,
* **residual constraints**, decided last, when all the rest holds: bags under a composite operator
  need *distinct* partners for their elements, which no single hit can show. Kernels decide most of
  them (`composites.py`), Python the rest.

The words' layout is at the top of `kernels/code.py`. `Decoder` turns a code back into a filter that
accepts the same notifications, so the index need not keep the filters it was given.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kbn.errors import LimitError
from kbn.filters import (
    ORDER_OPERATORS,
    AnyOperator,
    Bag,
    Composite,
    Constraint,
    Family,
    Filter,
    Negated,
    Operator,
    negate_operator,
    resolve_terms,
    split_bag_operator,
    subject_family,
    value_family,
)
from kbn.matching.composites import CompositeTable, bag_relation
from kbn.matching.kernels.encoding import HIGH, INT, OPEN
from kbn.matching.pairs import EPOCH, MICROSECOND, as_pair, microseconds
from kbn.matching.tokens import TokenTable, bytes_of
from kbn.ontology import Term

INFINITY = float("inf")

_RANGE = struct.Struct("<qdd")
_PART_MAX = 0x3FFF
_TOKENS_MAX = 0xFFFFF
_AXES_MAX = 0xFFFFFF


LOWEST = (-INFINITY, 0)
HIGHEST = (INFINITY, 0)


@dataclass(slots=True)
class Interval:
    """The numbers between two bounds, each open or closed; infinite when never narrowed."""

    low: tuple[float, int] = LOWEST
    high: tuple[float, int] = HIGHEST
    low_open: bool = False
    high_open: bool = False
    low_is_int: bool = False
    high_is_int: bool = False

    def narrow(self, operator: Any, bound: tuple[float, int], is_int: bool) -> None:
        """Keep only the numbers x with `x operator bound`."""
        is_open = operator is Operator.LT or operator is Operator.GT
        if operator is Operator.LT or operator is Operator.LE:
            if bound < self.high or (bound == self.high and is_open):
                self.high, self.high_open, self.high_is_int = bound, is_open, is_int
        elif bound > self.low or (bound == self.low and is_open):
            self.low, self.low_open, self.low_is_int = bound, is_open, is_int

    def pack(self, axis: int) -> bytes:
        word = (
            axis
            | self.low_open << 24
            | self.high_open << 25
            | self.low_is_int << 26
            | self.high_is_int << 27
            | (self.low[1] + 1024) << 28
            | (self.high[1] + 1024) << 40
        )
        return _RANGE.pack(word, self.low[0], self.high[0])

    @classmethod
    def unpack(cls, word: int, low: float, high: float) -> Interval:
        return cls(
            low=(low, (word >> 28 & 0xFFF) - 1024),
            high=(high, (word >> 40 & 0xFFF) - 1024),
            low_open=bool(word >> 24 & 1),
            high_open=bool(word >> 25 & 1),
            low_is_int=bool(word >> 26 & 1),
            high_is_int=bool(word >> 27 & 1),
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """What one constraint adds to its filter's code (a range is narrowed in place instead)."""

    tokens: tuple[int, ...] = ()
    negatives: tuple[int, ...] = ()
    residuals: tuple[int, ...] = ()


class Encoder:
    """Compiles filters to codes; the tables of tokens, axes and residual constraints grow."""

    def __init__(self, table: TokenTable, strict: bool) -> None:
        """With `strict`, a constraint that names a term the ontology lacks is an error."""
        self.table = table
        self._vocabulary = table.ontology if strict else None
        self.residuals: list[Constraint] = []
        self.axes: dict[tuple[str, Family], int] = {}
        self.composites = CompositeTable()
        self._residual_ids: dict[Constraint, int] = {}
        self._parts: dict[Constraint, Parts] = {}

    def encode(self, constraints: Iterable[Constraint]) -> bytes:
        """The code of a conjunction, as bytes of little-endian 64-bit words."""
        tokens: set[int] = set()
        negatives: set[int] = set()
        residuals: set[int] = set()
        intervals: dict[int, Interval] = {}
        for constraint in constraints:
            if constraint.operator in ORDER_OPERATORS and self._narrow(constraint, intervals):
                continue
            parts = self._parts.get(constraint)
            if parts is None:
                parts = self._parts[constraint] = self._compile(self._resolved(constraint))
            tokens.update(parts.tokens)
            if parts.negatives:
                negatives.update(parts.negatives)
            if parts.residuals:
                residuals.update(parts.residuals)
        if not (negatives or residuals or intervals):
            return array("q", (len(tokens), *sorted(tokens))).tobytes()
        return _pack(tokens, negatives, residuals, intervals)

    def pieces_of(self, constraint: Constraint) -> tuple[Parts, tuple[Any, ...]]:
        """What one constraint adds to a code: its parts, or the axis, side, bound and rest of one
        bound of a range (see `kernels/encoding.py`).
        """
        bound = self._bound(constraint) if constraint.operator in ORDER_OPERATORS else None
        if bound is not None:
            return Parts(), bound
        parts = self._parts.get(constraint)
        if parts is None:
            parts = self._parts[constraint] = self._compile(self._resolved(constraint))
        return parts, ()

    def _bound(self, constraint: Constraint) -> tuple[Any, ...] | None:
        intervals: dict[int, Interval] = {}
        if not self._narrow(constraint, intervals):
            return None
        ((axis, interval),) = intervals.items()
        if constraint.operator in (Operator.LT, Operator.LE):
            flags = HIGH | OPEN * interval.high_open | INT * interval.high_is_int
            return (axis, flags, *interval.high)
        return (axis, OPEN * interval.low_open | INT * interval.low_is_int, *interval.low)

    def axis(self, attribute: str, family: Family) -> int:
        """The number of an attribute's axis, made when it is new."""
        key = (attribute, family)
        found = self.axes.get(key)
        if found is None:
            if len(self.axes) >= _AXES_MAX:
                raise LimitError("too many attributes", limit="axes", maximum=_AXES_MAX)
            found = self.axes[key] = len(self.axes)
        return found

    def residual(self, constraint: Constraint) -> int:
        found = self._residual_ids.get(constraint)
        if found is None:
            found = self._residual_ids[constraint] = len(self.residuals)
            self.residuals.append(constraint)
            self.table.bytes += bytes_of(constraint.operand)
            self.composites.add(constraint, self.table)
        return found

    def _narrow(self, constraint: Constraint, intervals: dict[int, Interval]) -> bool:
        """Take a constraint on numbers or times into its axis' interval; False if it is neither."""
        operand: Any = constraint.operand
        type_ = operand.__class__
        if type_ is float or type_ is int:
            family, bound = Family.NUMBER, as_pair(operand)
        elif type_ is datetime:
            family, bound = Family.TIME, as_pair(microseconds(operand))
        else:
            return False
        axis = self.axes.get((constraint.attribute, family))
        if axis is None:
            axis = self.axis(constraint.attribute, family)
        interval = intervals.get(axis)
        if interval is None:
            interval = intervals[axis] = Interval()
        interval.narrow(constraint.operator, bound, type_ is not float)
        return True

    def _resolved(self, constraint: Constraint) -> Constraint:
        bag: Any = constraint.operand
        if type(bag) is Bag and all(type(item) is str for item in bag.items):
            return constraint
        return resolve_terms(constraint, self._vocabulary)

    def _compile(self, constraint: Constraint) -> Parts:
        attribute, operator, operand = (
            constraint.attribute,
            constraint.operator,
            constraint.operand,
        )
        if _is_negative(operator):
            return self._compile_negative(constraint)
        if bag_relation(operator, operand) is not None:
            return self._compile_bag(constraint)
        return Parts(tokens=(self.table.token(attribute, operator, operand),))

    def _compile_negative(self, constraint: Constraint) -> Parts:
        """`not p` is "of a family p takes, and p not hit"; else a residual constraint."""
        attribute, operand = constraint.attribute, constraint.operand
        positive = negate_operator(constraint.operator)
        if bag_relation(positive, operand) is not None:
            return self._compile_negative_bag(constraint, positive)
        taken = _family_taken(positive, operand)
        if taken is None:
            present = self.table.token(attribute, Operator.EXISTS, None)
            return Parts(tokens=(present,), residuals=(self.residual(constraint),))
        return Parts(
            tokens=(self.table.family_token(attribute, taken),),
            negatives=(self.table.token(attribute, positive, operand),),
        )

    def _compile_negative_bag(self, constraint: Constraint, positive: AnyOperator) -> Parts:
        """Not hit, where one token says all there is to say of the positive; else a residual."""
        present = self.table.family_token(constraint.attribute, Family.BAG)
        parts = self._compile_bag(Constraint(constraint.attribute, positive, constraint.operand))
        if len(parts.tokens) == 1 and parts.tokens[0] != present and not parts.residuals:
            return Parts(tokens=(present,), negatives=parts.tokens)
        return Parts(tokens=(present,), residuals=(self.residual(constraint),))

    def _compile_bag(self, constraint: Constraint) -> Parts:
        attribute = constraint.attribute
        bag: Any = constraint.operand
        equal = (Operator.EQUAL_BAG, Operator.EQ)
        relation, element = bag_relation(constraint.operator, bag) or equal
        if (relation, element) == equal and len(bag) > ELEMENT_TOKENS_MAX:
            return Parts(tokens=(self.table.token(attribute, constraint.operator, bag),))
        if _is_residual(relation, element, bag):
            present = self.table.family_token(attribute, Family.BAG)
            return Parts(tokens=(present,), residuals=(self.residual(constraint),))
        if relation is Operator.SUB_BAG:
            return Parts(tokens=(self.table.token(attribute, constraint.operator, bag),))
        # A super-bag, or an equal bag, has for each wanted element one that satisfies it.
        plain = element is Operator.EQ
        wanted = Composite(Operator.SUPER_BAG, element)
        tokens = tuple(
            sorted({self.table.element_token(attribute, wanted, q) for q in _hardest(element, bag)})
            or (self.table.family_token(attribute, Family.BAG),)
        )
        exact = relation is Operator.SUPER_BAG and (
            len(bag) <= 1 or (plain and len(tokens) == len(bag) and not bag.bare)
        )
        return Parts(tokens=tokens, residuals=() if exact else (self.residual(constraint),))


def _pack(
    tokens: set[int], negatives: set[int], residuals: set[int], intervals: dict[int, Interval]
) -> bytes:
    if len(tokens) > _TOKENS_MAX or max(map(len, (negatives, residuals, intervals))) > _PART_MAX:
        raise LimitError(
            "the filter has too many constraints to index", limit="code", maximum=_PART_MAX
        )
    header = len(tokens) | len(negatives) << 20 | len(residuals) << 34 | len(intervals) << 48
    words = array("q", (header, *sorted(tokens), *sorted(negatives), *sorted(residuals)))
    ranges = (intervals[axis].pack(axis) for axis in sorted(intervals))
    return words.tobytes() + b"".join(ranges)


# A composite over more elements than this has no token for each: a residual constraint is cheaper.
ELEMENT_TOKENS_MAX = 64


def _is_residual(relation: Operator, element: AnyOperator, bag: Bag) -> bool:
    """Whether tokens for the elements would cost more than they spare.

    A value hits as many bounds as are beyond it, and a nested element must be asked one by one.
    """
    if split_bag_operator(element) is not None:
        return True
    if element in ORDER_OPERATORS:
        return relation is Operator.SUB_BAG
    return element is not Operator.EQ and len(bag) > ELEMENT_TOKENS_MAX


def _hardest(element: AnyOperator, bag: Bag) -> Iterable[Any]:
    """The operands that stand for all: under an order, the one of each family hardest to serve."""
    if element not in ORDER_OPERATORS:
        return bag.items
    extreme = min if element in (Operator.LT, Operator.LE) else max
    families: dict[Any, list[Any]] = {}
    for item in bag.items:
        families.setdefault(value_family(item), []).append(item)  # type: ignore[arg-type]
    return [extreme(items) for items in families.values()]


_NEGATIVE = (Operator.NE, Operator.NOT_EQUIV, Operator.IS_NOT_A)


def _is_negative(operator: Any) -> bool:
    return operator in _NEGATIVE or isinstance(operator, Negated)


def _family_taken(operator: Any, operand: Any) -> Family | None:
    """The one family of values the operator takes against this operand; None if it depends."""
    if type(operand) is Term or (type(operand) is Bag and operand.bare):
        return None
    return subject_family(operator, operand)


class Decoder:
    """Turns codes back into filters."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def decode(self, words: Sequence[int]) -> Filter:
        """A filter that accepts just what the filter behind this code accepted."""
        header = int(words[0])
        counts = (header & _TOKENS_MAX, header >> 20 & _PART_MAX, header >> 34 & _PART_MAX)
        position = 1
        parts = []
        for count in counts:
            parts.append([int(word) for word in words[position : position + count]])
            position += count
        tokens, negatives, residuals = parts
        remaining = [self._encoder.residuals[residual] for residual in residuals]
        constraints = remaining + self._positive(tokens, negatives, remaining)
        table = self._encoder.table
        for negative in negatives:
            positive = table.constraints[negative]
            assert positive is not None, "a family token is never a negative"
            operator = negate_operator(positive.operator)
            constraints.append(Constraint(positive.attribute, operator, positive.operand))
        constraints += self._ranges(words, position)
        return Filter(constraints)

    def _positive(
        self, tokens: list[int], negatives: list[int], remaining: list[Constraint]
    ) -> list[Constraint]:
        """The constraints of the tokens, single-element super-bags put together again."""
        table = self._encoder.table
        said = {(c.attribute, _family_taken_by(c)) for c in remaining}
        for negative in negatives:
            positive = table.constraints[negative]
            assert positive is not None
            said.add((positive.attribute, _family_taken(positive.operator, positive.operand)))
        plain: list[Constraint] = []
        bags: dict[str, list[Any]] = {}
        for token in tokens:
            constraint = table.constraints[token]
            if constraint is None:
                attribute, family = table.families[token]
                if (attribute, family) not in said and family is Family.BAG:
                    plain.append(Constraint(attribute, Operator.SUPER_BAG, Bag()))
            elif constraint.operator is Operator.SUPER_BAG and not _holds_bare(constraint):
                bags.setdefault(constraint.attribute, []).extend(_items(constraint))
            else:
                plain.append(constraint)
        plain += [Constraint(a, Operator.SUPER_BAG, Bag(*bag)) for a, bag in bags.items()]
        return [c for c in plain if not any(_is_part_of(c, whole) for whole in remaining)]

    def _ranges(self, words: Sequence[int], position: int) -> list[Constraint]:
        axes = list(self._encoder.axes)
        constraints: list[Constraint] = []
        while position < len(words):
            word, low, high = _RANGE.unpack(
                array("q", (int(w) for w in words[position : position + 3])).tobytes()
            )
            attribute, family = axes[word & 0xFFFFFF]
            interval = Interval.unpack(word, low, high)
            constraints += _bounds(attribute, family, interval)
            position += 3
        return constraints


def _bounds(attribute: str, family: Family, interval: Interval) -> list[Constraint]:
    """One constraint per finite side; `>= -inf` stands in where neither side is."""
    found = []
    if interval.low != LOWEST or interval.low_open:
        operator = Operator.GT if interval.low_open else Operator.GE
        bound = _operand(family, interval.low, interval.low_is_int)
        found.append(Constraint(attribute, operator, bound))
    if interval.high != HIGHEST or interval.high_open:
        operator = Operator.LT if interval.high_open else Operator.LE
        bound = _operand(family, interval.high, interval.high_is_int)
        found.append(Constraint(attribute, operator, bound))
    return found or [Constraint(attribute, Operator.GE, -INFINITY)]


def _operand(family: Family, pair: tuple[float, int], is_int: bool) -> Any:
    if family is Family.TIME:
        return EPOCH + (int(pair[0]) + pair[1]) * MICROSECOND
    return int(pair[0]) + pair[1] if is_int else pair[0]


def _family_taken_by(constraint: Constraint) -> Family | None:
    operator = constraint.operator
    positive = negate_operator(operator) if _is_negative(operator) else operator
    return _family_taken(positive, constraint.operand)


def _items(constraint: Constraint) -> tuple[Any, ...]:
    """The elements of a bag constraint's operand."""
    assert isinstance(constraint.operand, Bag)
    return constraint.operand.items


def _holds_bare(constraint: Constraint) -> bool:
    return isinstance(constraint.operand, Bag) and constraint.operand.bare


def _is_part_of(part: Constraint, whole: Constraint) -> bool:
    """Whether `part` only prepares the residual constraint `whole` and says nothing of its own."""
    if part.attribute != whole.attribute:
        return False
    if part.operator is Operator.EXISTS:
        return True
    if part.operator is whole.operator and part.operand == whole.operand:
        return True
    mine, theirs = split_bag_operator(part.operator), split_bag_operator(whole.operator)
    if mine is None or theirs is None:
        return False
    return (
        mine[0] is Operator.SUPER_BAG
        and theirs[0] in (Operator.SUPER_BAG, Operator.EQUAL_BAG)
        and mine[1] is theirs[1]
        and all(one in Bag.of(_items(whole)) for one in _items(part))
    )
