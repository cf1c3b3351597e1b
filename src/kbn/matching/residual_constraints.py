"""Residual constraints: composite bags, from what their elements are already known to satisfy.

`P #>/λ Q` wants an injection from Q's elements into P's with p λ q, and `P #</λ Q` one from P's
into Q's. Under an order λ sorting decides. Otherwise one `ValueIndex` per λ says, and remembers,
which of the operands q each value p satisfies; so each element to be served has a set of partners,
a Python integer of bits, and the question is one of distinct representatives. Large and nested
bags are left to the oracle, whose answer this is in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import Any

from kbn.filters import (
    ORDER_OPERATORS,
    AnyOperator,
    Bag,
    Constraint,
    Operator,
    accepts,
    split_bag_operator,
    value_key,
)
from kbn.matching.known_values import KNOWN_BYTES_MAX
from kbn.matching.memos import Memory
from kbn.matching.nested_bags import NestedCheck, nested_check
from kbn.matching.value_index import MEMO_BYTES_MAX, ValueIndex
from kbn.ontology import Ontology

SMALL = 64
_NUMBERS = {int, float}
_ORDERS: dict[AnyOperator, Callable[[Any, Any], bool]] = {
    Operator.LT: lt,
    Operator.LE: le,
    Operator.GT: gt,
    Operator.GE: ge,
}

BagTest = Callable[[Bag], bool]


class ResidualEvaluator:
    """Decides constraints on bags whose tokens alone cannot."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        self._operands: dict[AnyOperator, _Operands] = {}
        self.memories = (Memory(MEMO_BYTES_MAX), Memory(KNOWN_BYTES_MAX))
        self._tests: dict[Constraint, BagTest] = {}
        self._nested: dict[Constraint, NestedCheck | None] = {}

    def __reduce__(self) -> tuple[type[ResidualEvaluator], tuple[Ontology]]:
        return ResidualEvaluator, (self._ontology,)  # a reader compiles its own tests

    def accepts(self, constraint: Constraint, bag: Bag) -> bool:
        """The oracle's answer, sooner."""
        test = self._tests.get(constraint)
        if test is None:
            test = self._tests[constraint] = self._compile(constraint)
        if len(bag.items) > SMALL or bag.bare:
            return accepts(constraint, bag, self._ontology)
        return test(bag)

    def nested(self, constraint: Constraint) -> NestedCheck | None:
        """How kernels decide the constraint for many rows, if it is about bags within bags."""
        if constraint not in self._nested:
            self._nested[constraint] = nested_check(constraint, self._ontology, self._numbered)
        return self._nested[constraint]

    def _numbered(
        self, element: AnyOperator, wanted: Sequence[Any]
    ) -> tuple[ValueIndex, list[int]]:
        operands = self._operands_of(element)
        return operands.index, [operands.number(one) for one in wanted]

    def _operands_of(self, element: AnyOperator) -> _Operands:
        operands = self._operands.get(element)
        if operands is None:
            index = ValueIndex(self._ontology, *self.memories)
            operands = self._operands[element] = _Operands(element, index)
        return operands

    def _compile(self, constraint: Constraint) -> BagTest:
        parts, operand = split_bag_operator(constraint.operator), constraint.operand
        if parts is None or not isinstance(operand, Bag) or not _is_small(parts[1], operand):
            return lambda bag: accepts(constraint, bag, self._ontology)
        kind, element = parts
        if element not in ORDER_OPERATORS:
            operands = self._operands_of(element)
            numbers = tuple(operands.number(one) for one in operand)
            serve = _served_from_index if kind is Operator.SUB_BAG else _serving_from_index
            return serve(operands.index, numbers, kind is Operator.EQUAL_BAG)
        if {type(one) for one in operand} <= _NUMBERS:
            by_sorting = _by_sorting(kind, element, operand.items)
            # Numbers sort only among numbers: whatever else is in the bag is for the oracle.
            return lambda bag: (
                by_sorting(bag.items)
                if {type(one) for one in bag.items} <= _NUMBERS
                else accepts(constraint, bag, self._ontology)
            )
        return lambda bag: accepts(constraint, bag, self._ontology)


