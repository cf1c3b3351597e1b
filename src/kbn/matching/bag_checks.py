"""Checks of composite bags, from what their elements are already known to hit.

`P #>/λ Q` wants an injection from Q's elements into P's with p λ q. The index has worked out which
(λ q) each p hits, so the question is one of distinct representatives over small sets: each q's set
of partners is one Python integer of bits, and Kuhn's augmenting paths run over those. Where no
such hits exist (sub-bags, multiplicities of plain bags) the oracle is asked.
"""

from __future__ import annotations

from kbn.filters import Bag, Constraint
from kbn.filters.operators import AnyOperator, Composite, Operator
from kbn.filters.semantics import accepts
from kbn.matching.tokens import TokenTable

SMALL = 64


class BagChecker:
    """Decides constraints on bags whose tokens alone cannot."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table
        self._wanted: dict[Constraint, tuple[int, ...] | None] = {}

    def accepts(self, constraint: Constraint, bag: Bag) -> bool:
        """The oracle's answer, sooner."""
        if constraint not in self._wanted:
            self._wanted[constraint] = self._tokens_of(constraint)
        wanted = self._wanted[constraint]
        if wanted is None or len(bag) > SMALL:
            return accepts(constraint, bag, self._table.ontology)
        if len(bag) < len(wanted):
            return False
        if _is_equal_bag(constraint.operator) and len(bag) != len(wanted):
            return False
        return has_distinct_partners(self._partners(constraint.attribute, bag, wanted))

    def _tokens_of(self, constraint: Constraint) -> tuple[int, ...] | None:
        """The token of each wanted element; None where the oracle must be asked."""
        operator = constraint.operator
        if not isinstance(operator, Composite) or operator.bag is Operator.SUB_BAG:
            return None
        operand = constraint.operand
        assert isinstance(operand, Bag)
        if len(operand) > SMALL:
            return None
        wanted = Composite(Operator.SUPER_BAG, operator.element)
        attribute = constraint.attribute
        return tuple(self._table.token(attribute, wanted, Bag(q)) for q in operand)

    def _partners(self, attribute: str, bag: Bag, wanted: tuple[int, ...]) -> list[int]:
        """For each wanted token, the bits of the bag's elements that hit it."""
        sets = dict.fromkeys(wanted, 0)
        element_hits = self._table.attributes[attribute].element_hits
        bit = 1
        for element in bag:
            for token in element_hits(element):
                if token in sets:
                    sets[token] |= bit
            bit <<= 1
        return [sets[token] for token in wanted]


def _is_equal_bag(operator: AnyOperator) -> bool:
    return isinstance(operator, Composite) and operator.bag is Operator.EQUAL_BAG


def has_distinct_partners(partners: list[int]) -> bool:
    """Whether every set of bits can be given a bit of its own (Kuhn's algorithm).

    >>> has_distinct_partners([0b11, 0b01])
    True
    >>> has_distinct_partners([0b01, 0b01])
    False
    """
    holder: dict[int, int] = {}

    def seat(who: int, barred: int) -> int:
        """Give `who` a bit, moving others on if need be: 0 on success, else the bits tried."""
        left = partners[who] & ~barred
        while left:
            bit = left & -left
            barred |= bit
            if bit not in holder:
                holder[bit] = who
                return 0
            tried = seat(holder[bit], barred)
            if not tried:
                holder[bit] = who
                return 0
            barred |= tried
            left = partners[who] & ~barred
        return barred or -1

    fewest_first = sorted(range(len(partners)), key=lambda who: partners[who].bit_count())
    return all(seat(who, 0) == 0 for who in fewest_first)
