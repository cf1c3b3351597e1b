"""Composites: residual constraints in the form that kernels decide (`kernels/bags.py`).

A residual constraint on a bag is a *rule*: which attribute, `#>`, `#=` or `#<`, negated or not, and
what is wanted. Its wants are the tokens of `#>/λ {q}`, one for each element q of the operand, or,
under an order λ of numbers or of times, the sorted bounds. A rule has the number of its residual
constraint. Nested composites and orders of text have no such form: their rule says ELSEWHERE, and
Python decides them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbn.filters import (
    ORDER_OPERATORS,
    AnyOperator,
    Bag,
    Composite,
    Constraint,
    Family,
    Negated,
    Operator,
    negate_operator,
    split_bag_operator,
    value_family,
)
from kbn.matching.groups import grown
from kbn.matching.kernels import bags as kernels
from kbn.matching.kernels.views import Rules
from kbn.matching.pairs import as_pair, microseconds
from kbn.matching.tokens import TokenTable

KINDS = {
    Operator.SUPER_BAG: kernels.SUPER,
    Operator.EQUAL_BAG: kernels.EQUAL,
    Operator.SUB_BAG: kernels.SUB,
}
ORDERS: dict[AnyOperator, int] = {
    Operator.LT: kernels.LESS,
    Operator.LE: kernels.AT_MOST,
    Operator.GT: kernels.MORE,
    Operator.GE: kernels.AT_LEAST,
}
# The families whose values kernels can order, by number.
ORDERED = {Family.NUMBER: 1, Family.TIME: 2}


def ordered_pair(value: Any) -> tuple[int, float, int]:
    """The number of a value's ordered family, 0 if it has none, and the value as a pair.

    >>> ordered_pair(3), ordered_pair("three")
    ((1, 3.0, 0), (0, 0.0, 0))
    """
    kind = ORDERED.get(value_family(value), 0)
    if kind == 0:
        return 0, 0.0, 0
    return (kind, *as_pair(value if kind == 1 else microseconds(value)))


def bag_relation(operator: AnyOperator, operand: Any) -> tuple[Operator, AnyOperator] | None:
    """The bag and the element operator of a positive constraint on bags; `= {…}` is `#= {…}`.

    >>> bag_relation(Operator.EQ, Bag(1))
    (Operator.EQUAL_BAG, Operator.EQ)
    """
    if operator is Operator.EQ and type(operand) is Bag:
        return Operator.EQUAL_BAG, Operator.EQ
    return split_bag_operator(operator)


class CompositeTable:
    """The rules, in arrays that grow."""

    def __init__(self) -> None:
        self.attributes: dict[str, int] = {}
        self.with_order: set[str] = set()
        self.longest = 0
        self._count = 0
        self._facts = np.zeros((16, 5), np.int64)
        self._want_start = np.zeros(17, np.int64)
        self._wants = np.zeros(16, np.int64)
        self._bounds = np.zeros(16, np.float64)
        self._rests = np.zeros(16, np.int64)

    def add(self, constraint: Constraint, table: TokenTable) -> None:
        """Take in the next residual constraint; its wants become tokens of `table`."""
        operator, operand = constraint.operator, constraint.operand
        negated = operator is Operator.NE or isinstance(operator, Negated)
        positive = negate_operator(operator) if negated else operator
        parts = bag_relation(positive, operand)
        if parts is None or not isinstance(operand, Bag) or split_bag_operator(parts[1]):
            self._append(constraint.attribute, kernels.ELSEWHERE, False, [])
        elif parts[1] in ORDER_OPERATORS:
            self._add_ordered(constraint.attribute, parts, operand, negated)
        elif parts[0] is Operator.SUB_BAG or len(operand) > kernels.PLACES_MAX:
            # Other sub-bags have tokens (`sub_bags.py`): this one is too large for that.
            self._append(constraint.attribute, kernels.ELSEWHERE, False, [])
        else:
            wanted: Any = Composite(Operator.SUPER_BAG, parts[1])
            wants = [table.element_token(constraint.attribute, wanted, q) for q in operand]
            self._append(constraint.attribute, KINDS[parts[0]], negated, wants)

    def decides(self, attribute: str) -> bool:
        """Whether some rule is about the attribute."""
        return attribute in self.attributes

    def view(self) -> Rules:
        """What the kernels see."""
        attribute, kind, negated, order, family = self._facts.T
        return Rules(
            attribute, kind, negated, order, family,
            self._want_start, self._wants, self._bounds, self._rests,
        )  # fmt: skip

    def _add_ordered(
        self, attribute: str, parts: tuple[Operator, AnyOperator], operand: Bag, negated: bool
    ) -> None:
        pairs = sorted(ordered_pair(one) for one in operand)
        families = {family for family, _, _ in pairs} or {1}
        if len(families) > 1 or 0 in families:
            self._append(attribute, kernels.ELSEWHERE, False, [])
            return
        self.with_order.add(attribute)
        at = int(self._want_start[self._count])
        order, family = ORDERS[parts[1]], families.pop()
        self._append(attribute, KINDS[parts[0]], negated, [0] * len(pairs), order, family)
        for place, (_, value, rest) in enumerate(pairs, at):
            self._bounds[place], self._rests[place] = value, rest

    def _append(
        self,
        attribute: str,
        kind: int,
        negated: bool,
        wants: list[int],
        order: int = 0,
        family: int = 0,
    ) -> None:
        number = self._count
        start = int(self._want_start[number])
        end = start + len(wants)
        self._facts = grown(self._facts, number + 1)
        self._want_start = grown(self._want_start, number + 2)
        self._wants, self._bounds, self._rests = (
            grown(array, end) for array in (self._wants, self._bounds, self._rests)
        )
        which = -1
        if kind != kernels.ELSEWHERE:
            which = self.attributes.setdefault(attribute, len(self.attributes))
            self.longest = max(self.longest, len(wants))
        self._facts[number] = (which, kind, negated, order, family)
        self._wants[start:end] = wants
        self._want_start[number + 1] = end
        self._count = number + 1