class _Operands:
    """The elements asked for under one λ, numbered, and the index of who satisfies them."""

    def __init__(self, element: AnyOperator, index: ValueIndex) -> None:
        self._element = element
        self._numbers: dict[object, int] = {}
        self.index = index

    def number(self, operand: Any) -> int:
        name = value_key(operand)
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers)
            self.index.register(self._element, operand, self._numbers[name])
        return self._numbers[name]


def _is_small(element: AnyOperator, operand: Bag) -> bool:
    return len(operand) <= SMALL and split_bag_operator(element) is None and not operand.bare


def _serving_from_index(index: ValueIndex, wanted: tuple[int, ...], equal: bool) -> BagTest:
    """Each wanted operand needs an element of the bag."""

    def test(bag: Bag) -> bool:
        items = bag.items
        if len(items) < len(wanted) or (equal and len(items) != len(wanted)):
            return False
        partners = dict.fromkeys(wanted, 0)
        bit = 1
        for item in items:
            for number in index.hits(item):
                if number in partners:
                    partners[number] |= bit
            bit <<= 1
        return has_distinct_partners([partners[number] for number in wanted])

    return test


def _served_from_index(index: ValueIndex, offered: tuple[int, ...], equal: bool) -> BagTest:
    """Each element of the bag needs an operand that is offered."""
    places: dict[int, int] = {}
    for place, number in enumerate(offered):
        places[number] = places.get(number, 0) | 1 << place

    def test(bag: Bag) -> bool:
        if len(bag.items) > len(offered):
            return False
        partners = []
        for item in bag.items:
            mask = 0
            for number in index.hits(item):
                mask |= places.get(number, 0)
            partners.append(mask)
        return has_distinct_partners(partners)

    return test


def _by_sorting(
    kind: Operator, element: AnyOperator, operand: Sequence[Any]
) -> Callable[[Sequence[Any]], bool]:
    """Whoever is hardest to serve takes the best partner: pair off in order.

    A super-bag serves the operand: the smallest operands take the smallest elements under `<`. A
    sub-bag serves the bag's elements: the largest take the largest operands.
    """
    related = _ORDERS[element]
    upwards = element is Operator.LT or element is Operator.LE
    largest_first = upwards == (kind is Operator.SUB_BAG)
    ordered = sorted(operand, reverse=largest_first)

    def test(items: Sequence[Any]) -> bool:
        if kind is Operator.SUPER_BAG:
            fits = len(items) >= len(ordered)
        elif kind is Operator.SUB_BAG:
            fits = len(items) <= len(ordered)
        else:
            fits = len(items) == len(ordered)
        return fits and all(map(related, sorted(items, reverse=largest_first), ordered))

    return test


def has_distinct_partners(partners: list[int]) -> bool:
    """Whether every set of bits can be given a bit of its own.

    >>> has_distinct_partners([0b11, 0b01])
    True
    >>> has_distinct_partners([0b01, 0b01])
    False
    """
    taken = 0
    for mask in partners:
        free = mask & ~taken
        if not free:
            # First come, first served did not work out; it may still be possible.
            return mask != 0 and all(partners) and _have_partners(partners)
        taken |= free & -free
    return True


def _have_partners(partners: list[int]) -> bool:
    """Kuhn's algorithm: assignment one after another, moving others on where need be."""
    holder: dict[int, int] = {}

    def assignment(who: int, barred: int) -> int:
        """Give `who` a bit: 0 on success, else the bits tried."""
        left = partners[who] & ~barred
        while left:
            bit = left & -left
            barred |= bit
            tried = assignment(holder[bit], barred) if bit in holder else 0
            if not tried:
                holder[bit] = who
                return 0
            barred |= tried
            left = partners[who] & ~barred
        return barred or -1

    return all(assignment(who, 0) == 0 for who in range(len(partners)))
