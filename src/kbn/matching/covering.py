"""Who could cover a filter: the question of matching, asked for the filter's witnesses."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

from kbn.filters import (
    ORDER_OPERATORS,
    Bag,
    Constraint,
    Family,
    Filter,
    Operator,
    accepts,
    implies,
    value_family,
)
from kbn.matching.index import Index
from kbn.matching.memos import ENTRY_BYTES, Memo, Memory, bytes_of
from kbn.matching.metering import costs_of
from kbn.matching.pairs import as_pair, microseconds
from kbn.matching.witness import witness
from kbn.ontology import Ontology

MEMO_BYTES_MAX = 64 << 20  # of all that is remembered for one covering order
AXIS_FAMILIES = (Family.NUMBER, Family.TIME)
ASKED = 3  # the oracle, about two constraints
PAIRS_LOOKED_AT = 16  # pairs of constraints for one unit
ELEMENTS_COUNTED = 8
_UNKNOWN = object()


class Implications:
    """The oracle's `implies` and `covers`, with the answers remembered.

    `memory` is for all that is remembered of the same filters. What is asked is counted: `spent`,
    in units of about a microsecond. When `most` of them are spent since `begin`, nothing is proved
    any more: that is always allowed.

    >>> from kbn.filters import Subscription
    >>> wide = Subscription.parse("a != 1").filters[0]
    >>> narrow = Subscription.parse("a = 2").filters[0]
    >>> implications = Implications(None, most=5)
    >>> implications.covers(wide, narrow), implications.spent
    (True, 4)
    >>> implications.covers(narrow, wide), implications.covers(wide, narrow), implications.is_spent
    (False, False, True)
    """

    def __init__(self, ontology: Ontology | None, most: float = inf) -> None:
        self._ontology = ontology
        self._most = most
        self._stop = most
        self.spent = 0
        self.memory = Memory(MEMO_BYTES_MAX)
        self._known: Memo[tuple[Constraint, Constraint], bool] = Memo(self.memory)

    def begin(self) -> None:
        """Another answer begins."""
        self._stop = self.spent + self._most

    @property
    def is_spent(self) -> bool:
        """Whether proofs may have been given up since `begin`."""
        return self.spent >= self._stop

    def covers(self, wider: Filter, narrower: Filter) -> bool:
        """Whether `wider` matches every notification that `narrower` matches, if provable."""
        if self.spent >= self._stop:
            return False
        self.spent += 1 + len(wider) * len(narrower) // PAIRS_LOOKED_AT
        for conclusion in wider.constraints:
            attribute = conclusion.attribute
            for premise in narrower.constraints:
                if premise.attribute == attribute and self.implies(premise, conclusion):
                    break
            else:
                return False
        return True

    def implies(self, premise: Constraint, conclusion: Constraint) -> bool:
        """Whether every value the premise accepts, the conclusion accepts, if provable."""
        if premise.operator is Operator.SUPER_BAG and conclusion.operator is Operator.SUPER_BAG:
            # By far the most common pair of bags, and too many different ones to remember.
            a, b = premise.operand, conclusion.operand
            if not (a.bare or b.bare):  # type: ignore[union-attr]
                self.spent += len(a.items) // ELEMENTS_COUNTED  # type: ignore[union-attr]
                have = a.counts()  # type: ignore[union-attr]
                return all(have.get(n, 0) >= k for n, k in b.counts().items())  # type: ignore[union-attr]
        pair = (premise, conclusion)
        known = self._known.get(pair)
        if known is None:
            if self.spent >= self._stop:
                return False
            self.spent += _cost(premise, conclusion)
            known = implies(premise, conclusion, self._ontology)
            self._known.remember(pair, known, bytes_of_all(pair))
        return known


def _cost(premise: Constraint, conclusion: Constraint) -> int:
    if not isinstance(premise.operand, Bag):
        return ASKED
    return ASKED + costs_of(premise.operand)(conclusion.operator, conclusion.operand) // 8


def bytes_of_all(constraints: Iterable[Constraint]) -> int:
    """About what it takes to remember something of these constraints."""
    return ENTRY_BYTES + sum(bytes_of(each.operand) for each in constraints)


class CoverQuery:
    """Which stored groups could cover a filter."""

    def __init__(self, index: Index, memory: Memory) -> None:
        self._index = index
        self._witnesses: Memo[Constraint, Any] = Memo(memory)

    def candidates(self, filter: Filter) -> list[int] | None:
        """Groups among which all coverers are, or None: they could be anywhere."""
        hits: list[int] = []
        points: dict[int, tuple[float, int]] = {}
        seen: dict[tuple[str, Family], list[Any]] = {}
        for constraint in filter.constraints:
            value = self.witness(constraint)
            if value is None:
                return None
            hits += self._index.hits(constraint.attribute, value)
            if value_family(value) in AXIS_FAMILIES:
                seen.setdefault((constraint.attribute, value_family(value)), []).append(value)
        for (attribute, kind), values in seen.items():
            axis = self._index.encoder.axes.get((attribute, kind))
            if axis is None:
                continue
            point = self._common_point(filter, attribute, kind, values)
            if point is None:
                return None
            points[axis] = as_pair(point if kind is Family.NUMBER else microseconds(point))
        groups: list[int] = self._index.find_covering(hits, points).tolist()
        return groups

    def witness(self, constraint: Constraint) -> Any:
        """A value the constraint accepts, or None; remembered."""
        found = self._witnesses.get(constraint, _UNKNOWN)
        if found is _UNKNOWN:
            found = witness(constraint, self._index.ontology)
            self._witnesses.remember(constraint, found, bytes_of_all((constraint,)))
        return found

    def _common_point(self, filter: Filter, attribute: str, kind: Family, values: list[Any]) -> Any:
        """One value that all the filter's constraints of this family accept.

        Ranges that contain every value the filter accepts contain this one, whichever of the
        filter's constraints implies which of their bounds.
        """
        mine = [c for c in filter.constraints if c.attribute == attribute]
        of_kind = [c for c in mine if c.operand is None or _takes(c, kind)]
        bounds: list[Any] = [c.operand for c in of_kind if c.operator in ORDER_OPERATORS]
        if kind is Family.NUMBER and len(bounds) == 2:
            values = [*values, (bounds[0] + bounds[1]) / 2]
        for value in values:
            if all(accepts(c, value, self._index.ontology) for c in of_kind):
                return value
        return None


def _takes(constraint: Constraint, kind: Family) -> bool:
    operand = constraint.operand
    return type(operand) in (int, float) if kind is Family.NUMBER else hasattr(operand, "tzinfo")
